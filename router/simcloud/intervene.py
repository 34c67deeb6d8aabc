"""What somebody outside may do to a request while an engine runs: hear its tokens, end it, call it off.

Owns the ways out of an engine that no scheduler plans. Does not know who asks, or real time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from router.simcloud.metrics import Recorder
from router.simcloud.moves import Step
from router.simcloud.state import NOT_DECODING, Sequence, ServerState

Tell = Callable[[Sequence, float, int], None]
"""Hears of one token: whose it is, when it is out, and how many sequences its step computed."""


@dataclass(slots=True)
class Watch:
    """Sequences whose every token is told. While one of them decodes, steps are taken singly."""

    tell: Tell
    members: dict[int, Sequence] = field(default_factory=dict)

    def decoding(self) -> list[Sequence]:
        """Those that get a token from the next step that decodes."""
        return [each for each in self.members.values() if each.anchor != NOT_DECODING]

    def out(self, step: Step, out_s: float) -> None:
        for sequence in step.watched:
            self.tell(sequence, out_s, step.sequences)
        for sequence in step.first:
            if sequence.request.id in self.members:
                self.tell(sequence, out_s, step.sequences)


@dataclass(frozen=True, slots=True, eq=False)
class Interventions:
    """``planned`` are the steps whose tokens are not out yet; ``finish`` ends a sequence now."""

    _state: ServerState
    _recorder: Recorder
    _lengths: dict[int, int]
    _planned: deque[Step]
    _finish: Callable[[Sequence], None]

    def find(self, number: int) -> Sequence | None:
        """A request that runs or waits."""
        running = self._state.running.get(number)
        if running is not None:
            return running
        return next((each for each in self._state.waiting if each.request.id == number), None)

    def end_after(self, number: int, tokens: int) -> None:
        """Its answer turns out to have so many tokens; where it has more already, it ends now.

        One that has had its last token stays as it is.
        """
        sequence = self.find(number)
        if sequence is None or self._lengths[number] == tokens:
            return
        if any(sequence in step.ends for step in self._planned):
            return
        self._lengths[number] = tokens
        if sequence.anchor == NOT_DECODING:
            return  # waits or computes its prompt: the length is looked at when that is done; or ends anyway
        group = self._state.decoding
        group.leave(sequence)
        if sequence.generated < tokens:
            group.join(sequence, tokens - sequence.generated)
        elif self._planned:
            self._planned[-1].ends.append(sequence)
        else:
            self._finish(sequence)

    def cancel(self, number: int, at_s: float) -> bool:
        """It leaves at once and gives its blocks back; False if it is not here (any more)."""
        sequence, state = self.find(number), self._state
        if sequence is None:
            return False
        if number not in state.running:
            state.waiting.remove(sequence)
        else:
            self._leave(sequence)
        del self._lengths[number]
        self._recorder.cancelled(at_s)
        return True

    def _leave(self, sequence: Sequence) -> None:
        state, number = self._state, sequence.request.id
        if sequence.anchor != NOT_DECODING:
            state.decoding.leave(sequence)
        state.prefilling.pop(number, None)
        for step in self._planned:
            for those in (step.first, step.ends, step.watched):
                if sequence in those:
                    those.remove(sequence)
        state.kv.release(sequence, comes_back=False)
        if state.adapters is not None:
            state.adapters.leave(state.kv, sequence.request)
        del state.running[number]
        state.ghosts += 1  # in a padded batch its place is computed on
