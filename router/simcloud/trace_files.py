"""Request lists that others publish: vidur, Azure 2023, Mooncake, LLMServingSim (workloads and runs).

Owns recognising a file's format by its first line, checking every line before anything runs,
and reading it as a stream of jobs. Does not simulate.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from router.errors import InvalidSimulation
from router.simcloud.request import Job, Request

MOONCAKE_BLOCK_TOKENS = 512
"""Tokens a hash_id stands for (README of kvcache-ai/Mooncake's traces)."""


NAMED_TOKENS = 16
"""Tokens of a prompt that get one name, where a list holds the tokens themselves: a usual block."""


@dataclass(frozen=True, slots=True)
class Line:
    arrived_s: float
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()
    prefix_block_tokens: int = MOONCAKE_BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Trace:
    """A checked file. ``max_tokens`` is the bound that schedulers see, never below the true length."""

    path: Path
    requests: int
    sorted: bool
    max_tokens: int = 0

    def __iter__(self) -> Iterator[Job]:
        lines: Iterator[Line] = read_lines(self.path)
        if not self.sorted:
            lines = iter(sorted(lines, key=lambda line: line.arrived_s))
        for number, line in enumerate(lines):
            bound = max(self.max_tokens, line.output_tokens)
            request = Request(
                number,
                line.arrived_s,
                line.prompt_tokens,
                bound,
                prefix=line.prefix,
                prefix_block_tokens=line.prefix_block_tokens,
            )
            yield Job(request, line.output_tokens)


def open_trace(path: Path, max_tokens: int = 0) -> Trace:
    """Reads the file once, so that what is wrong with it is said before anything runs."""
    count, in_order, last_s = 0, True, 0.0
    for line in read_lines(path):
        count += 1
        in_order = in_order and line.arrived_s >= last_s
        last_s = line.arrived_s
    if not count:
        raise InvalidSimulation(f"{path} holds no requests.")
    return Trace(path, count, in_order, max_tokens)


def read_lines(path: Path) -> Iterator[Line]:
    """Every request of a file in its order, or InvalidSimulation that names the line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            head = file.readline()
            if head.lstrip().startswith("{"):
                file.seek(0)
                yield from _of_json(path, file)
            else:
                yield from _of_csv(path, head, file)
    except OSError as error:
        raise InvalidSimulation(f"{path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidSimulation(f"{path} is not a text file.") from error


def _of_csv(path: Path, head: str, rest: Iterator[str]) -> Iterator[Line]:
    columns = [column.strip() for column in next(csv.reader([head]), [])]
    found = next((each for each in CSV_FORMATS if set(each[0]) <= set(columns)), None)
    if found is None:
        known = "; ".join(", ".join(names) for names, _ in CSV_FORMATS)
        raise InvalidSimulation(
            f"{path} is no request list: its first line is {head.strip()[:80]!r}.", f"Known columns: {known}."
        )
    time, prompt, output = (columns.index(name) for name in found[0])
    clock = found[1]()
    for number, row in enumerate(csv.reader(rest), 2):
        if not row:
            continue
        try:
            line = Line(clock(row[time]), _tokens(row[prompt]), _tokens(row[output]))
        except (ValueError, IndexError) as error:
            raise InvalidSimulation(f"{path}, line {number}: {_said(error)}.") from error
        yield line


def _of_json(path: Path, lines: Iterator[str]) -> Iterator[Line]:
    started: float | None = None
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
            if "timestamp" in value:
                line = _of_mooncake(value)
            elif "arrival_time_ns" in value:
                line = _of_workload(value)
            else:
                at_s = _seconds(value["arrival_time"])
                started = at_s if started is None else started
                line = Line(at_s - started, _tokens(value["input_toks"]), _tokens(value["output_toks"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidSimulation(f"{path}, line {number}: {_said(error)}.") from error
        yield line


def _of_mooncake(value: dict[str, Any]) -> Line:
    return Line(
        _seconds(value["timestamp"]) / 1000,
        _tokens(value["input_length"]),
        _tokens(value["output_length"]),
        tuple(int(each) for each in value.get("hash_ids", ())),
    )


def _of_workload(value: dict[str, Any]) -> Line:
    """LLMServingSim's: with the prompt's tokens, if it has them, prompts that begin alike are known."""
    tokens = [int(each) for each in value.get("input_tok_ids", ())]
    full = range(0, len(tokens) - NAMED_TOKENS + 1, NAMED_TOKENS)
    return Line(
        _nanoseconds(value["arrival_time_ns"]) / 1e9,
        _tokens(value["input_toks"]),
        _tokens(value["output_toks"]),
        tuple(hash(tuple(tokens[start : start + NAMED_TOKENS])) for start in full),
        NAMED_TOKENS,
    )


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no {error.args[0]!r}"
    return "too few columns" if isinstance(error, IndexError) else str(error)


def _tokens(text: str | int) -> int:
    value = float(text)
    if not 0 < value < 1e9 or value != int(value):
        raise ValueError(f"{text!r} is no count of tokens")
    return int(value)


def _seconds(text: str | float) -> float:
    value = float(text)
    if not 0 <= value < 1e12:
        raise ValueError(f"{text!r} is no time of arrival")
    return value


def _nanoseconds(text: str | float) -> float:
    return 1e9 * _seconds(float(text) / 1e9)


def _plain_clock() -> Callable[[str], float]:
    return _seconds


def _calendar_clock() -> Callable[[str], float]:
    """Seconds since the first line; Azure writes seven digits of a second, Python reads six."""
    started: list[datetime] = []

    def since_first(text: str) -> float:
        moment = datetime.fromisoformat(text.strip()[:26])
        started.append(moment) if not started else None
        return (moment - started[0]).total_seconds()

    return since_first


CSV_FORMATS: tuple[tuple[tuple[str, str, str], Callable[[], Callable[[str], float]]], ...] = (
    (("arrived_at", "num_prefill_tokens", "num_decode_tokens"), _plain_clock),
    (("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _calendar_clock),
)
