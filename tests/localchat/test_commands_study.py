"""``localchat simulate study``: tables, plots, progress, and Ctrl+C that keeps what was done."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from localchat.cli import main
from localchat.commands.simulate_study import text_of
from localchat.commands.text_plot import text_plot
from router.simcloud import studies
from router.simcloud.studies import preemption
from router.simcloud.studies.registry import all_studies, find_study
from router.simcloud.studies.table import Series, Table
from tests.localchat.command_line import PATIENCE_S, command, environment

ENDLESS = """
import sys, time
from localchat import cli
from router.simcloud.studies import batching, sweep

def serve(*_):
    print("measuring", file=sys.stderr, flush=True)
    time.sleep(60)

batching.serve = serve
sys.exit(cli.main(sys.argv[1:]))
"""
"""``localchat`` whose batching study stops after the two worked rows."""

WAITING = """
import sys, time
from localchat import cli
from router.simcloud.loop import Loop

run = Loop.run
def slow(loop, progress):
    def told(arrived, at_s):
        progress(arrived, at_s)
        if arrived == 15:
            print("half way", file=sys.stderr, flush=True)
            time.sleep(60)
    run(loop, told)

Loop.run = slow
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "REQUESTS", 30)


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "study"]) == 0
    out = capsys.readouterr().out
    assert "capacity" in out
    assert "batching" in out
    assert main(["simulate", "study", "--json"]) == 0
    assert {"name", "summary"} == set(json.loads(capsys.readouterr().out)[0])


@pytest.mark.usefixtures("few")
def test_a_study_in_80_columns_with_its_published_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "study", "preemption"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(len(line) for line in out.splitlines()) <= 80
    for text in ("A recompute", "B swap to CPU", "Published:", "Notes:", "future peak"):
        assert text in out
    assert out.isascii()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("suffix", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_written(
    suffix: str, begins: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"study.{suffix}"
    assert main(["simulate", "study", "preemption", "--json", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(begins)
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["seed"], found["interrupted"]) == ("preemption", 0, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batchin"], "No study is called 'batchin'. Did you mean batching?"),
        (["???"], "There are: "),
        (["batching", "--plot", "a.pdf"], "neither a .png nor a .svg"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "study", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def interrupted(home: Path, script: str, mark: bytes, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a process that gets SIGINT when it has said ``mark``."""
    with subprocess.Popen(
        command("simulate", *words, script=script),
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stderr
        assert process.stderr.readline() == mark + b"\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out.decode(), err.decode()


def test_interrupting_a_study_shows_what_was_done(tmp_path: Path) -> None:
    code, out, err = interrupted(tmp_path, ENDLESS, b"measuring", "study", "batching")
    assert code == 130
    assert "429.5" in out
    assert "756.3" in out
    assert err == "localchat: Interrupted; this is what was done until then.\n"
    code, out, _ = interrupted(tmp_path, ENDLESS, b"measuring", "study", "batching", "--json")
    assert code == 130
    found = json.loads(out)
    assert (found["interrupted"], len(found["rows"])) == (True, 2)


def test_interrupting_a_run_sums_up_what_was_done(tmp_path: Path) -> None:
    requests = tmp_path / "requests.csv"
    lines = "".join(f"{number},100,20\n" for number in range(30))
    requests.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + lines, encoding="utf-8")
    words = ("run", "--requests", str(requests), "--json")
    code, out, err = interrupted(tmp_path, WAITING, b"half way", *words)
    assert code == 130
    found = json.loads(out)
    assert (found["interrupted"], found["completed"]) == (True, 14)
    assert err == "localchat: Interrupted after 14 of 30 requests.\n"


def test_progress_is_shown_on_a_terminal_and_wiped(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    script = (
        "import sys\nfrom localchat import cli\nfrom localchat.commands import progress_bar\n"
        "from router.simcloud.studies import preemption\n"
        "preemption.REQUESTS, progress_bar.EVERY_S = 20, 0.0\nsys.exit(cli.main(sys.argv[1:]))"
    )
    with subprocess.Popen(
        command("simulate", "study", "preemption", script=script),
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        process.communicate(timeout=PATIENCE_S)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert process.returncode == 0
    assert "preemption [####" in shown
    assert shown.endswith("100%, 0 s left\x1b[K\r\x1b[K")


def test_a_plot_marks_points_and_shares() -> None:
    lines = [Series("up", (0.0, 10.0), (0.0, 10.0)), Series("down", (0.0, 10.0), (10.0, 0.0))]
    drawn = list(text_plot(lines, "x", "y"))
    assert drawn[1].startswith("       10 |B")
    assert drawn[1].endswith("A")
    assert drawn[-1] == "A up   B down"
    assert "." in drawn[8]
    same = list(text_plot([lines[0], lines[0]], "x", "y"))
    assert same[-1].endswith("* several")


def test_a_plot_of_one_point_or_none() -> None:
    assert list(text_plot([], "x", "y")) == []
    assert list(text_plot([Series("a", (float("nan"),), (1.0,))], "x", "y")) == []
    assert any("A" in line for line in text_plot([Series("a", (5.0,), (0.0,))], "x", "y"))


def test_far_apart_values_are_logarithmic() -> None:
    drawn = list(text_plot([Series("a", (1.0, 2.0), (0.01, 100.0))], "x", "y"))
    assert drawn[0] == "y (logarithmic)"


def test_a_table_without_lines_has_no_plot() -> None:
    shown = list(text_of(Table("Title", "x", "y", (), ("a note",), (), ({"a": 1.5, "b": "text"},))))
    assert shown == ["Title", "", "  a  b", "1.5  text", "", "Notes:", "  - a note"]


@pytest.mark.parametrize("name", sorted(all_studies()))
def test_every_study_fits_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in pkgutil.iter_modules(studies.__path__):
        module = importlib.import_module(f"{studies.__name__}.{found.name}")
        for constant, few in (("REQUESTS", 12), ("TASKS", 2)):
            if hasattr(module, constant):
                monkeypatch.setattr(module, constant, few)
    *_, table = find_study(name).tables(0, lambda share: None)
    assert max(len(line) for line in text_of(table)) <= 80


STOPPING = """
import sys, time
from localchat import cli
from router.simcloud.dynamic.report import Report

add = Report.add
def slow(report, outcome):
    add(report, outcome)
    if report.latency.count == 5:
        print("half way", file=sys.stderr, flush=True)
        time.sleep(60)

Report.add = slow
sys.exit(cli.main(sys.argv[1:]))
"""


def test_interrupting_a_server_of_batches_sums_up_what_was_done(tmp_path: Path) -> None:
    words = ("batching", "--count", "50", "--max-batch", "1", "--json")
    code, out, err = interrupted(tmp_path, STOPPING, b"half way", *words)
    assert code == 130
    found = json.loads(out)
    assert (found["interrupted"], found["answered"]) == (True, 5)
    assert err == "localchat: Interrupted after 5 requests.\n"


@pytest.mark.parametrize("name", sorted(all_studies()))
def test_the_guide_shows_every_study_with_its_command(name: str) -> None:
    guide = (Path(__file__).parents[2] / "docs/studies.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n" in guide
    assert f"`localchat simulate study {name}`" in guide
