"""Many adapters over one model: their weights lie in the KV cache's blocks and are paged in on demand.

Owns which adapters running requests use, what bringing one in costs, and the limit on different ones
in a step. Adapters nobody uses keep their blocks as forgotten prompts do: they are taken least
recently used first (S-LoRA's unified paging). The base model's cost is another's (MixedBatches wraps it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from router.errors import InvalidSimulation
from router.simcloud.kv import KvPool
from router.simcloud.llm import Llm
from router.simcloud.request import Job, Request
from router.simcloud.step_cost import Run, StepCost, Work

MIXED_STEP_S = 0.002
"""What different adapters in one batch add to a step, however many: Punica's +2 ms a token (7B, A100)."""

PCIE_BYTES_PER_S = 25e9
"""From CPU memory: what PCIe 4.0 x16 carries of its 31.5 GB/s (nvbandwidth on A100: 24 to 26 GB/s)."""

ATTENTION_AND_FEED_FORWARD = 7
"""Matrices of a layer that an adapter changes: q, k, v, o, gate, up, down."""


def adapter_bytes(llm: Llm, rank: int) -> float:
    """Two thin matrices beside each matrix of a layer."""
    kv_width = llm.kv_heads * llm.head_width
    attention = 2 * (llm.width + llm.attention_width) + 2 * (llm.width + kv_width)
    feed_forward = llm.matrices * (llm.width + llm.inner_width)
    return llm.layers * rank * (attention + feed_forward) * llm.bytes_per_weight


@dataclass(frozen=True, slots=True)
class Lora:
    """``overlapped``: adapters come in while steps run, so a step takes the longer of the two."""

    bytes_each: float
    max_loras: int = 32
    link_bytes_per_s: float = PCIE_BYTES_PER_S
    overlapped: bool = False

    def __post_init__(self) -> None:
        if self.bytes_each <= 0 or self.max_loras < 1 or self.link_bytes_per_s <= 0:
            raise InvalidSimulation("Adapters weigh something, come over a link, and one must be allowed.")


class Adapters:
    """Those of one engine. ``blocks`` of the KV cache hold one."""

    __slots__ = ("_numbers", "blocks", "cold", "in_use", "load_s", "lora", "warm")

    def __init__(self, lora: Lora, block_bytes: float) -> None:
        self.lora = lora
        self.blocks = max(1, -int(-lora.bytes_each // block_bytes))
        self.in_use: dict[str, int] = {}  # adapter -> requests that run with it
        self.cold = self.warm = 0  # came in over the link; found
        self.load_s = 0.0
        self._numbers: dict[str, int] = {}

    def allows(self, request: Request, entering: Iterable[Request]) -> bool:
        """Whether it may run beside those that do; who may not lets others pass."""
        names = self._names(entering)
        return not request.adapter or request.adapter in names or len(names) < self.lora.max_loras

    def needs(self, request: Request, entering: Iterable[Request]) -> int:
        """Blocks no longer free once it enters, for its adapter."""
        return 0 if not request.adapter or request.adapter in self._names(entering) else self.blocks

    def gives(self, request: Request, others: Iterable[Request]) -> int:
        """Blocks free again once it leaves and only ``others`` run."""
        kept = not request.adapter or any(other.adapter == request.adapter for other in others)
        return 0 if kept else self.blocks

    def enter(self, kv: KvPool, request: Request) -> float:
        """The seconds its adapter takes to come in; 0 if it is here."""
        name = request.adapter
        if not name:
            return 0.0
        users = self.in_use.get(name, 0)
        self.in_use[name] = users + 1
        missing = 0 if users else kv.hold_all(self._keys(name))
        seconds = missing / self.blocks * self.lora.bytes_each / self.lora.link_bytes_per_s
        self.cold, self.warm = self.cold + (missing > 0), self.warm + (missing == 0)
        self.load_s += seconds
        return seconds

    def leave(self, kv: KvPool, request: Request) -> None:
        name = request.adapter
        if name:
            self.in_use[name] -= 1
            if not self.in_use[name]:
                del self.in_use[name]
                kv.let_go_all(self._keys(name))

    def _names(self, entering: Iterable[Request]) -> set[str]:
        return {*self.in_use, *(request.adapter for request in entering if request.adapter)}

    def _keys(self, name: str) -> tuple[int, ...]:
        first = self._numbers.setdefault(name, len(self._numbers)) * self.blocks
        return tuple(-2 - first - place for place in range(self.blocks))


@dataclass(frozen=True, slots=True)
class MixedBatches:
    """A base model's steps, and each different adapter's weights read once in each."""

    base: StepCost
    adapters: Adapters
    read_s: float
    mixed_s: float = MIXED_STEP_S

    def step_s(self, work: Work) -> float:
        return self.base.step_s(work) + self._extra_s()

    def decode_run(self, decodes: int, context: int) -> Run:
        run = self.base.decode_run(decodes, context)
        return Run(run.first_s + self._extra_s(), run.growth_s, run.steps)

    def _extra_s(self) -> float:
        different = len(self.adapters.in_use)
        return self.mixed_s + different * self.read_s if different else 0.0


def with_adapters(jobs: Iterable[Job], names: Iterator[str]) -> Iterator[Job]:
    """The same jobs, each with the next adapter."""
    for job, name in zip(jobs, names, strict=False):
        yield replace(job, request=replace(job.request, adapter=name))
