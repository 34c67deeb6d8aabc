"""``localchat ask``: one answer, for pipes and scripts.

Nothing but the answer goes to standard output. Notices go to standard error, and
so does progress when a person watches it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from localchat.card import Card, with_event
from localchat.card_text import is_plain, marks, summary
from localchat.errors import UsageError
from localchat.flags import FAILED, add_model_arguments, add_route_arguments, setting_flags
from router.errors import ContextOverflow, RouterError
from router.request import (
    Delta,
    Failed,
    Finished,
    Forecast,
    HandedOff,
    Notice,
    Predicted,
    Progress,
    Reclassified,
    ResponseFormat,
    Routed,
    ToolCall,
    joined_calls,
)

if TYPE_CHECKING:
    from localchat.compose import Program
    from localchat.room import OldTurn
    from localchat.session import TurnEvent

INPUT_LIMIT_BYTES = 8 << 20
"""Of each file and of standard input: more than any window holds, and little enough to read at once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="*", help="the question; standard input is added to it")
    ask = parser.add_argument_group("question")
    ask.add_argument("--attach", metavar="FILE", action="append", default=[], help="add a text file")
    ask.add_argument("-c", "--continue", dest="go_on", action="store_true", help="in the latest conversation")
    ask.add_argument(
        "--on-overflow",
        choices=("fail", "drop", "summarise"),
        default="fail",
        help="when the conversation no longer fits: fail, or drop or summarise its oldest turns",
    )
    ask.add_argument("--incognito", action="store_true", help="keep nothing on disk")
    answer = parser.add_argument_group("answer")
    shape = answer.add_mutually_exclusive_group()
    shape.add_argument("--schema", metavar="FILE", help="the answer follows this JSON schema")
    shape.add_argument("--regex", metavar="EXPR", help="the answer matches this regular expression")
    shape.add_argument("--grammar", metavar="FILE", help="the answer follows this grammar (.gbnf or .lark)")
    form = answer.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object with figures")
    form.add_argument("--events", action="store_true", help="events as they happen, one JSON object a line")
    add_model_arguments(parser)
    add_route_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from localchat.compose import build
    from localchat.paths import find_paths
    from localchat.settings import load_settings

    question = _question(args)
    wanted = _response_format(args)
    paths = find_paths()
    settings = load_settings(paths.settings, os.environ, setting_flags(args))
    program = build(settings, paths, incognito=args.incognito, start=settings.routing.mode != "cloud")
    program.session.response_format = wanted
    return asyncio.run(_answer(program, question, args))


async def _answer(program: Program, question: str, args: argparse.Namespace) -> int:
    from localchat.history.text import storable

    try:
        if args.go_on and (latest := program.history.latest()):
            program.session.open(latest.id)
            if args.system is not None:
                program.session.system = args.system
        if program.routing and program.routing.offline and program.routing.mode != "local":
            _tell("offline: answered on this machine")
        show: _Show = _Json() if args.json else _Events() if args.events else _Plain()
        await _ask(program, storable(question), args.on_overflow, show)
        return show.code
    finally:
        await program.close()
        if program.routing and (trouble := program.routing.trouble()):
            _tell(f"this answer was not recorded. {trouble}")


async def _ask(program: Program, question: str, on_overflow: str, show: _Show) -> None:
    from localchat.room import SUMMARY_ROOM_TOKENS

    session, summarise = program.session, on_overflow == "summarise"
    overflow = await _turn(session.send(question), show, hold_overflow=on_overflow != "fail")
    if overflow is None:
        return
    spare = SUMMARY_ROOM_TOKENS if summarise else 0
    try:
        turns = await session.room.turns_in_the_way(overflow, program.model.count_tokens, spare)
    except RouterError as error:
        show.take(Failed(error))
        return
    show.take(Notice(_which(turns, "Summarising" if summarise else "Leaving out")))
    ids = [i for turn in turns for i in turn.message_ids]
    await _turn(session.room.answer_without(ids, summarise=summarise), show)


