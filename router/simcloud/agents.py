"""Agents: tasks of dependent calls, each of which starts when those it needs have ended.

Owns tasks as graphs, what each call's prompt contains, and figures by task. A prompt is the first
parent's whole transcript (prompt and answer), then what the other parents added, then its own text; so
calls of a task begin alike, block by block, and a prefix cache can tell. Does not know engines' inside.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from router.errors import InvalidSimulation
from router.simcloud.engine import Engine
from router.simcloud.loop import Loop, Route, first_engine
from router.simcloud.quantiles import Quantiles
from router.simcloud.request import Completed, Job, Request

NAME_TOKENS = 16
"""Tokens that a name of content stands for: an engine's usual block."""


@dataclass(frozen=True, slots=True)
class Call:
    """``parents``: places of the task's earlier calls. ``pause_s`` passes (a tool runs) before it starts."""

    own_tokens: int
    output_tokens: int
    parents: tuple[int, ...] = ()
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """``shared_tokens``: a text that all tasks' first calls begin with (instructions, tools)."""

    number: int
    arrived_s: float
    calls: tuple[Call, ...]
    shared_tokens: int = 0

    def __post_init__(self) -> None:
        if any(parent >= place for place, call in enumerate(self.calls) for parent in call.parents):
            raise InvalidSimulation(f"Task {self.number} has a call that needs itself or a later one.")


@dataclass(frozen=True, slots=True)
class TaskDone:
    """From its arrival to its last call's end."""

    number: int
    arrived_s: float
    finished_s: float
    calls: int
    output_tokens: int

    @property
    def seconds(self) -> float:
        return self.finished_s - self.arrived_s


Piece = tuple[int, int]
"""(what text it is, tokens of it)."""


def transcripts(task: Task) -> list[tuple[tuple[Piece, ...], tuple[Piece, ...]]]:
    """Of each call the pieces of its prompt, and those with its answer at the end."""
    found: list[tuple[tuple[Piece, ...], tuple[Piece, ...]]] = []
    for place, call in enumerate(task.calls):
        text = 2 * (task.number * 10_000 + place) + 1
        prompt = list(found[call.parents[0]][1]) if call.parents else []
        if not call.parents and task.shared_tokens:
            prompt.append((0, task.shared_tokens))
        seen = {piece for piece, _ in prompt}
        for parent in call.parents[1:]:
            added = [piece for piece in found[parent][1] if piece[0] not in seen]
            seen.update(piece for piece, _ in added)
            prompt += added
        prompt.append((text, call.own_tokens))
        found.append((tuple(prompt), (*prompt, (text + 1, call.output_tokens))))
    return found


def names_of(pieces: Sequence[Piece]) -> tuple[int, ...]:
    """A name for each full NAME_TOKENS tokens, equal where the same tokens of the same pieces are."""
    ends = list(accumulate(tokens for _, tokens in pieces))
    names, place, start = [], 0, 0
    for end in range(NAME_TOKENS, (ends[-1] if ends else 0) + 1, NAME_TOKENS):
        parts: list[int] = []
        while start < end:
            if ends[place] <= start:
                place += 1
                continue
            before = ends[place - 1] if place else 0
            upto = min(end, ends[place])
            parts += [pieces[place][0], start - before, upto - start]
            start = upto
        names.append(hash(tuple(parts)))
    return tuple(names)


def jobs_of(task: Task, first_id: int, by_task: bool) -> list[Job]:
    """``by_task``: a call's priority is its task's number, so that an earlier task's calls go first."""
    jobs = []
    for place, (prompt, whole) in enumerate(transcripts(task)):
        call = task.calls[place]
        tokens = sum(each for _, each in prompt)
        request = Request(
            first_id + place,
            task.arrived_s,
            tokens,
            call.output_tokens,
            priority=task.number if by_task else 0,
            prefix=names_of(prompt),
            prefix_block_tokens=NAME_TOKENS,
        )
        jobs.append(Job(request, call.output_tokens, transcript=names_of(whole)))
    return jobs


