"""When running sequences cannot all grow: who gives way, and who waits for nobody.

Owns the order in which victims are taken. Which scheduler asks, and what a preempted sequence
loses, is not known here.
"""

from __future__ import annotations

from router.simcloud.scheduler import Piece, Plan
from router.simcloud.state import NOT_DECODING, OrderKey, Sequence, ServerState


def preempt_in_order(state: ServerState, budget: int, victim_key: OrderKey | None) -> Plan:
    """Not all running sequences can grow: in order, each takes what it needs from the victims."""
    kv, decoding = state.kv, state.decoding
    free = kv.free
    order = list(state.running.values())
    alive = dict.fromkeys(sequence.request.id for sequence in order)
    pieces: dict[int, Piece] = {}
    needs: dict[int, int] = {}
    victims: list[Sequence] = []
    for sequence in order:
        if sequence.request.id not in alive or not _can_run(sequence, state):
            continue
        tokens = 1
        need = decoding.blocks_needed(sequence)
        if sequence.anchor == NOT_DECODING:
            tokens = max(0, min(sequence.target - sequence.computed, budget))
            need = max(0, kv.blocks_for(sequence.computed + tokens) - sequence.blocks)
        while need > free:
            victim = _victim(state, alive, victim_key)
            del alive[victim.request.id]
            victims.append(victim)
            budget += pieces.pop(victim.request.id, Piece(victim, 0)).tokens
            free += decoding.held(victim) - kv.shared_by_others(victim) + needs.pop(victim.request.id, 0)
            free += state.adapter_gives(victim, (state.running[number] for number in alive))
            if victim is sequence:
                break
        if sequence.request.id in alive:
            free -= need
            budget -= tokens
            needs[sequence.request.id] = need
            pieces[sequence.request.id] = Piece(sequence, tokens)
    prompts = [piece for piece in pieces.values() if piece.sequence.anchor == NOT_DECODING]
    computing = tuple(piece for piece in prompts if piece.tokens)
    return Plan(len(pieces) > len(prompts), computing, (), tuple(victims), repeats=1)


def preempt_for(state: ServerState, victim_key: OrderKey, room: int, free: int) -> tuple[Sequence, ...]:
    """The least urgent that run, until the queue's first can enter; nobody, unless all are less urgent."""
    first = next(iter(state.waiting))
    needs = state.kv.blocks_for(first.target) + state.adapter_needs(first, ())
    victims: list[Sequence] = []
    for victim in sorted(state.running.values(), key=victim_key, reverse=True):
        if room > 0 and needs <= free:
            break
        if victim_key(victim)[0] <= victim_key(first)[0] or not _can_run(victim, state):
            return ()
        victims.append(victim)
        free += state.decoding.held(victim) - state.kv.shared_by_others(victim)
        room += 1
    return tuple(victims) if room > 0 and needs <= free else ()


def _victim(state: ServerState, alive: dict[int, None], key: OrderKey | None) -> Sequence:
    latest_first = (state.running[number] for number in reversed(alive))
    able = (sequence for sequence in latest_first if _can_run(sequence, state))
    return next(able) if key is None else max(able, key=key)


def _can_run(sequence: Sequence, state: ServerState) -> bool:
    """Not one whose last token is being computed while this step is planned."""
    return sequence.anchor != NOT_DECODING or sequence.request.id in state.prefilling
