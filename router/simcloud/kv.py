"""The paged KV cache: blocks, shared prefixes, and which free block is taken next.

Owns how many blocks are free and whose content the free ones still hold. A free block
keeps its content until it is taken, least recently freed first, so that a preempted
sequence or a prompt with a known beginning finds it again. Blocks have an identity only
where it matters: shared ones a key chained over the prompt's content, a sequence's own
ones a span. Does not know steps, time or policies.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from router.errors import InvalidSimulation
from router.simcloud.request import Request

if TYPE_CHECKING:
    from router.simcloud.state import Sequence

NOBODY = -1
FIRST_FORK = 1 << 64
"""Keys of blocks that samples share begin here, above any content's hash."""


@dataclass(slots=True, eq=False)
class Span:
    """Free blocks that were freed together; the last of them is taken first."""

    count: int
    owner: int = NOBODY  # the request they belonged to, if it may come back
    start: int = 0  # which of its blocks the first one was
    key: int | None = None  # of a shared block


class KvPool:
    """``total_blocks`` as an engine counts them: one is the null block and never used.

    ``sharing`` False forgets content at once, as an engine without a prefix cache does.
    """

    __slots__ = (
        "_cached",
        "_forks",
        "_last",
        "_numbers",
        "_own",
        "_queue",
        "_references",
        "block_tokens",
        "capacity",
        "free",
        "sharing",
    )

    def __init__(self, total_blocks: int, block_tokens: int = 16, sharing: bool = True) -> None:
        if total_blocks < 2 or block_tokens < 1:
            raise InvalidSimulation(
                f"A KV cache of {total_blocks} blocks of {block_tokens} tokens holds nothing.",
                "Give at least 2 blocks (one is reserved) of at least 1 token.",
            )
        self.block_tokens = block_tokens
        self.sharing = sharing
        self.capacity = self.free = total_blocks - 1
        self._numbers = count()
        self._forks = count(FIRST_FORK)
        self._queue: dict[int, Span] = {}  # in the order they were freed
        self._last: Span | None = None  # the newest, if more may be added to it
        self._cached: dict[int, int] = {}  # shared block's key -> its number in the queue, NOBODY while held
        self._references: dict[int, int] = {}
        self._own: dict[int, int] = {}  # request that may come back -> its number in the queue
        self._append(Span(self.capacity))

    @property
    def used(self) -> int:
        return self.capacity - self.free

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    # -- what of a sequence is still here

    def cached_blocks(self, sequence: Sequence, taken: int = 0) -> int:
        """Full blocks at its beginning that need not be computed, once ``taken`` blocks more are taken.

        Never all of its tokens: the last one is computed to get the next.
        """
        if not self.sharing or not (sequence.keys or sequence.preemptions):
            return 0
        left = self._left_after(taken)
        most = (sequence.target - 1) // self.block_tokens
        found = 0
        for key in sequence.keys[:most]:
            number = self._cached.get(key)
            if number is None or left.get(number) == 0:
                break
            found += 1
        number = self._own.get(sequence.request.id)
        if number is not None and found >= self._queue[number].start:
            span = self._queue[number]
            found = max(found, span.start + left.get(number, span.count))
        return min(most, found)

    def _left_after(self, taken: int) -> dict[int, int]:
        """What taking blocks would leave of the spans it touches."""
        left: dict[int, int] = {}
        for number, span in self._queue.items():
            if taken <= 0:
                break
            left[number] = max(0, span.count - taken)
            taken -= span.count
        return left

    def shortage(self, sequence: Sequence, cached: int, tokens: int) -> int:
        """Free blocks used up when it comes to hold ``tokens``, its first ``cached`` blocks found here."""
        needed = -(-tokens // self.block_tokens) - cached
        shared = sequence.keys[:cached]
        return needed + cached - sum(1 for key in shared if key in self._references)

    def shared_by_others(self, sequence: Sequence) -> int:
        """Blocks that stay in use when this sequence gives them back."""
        return sum(1 for key in sequence.shared if self._references[key] > 1)

    def known(self, keys: tuple[int, ...]) -> int:
        """How many blocks with this content, from the first on, are here now."""
        return next((place for place, key in enumerate(keys) if key not in self._cached), len(keys))

    # -- taking

    def begin(self, sequence: Sequence, cached: int) -> None:
        """The sequence holds its cached beginning."""
        span = self._own_span(sequence)
        keys = tuple(key for key in sequence.keys[:cached] if key in self._cached)
        for key in keys:
            self._hold(key)
        sequence.shared = keys
        own = sequence.private = cached - len(keys)
        if span is not None:
            number = self._own.pop(sequence.request.id)
            span.count -= own
            span.owner = NOBODY
            self.free -= own
            if not span.count:
                self._drop(number, span)

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Blocks for ``tokens`` in all; full blocks of the prompt can be shared from now on."""
        blocks = -(-tokens // self.block_tokens) - len(sequence.shared) - sequence.private
        if blocks > 0:
            self.take(blocks)
            sequence.private += blocks
        if sequence.keys and self.sharing:
            self._publish(sequence, tokens // self.block_tokens)

    def take(self, blocks: int) -> None:
        """The ``blocks`` that were freed longest ago; what they held is forgotten."""
        assert blocks <= self.free, f"{blocks} blocks taken, {self.free} free"
        self.free -= blocks
        while blocks:
            number = next(iter(self._queue))
            span = self._queue[number]
            if span.count > blocks:
                span.count -= blocks
                return
            blocks -= span.count
            self._drop(number, span)

    def hold_all(self, keys: tuple[int, ...]) -> int:
        """Content that is no sequence's, an adapter's; how many of its blocks were not here."""
        missing = [key for key in keys if key not in self._cached]
        for key in keys:
            if key in self._cached:
                self._hold(key)
        self.take(len(missing))
        for key in missing:
            self._cached[key] = NOBODY
            self._references[key] = 1
        return len(missing)

    def let_go_all(self, keys: tuple[int, ...]) -> None:
        for key in keys:
            self._let_go(key)

    # -- several answers to one prompt

    def fork(self, sequence: Sequence, children: Several[Sequence]) -> None:
        """The children hold the same blocks, the last, unfinished one too; nothing is copied."""
        for _ in range(sequence.private):
            key = next(self._forks)
            self._cached[key] = NOBODY
            self._references[key] = 1
            sequence.shared += (key,)
        sequence.private = 0
        keys = sequence.shared[: sequence.computed // self.block_tokens]
        for each in (sequence, *children):
            each.keys = keys
        for child in children:
            child.shared = sequence.shared
            for key in child.shared:
                self._references[key] += 1

    def must_copy(self, sequence: Sequence) -> bool:
        """Whether the block its next token goes into has other readers."""
        unfinished = sequence.computed % self.block_tokens and not sequence.private
        return bool(unfinished) and self._references[sequence.shared[-1]] > 1

    def write(self, sequence: Sequence) -> bool:
        """Makes that block its own: a copy, if others read it; True if it was copied."""
        if not sequence.computed % self.block_tokens or sequence.private:
            return False
        copied, key = self.must_copy(sequence), sequence.shared[-1]
        if copied:
            self.take(1)
            self._references[key] -= 1
        else:
            del self._cached[key], self._references[key]
        sequence.shared, sequence.private = sequence.shared[:-1], 1
        return copied

    # -- giving back

    def publish(self, sequence: Sequence, keys: tuple[int, ...]) -> None:
        """What all its full blocks hold, answer included, for prompts that contain it."""
        if self.sharing:
            sequence.keys = keys
            self._publish(sequence, sequence.computed // self.block_tokens)

    def release(self, sequence: Sequence, comes_back: bool) -> None:
        """All blocks of a sequence; its last ones will be taken first."""
        full = sequence.computed // self.block_tokens - len(sequence.shared)
        keep = max(0, min(full, sequence.private)) if comes_back and self.sharing else 0
        if sequence.private > keep:
            self._append(Span(sequence.private - keep))
        if keep:
            self._append(Span(keep, sequence.request.id, len(sequence.shared)))
        self.free += sequence.private
        for key in reversed(sequence.shared):
            self._let_go(key)
        sequence.shared, sequence.private = (), 0

    def _own_span(self, sequence: Sequence) -> Span | None:
        number = self._own.get(sequence.request.id)
        return None if number is None else self._queue[number]

    def _publish(self, sequence: Sequence, full_blocks: int) -> None:
        have = len(sequence.shared)
        new: list[int] = []
        for key in sequence.keys[have:full_blocks]:
            if key in self._cached:
                break  # computed twice at once: this copy stays its own
            self._cached[key] = NOBODY
            self._references[key] = 1
            new.append(key)
        sequence.shared += tuple(new)
        sequence.private -= len(new)

    def _hold(self, key: int) -> None:
        held = self._references.get(key, 0)
        self._references[key] = held + 1
        if not held:
            del self._queue[self._cached[key]]
            self._cached[key] = NOBODY
            self.free -= 1

    def _let_go(self, key: int) -> None:
        self._references[key] -= 1
        if not self._references[key]:
            del self._references[key]
            self._append(Span(1, key=key))
            self.free += 1

    def _append(self, span: Span) -> None:
        named = span.key is not None or span.owner != NOBODY
        if not named and self._last is not None and self._last.count:
            self._last.count += span.count
            return
        number = next(self._numbers)
        self._queue[number] = span
        self._last = None if named else span
        if span.key is not None:
            self._cached[span.key] = number
        elif named:
            self._own[span.owner] = number

    def _drop(self, number: int, span: Span) -> None:
        del self._queue[number]
        span.count = 0
        if span.key is not None:
            del self._cached[span.key]
        elif span.owner != NOBODY:
            del self._own[span.owner]


def content_keys(request: Request, block_tokens: int) -> tuple[int, ...]:
    """A key for each full block of the prompt, equal exactly where all content up to its end is equal."""
    if not request.prefix:
        return ()
    size = request.prefix_block_tokens
    if size % block_tokens and block_tokens % size:
        raise InvalidSimulation(
            f"Prompts are named in pieces of {size} tokens, which blocks of {block_tokens} cut apart.",
            "Choose a block size that divides it.",
        )
    each = max(1, size // block_tokens)  # blocks a name covers
    names = max(1, block_tokens // size)  # names a block covers
    keys: list[int] = []
    chain = 0
    for index in range(request.prompt_tokens // block_tokens):
        first = index // each * names
        if first + names > len(request.prefix):
            break
        chain = hash((chain, index % each, *request.prefix[first : first + names]))
        keys.append(chain)
    return tuple(keys)
