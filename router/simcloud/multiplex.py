"""Several models on one GPU: whose step is next, whose weights are in memory, and who makes room.

Owns the GPU's one clock: steps of different models follow each other, and weights that are not in
memory come in over a link first. Resident models make room least recently used first. Each model has
an engine of its own, with its own part of the KV cache, which stays when its weights leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from router.errors import InvalidSimulation
from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.engine import Engine
from router.simcloud.request import Job

HALF_PRECISION_BYTES = 2


def half_precision_bytes(parameters: float) -> float:
    return parameters * HALF_PRECISION_BYTES


@dataclass(slots=True, eq=False)
class Tenant:
    """A model on the GPU. ``used_s``: when it last ran."""

    name: str
    engine: Engine
    weight_bytes: float
    used_s: float = -1.0
    swaps: int = 0


@dataclass(frozen=True, slots=True)
class Turns:
    """A model whose weights are here runs at most ``quantum_s`` (0: one step) while another of those waits.

    One whose weights are not here comes in once nobody else has work, or its oldest request has waited
    ``patience_s``; it is then left in peace for ``patience_s``, so that weights do more than travel.
    """

    quantum_s: float = 0.0
    patience_s: float = 1.0


@dataclass(slots=True)
class Spent:
    """What the GPU's time went into; together the whole of it."""

    busy_s: float = 0.0
    swap_s: float = 0.0
    idle_s: float = 0.0


class Multiplexer:
    """``weights_room_bytes``: of the GPU's memory, what weights may take together."""

    def __init__(
        self,
        tenants: Sequence[Tenant],
        weights_room_bytes: float,
        link_bytes_per_s: float,
        turns: Turns | None = None,
    ) -> None:
        largest = max(tenant.weight_bytes for tenant in tenants)
        if largest > weights_room_bytes:
            raise InvalidSimulation(
                f"A model of {largest / 1e9:.3g} GB does not fit {weights_room_bytes / 1e9:.3g} GB.",
                "Leave more of the memory to weights, or use a larger GPU.",
            )
        self.tenants = {tenant.name: tenant for tenant in tenants}
        self.resident: dict[str, Tenant] = {}
        self.spent = Spent()
        self.now_s = 0.0
        self._room_bytes = weights_room_bytes
        self._link_bytes_per_s = link_bytes_per_s
        self._turns = turns or Turns()
        self._came_s = -math.inf  # when weights last came in
        self._served = True  # whether anything ran since: weights that only travel would do so for ever

    def run(self, jobs: Iterable[tuple[str, Job]]) -> None:
        """(Model, job) in order of arrival, until all are done."""
        coming = iter(jobs)
        following = next(coming, None)
        while True:
            while following is not None and following[1].request.arrived_s <= self.now_s + SAME_MOMENT_S:
                self._submit(*following)
                following = next(coming, None)
            next_s = math.inf if following is None else following[1].request.arrived_s
            tenant = self._next()
            if tenant is not None:
                self._serve(tenant, next_s)
            elif following is None:
                return
            else:
                self.spent.idle_s += next_s - self.now_s
                self.now_s = next_s

    def _submit(self, name: str, job: Job) -> None:
        found = self.tenants.get(name)
        if found is None:
            raise InvalidSimulation(
                f"No model is called {name!r} here.", f"There are: {', '.join(self.tenants)}."
            )
        found.engine.submit(job)

    # -- whose turn it is

    def _next(self) -> Tenant | None:
        busy = [tenant for tenant in self.tenants.values() if tenant.engine.busy]
        here = [tenant for tenant in busy if tenant.name in self.resident]
        absent = [tenant for tenant in busy if tenant.name not in self.resident]
        if absent:
            longest = min(absent, key=_oldest_s)
            rested = self.now_s >= self._came_s + self._turns.patience_s - SAME_MOMENT_S
            waited = self.now_s >= _oldest_s(longest) + self._turns.patience_s - SAME_MOMENT_S
            if not here or (self._served and rested and waited):
                return longest
        return min(here, key=lambda tenant: tenant.used_s, default=None)

    def _serve(self, tenant: Tenant, next_s: float) -> None:
        if tenant.name not in self.resident:
            self._bring(tenant)
            return
        self._served = True
        tenant.engine.wait_until(self.now_s)
        tenant.engine.advance(min(next_s, self._until_s(tenant)))
        if tenant.engine.now_s <= self.now_s:  # the next request is already here: one step all the same
            tenant.engine.step()
        self.spent.busy_s += tenant.engine.now_s - self.now_s
        self.now_s = tenant.used_s = tenant.engine.now_s

    def _until_s(self, tenant: Tenant) -> float:
        """When another one is to be looked at."""
        others = [other for other in self.tenants.values() if other is not tenant and other.engine.busy]
        if not others:
            return math.inf
        if any(other.name in self.resident for other in others):
            return self.now_s + max(self._turns.quantum_s, 2 * SAME_MOMENT_S)
        waited_s = min(map(_oldest_s, others)) + self._turns.patience_s
        return max(waited_s, self._came_s + self._turns.patience_s, self.now_s + 2 * SAME_MOMENT_S)

    # -- whose weights are here

    def _bring(self, tenant: Tenant) -> None:
        used = sum(other.weight_bytes for other in self.resident.values())
        for other in sorted(self.resident.values(), key=lambda each: each.used_s):
            if used + tenant.weight_bytes <= self._room_bytes:
                break
            used -= other.weight_bytes
            del self.resident[other.name]
        seconds = tenant.weight_bytes / self._link_bytes_per_s
        self.resident[tenant.name] = tenant
        tenant.swaps += 1
        tenant.used_s = -1.0  # it runs first
        self.spent.swap_s += seconds
        self.now_s += seconds
        self._came_s = self.now_s
        self._served = False


def _oldest_s(tenant: Tenant) -> float:
    """Arrival of the request that waits or runs longest."""
    state = tenant.engine.state
    arrivals = [each.request.arrived_s for each in state.waiting]
    arrivals += [each.request.arrived_s for each in state.running.values()]
    return min(arrivals, default=math.inf)
