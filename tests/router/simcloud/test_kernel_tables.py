"""Kernel tables in the layout of LLMServingSim: what a step is made of, and folders that are not whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.errors import InvalidSimulation
from router.simcloud.kernel_tables import KernelTables
from router.simcloud.step_cost import Chunk, Work

LAYERS = 2
KERNELS = ("qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "layernorm")
Cells = dict[tuple[int, int, int, int], float]


def attention() -> Cells:
    """Decodes take 1 us for 16 tokens each, a prompt of c after k takes c + k / 16; together they add up."""
    cells: Cells = {(0, 0, n, kv): n * kv / 16 for n in (1, 2, 4) for kv in (16, 32)}
    cells.update({(c, k, 0, 0): c + k / 16 for c in (16, 32) for k in (0, 16)})
    for c, k in ((16, 0), (16, 16), (32, 0), (32, 16)):
        for n, kv in ((1, 16), (1, 32), (2, 16), (2, 32)):
            cells[c, k, n, kv] = cells[c, k, 0, 0] + cells[0, 0, n, kv]
    return cells


def folder(path: Path, cells: Cells, kernels: tuple[str, ...] = KERNELS) -> Path:
    """Each kernel takes 1 us and 1 us a token more, the head 5 us a sequence."""
    dense = [f"{name},{tokens},{1 + tokens}" for name in (*kernels, "embedding") for tokens in (1, 64)]
    heads = [f"lm_head,{sequences},{5 * sequences}" for sequences in (1, 8)]
    rows = [f"{c},{k},{n},{kv},{us}" for (c, k, n, kv), us in cells.items()]
    for name, head, lines in (
        ("dense.csv", "layer,tokens,time_us", dense),
        ("per_sequence.csv", "layer,sequences,time_us", heads),
        ("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", rows),
    ):
        (path / name).write_text("\n".join((head, *lines)) + "\n", encoding="utf-8")
    return path


def us(cost: KernelTables, work: Work) -> float:
    return round(1e6 * cost.step_s(work), 6)


def test_a_step_of_decodes_is_its_kernels(tmp_path: Path) -> None:
    cost = KernelTables.read(folder(tmp_path, attention()), LAYERS)
    # 2 sequences of 32: a layer has 8 runs of kernels at 3 us and 4 us of attention; then embedding, heads.
    assert us(cost, Work(2, 64, sampled=2)) == LAYERS * 8 * 3 + 3 + 10 + LAYERS * 4


def test_a_prompt_shares_its_launch_with_the_decodes(tmp_path: Path) -> None:
    cost = KernelTables.read(folder(tmp_path, attention()), LAYERS)
    tokens = 1 + 32
    mixed_us = 32 + 2
    expected = LAYERS * 8 * (1 + tokens) + (1 + tokens) + 10 + LAYERS * mixed_us
    assert us(cost, Work(1, 32, (Chunk(32, 0),), sampled=2)) == expected


def test_a_kernel_that_only_some_models_have_counts_once_a_layer(tmp_path: Path) -> None:
    plain = KernelTables.read(folder(tmp_path, attention()), LAYERS)
    work = Work(1, 16, sampled=1)
    before = us(plain, work)
    normed = KernelTables.read(folder(tmp_path, attention(), (*KERNELS, "qk_norm")), LAYERS)
    assert us(normed, work) == before + LAYERS * 2


def test_holes_are_filled_from_what_was_measured_alone(tmp_path: Path) -> None:
    """These costs are proportional and add up, so every hole is filled with what it held, less one launch."""
    cells = attention()
    whole = KernelTables.read(folder(tmp_path, cells), LAYERS)
    works = [Work(4, 128, sampled=4), Work(2, 64, (Chunk(32, 16),), sampled=2)]
    before = [us(whole, work) for work in works]
    del cells[0, 0, 4, 32], cells[32, 16, 2, 32]
    holed = KernelTables.read(folder(tmp_path, cells), LAYERS)
    launch = min(cells.values())
    assert [us(holed, work) for work in works] == [before[0], before[1] - LAYERS * launch]


def test_what_cannot_be_filled_is_said(tmp_path: Path) -> None:
    cells = attention()
    del cells[0, 0, 1, 32]
    with pytest.raises(InvalidSimulation, match=r"\(0, 0, 1, 32\)"):
        KernelTables.read(folder(tmp_path, cells), LAYERS)


def test_a_mixture_of_experts_is_refused(tmp_path: Path) -> None:
    experts = tuple(kernel for kernel in KERNELS if kernel not in ("gate_up_proj", "act_fn", "down_proj"))
    with pytest.raises(InvalidSimulation, match="gate_up_proj"):
        KernelTables.read(folder(tmp_path, attention(), experts), LAYERS)