async def _turn(
    events: AsyncGenerator[TurnEvent, None], show: _Show, *, hold_overflow: bool = False
) -> ContextOverflow | None:
    """Show a turn; with ``hold_overflow`` an overflow is returned instead."""
    from localchat.session import Started

    overflow, started = None, False
    async with contextlib.aclosing(events):
        async for event in events:
            started = started or isinstance(event, Started)
            if hold_overflow and isinstance(event, Failed) and isinstance(event.error, ContextOverflow):
                overflow = event.error
            elif started or isinstance(event, Progress | Notice | Failed):  # a summary is not the answer
                show.take(event)
    return overflow


def _which(turns: Sequence[OldTurn], doing: str) -> str:
    which = f"the {len(turns)} oldest turns" if len(turns) > 1 else "the oldest turn"
    words = ", ".join(f"“{turn.words}”" for turn in turns)
    return f"{doing} {which} to make room: {words}."


# -- what is asked


def _question(args: argparse.Namespace) -> str:
    parts = [" ".join(args.prompt)]
    parts += [_attachment(Path(name)) for name in args.attach]
    if not sys.stdin.isatty():
        parts.append(_bounded(sys.stdin.buffer, "Standard input").decode("utf-8", "replace"))
    question = "\n\n".join(part for part in parts if part.strip())
    if not question:
        raise UsageError("There is no question.", 'Write `localchat ask "..."` or pipe it in.')
    return question


def _attachment(path: Path) -> str:
    data = _read(path)
    if b"\0" in data[:8192]:
        raise UsageError(f"{path} is not a text file.", "Attach text only.")
    return f'<file name="{path.name}">\n{data.decode("utf-8", "replace")}\n</file>'


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _bounded(file, str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _bounded(file: IO[bytes], name: str) -> bytes:
    data = file.read(INPUT_LIMIT_BYTES + 1)  # its size is not asked: a pipe has none
    if len(data) > INPUT_LIMIT_BYTES:
        raise UsageError(f"{name} is larger than {INPUT_LIMIT_BYTES >> 20} MiB.", "Give a part of it.")
    return data


def _response_format(args: argparse.Namespace) -> ResponseFormat | None:
    if args.regex is not None:
        return ResponseFormat("regex", args.regex)
    if args.schema:
        return ResponseFormat("json_schema", _read(Path(args.schema)).decode("utf-8", "replace"))
    if args.grammar:
        source = _read(Path(args.grammar)).decode("utf-8", "replace")
        return ResponseFormat("gbnf" if args.grammar.endswith(".gbnf") else "lark", source)
    return None


# -- what is shown


class _Show(Protocol):
    code: int

    def take(self, event: TurnEvent) -> None: ...


@dataclass(slots=True)
class _Plain:
    """The answer's text as it comes."""

    code: int = 0
    _ends_line: bool = True
    _status: bool = False
    _card: Card | None = None

    def take(self, event: TurnEvent) -> None:
        self._card = with_event(self._card, event)
        match event:
            case Delta(text, "text") if text:
                self._clear_status()
                sys.stdout.write(text)
                sys.stdout.flush()
                self._ends_line = text.endswith("\n")
            case Progress():
                self._show_status(event)
            case Notice(text):
                self._clear_status()
                _tell(text)
            case HandedOff(_, target, why, _):
                self._clear_status()
                self._end_line()
                _tell(f"going on {'in the cloud' if target == 'cloud' else 'on this machine'}: {why}")
            case ToolCall(index, _, name) if name:
                _tell(f"the model wants to call {name} (number {index + 1}); --json shows with what")
            case Finished():
                self._clear_status()
                self._end_line()
                self._tell_origin()
            case Failed(error):
                self._clear_status()
                self.code = FAILED
                self._end_line()
                _tell(str(error))
            case _:
                pass

    def _tell_origin(self) -> None:
        card = self._card
        if card and not is_plain(card):
            told = [] if card.hand_offs else [summary(card)]  # hand-offs were told when they came
            _tell(" · ".join([*told, *marks(card)]) or "answered on this machine")
        for verdict in card.failed_checks if card else ():
            _tell(f"the check “{verdict.validator}” failed: {verdict.detail}")

    def _end_line(self) -> None:
        if not self._ends_line:
            print(flush=True)
            self._ends_line = True

    def _show_status(self, progress: Progress) -> None:
        if sys.stderr.isatty():
            rate = f", {progress.rate_per_s:.0f} tokens/s" if progress.rate_per_s else ""
            left = f", {progress.seconds_left:.0f} s left" if progress.seconds_left else ""
            print(f"\r{progress.stage} {progress.fraction:.0%}{rate}{left}\x1b[K", end="", file=sys.stderr)
            sys.stderr.flush()
            self._status = True

    def _clear_status(self) -> None:
        if self._status:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._status = False


@dataclass(slots=True)
class _Json:
    """One object at the end."""

    code: int = 0
    _text: str = ""
    _reasoning: str = ""
    _forecast: Forecast | None = None
    _card: Card | None = None
    _tool_calls: list[ToolCall] = field(default_factory=list)

    def take(self, event: TurnEvent) -> None:
        self._card = with_event(self._card, event)
        match event:
            case Routed():
                self._forecast = None
            case ToolCall():
                self._tool_calls.append(event)
            case Predicted(forecast):
                self._forecast = forecast
            case Delta(text, "text"):
                self._text += text
            case Delta(text, "reasoning"):
                self._reasoning += text
            case Reclassified():
                self._text, self._reasoning = "", self._reasoning + self._text
            case Finished():
                print(json.dumps(self._object(event), ensure_ascii=False), flush=True)
            case Notice(text):
                _tell(text)
            case Failed(error):
                self.code = FAILED
                _tell(str(error))
            case _:
                pass

    def _object(self, finished: Finished) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "text": self._text,
            "model": finished.model or (self._card.decision.model if self._card else ""),
            "finish_reason": finished.finish_reason,
            "usage": asdict(finished.usage),
            "timings": asdict(finished.timings),
        }
        if self._reasoning:
            answer["reasoning"] = self._reasoning
        if self._tool_calls:
            answer["tool_calls"] = [asdict(call) for call in joined_calls(self._tool_calls)]
        if self._forecast:
            answer["predicted"] = _scored(self._forecast, finished)
        return answer | (_origin(self._card) if self._card else {})


