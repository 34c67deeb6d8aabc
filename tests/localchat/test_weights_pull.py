"""Downloads from a real server: resumed, retried, verified, and refused with the next step."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.errors import UsageError, WeightsError
from localchat.weights import Catalog, Progress, Stores
from localchat.weights.hub import parse_spec
from localchat.weights.patience import PassingFault, Patience, retry_after_s
from localchat.weights.progress import Meter
from localchat.weights.pull import Puller
from localchat.weights.verify import Verdicts
from tests.bandwidth_model.tiny_gguf import gguf_bytes
from tests.localchat.hub_server import Fault, Hub, running_hub

MODEL = gguf_bytes(tensors=[("token_embd.weight", (65536,), 0, 4 * 65536)])
OTHER = gguf_bytes(tensors=[("token_embd.weight", (65536,), 0, 4 * 65536)], fill=b"\x11")
SHA256 = hashlib.sha256(MODEL).hexdigest()
SPEC = "hf:owner/repo/model.gguf"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub(Hub(files={"owner/repo/model.gguf": MODEL})) as hub:
        yield hub


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


class Waits(list[float]):
    """A patience that notes its waits instead of waiting."""

    def patience(self, **changes: float) -> Patience:
        return Patience(sleep=self.append, **changes)  # type: ignore[arg-type]  # made from words


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def pull(hub: Hub, models: Path, waits: Waits, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")]:
        monkeypatch.delenv(name)

    def pull(spec: str = SPEC, tell=lambda progress: None, **environ: str) -> Path:
        variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(models / "no-hf-home"), **environ}
        return Puller(models, Verdicts(models.parent), variables, tell, waits.patience()).pull(spec)

    return pull


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


class TestAWholeDownload:
    def test_puts_the_file_and_a_note_in_place_and_nothing_else(self, pull, models: Path) -> None:
        path = pull()
        assert path == models / "model.gguf"
        assert path.read_bytes() == MODEL
        assert files_in(models) == {"model.gguf", "model.gguf.json"}
        assert json.loads((models / "model.gguf.json").read_text()) == {
            "source": "hf:owner/repo/model.gguf@main",
            "revision": "c0ffee",
            "sha256": SHA256,
            "bytes": len(MODEL),
        }

    def test_asks_for_the_revision_and_then_for_the_commit(self, pull, hub: Hub) -> None:
        pull(SPEC + "@refs/pr/1")
        asked = [(method, path) for place, method, path, _ in hub.requests if place == "hub"]
        assert asked == [
            ("HEAD", "/owner/repo/resolve/refs%2Fpr%2F1/model.gguf"),
            ("GET", "/owner/repo/resolve/c0ffee/model.gguf"),
        ]

    def test_of_a_file_in_a_folder(self, pull, hub: Hub, models: Path) -> None:
        hub.files["owner/repo/sub/a b.gguf"] = MODEL
        assert pull("hf:owner/repo/sub/a b.gguf") == models / "a b.gguf"

    def test_of_a_renamed_repository(self, pull, hub: Hub) -> None:
        hub.renamed["owner/before"] = "repo"
        assert pull("hf:owner/before/model.gguf").read_bytes() == MODEL

    def test_from_a_mirror_that_says_no_digest(self, pull, hub: Hub) -> None:
        hub.redirects = hub.linked_headers = False
        hub.commit = None
        assert pull().read_bytes() == MODEL

    def test_of_all_parts_of_a_split_model(self, pull, hub: Hub, models: Path) -> None:
        for number in (1, 2):
            hub.files[f"owner/repo/big-0000{number}-of-00002.gguf"] = MODEL
        assert pull("hf:owner/repo/big-00002-of-00002.gguf") == models / "big-00001-of-00002.gguf"
        found = Catalog(models, models.parent, Stores()).find("big")
        assert (found.source, found.bytes, found.sha256) == ("pulled", 2 * len(MODEL), None)

    def test_reports_progress_up_to_the_whole(self, pull, hub: Hub) -> None:
        hub.pause_s = 0.02
        seen: list[Progress] = []
        pull(tell=seen.append)
        assert [each.bytes for each in seen] == sorted(each.bytes for each in seen)
        assert (seen[0].bytes, seen[-1].bytes) == (0, len(MODEL))
        assert {each.total for each in seen} == {len(MODEL)}
        assert len(seen) > 2
        assert seen[-1].bytes_per_s > 0
        assert seen[-1].seconds_left == 0

    def test_is_verified_for_later_starts_without_hashing(self, pull, models: Path, monkeypatch) -> None:
        pull()
        monkeypatch.setattr("localchat.weights.verify._hash", lambda path: pytest.fail("hashed again"))
        catalog = Catalog(models, models.parent, Stores())
        catalog.verify(catalog.find("model"))


class TestAgain:
    def test_the_same_file_is_not_fetched_twice(self, pull, hub: Hub) -> None:
        pull()
        pull()
        assert len(hub.asked("GET", "content")) == 1

    def test_a_newer_version_replaces_the_old_one(self, pull, hub: Hub) -> None:
        pull()
        hub.files["owner/repo/model.gguf"] = OTHER
        assert pull().read_bytes() == OTHER

    def test_a_damaged_file_is_fetched_again(self, pull, models: Path) -> None:
        pull().write_bytes(MODEL[:-1] + b"?")
        assert pull().read_bytes() == MODEL

    def test_a_file_of_the_same_name_from_elsewhere_is_left_alone(self, pull, hub: Hub) -> None:
        path = pull()
        hub.files["other/repo/model.gguf"] = OTHER
        with pytest.raises(WeightsError, match=r"from hf:owner/repo/model.gguf@main.*weights remove"):
            pull("hf:other/repo/model.gguf")
        assert path.read_bytes() == MODEL

    def test_a_file_that_was_not_pulled_is_left_alone(self, pull, models: Path) -> None:
        models.mkdir()
        (models / "model.gguf").write_bytes(OTHER)
        with pytest.raises(WeightsError, match="was not pulled"):
            pull()
        assert (models / "model.gguf").read_bytes() == OTHER


class TestResuming:
    def interrupted(self, pull, hub: Hub) -> None:
        """Leave a part of about half the file, as Ctrl+C does."""

        def stop(progress: Progress) -> None:
            if progress.bytes > len(MODEL) // 2:
                raise KeyboardInterrupt

        hub.chunk_bytes = len(MODEL) // 4
        hub.pause_s = 0.15  # longer than progress is quiet for
        with pytest.raises(KeyboardInterrupt):
            pull(tell=stop)
        hub.pause_s = 0
        hub.requests.clear()

    def test_after_ctrl_c_fetches_only_the_rest(self, pull, hub: Hub, models: Path) -> None:
        self.interrupted(pull, hub)
        have = (models / "model.gguf.part").stat().st_size
        assert len(MODEL) // 2 < have < len(MODEL)
        assert not (models / "model.gguf").exists()
        assert pull().read_bytes() == MODEL
        request = hub.asked("GET", "content")[0]
        assert request["Range"] == f"bytes={have}-"
        assert request["If-Range"] == f'"{SHA256[:32]}"'
        assert files_in(models) == {"model.gguf", "model.gguf.json"}

    def test_starts_again_where_ranges_are_ignored(self, pull, hub: Hub) -> None:
        self.interrupted(pull, hub)
        hub.honours_ranges = False
        assert pull().read_bytes() == MODEL

    def test_starts_again_when_the_hub_has_another_file(self, pull, hub: Hub) -> None:
        self.interrupted(pull, hub)
        hub.files["owner/repo/model.gguf"] = OTHER
        assert pull().read_bytes() == OTHER
        assert "Range" not in hub.asked("GET", "content")[0]

    def test_starts_again_when_the_content_has_another_etag(self, pull, hub: Hub) -> None:
        self.interrupted(pull, hub)
        hub.content_etag = '"moved"'
        assert pull().read_bytes() == MODEL
        assert "Range" in hub.asked("GET", "content")[0]

    def test_a_part_without_its_note_is_not_trusted(self, pull, hub: Hub, models: Path) -> None:
        models.mkdir()
        (models / "model.gguf.part").write_bytes(b"anything")
        assert pull().read_bytes() == MODEL

    def test_a_complete_part_is_only_verified(self, pull, hub: Hub, models: Path) -> None:
        self.interrupted(pull, hub)
        (models / "model.gguf.part").write_bytes(MODEL)
        assert pull().read_bytes() == MODEL
        assert hub.asked("GET") == []

    def test_a_part_longer_than_the_file_starts_again(self, pull, hub: Hub, models: Path) -> None:
        self.interrupted(pull, hub)
        (models / "model.gguf.part").write_bytes(MODEL + b"more")
        assert pull().read_bytes() == MODEL

    def test_a_range_the_server_refuses_starts_again(self, pull, hub: Hub, waits: Waits) -> None:
        self.interrupted(pull, hub)
        hub.faults = [Fault(416)]
        assert pull().read_bytes() == MODEL
        assert waits == [0]

    def test_a_connection_cut_in_the_middle_goes_on_from_there(self, pull, hub: Hub, waits: Waits) -> None:
        hub.faults = [Fault(cut_after=100_000), Fault(cut_after=50_000)]
        assert pull().read_bytes() == MODEL
        ranges = [headers.get("Range") for headers in hub.asked("GET", "content")]
        assert ranges == [None, "bytes=100000-", "bytes=150000-"]
        assert waits == [1, 2]


class TestPatience:
    def test_busy_servers_are_asked_again_when_they_say(self, pull, hub: Hub, waits: Waits) -> None:
        hub.faults = [Fault(429, {"Retry-After": "7"}), Fault(500), Fault(503)]
        assert pull().read_bytes() == MODEL
        assert waits == [7, 2, 4]

    def test_ends_after_five_attempts(self, pull, hub: Hub, models: Path, waits: Waits) -> None:
        hub.faults = [Fault(503)] * 9
        with pytest.raises(WeightsError, match=r"answers 503 \(5 attempts\).*it resumes"):
            pull()
        assert waits == [1, 2, 4, 8]
        assert files_in(models) == set()

    def test_ends_when_the_server_asks_for_too_long(self, pull, hub: Hub, waits: Waits) -> None:
        hub.faults = [Fault(429, {"Retry-After": "3600"})]
        with pytest.raises(WeightsError, match=r"answers 429 and asks for 3,600 seconds"):
            pull()
        assert waits == []

    def test_ends_where_nobody_answers(self, pull, waits: Waits) -> None:
        with pytest.raises(WeightsError, match=r"connection to http://127.0.0.1:9 failed.*Check the network"):
            pull(HF_ENDPOINT="http://127.0.0.1:9")
        assert len(waits) == 4

    def test_progress_renews_it_and_standstill_does_not(self) -> None:
        outcomes = [*[PassingFault("cut", progressed=True)] * 9, PassingFault("cut"), None]
        slept: list[float] = []

        def attempt() -> None:
            if fault := outcomes.pop(0):
                raise fault

        Patience(sleep=slept.append).keep_trying(attempt)
        assert slept == [1] * 9 + [2]

    def test_reads_both_forms_of_retry_after(self) -> None:
        assert retry_after_s({"retry-after": "12"}) == 12
        assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
        assert retry_after_s({"retry-after": "soon"}) is None
        assert retry_after_s({}) is None


class TestVerifying:
    def test_a_wrong_checksum_deletes_the_part(self, pull, hub: Hub, models: Path) -> None:
        hub.claimed_sha256 = "0" * 64
        with pytest.raises(WeightsError, match=rf"sha256 is {SHA256}, not 0{{64}}. It was deleted"):
            pull()
        assert files_in(models) == set()

    def test_what_is_no_gguf_ends_with_its_first_bytes(self, pull, hub: Hub, models: Path) -> None:
        hub.files["owner/repo/model.gguf"] = b"<html>" + b" " * 50_000_000
        with pytest.raises(WeightsError, match=r"not a GGUF file: it begins with b'<htm'"):
            pull()
        assert files_in(models) == set()

    def test_a_gguf_that_is_cut_at_its_source_is_refused(self, pull, hub: Hub, models: Path) -> None:
        hub.files["owner/repo/model.gguf"] = MODEL[:-10]
        with pytest.raises(WeightsError, match="truncated"):
            pull()
        assert files_in(models) == set()

    def test_a_header_may_come_in_small_pieces(self, pull, hub: Hub) -> None:
        hub.files["owner/repo/model.gguf"] = small = gguf_bytes()
        hub.chunk_bytes, hub.pause_s = 40, 0.001
        assert pull().read_bytes() == small

    def test_more_bytes_than_announced_are_refused(self, pull, hub: Hub, models: Path) -> None:
        hub.claimed_bytes = len(MODEL) - 10
        with pytest.raises(WeightsError, match=rf"sends more than the {len(MODEL) - 10:,} bytes"):
            pull()
        assert files_in(models) == set()

    def test_fewer_bytes_than_announced_are_no_whole_file(self, pull, hub: Hub, models: Path) -> None:
        hub.claimed_bytes = len(MODEL) + 10
        with pytest.raises(WeightsError, match=r"\(5 attempts\)"):
            pull()
        assert not (models / "model.gguf").exists()

    def test_a_full_disk_is_noticed_before(self, pull, hub: Hub, monkeypatch) -> None:
        usage = shutil.disk_usage("/")._replace(free=1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
        missing = len(MODEL) - 1000
        with pytest.raises(
            WeightsError, match=rf"{len(MODEL):,} more bytes; .* 1,000 free.*least {missing:,}"
        ):
            pull()
        assert hub.asked("GET") == []

    def test_a_second_download_of_the_same_file_says_so(self, pull, models: Path) -> None:
        models.mkdir()
        with (models / "model.gguf.part").open("a+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(WeightsError, match=r"Another localchat is fetching model.gguf"):
                pull()
        assert pull().read_bytes() == MODEL

    def test_many_at_once_leave_one_whole_file(self, pull, hub: Hub, models: Path) -> None:
        hub.pause_s = 0.005
        refused: list[WeightsError] = []

        def attempt() -> None:
            try:
                pull()
            except WeightsError as error:
                refused.append(error)

        threads = [threading.Thread(target=attempt) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) < 6
        assert (models / "model.gguf").read_bytes() == MODEL
        assert files_in(models) == {"model.gguf", "model.gguf.json"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "code", "message"),
        [
            (401, "RepoNotFound", r"private, gated or misspelt \(401\).*Set HF_TOKEN"),
            (403, "GatedRepo", r"may not be read with this account \(403\).*Accept its terms: http"),
            (404, "RepoNotFound", r"no repository owner/repo \(404\).*Check the name"),
            (404, "RevisionNotFound", r"no revision 'main' \(404\)"),
            (404, "EntryNotFound", r"no file model.gguf at main \(404\).*owner/repo/tree/main"),
            (451, "", r"answers 451"),
        ],
    )
    def test_say_the_next_step_at_once(self, pull, hub: Hub, models, waits, status, code, message) -> None:
        hub.refused["owner/repo/model.gguf"] = (status, code)
        with pytest.raises(WeightsError, match=message):
            pull()
        assert waits == []
        assert files_in(models) == set()

    def test_say_when_a_token_was_given_and_not_accepted(self, pull, hub: Hub) -> None:
        hub.refused["owner/repo/model.gguf"] = (401, "")
        with pytest.raises(WeightsError, match="HF_TOKEN was not accepted"):
            pull(HF_TOKEN="secret")

    @pytest.mark.parametrize(
        "spec",
        [
            "hf:owner/repo",
            "hf:owner/repo/model.safetensors",
            "hf:owner/repo/../model.gguf",
            "hf:owner/repo//model.gguf",
            "hf:owner/repo/.gguf",
            "hf:owner/repo/a\\b.gguf",
            "hf:owner/repo/a\x1b[2J.gguf",
            "hf:../repo/model.gguf",
            "hf:owner/re..po/model.gguf",
            "hf:/repo/model.gguf",
            "hf:owner/repo/model.gguf@",
            "hf:owner/repo/model.gguf@../..",
            "hf:-o/repo/model.gguf",
            "ftp:owner/repo/model.gguf",
            "model.gguf",
        ],
    )
    def test_of_specs_that_name_nothing_sane(self, pull, hub: Hub, spec: str) -> None:
        with pytest.raises(UsageError):
            pull(spec)
        assert hub.requests == []

    def test_a_revision_is_read_after_the_last_gguf(self) -> None:
        file = parse_spec("hf:o/r/a@b.gguf@v1")
        assert (file.repo, file.path, file.revision) == ("o/r", "a@b.gguf", "v1")

    def test_of_everything_when_offline(self, pull, hub: Hub) -> None:
        with pytest.raises(WeightsError, match="HF_HUB_OFFLINE is set"):
            pull(HF_HUB_OFFLINE="1")
        assert hub.requests == []

    def test_not_of_what_is_here_when_offline(self, pull) -> None:
        assert pull() == pull(HF_HUB_OFFLINE="1")

    def test_of_redirects_without_end(self, pull, hub: Hub) -> None:
        hub.renamed = {"owner/repo": "repo"}
        with pytest.raises(WeightsError):
            pull()
        assert len(hub.requests) < 10

    def test_of_a_folder_that_cannot_be_made(self, hub: Hub, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(WeightsError, match=r"file/models"):
            Catalog(tmp_path / "file/models", tmp_path, Stores()).pull(SPEC)

    def test_of_an_endpoint_that_is_no_address(self, pull) -> None:
        with pytest.raises(UsageError, match=r"HF_ENDPOINT=.huggingface\.co. is not"):
            pull(HF_ENDPOINT="huggingface.co")


class TestTheToken:
    def test_goes_to_the_hub_and_never_to_another_host(self, pull, hub: Hub) -> None:
        pull(HF_TOKEN="secret")
        assert {headers.get("Authorization") for headers in hub.asked("HEAD", "hub")} == {"Bearer secret"}
        assert {headers.get("Authorization") for headers in hub.asked("GET", "hub")} == {"Bearer secret"}
        assert {headers.get("Authorization") for headers in hub.asked("GET", "content")} == {None}

    def test_may_be_in_a_file(self, pull, hub: Hub, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("from-file\n")
        pull(HF_TOKEN_PATH=str(tmp_path / "token"))
        assert hub.asked("HEAD")[0]["Authorization"] == "Bearer from-file"

    def test_is_where_the_hub_tools_keep_it(self, pull, hub: Hub, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("logged-in")
        pull(HF_HOME=str(tmp_path))
        assert hub.asked("HEAD")[0]["Authorization"] == "Bearer logged-in"

    def test_is_not_needed(self, pull, hub: Hub) -> None:
        pull()
        assert "Authorization" not in hub.asked("HEAD")[0]

    def test_is_not_sent_in_the_clear_nor_shown(self) -> None:
        from localchat.weights.hub import Hub as Address

        address = Address("http://mirror.example", "secret")
        assert "Authorization" not in address.headers()
        assert "secret" not in repr(address)


def test_the_meter_counts_speed_from_where_this_run_began() -> None:
    seen: list[Progress] = []
    clock = iter([0.0, 0.05, 2.0, 4.0])
    meter = Meter("m", seen.append, lambda: next(clock))
    for done in (1000, 1100, 1200, 1400):
        meter.update(done, 2000)
    assert [(each.bytes, each.bytes_per_s) for each in seen] == [(1000, 0), (1200, 100), (1400, 100)]
    assert (seen[0].seconds_left, seen[-1].seconds_left) == (None, 6)


def test_the_http_client_is_imported_by_downloads_only() -> None:
    code = "import sys, localchat.weights, localchat.commands.weights; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"httpx", "numpy", "gguf", "bandwidth_model.gguf"} & set(shown.stdout.split()) == set()
