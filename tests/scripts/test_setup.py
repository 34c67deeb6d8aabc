"""Laws of the set-up: progress only grows, what is missing is named, what is half there is found."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import machine, setup
from scripts.machine import Interpreter, Missing, find_python, require_compiler, require_space
from scripts.packages import forget, incomplete, installed, pins
from scripts.pip import explain
from scripts.progress import StepLine, clock, fraction_done


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


# -- progress


@pytest.mark.parametrize(
    ("line", "fraction"),
    [
        ("  [41/140] Building CXX object a.o\n", 41 / 140),
        ("[140/140] Linking\n", 1.0),
        ("  [ 41%] Building CXX object a.o\n", 0.41),
        ("  [1/2] Re-checking globbed directories...\n", None),
        ("  note: see [3/4] above\n", None),
        ("", None),
    ],
)
def test_a_build_line_says_how_far_it_is(line: str, fraction: float | None) -> None:
    assert fraction_done(line) == fraction


@given(st.text())
def test_any_output_is_survived(line: str) -> None:
    fraction = fraction_done(line)
    assert fraction is None or 0.0 <= fraction <= 1.0


@given(st.lists(st.none() | st.floats(0, 1)))
def test_elsewhere_than_on_a_terminal_each_tenth_is_a_line(fractions: list[float | None]) -> None:
    out = io.StringIO()
    line = StepLine("Compiling", out)
    for fraction in fractions:
        line.advance(fraction)
    line.end()
    assert out.getvalue().count("\n") <= 12
    shown = [int(word[:-1]) for word in out.getvalue().split() if word.endswith("%")]
    assert shown == sorted(shown)


def test_on_a_terminal_one_line_is_written_over() -> None:
    out = Screen()
    line = StepLine("Compiling", out, now=iter([0.0, 1.0, 2.0, 65.0]).__next__)
    line.advance(0.5)
    line.advance(None)
    line.end()
    assert out.getvalue().count("\n") == 1
    assert "[############------------]  50% 0:02" in out.getvalue()
    assert out.getvalue().endswith("Compiling: done (1:05)\n")


def test_a_clock_reads_in_minutes_and_seconds() -> None:
    assert [clock(7.9), clock(750)] == ["0:07", "12:30"]


# -- what is missing


def pretend(monkeypatch: pytest.MonkeyPatch, *found: Interpreter) -> None:
    by_name = {interpreter.name: interpreter for interpreter in found}
    monkeypatch.setattr(machine, "probe", by_name.get)


def python(name: str, minor: int, complete: bool = True) -> Interpreter:
    return Interpreter(name, f"/usr/bin/{name}", (3, minor, 1), complete)


def test_an_older_default_python_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, python("python3", 9), python("python3.12", 12))
    assert find_python().name == "python3.12"


def test_too_old_pythons_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, python("python3", 9), python("python3.10", 10))
    with pytest.raises(Missing, match=r"3\.11 or newer; found on PATH: python3 \(3\.9\.1\), python3\.10"):
        find_python()


def test_the_python_that_was_asked_for_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, python("old", 8), python("python3", 12))
    with pytest.raises(Missing, match=r"PYTHON=old is old \(3\.8\.1\)"):
        find_python("old")


def test_a_missing_venv_module_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, python("python3", 12, complete=False))
    with pytest.raises(Missing, match=r"apt install python3\.12-venv"):
        find_python()


def test_this_interpreter_is_recognised() -> None:
    found = machine.probe(sys.executable)
    assert found
    assert found.version == sys.version_info[:3]
    assert Path(found.path).exists()


def test_a_program_that_is_no_python_is_none() -> None:
    assert machine.probe("/nonexistent/python3") is None
    assert machine.probe("true") is None


def test_no_compiler_is_said_with_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"(?s)No C compiler.*build-essential.*xcode-select"):
        require_compiler()


def test_a_compiler_without_its_headers_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'fatal error: stdlib.h: No such file' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(Missing, match=r"does not work: fatal error: stdlib\.h"):
        require_compiler()


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "BUILD_BYTES", 10**18)
    with pytest.raises(Missing, match="Too little disk space"):
        require_space(tmp_path)


def test_no_network_is_said_and_pips_conclusions_are_not(tmp_path: Path) -> None:
    said = ["WARNING: Retrying (NewConnectionError(...))", "ERROR: ResolutionImpossible"]
    text = explain("Installing", said, tmp_path / "build.log")
    assert "cannot reach a package index" in text
    assert "NewConnectionError" in text
    assert "ResolutionImpossible" not in text


def test_a_failed_build_shows_its_last_lines(tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(100)] + ["ninja: build stopped: subcommand failed."]
    text = explain("Compiling llama.cpp", lines, tmp_path / "build.log")
    assert "ninja: build stopped" in text
    assert "line 99" in text
    assert "line 50" not in text
    assert "build.log" in text


# -- what is there


def package(site: Path, name: str, *files: str, record: bool = True) -> Path:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    listed = "".join(f"{file},sha256=x,1\n" for file in files)
    if record:
        (info / "RECORD").write_text(listed + f"{info.name}/RECORD,,\n")
    return info


def test_half_installed_packages_are_found_and_forgotten(tmp_path: Path) -> None:
    (tmp_path / "whole.py").touch()
    package(tmp_path, "Whole_One", "whole.py", "__pycache__/whole.cpython-311.pyc")
    package(tmp_path, "cut", "missing.py")
    gone = package(tmp_path, "unfinished", record=False)
    assert incomplete(tmp_path) == ["cut", "unfinished"]
    forget(tmp_path, incomplete(tmp_path))
    assert not gone.exists()
    assert installed(tmp_path) == {"whole-one": "1.0"}


def test_pins_are_read_under_one_spelling_of_the_name() -> None:
    assert pins("# why\nllama_cpp_python==0.3.36\nPyYAML==6  # note\n") == {
        "llama-cpp-python": "0.3.36",
        "pyyaml": "6",
    }


def test_every_package_the_project_names_is_pinned() -> None:
    import tomllib

    project = tomllib.loads((setup.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {machine_name(requirement) for requirement in wanted}
    assert names <= set(pins(setup.CONSTRAINTS.read_text(encoding="utf-8")))


def machine_name(requirement: str) -> str:
    from scripts.packages import normal

    return normal(requirement.replace(">", "=").partition("=")[0].strip())


def test_only_packaging_decides_whether_to_install_again(tmp_path: Path) -> None:
    before, after = tmp_path / "before.toml", tmp_path / "after.toml"
    project = '[project]\nname = "x"\n[project.scripts]\nx = "x:main"\n'
    before.write_text(project + "[tool.ruff]\nline-length = 100\n[tool.hatch.version]\npath = 1\n")
    after.write_text(project + "[tool.ruff]\nline-length = 110\n[tool.hatch.version]\npath = 1\n")
    assert setup.packaging(before) == setup.packaging(after)
    after.write_text(project.replace('"x"', '"y"') + "[tool.hatch.version]\npath = 1\n")
    assert setup.packaging(before) != setup.packaging(after)


def test_asking_for_other_build_options_builds_again(monkeypatch: pytest.MonkeyPatch) -> None:
    built: dict[str, object] = {"cmake_args": "-DGGML_METAL=OFF"}
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    assert not setup.cmake_args_changed(built)
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_METAL=OFF")
    assert not setup.cmake_args_changed(built)
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=ON")
    assert setup.cmake_args_changed(built)
