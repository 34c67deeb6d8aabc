"""A deployment described in plain values, and the parts built and joined from it.

Owns defaults and the checks of parameters against each other. Does not run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from router.errors import InvalidSimulation
from router.simcloud.additions import NONE, Additions, equip
from router.simcloud.engine import Engine
from router.simcloud.gpu import Gpu, find_gpu
from router.simcloud.kv import KvPool
from router.simcloud.llm import Llm, find_llm
from router.simcloud.lora import Adapters, Lora, MixedBatches
from router.simcloud.metrics import Recorder, ServiceLevel
from router.simcloud.request import Completed, Rejected
from router.simcloud.roofline import Roofline
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers import BLOCK_TOKENS, Options, by_name
from router.simcloud.step_cost import StepCost
from router.simcloud.swap import Swap

MEMORY_SHARE = 0.9
"""Of a GPU's memory, what an engine may use (vLLM's default gpu_memory_utilization)."""

ACTIVATION_BYTES = 1.25e9
"""What weights and KV cache leave unused of that: 22.7 less 16.1 and 5.4 GB (vLLM 0.19 on an RTX 4090)."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """``kv_blocks`` None: as many as fit beside the weights. ``kernels``: a folder of measured tables."""

    model: str = "llama-3-8b"
    gpu: str = "a100"
    policy: str = "vllm"
    kernels: Path | None = None
    kv_blocks: int | None = None
    block_tokens: int | None = None
    gpus: int = 1
    usd_per_hour: float | None = None
    prefix_cache: bool = True
    leaps: bool = True
    swap_bytes_per_s: float | None = None  # None: preempted sequences are computed again
    level: ServiceLevel | None = None
    lora: Lora | None = None
    additions: Additions = NONE
    options: Mapping[str, object] = field(default_factory=dict)  # of the policy, see schedulers.Options

    @property
    def scheduler(self) -> Scheduler:
        return by_name(self.policy, Options(**self.options))  # type: ignore[arg-type]  # checked by its own type


@dataclass(frozen=True, slots=True)
class Parts:
    engine: Engine
    recorder: Recorder
    scheduler: Scheduler
    cost: StepCost
    kv: KvPool


def build(
    deployment: Deployment,
    each: Callable[[Completed | Rejected], None] | None = None,
    replica: int = 0,
    holds: bool = False,
    record: type[Recorder] = Recorder,
) -> Parts:
    if deployment.gpus < 1 or not (deployment.swap_bytes_per_s is None or deployment.swap_bytes_per_s > 0):
        raise InvalidSimulation("There must be at least one GPU, and a link that carries something.")
    llm, gpu = find_llm(deployment.model), find_gpu(deployment.gpu)
    scheduler = deployment.scheduler
    block_tokens = deployment.block_tokens
    if block_tokens is None:
        block_tokens = BLOCK_TOKENS.get(deployment.policy, 16)
    if block_tokens < 1:
        raise InvalidSimulation(f"Blocks of {block_tokens} tokens hold nothing.", "Give at least 1.")
    blocks = deployment.kv_blocks
    if blocks is None:
        blocks = fitting_blocks(llm, gpu, deployment.gpus, block_tokens, _draft(deployment))
    kv = KvPool(blocks, block_tokens, deployment.prefix_cache)
    price = gpu.usd_per_hour if deployment.usd_per_hour is None else deployment.usd_per_hour
    recorder = record(
        kv.capacity,
        level=deployment.level,
        usd_per_hour=None if price is None else price * deployment.gpus,
        each=each,
    )
    draft = _draft(deployment)
    added = deployment.additions
    if added.speculation is not None and scheduler.pads:
        raise InvalidSimulation(f"{scheduler.name} pads its batches: speculation is not simulated there.")
    draft_cost = None if draft is None else Roofline(draft, gpu, deployment.gpus)
    equipped = equip(added, step_cost(llm, gpu, deployment), draft_cost, block_tokens)
    rate = deployment.swap_bytes_per_s
    swap = None if rate is None else Swap(llm.kv_bytes_per_token, rate)
    cost, adapters = equipped.cost, None
    if deployment.lora is not None:
        adapters = Adapters(deployment.lora, llm.kv_bytes_per_token * block_tokens)
        cost = MixedBatches(cost, adapters, deployment.lora.bytes_each / (gpu.bytes_per_s * deployment.gpus))
    engine = Engine(
        scheduler,
        cost,
        kv,
        recorder,
        leaps=deployment.leaps,
        swap=swap,
        replica=replica,
        holds=holds,
        adapters=adapters,
        lag_s=equipped.lag_s,
        decoding=equipped.decoding,
    )
    return Parts(engine, recorder, scheduler, cost, kv)


def _draft(deployment: Deployment) -> Llm | None:
    added = deployment.additions
    return None if added.speculation is None or added.draft is None else find_llm(added.draft)


def step_cost(llm: Llm, gpu: Gpu, deployment: Deployment) -> StepCost:
    roofline = Roofline(llm, gpu, deployment.gpus)
    if deployment.kernels is None:
        return roofline
    from router.simcloud.tables import read_tables

    return read_tables(deployment.kernels, roofline)


def fitting_blocks(llm: Llm, gpu: Gpu, gpus: int, block_tokens: int, draft: Llm | None = None) -> int:
    """Blocks of KV cache that fit beside the weights, those of a draft model with them."""
    usable = max(gpu.device.memory_bytes) * gpus * MEMORY_SHARE
    models = (llm,) if draft is None else (llm, draft)
    left = usable - sum(each.weight_bytes for each in models) - ACTIVATION_BYTES * gpus
    blocks = int(left / (sum(each.kv_bytes_per_token for each in models) * block_tokens))
    if blocks < 2:
        raise InvalidSimulation(
            f"{llm.name} ({llm.weight_bytes / 1e9:.0f} GB of weights) does not fit {gpus} {gpu.device.name}.",
            "Use a larger GPU, more of them (--gpus), or give --kv-blocks.",
        )
    return blocks
