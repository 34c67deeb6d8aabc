"""Step costs from a data sheet: arithmetic or memory, whichever takes longer.

Owns the formula: overhead + layers + output head + attention. Layers and head cost
max(2 N tokens / FLOPs, bytes / bandwidth); attention of decoding sequences reads their KV
cache; attention of prompts computes 4 L d c (k + c/2) for a chunk c after k held tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.simcloud.gpu import Gpu
from router.simcloud.llm import Llm
from router.simcloud.step_cost import FOREVER, Run, Work


@dataclass(frozen=True, slots=True)
class Roofline:
    llm: Llm
    gpu: Gpu
    gpus: int = 1  # tensor parallel, without the cost of talking

    def step_s(self, work: Work) -> float:
        seconds = self.gpu.overhead_s + self._part_s(self.llm.layer_parameters, work.tokens)
        return seconds + self.head_s(work.sampled) + self.attention_s(work)

    def decode_run(self, decodes: int, context: int) -> Run:
        first_s = self.step_s(Work(decodes, context, sampled=decodes))
        return Run(first_s, decodes * self._read_s(mixed=False), FOREVER)

    def head_s(self, sampled: int) -> float:
        return self._part_s(self.llm.head_parameters, sampled) if sampled else 0.0

    def attention_s(self, work: Work) -> float:
        seconds = work.context * self._read_s(mixed=bool(work.chunks))
        for tokens, cached in work.chunks:
            flops = 4 * self.llm.layers * self.llm.attention_width * tokens * (cached + tokens / 2)
            read_s = (cached + tokens) * self._read_s(mixed=True)
            seconds += max(flops / (self.gpu.flops_per_s * self.gpus), read_s)
        return seconds

    def _read_s(self, mixed: bool) -> float:
        """Seconds to read one token's keys and values."""
        return self.llm.kv_bytes_per_token / (self.gpu.attention_bytes_per_s(mixed) * self.gpus)

    def _part_s(self, parameters: int, tokens: int) -> float:
        compute_s = 2 * parameters * tokens / self.gpu.flops_per_s
        read_s = parameters * self.llm.bytes_per_weight / self.gpu.bytes_per_s
        return max(compute_s, read_s) / self.gpus
