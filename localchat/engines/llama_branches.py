"""Several continuations of one prompt in llama.cpp, computed together: a context with shared cells.

Owns that context and its batch. Decoding is bound by reading the weights, and they are read once a call,
so that a few sequences cost little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from localchat.engines.runtime import Aborted, Logits

ABORTED = 2  # llama_decode's return value, llama.h


class LlamaBranches:
    """Implements :class:`localchat.engines.runtime.Branches`."""

    def __init__(
        self, binding: Any, context: Any, state: Any, count: int, length: int, vocabulary_size: int
    ) -> None:
        """Takes over ``context``, of ``count`` sequences; ``state`` is that of ``length`` tokens."""
        self._c, self._context = binding, context
        self._vocabulary_size = vocabulary_size
        self._lengths = [length] * count
        self._rows: dict[int, int] = {}
        self._batch = binding.llama_batch_init(count, 0, 1)
        binding.llama_state_seq_set_data(context, state, len(state), 0)
        memory = binding.llama_get_memory(context)
        for branch in range(1, count):
            binding.llama_memory_seq_cp(memory, 0, branch, -1, -1)

    def eval(self, tokens: Mapping[int, int]) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for row, (branch, token) in enumerate(tokens.items()):
            batch.token[row], batch.pos[row] = token, self._lengths[branch]
            batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, branch, 1
        code = self._c.llama_decode(self._context, batch)
        if code == ABORTED:
            raise Aborted
        if code:
            raise RuntimeError(f"llama_decode failed with {code} for {len(tokens)} branches")
        for branch in tokens:
            self._lengths[branch] += 1
        self._rows = {branch: row for row, branch in enumerate(tokens)}

    def logits(self, branch: int) -> Logits:
        pointer = self._c.llama_get_logits_ith(self._context, self._rows[branch])
        row: Logits = np.ctypeslib.as_array(pointer, (self._vocabulary_size,))
        return row

    def close(self) -> None:
        """Idempotent."""
        if self._context:
            self._c.llama_batch_free(self._batch)
            self._c.llama_free(self._context)
            self._context = None