def _origin(card: Card) -> dict[str, Any]:
    """Where the answer came from. ``cost_usd`` null: not known."""
    decision = asdict(card.decision)
    forecast = decision.pop("expected")
    return {
        "route": card.route,
        "decision": {**decision, "forecast": forecast},
        "handed_off": [asdict(each) for each in card.hand_offs],
        "confidence": asdict(card.confidence) if card.confidence else None,
        "validation": [asdict(verdict) for verdict in card.verdicts],
        "cache": asdict(card.cache) if card.cache else None,
        "simulated": asdict(card.simulated) if card.simulated else None,
        "cost_usd": card.cost_usd,
        "entry": card.entry,
    }


def _scored(forecast: Forecast, finished: Finished) -> dict[str, Any]:
    """The prediction, and how far off it was; null where nothing was decoded to compare."""
    measured = finished.timings.decode_tokens_per_s
    return {**asdict(forecast), "error_percent": forecast.error_percent(measured) if measured else None}


@dataclass(slots=True)
class _Events:
    """Each event as it happens."""

    code: int = 0

    def take(self, event: TurnEvent) -> None:
        line: dict[str, Any] = {"event": type(event).__name__.lower()}
        if isinstance(event, Failed):
            self.code = FAILED
            line |= {"kind": type(event.error).__name__, "message": str(event.error)}
        else:
            line |= asdict(event)
        if isinstance(event, Notice):
            _tell(event.text)
        print(json.dumps(line, ensure_ascii=False), flush=True)


def _tell(text: str) -> None:
    print(f"localchat: {text}", file=sys.stderr, flush=True)