@dataclass(slots=True)
class _Open:
    """A task that has begun."""

    task: Task
    first_id: int
    jobs: list[Job]
    missing: list[int]  # parents that have not ended, by call
    left: int
    ends_s: dict[int, float] = field(default_factory=dict)  # by call


@dataclass(slots=True, eq=False)
class AgentLoad:
    """Feeds engines with tasks; a task's next calls come when those they need have ended."""

    tasks: Iterable[Task]
    by_task: bool = False
    each: Callable[[TaskDone], None] | None = None
    task_s: Quantiles = field(default_factory=Quantiles)
    calls: int = 0
    done: int = 0
    dropped: int = 0  # tasks of which a call could never fit
    _open: dict[int, _Open] = field(default_factory=dict)  # by request

    @property
    def open_tasks(self) -> int:
        return len({entry.task.number for entry in self._open.values()})

    def over(self, engines: Sequence[Engine], route: Route = first_engine) -> Loop:
        loop = Loop(engines, (), route, dependent=True)
        for engine in engines:
            engine.tell(lambda done: self._ended(loop, done))
        for task in self.tasks:
            loop.at(task.arrived_s, lambda task=task: self._begin(loop, task))  # type: ignore[misc]  # bound now
        return loop

    def _begin(self, loop: Loop, task: Task) -> None:
        jobs = jobs_of(task, self.calls, self.by_task)
        if not all(engine.fits(job.request) for job in jobs for engine in loop.engines):
            self.dropped += 1
            return
        entry = _Open(task, self.calls, jobs, [len(call.parents) for call in task.calls], len(jobs))
        self.calls += len(jobs)
        for place, job in enumerate(jobs):
            self._open[job.request.id] = entry
            if not task.calls[place].parents:
                self._start(loop, entry, place, task.arrived_s)

    def _start(self, loop: Loop, entry: _Open, place: int, after_s: float) -> None:
        at_s = after_s + entry.task.calls[place].pause_s
        job = entry.jobs[place].arriving(at_s)
        loop.at(at_s, lambda: loop.submit(job))

    def _ended(self, loop: Loop, done: Completed) -> None:
        entry = self._open.pop(done.request.id)
        ended = done.request.id - entry.first_id
        entry.ends_s[ended] = done.finished_s
        entry.left -= 1
        for place, call in enumerate(entry.task.calls):
            if ended in call.parents:
                entry.missing[place] -= call.parents.count(ended)
                if not entry.missing[place]:
                    # Engines report in steps: who is told of last need not have ended last.
                    self._start(loop, entry, place, max(entry.ends_s[parent] for parent in call.parents))
        if not entry.left:
            self._finish(entry)

    def _finish(self, entry: _Open) -> None:
        task = entry.task
        tokens = sum(call.output_tokens for call in task.calls)
        found = TaskDone(task.number, task.arrived_s, max(entry.ends_s.values()), len(task.calls), tokens)
        self.done += 1
        self.task_s.add(found.seconds)
        if self.each is not None:
            self.each(found)


Draw = Callable[[random.Random], int]


def chain(calls: int, own: Draw, output: Draw, draw: random.Random, pause_s: float = 0.0) -> tuple[Call, ...]:
    """Each needs the one before: a loop of thought, tool and observation."""
    return tuple(
        Call(own(draw), output(draw), (place - 1,) if place else (), pause_s if place else 0.0)
        for place in range(calls)
    )


def fan_out(
    width: int, own: Draw, output: Draw, draw: random.Random, pause_s: float = 0.0
) -> tuple[Call, ...]:
    """A plan, ``width`` calls that carry parts of it out at once, and one that reads all their answers."""
    plan = Call(own(draw), output(draw))
    parts = [Call(own(draw), output(draw), (0,), pause_s) for _ in range(width)]
    return (plan, *parts, Call(own(draw), output(draw), tuple(range(1, width + 1)), pause_s))
