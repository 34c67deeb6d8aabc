"""The same rows through llama.cpp's own sampler chain: the same tokens are left."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from localchat.engines.llama_binding import load_binding
from localchat.engines.sampler import Sampler
from router.request import Sampling
from tests.localchat.engines import reference

rows = st.lists(st.floats(-15, 15, width=32), min_size=1, max_size=12, unique=True)


def through_llama_cpp(logits: Sequence[float], *stages: Any, past: Sequence[int] = ()) -> dict[int, float]:
    """Logits by token of what the chain leaves."""
    c = load_binding()
    data = (c.llama_token_data * len(logits))(*[(n, value, 0.0) for n, value in enumerate(logits)])
    array = c.llama_token_data_array(data, len(logits), -1, False)
    chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
    try:
        for stage in stages:
            c.llama_sampler_chain_add(chain, stage)
        for token in past:
            c.llama_sampler_accept(chain, token)
        c.llama_sampler_apply(chain, ctypes.byref(array))
        return {array.data[n].id: array.data[n].logit for n in range(array.size)}
    finally:
        c.llama_sampler_free(chain)


@given(rows, st.integers(0, 13), st.floats(0.05, 1.0), st.floats(0.0, 1.0))
def test_the_same_tokens_are_left(logits: list[float], top_k: int, top_p: float, min_p: float) -> None:
    sampling = Sampling(1e6, top_p, top_k, min_p, seed=0)
    assume(not reference.on_an_edge(logits, sampling))
    c = load_binding()
    left = through_llama_cpp(
        logits,
        c.llama_sampler_init_top_k(top_k),
        c.llama_sampler_init_top_p(top_p, 1),
        c.llama_sampler_init_min_p(min_p, 1),
    )
    sampler, row = Sampler(sampling), np.array(logits, np.float32)
    assert {sampler.draw(row) for _ in range(40 * len(logits))} == set(left)


@given(rows, st.lists(st.integers(0, 11), max_size=100))
def test_the_same_penalties(logits: list[float], past: list[int]) -> None:
    past = [token % len(logits) for token in past]
    penalties = load_binding().llama_sampler_init_penalties(len(logits), 64, 1.3, 0.2, 0.4)
    theirs = through_llama_cpp(logits, penalties, past=past)
    sampler = Sampler(Sampling(repeat_penalty=1.3, frequency_penalty=0.2, presence_penalty=0.4))
    row = np.array(logits, np.float32)
    for token in past:
        sampler.accept(token)
    sampler.penalise(row)
    assert row.tolist() == pytest.approx([theirs[n] for n in range(len(logits))], abs=1e-4)
