"""Several answers to one prompt: it is computed once, and its blocks are shared until one is written.

Owns families of samples: who they are, how long each is, and what one request makes of their ends. A
sample that finds no block to copy into gives way and is computed again, as any sequence on a shortage.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from router.simcloud.request import Job, Request
from router.simcloud.state import Sequence, ServerState

MOST_SAMPLES = 1000


@dataclass(slots=True)
class Family:
    request: Request
    left: int
    tokens: int = 0  # of samples that have ended


@dataclass(slots=True)
class Families:
    """Of one engine. ``copies`` counts blocks that were copied because others read them."""

    copies: int = 0
    _waiting: dict[int, Job] = field(default_factory=dict)
    _of: dict[int, Family] = field(default_factory=dict)

    def expect(self, job: Job) -> None:
        if job.request.samples > 1:
            self._waiting[job.request.id] = job

    def grows(self, sequence: Sequence) -> bool:
        """Whether its prompt's end makes it several."""
        return sequence.request.id in self._waiting

    def split(self, state: ServerState, sequence: Sequence, lengths: dict[int, int]) -> list[Sequence]:
        """All samples, the first being the sequence itself; they run, and share all blocks."""
        job = self._waiting.pop(sequence.request.id)
        request = job.request
        family = Family(request, request.samples)
        sequence.request = replace(request, samples=1)
        members = [sequence]
        for sample in range(1, request.samples):
            number = -1 - (request.id * MOST_SAMPLES + sample)
            child = Sequence(
                replace(sequence.request, id=number),
                computed=sequence.computed,
                generated=sequence.generated,
                admitted_s=sequence.admitted_s,
                cached_tokens=sequence.cached_tokens,
            )
            lengths[number] = job.length_of(sample)
            state.running[number] = child
            members.append(child)
        self._of.update((member.request.id, family) for member in members)
        state.kv.fork(sequence, members[1:])
        return members

    def write(self, state: ServerState, sequence: Sequence) -> bool:
        """Its last block becomes its own; False if none is free to copy it into."""
        if state.kv.must_copy(sequence) and not state.kv.free:
            return False
        self.copies += state.kv.write(sequence)
        return True

    def ended(self, sequence: Sequence, length: int) -> tuple[Request, int] | None:
        """The request that ends with it and the other samples' tokens; None while others go on."""
        family = self._of.pop(sequence.request.id, None)
        if family is None:
            return sequence.request, 0
        family.left -= 1
        if family.left:
            family.tokens += length
            return None
        return family.request, family.tokens
