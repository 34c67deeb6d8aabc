"""One replica: carries out what its scheduler plans, step by step or many steps at once.

Owns the order of events in a step and their times; what a plan does to sequences and blocks is
``moves``. Steps that only decode are taken in one
leap while nobody arrives, ends or runs out of blocks: their durations are an arithmetic
series (step_cost.Run). With ``leaps`` False every step is taken singly; the outcome is the
same to 1e-9 s. Does not know where requests come from.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from router.simcloud.clock import SAME_MOMENT_S, Clock
from router.simcloud.intervene import Interventions, Tell, Watch
from router.simcloud.kv import KvPool, content_keys
from router.simcloud.leap import series_s, steps_begun_before
from router.simcloud.lora import Adapters
from router.simcloud.metrics import Recorder
from router.simcloud.moves import Moves, Step
from router.simcloud.request import Completed, Job, Rejected, Request
from router.simcloud.sampling import Families
from router.simcloud.scheduler import Plan, Scheduler
from router.simcloud.state import NOT_DECODING, DecodeGroup, Sequence, ServerState, Waiting
from router.simcloud.step_cost import Chunk, StepCost, Work
from router.simcloud.swap import Swap


class Engine:
    def __init__(
        self,
        scheduler: Scheduler,
        cost: StepCost,
        kv: KvPool,
        recorder: Recorder,
        *,
        leaps: bool = True,
        swap: Swap | None = None,
        replica: int = 0,
        on_done: Callable[[Completed], None] | None = None,
        holds: bool = False,
        adapters: Adapters | None = None,
        lag_s: Callable[[Work], float] | None = None,
        decoding: DecodeGroup | None = None,
    ) -> None:
        """``holds``: who ends keeps its blocks until ``let_go``."""
        group = DecodeGroup(kv.block_tokens) if decoding is None else decoding
        self.state = ServerState(kv, Waiting(scheduler.order), group, adapters=adapters)
        self.scheduler = scheduler
        self.replica = replica
        self.on_done = on_done
        self._cost = cost
        self._recorder = recorder
        self._leaps = leaps
        self._lag_s = lag_s
        self._clock = Clock()
        self._lengths: dict[int, int] = {}  # true lengths: nothing that schedules reads them
        self._planned: deque[Step] = deque()
        self._done = 0
        self.families = Families()
        self._moves = Moves(self.state, recorder, self.families, self._lengths, swap)
        self.intervene = Interventions(
            self.state,
            recorder,
            self._lengths,
            self._planned,
            lambda sequence: self._finish(sequence, self.now_s),
        )
        self._watch: Watch | None = None
        self._transcripts: dict[int, tuple[int, ...]] = {}
        self._holds = holds
        self._held: dict[int, Sequence] = {}  # ended, and still in their blocks
        self._blocked = False  # a queue, and nothing to do before blocks are let go

    @property
    def now_s(self) -> float:
        return self._clock.now_s

    @property
    def busy(self) -> bool:
        if self._blocked:
            return False
        return bool(self.state.running or self.state.waiting or self._planned)

    def tell(self, listener: Callable[[Completed], None]) -> None:
        """Another one who hears what ends, after those before."""
        before = self.on_done

        def both(completed: Completed) -> None:
            if before is not None:
                before(completed)
            listener(completed)

        self.on_done = both

    def watch(self, number: int, tell: Tell) -> None:
        """Every token of a request that is here is told; the last ``tell`` given counts for all."""
        self._watch = self._watch or Watch(tell)
        sequence = self.intervene.find(number)
        if sequence is not None:
            self._watch.members[number] = sequence

    def cancel(self, number: int, at_s: float) -> bool:
        """It leaves at once and gives its blocks back; False if it is not here (any more)."""
        if self._watch is not None:
            self._watch.members.pop(number, None)
        return self.intervene.cancel(number, at_s)

    def fits(self, request: Request) -> bool:
        """Whether it could ever run here, alone."""
        kv = self.state.kv
        pages = self.state.adapters.blocks if self.state.adapters and request.adapter else 0
        return kv.blocks_for(request.bound_tokens) + pages <= kv.capacity

    def wait_until(self, at_s: float) -> None:
        """Nothing happens here before: somebody else uses the GPU, or there is nothing to do."""
        self._clock.jump(at_s)

    def let_go(self, number: int, at_s: float) -> None:
        """An ended sequence's blocks are free from ``at_s`` on."""
        if not self.busy:
            self._clock.jump(at_s)
        self._blocked = False
        self.state.kv.release(self._held.pop(number), comes_back=False)

    def receive(self, job: Job, sofar: Completed, at_s: float) -> None:
        """Queue a request whose prompt was computed elsewhere; its keys and values came with it."""
        if not self.busy:
            self._clock.jump(at_s)
        request = job.request
        self._recorder.arrived(request.arrived_s)
        self._lengths[request.id] = job.length
        keys = content_keys(request, self.state.kv.block_tokens)
        sequence = Sequence(request, generated=sofar.output_tokens, keys=keys, swapped=request.prompt_tokens)
        sequence.admitted_s, sequence.first_token_s = sofar.admitted_s, sofar.first_token_s
        sequence.cached_tokens = sofar.cached_tokens
        self.state.waiting.push(sequence)

    def submit(self, job: Job) -> Rejected | None:
        """Queue it; a request that can never fit is rejected at once."""
        request = job.request
        if not self.busy:
            self._clock.jump(request.arrived_s)
        self._recorder.arrived(request.arrived_s)
        kv = self.state.kv
        self._blocked = False
        if not self.fits(request):
            rejected = Rejected(request, request.arrived_s, "larger than the KV cache")
            self._recorder.rejected(rejected)
            return rejected
        self._lengths[request.id] = job.length
        self.families.expect(job)
        if job.transcript:
            self._transcripts[request.id] = job.transcript
        self.state.waiting.push(Sequence(request, keys=content_keys(request, kv.block_tokens)))
        return None

    def advance(self, until_s: float, stop_when_done: bool = False) -> None:
        """Plan all steps that are planned before ``until_s``; what is then running runs to its end."""
        done = self._done
        while self._clock.now_s < until_s - SAME_MOMENT_S and self._turn(until_s):
            if stop_when_done and self._done > done:
                return

    def evacuate(self) -> list[tuple[Sequence, int]]:
        """Everybody leaves this engine for good, with true lengths; what is planned still runs to its end."""
        while self._planned:
            self._execute()
        for sequence in self.state.running.values():
            if sequence.anchor != NOT_DECODING:
                self.state.decoding.leave(sequence)
        inside = [*self.state.running.values(), *self.state.waiting]
        return [(each, self._lengths[each.request.id]) for each in inside]

    def adopt(self, sequence: Sequence, length: int) -> bool:
        """Queue one that left another engine: all it had is computed again, nothing is told twice.

        False if it can never run here.
        """
        request = sequence.request
        if not self.fits(request):
            return False
        self._lengths[request.id] = length
        keys = content_keys(request, self.state.kv.block_tokens)
        moved = Sequence(request, generated=sequence.generated, keys=keys, preemptions=sequence.preemptions)
        moved.admitted_s, moved.first_token_s = sequence.admitted_s, sequence.first_token_s
        moved.cached_tokens = sequence.cached_tokens
        self.state.waiting.push(moved)
        return True

    def step(self) -> bool:
        """One step, for those who look at every one; False if there is nothing to do."""
        leaps, self._leaps = self._leaps, False
        try:
            return self._turn(math.inf)
        finally:
            self._leaps = leaps

    # -- one decision, and the time it takes

    def _turn(self, until_s: float) -> bool:
        state = self.state
        state.now_s = self._clock.now_s
        plan = self.scheduler.plan(state)
        if plan.pieces or plan.preempt or plan.admit:
            self._carry_out(plan)
        elif plan.decode and state.decoding.count:
            self._decode_only(plan, until_s)
        elif not self._planned:
            if plan.waits_until_s is not None:
                self._clock.jump(min(plan.waits_until_s, until_s))
                return True
            if state.waiting and not state.running:
                if self._held:
                    self._blocked = True
                    return False
                raise AssertionError(f"{self.scheduler.name} leaves the engine idle with a queue")
            return False
        else:
            self._execute()
            return True
        if len(self._planned) > self.scheduler.lookahead:
            self._execute()
        return True

    def _execute(self) -> None:
        """The oldest planned step runs to its end."""
        step = self._planned.popleft()
        self._clock.advance(step.seconds)
        self._recorder.stepped(step.seconds, step.sequences, step.decodes, step.waits)
        out_s = self._clock.now_s + step.lag_s
        for sequence in step.first:
            if sequence.first_token_s < 0:
                sequence.first_token_s = out_s
        if self._watch is not None:
            self._watch.out(step, out_s)
        for sequence in step.ends:
            self._finish(sequence, out_s)

    def _finish(self, sequence: Sequence, out_s: float) -> None:
        request = sequence.request
        state = self.state
        del state.running[request.id]
        if self._watch is not None:
            self._watch.members.pop(request.id, None)
        self._publish_answer(sequence)
        if self._holds:
            self._held[request.id] = sequence
        else:
            state.kv.release(sequence, comes_back=False)
        if state.adapters is not None:
            state.adapters.leave(state.kv, request)
        length = self._lengths.pop(request.id)
        state.recent_lengths.append(length)
        state.ghosts += 1
        ended = self.families.ended(sequence, length)
        if ended is None:
            return
        self._done += 1
        completed = Completed(
            ended[0],
            length,
            max(sequence.admitted_s, request.arrived_s),
            sequence.first_token_s,
            out_s,
            sequence.preemptions,
            sequence.cached_tokens,
            self.replica,
            ended[1],
        )
        self._recorder.finished(completed)
        if self.on_done is not None:
            self.on_done(completed)

    def _publish_answer(self, sequence: Sequence) -> None:
        names = self._transcripts.pop(sequence.request.id, None)
        if names is not None:
            kv = self.state.kv
            whole = replace(sequence.request, prompt_tokens=sequence.computed, prefix=names)
            kv.publish(sequence, content_keys(whole, kv.block_tokens))

    # -- steps that compute prompts, or preempt

    def _carry_out(self, plan: Plan) -> None:
        state, group, now_s = self.state, self.state.decoding, self._clock.now_s
        moved_s = sum(self._moves.preempt(victim) for victim in plan.preempt)
        step = Step(0.0, 0, 0)
        if plan.decode and group.count:
            state.kv.take(group.demand())
            step.decodes = group.count
            step.watched = self._watched()
            step.ends = group.advance(1)
        else:
            step.waits = group.count
        work_context = group.context + sum(sequence.computed for sequence in step.ends)
        moved_s += sum(self._moves.admit(admission, now_s) for admission in plan.admit)
        adapters_s = sum(self._moves.bring_adapter(admission) for admission in plan.admit)
        chunks = []
        for piece in plan.pieces:
            chunks.append(Chunk(piece.tokens, piece.sequence.computed))
            self._moves.compute(piece, step)
        sampled = step.decodes + len(step.first)
        work = Work(step.decodes, work_context if step.decodes else 0, self._padded(chunks), sampled)
        if not work.tokens and not moved_s:
            return
        compute_s = self._cost.step_s(work) if work.tokens else 0.0
        overlapped = state.adapters is not None and state.adapters.lora.overlapped
        step.seconds = moved_s + (max(compute_s, adapters_s) if overlapped else compute_s + adapters_s)
        step.sequences = step.decodes + len(chunks)
        for piece in plan.pieces:
            if self.families.grows(piece.sequence) and piece.sequence.generated:
                self._moves.fork(piece.sequence, step)
        if self._lag_s is not None:
            step.lag_s = self._lag_s(work)
        self._planned.append(step)
        self._recorder.kv_used(state.kv.used)

    # -- steps that only decode

    def _decode_only(self, plan: Plan, until_s: float) -> None:
        state, group = self.state, self.state.decoding
        decodes = group.count
        if self.scheduler.pads:
            length = state.padded_to + group.tick + 1 - state.padded_since
            members = decodes + state.ghosts
            run = self._cost.decode_run(members, members * length)
        else:
            run = self._cost.decode_run(decodes, group.context + decodes)
        steps, watched = 1, self._watched()
        if self._leaps and plan.repeats > 1 and not watched and not self._eventful():
            steps = min(plan.repeats, run.steps, group.next_end() - group.tick)
            if steps > 1:
                steps = group.ticks_within(state.kv.free, steps)
            if steps > 1:
                left_s = until_s - SAME_MOMENT_S - self._clock.now_s
                left_s -= sum(step.seconds for step in self._planned)
                steps = steps_begun_before(left_s, len(self._planned), run.first_s, run.growth_s, steps)
        state.kv.take(group.demand_over(steps))
        ends = group.advance(steps)
        self._recorder.kv_used(state.kv.used)
        if steps > 1:
            self._leap(decodes, steps, run.first_s, run.growth_s)
        last_s = run.first_s + (steps - 1) * run.growth_s
        step = Step(last_s, decodes, decodes, ends=ends, watched=watched)
        if self._lag_s is not None and ends:
            context = group.context + sum(sequence.computed for sequence in ends)
            step.lag_s = self._lag_s(Work(decodes, context, sampled=decodes))
        self._planned.append(step)

    def _padded(self, chunks: list[Chunk]) -> tuple[Chunk, ...]:
        """Prompts as they are computed: in a static batch, all as long as the longest."""
        if self.scheduler.pads and chunks:
            state = self.state
            state.padded_to = max(chunk.tokens for chunk in chunks)
            state.padded_since, state.ghosts = state.decoding.tick, 0
            return (Chunk(state.padded_to, 0),) * len(chunks)
        return tuple(chunks)

    def _watched(self) -> list[Sequence]:
        return [] if self._watch is None else self._watch.decoding()

    def _eventful(self) -> bool:
        return any(step.first or step.ends for step in self._planned)

    def _leap(self, decodes: int, steps: int, first_s: float, growth_s: float) -> None:
        """All but the last of ``steps`` have run, after those planned before."""
        while self._planned:
            self._execute()
        before = steps - 1
        self._clock.advance(series_s(before, first_s, growth_s))
        self._recorder.leapt(decodes, before, first_s, growth_s)
