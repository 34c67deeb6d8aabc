from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from localchat.tui.command_runner import CommandRunner
from localchat.tui.commands import COMMANDS, Command, parse, starting_with, suggestion
from localchat.tui.completion import candidates


def test_every_command_has_a_method() -> None:
    assert all(callable(getattr(CommandRunner, f"do_{command.name}")) for command in COMMANDS)


@given(st.sampled_from(COMMANDS), st.text(alphabet="abc .", max_size=10))
def test_a_command_is_read_with_its_argument(command: Command, argument: str) -> None:
    call = parse(f"/{command.name} {argument}")
    assert call is not None
    assert (call.command, call.argument) == (command, argument.strip())


def test_text_is_not_a_command() -> None:
    assert [parse(text) for text in ("hello", " /help", "//x", "/", "/a\nb", "")] == [None] * 6


def test_an_unknown_command_suggests_the_nearest() -> None:
    assert "Did you mean /regenerate?" in suggestion("regen")
    assert "/help" in suggestion("zzzz")


def test_completion_offers_commands_by_their_beginning(tmp_path: Path) -> None:
    assert [c.name for c in starting_with("ex")] == ["export"]
    assert [c.text for c in candidates("/ex", tmp_path)] == ["/export "]
    assert candidates("/export md", tmp_path) == []


def test_completion_offers_files_after_an_at(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").touch()
    (candidate,) = candidates("see @my", tmp_path)
    assert (candidate.text, candidate.replaces) == ('@"my notes.txt" ', 3)
    assert candidates("mail me@my", tmp_path) == []
