"""The plain state of one engine, which schedulers read: who waits, who runs, how far they are.

Owns the arithmetic that makes a step cheap: sequences that decode are counted together
(DecodeGroup), because each of them grows by one token a tick. Decides nothing.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from router.simcloud.kv import KvPool
from router.simcloud.lora import Adapters
from router.simcloud.request import Request

OrderKey = Callable[["Sequence"], tuple[float, ...]]
NOT_DECODING = -1
RECENT = 1000
"""Completed answers whose lengths are remembered, as in LightLLM's Past-Future scheduler."""


@dataclass(slots=True, eq=False)
class Sequence:
    """A request inside the engine. While it decodes, the fields are as of tick ``anchor``."""

    request: Request
    computed: int = 0  # tokens whose keys and values are held
    generated: int = 0  # tokens it has produced; survives preemption
    anchor: int = NOT_DECODING
    phase: int = NOT_DECODING  # at ticks of this remainder it needs a block; none if all is reserved
    end_tick: int = NOT_DECODING
    keys: tuple[int, ...] = ()  # what its prompt's full blocks hold, if anybody else may hold the same
    shared: tuple[int, ...] = ()  # keys of blocks it shares, in order
    private: int = 0  # blocks of its own
    reserved: bool = False  # holds blocks up to its bound
    swapped: int = 0  # tokens whose keys and values wait outside of the GPU
    cached_tokens: int = 0
    preemptions: int = 0
    admitted_s: float = -1.0
    first_token_s: float = -1.0

    @property
    def target(self) -> int:
        """Tokens to be held before it can produce the next one."""
        return self.request.prompt_tokens + self.generated

    @property
    def blocks(self) -> int:
        return len(self.shared) + self.private


class Waiting:
    """The queue: in order of arrival, or by ``key`` (smallest first). Preempted ones go to the front."""

    __slots__ = ("_items", "_key")

    def __init__(self, key: OrderKey | None = None) -> None:
        self._key = key
        self._items: deque[Sequence] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._items)

    def push(self, sequence: Sequence) -> None:
        if self._key is None:
            self._items.append(sequence)
        else:
            insort(self._items, sequence, key=self._key)

    def put_back(self, sequence: Sequence) -> None:
        if self._key is None:
            self._items.appendleft(sequence)
        else:
            insort(self._items, sequence, key=self._key)

    def remove(self, sequence: Sequence) -> None:
        if self._items[0] is sequence:
            self._items.popleft()
        else:
            self._items.remove(sequence)


