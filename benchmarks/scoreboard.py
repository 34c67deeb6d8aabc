"""Published runs of llama.cpp as values: which device, which model, how fast.

Owns the reading of scoreboard.csv, and of any file with its columns. The facts stand
there as their sources print them, each row with its source. Fits and predicts nothing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bandwidth_model.attention import Attention
from bandwidth_model.devices import Device, Silicon, candidates
from bandwidth_model.shape import NO_WEIGHTS, LayerShape, ModelShape

SCOREBOARD = Path(__file__).with_name("scoreboard.csv")
GIB = 2**30

# config.json of each model: layers, query heads, KV heads, head size, window, every n-th layer full.
_DIMENSIONS: Mapping[str, tuple[int, ...]] = {
    "llama-2-7b": (32, 32, 32, 128),
    "llama-2-13b": (40, 40, 40, 128),
    "llama-3-8b": (32, 32, 8, 128),
    "llama-3-70b": (80, 64, 8, 128),
    "llama-3.2-1b": (16, 32, 8, 64),
    "llama-3.2-3b": (28, 24, 8, 128),
    "tinyllama-1.1b": (22, 32, 4, 64),
    "qwen2.5-0.5b": (24, 14, 2, 64),
    "qwen2.5-1.5b": (28, 12, 2, 128),
    "qwen2.5-3b": (36, 16, 2, 128),
    "qwen2.5-7b": (28, 28, 4, 128),
    "qwen2.5-14b": (48, 40, 8, 128),
    "qwen2.5-32b": (64, 40, 8, 128),
    "qwen2.5-72b": (80, 64, 8, 128),
    "qwen3-1.7b": (28, 16, 8, 128),
    "qwen3-4b": (36, 32, 8, 128),
    "qwen3-8b": (36, 32, 8, 128),
    "qwen3-30b-a3b": (48, 32, 4, 128),
    "gemma-3-4b": (34, 8, 4, 256, 1024, 6),
    "gpt-oss-20b": (24, 64, 8, 64, 128, 2),
    "gpt-oss-120b": (36, 64, 8, 64, 128, 2),
}
_SAME_AS = {
    "qwen0.5b": "qwen2.5-0.5b",
    "qwen1.5b": "qwen2.5-1.5b",
    "qwen3b": "qwen2.5-3b",
    "kimi-dev-72b": "qwen2.5-72b",
}
# Model cards: parameters that one token uses, where not all of them.
_ACTIVE = {"gpt-oss-20b": 3.6e9, "gpt-oss-120b": 5.1e9, "qwen3-30b-a3b": 3.3e9}
_UNKNOWN_LAYERS = 32
_SILICON: Mapping[str, Silicon] = {"cpu": "cpu", "apple": "apple", "phone": "phone", "sbc": "cpu"}


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One row; no two are the same.

    ``prompt_tokens`` is what the prefill rate is for, ``depth`` the mean one of the decoded tokens.
    """

    device: Device
    shape: ModelShape
    named: str
    depth: float
    threads: int | None
    flash_attention: bool
    tokens_per_s: float
    prompt_tokens: int
    prefill_tokens_per_s: float | None
    source: str


def runs(path: Path = SCOREBOARD) -> list[Run]:
    """All rows that say how many bytes a token reads and on what."""
    with path.open(newline="", encoding="utf-8") as file:
        return [run for row in csv.DictReader(file) if (run := _run(row)) is not None]


def _run(row: Mapping[str, str]) -> Run | None:
    device = _device(row)
    if device is None or not row.get("read_GB_per_tok") or not row.get("tg_tps"):
        return None
    prompt, depth = _tokens(row)
    backend = row.get("backend", "")
    return Run(
        device=device,
        shape=_shape(row),
        named=row["device"],
        depth=depth,
        threads=int(row["threads"]) if row.get("threads") else None,
        # llama.cpp's own default was off until August 2025; these rows say so where it was on
        flash_attention="noFA" not in backend and ("FA" in backend or "ollama" in backend),
        tokens_per_s=float(row["tg_tps"]),
        prompt_tokens=prompt,
        prefill_tokens_per_s=float(row["pp_tps"]) if row.get("pp_tps") else None,
        source=row.get("source", ""),
    )


def _tokens(row: Mapping[str, str]) -> tuple[int, float]:
    """Prompt length, and mean depth of the decoded tokens: half of them, after those already there."""
    test, column = row.get("test", ""), row.get("n_ctx_or_depth", "")
    generated = re.match(r"tg(\d+)(?:@d(\d+))?", test)
    if generated is None:
        return 512, float(column or 64)
    before = int(generated[2] or 0)
    if generated[2]:
        return 2048, before + int(generated[1]) / 2
    count = int(generated[1])
    return (count if column else 512), float(column or count / 2)


def _device(row: Mapping[str, str]) -> Device | None:
    """From the table by its published name; else from the row's own bandwidth."""
    name, silicon = row["device"], _SILICON.get(row["kind"], "gpu")
    named = re.sub(r"Nvidia (?=\d{4}\b)", "RTX ", name)
    for text in (*re.findall(r"\(([^)]*)\)", named), named):
        found = candidates(text)
        if len(found) == 1:
            is_gpu_of_it = silicon == "gpu" and found[0].silicon == "cpu"
            return replace(found[0], silicon="gpu", flops_per_s=None) if is_gpu_of_it else found[0]
    if not row.get("peak_bw_GBps"):
        return None
    bandwidth = float(row["peak_bw_GBps"]) * 1e9
    return Device(name, "desktop", silicon, name, bandwidth, (), row.get("source", ""), "row")


def _shape(row: Mapping[str, str]) -> ModelShape:
    model = _SAME_AS.get(row["model"], row["model"])
    read_bytes = float(row["read_GB_per_tok"]) * 1e9
    kind = re.sub(r"_[SML]$", "", row["quant"])
    count = int(row.get("n_layer") or 0) or _DIMENSIONS.get(model, (_UNKNOWN_LAYERS,))[0]
    parameters = float(row.get("params_B") or 0) * 1e9
    active = _ACTIVE.get(model, parameters or read_bytes * 8 / 4.8)
    layers = tuple(
        LayerShape({kind: read_bytes / count}, round(read_bytes / count), round(active / count), attention)
        for attention in _attentions(model, count)
    )
    return ModelShape(
        name=model,
        architecture="",
        quantization=row["quant"],
        layers=layers,
        head=NO_WEIGHTS,
        parameters=round(parameters),
        file_bytes=round(float(row.get("file_GiB") or 0) * GIB or read_bytes),
    )


def _attentions(model: str, count: int) -> Iterator[Attention | None]:
    known = _DIMENSIONS.get(model)
    for index in range(count):
        if known is None:
            yield None
            continue
        heads, kv_heads, width = known[1:4]
        slides = len(known) > 4 and index % known[5] < known[5] - 1
        yield Attention(heads, kv_heads, width, width, known[4] if slides else None)