class DecodeGroup:
    """Sequences that produce one token a tick, known by their sums.

    A sequence with c tokens held at tick D needs a block at each tick T with
    (T - D + c - 1) divisible by the block size: ``phases`` counts them by T's remainder.
    """

    __slots__ = ("_end_ticks", "block_tokens", "context", "count", "ends", "phases", "tick")

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.tick = 0
        self.count = 0
        self.context = 0  # tokens held by all of them
        self.phases = [0] * block_tokens
        self.ends: dict[int, list[Sequence]] = {}
        self._end_ticks: list[int] = []

    @property
    def tokens(self) -> int:
        """Computed in a tick, of a step's budget."""
        return self.count

    def join(self, sequence: Sequence, steps_left: int) -> None:
        """From the next tick on, for ``steps_left`` ticks."""
        tick = self.tick
        sequence.anchor = tick
        self.count += 1
        self.context += sequence.computed
        if not sequence.reserved:
            sequence.phase = phase = (tick + 1 - sequence.computed) % self.block_tokens
            self.phases[phase] += 1
        end = sequence.end_tick = tick + steps_left
        found = self.ends.get(end)
        if found is None:
            self.ends[end] = [sequence]
            heapq.heappush(self._end_ticks, end)
        else:
            found.append(sequence)

    def leave(self, sequence: Sequence) -> None:
        """Brings the sequence's own fields up to this tick."""
        self._settle(sequence)
        self.ends[sequence.end_tick].remove(sequence)

    def _settle(self, sequence: Sequence) -> None:
        ticks = self.tick - sequence.anchor
        sequence.computed += ticks
        sequence.generated += ticks
        sequence.anchor = NOT_DECODING
        self.count -= 1
        self.context -= sequence.computed
        if sequence.phase != NOT_DECODING:
            self.phases[sequence.phase] -= 1
            sequence.phase = NOT_DECODING
            sequence.private = -(-sequence.computed // self.block_tokens) - len(sequence.shared)

    def advance(self, ticks: int) -> list[Sequence]:
        """All of them by ``ticks``; returns those that end with the last, no longer in the group."""
        self.tick += ticks
        self.context += ticks * self.count
        ended = self.ends.pop(self.tick, None)
        if ended is None:
            return []
        for sequence in ended:
            self._settle(sequence)
        return ended

    def next_end(self) -> int:
        """The tick at which the next sequence ends."""
        while self._end_ticks:
            tick = self._end_ticks[0]
            if self.ends.get(tick):
                return tick
            heapq.heappop(self._end_ticks)
            self.ends.pop(tick, None)
        return self.tick

    def demand(self) -> int:
        """Blocks needed for the next tick."""
        return self.phases[(self.tick + 1) % self.block_tokens]

    def demand_over(self, ticks: int) -> int:
        cycles, rest = divmod(ticks, self.block_tokens)
        start = self.tick + 1
        needed = cycles * sum(self.phases)
        for offset in range(rest):
            needed += self.phases[(start + offset) % self.block_tokens]
        return needed

    def ticks_within(self, free_blocks: int, at_most: int) -> int:
        """For how many ticks ``free_blocks`` suffice."""
        growing = sum(self.phases)
        if not growing:
            return at_most
        cycles, left = divmod(free_blocks, growing)
        ticks = cycles * self.block_tokens
        if ticks >= at_most:
            return at_most
        start = self.tick + 1
        while ticks < at_most:
            left -= self.phases[(start + ticks) % self.block_tokens]
            if left < 0:
                break
            ticks += 1
        return ticks

    def computed(self, sequence: Sequence) -> int:
        """Tokens held by a sequence now, in the group or not."""
        if sequence.anchor == NOT_DECODING:
            return sequence.computed
        return sequence.computed + self.tick - sequence.anchor

    def generated(self, sequence: Sequence) -> int:
        if sequence.anchor == NOT_DECODING:
            return sequence.generated
        return sequence.generated + self.tick - sequence.anchor

    def held(self, sequence: Sequence) -> int:
        """Blocks held by a sequence now."""
        if sequence.phase == NOT_DECODING:
            return sequence.blocks
        return -(-self.computed(sequence) // self.block_tokens)

    def blocks_needed(self, sequence: Sequence) -> int:
        """By one sequence, at the next tick."""
        return int(sequence.phase == (self.tick + 1) % self.block_tokens)


class RecentLengths:
    """Lengths of the answers that completed last, at most ``RECENT``, also in order of length."""

    __slots__ = ("_latest", "_sorted")

    def __init__(self) -> None:
        self._latest: deque[int] = deque()
        self._sorted: list[int] = []

    def append(self, length: int) -> None:
        if len(self._latest) == RECENT:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._latest.append(length)
        insort(self._sorted, length)

    def at(self, place: float, above: int) -> int | None:
        """The length at ``place`` (0 to 1) among those longer than ``above``; None if none is."""
        first = bisect_right(self._sorted, above)
        longer = len(self._sorted) - first
        return self._sorted[first + int(place * longer)] if longer else None


@dataclass(slots=True, eq=False)
class ServerState:
    """Everything a scheduler may look at. ``running`` is in order of admission."""

    kv: KvPool
    waiting: Waiting
    decoding: DecodeGroup
    now_s: float = 0.0
    running: dict[int, Sequence] = field(default_factory=dict)
    prefilling: dict[int, Sequence] = field(default_factory=dict)
    ghosts: int = 0  # members of a static batch that are done and still computed, as padding
    padded_to: int = 0  # length of a static batch's longest member when it began to decode
    padded_since: int = 0  # and the tick of that
    adapters: Adapters | None = None
    recent_lengths: RecentLengths = field(default_factory=RecentLengths)

    @property
    def seats(self) -> int:
        """Sequences that run or will, once prompts with several samples are computed."""
        return len(self.running) + sum(each.request.samples - 1 for each in self.prefilling.values())

    def adapter_allowed(self, sequence: Sequence, entering: Iterable[Sequence]) -> bool:
        if self.adapters is None or not sequence.request.adapter:
            return True
        return self.adapters.allows(sequence.request, (each.request for each in entering))

    def adapter_needs(self, sequence: Sequence, entering: Iterable[Sequence]) -> int:
        """Blocks its adapter takes when it enters after ``entering``."""
        if self.adapters is None or not sequence.request.adapter:
            return 0
        return self.adapters.needs(sequence.request, (each.request for each in entering))

    def adapter_gives(self, sequence: Sequence, others: Iterable[Sequence]) -> int:
        """Blocks its adapter gives back when only ``others`` stay."""
        if self.adapters is None or not sequence.request.adapter:
            return 0
        return self.adapters.gives(sequence.request, (each.request for each in others))
