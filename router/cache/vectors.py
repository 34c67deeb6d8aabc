"""The vectors of one partition in memory, and which of them lie nearest to another.

Owns a matrix that grows by doubling; every product is computed, nothing is approximated.
Rows are never moved: what has gone from the store is found out when its row comes up.
"""

from __future__ import annotations

import numpy as np

from router.cache.embed import Vector

FIRST_ROWS = 256


class Vectors:
    """Unit vectors under their ids."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._matrix = np.zeros((FIRST_ROWS, dimension), dtype=np.float32)
        self._ids: list[int] = []
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._ids) - len(self._gone)

    @property
    def last_id(self) -> int:
        return self._ids[-1] if self._ids else 0

    def extend(self, ids: list[int], blobs: list[bytes]) -> None:
        """Ids must rise. A row that is no unit vector of this size matches nothing."""
        self._reserve(len(self._ids) + len(ids))
        for entry_id, blob in zip(ids, blobs, strict=True):
            row = self._matrix[len(self._ids)]
            row[:] = 0.0
            if len(blob) == 4 * self._dimension:
                given = np.frombuffer(blob, dtype="<f4")
                is_unit = abs(np.linalg.norm(given.astype(np.float64)) - 1) < 1e-3
                row[:] = given if is_unit else 0.0  # a NaN is no unit either
            self._ids.append(entry_id)

    def drop(self, entry_id: int) -> None:
        self._gone.add(entry_id)

    def nearest(self, vector: Vector, count: int, least: float = -1.0) -> list[tuple[int, float]]:
        """Up to ``count`` ids with their cosines of at least ``least``, nearest first."""
        scores = self._matrix[: len(self._ids)] @ vector
        wanted = count + len(self._gone)
        many = len(scores) > wanted
        rows = np.argpartition(scores, -wanted)[-wanted:] if many else np.arange(len(scores))
        ordered = rows[np.argsort(-scores[rows], kind="stable")]
        found = [(self._ids[row], float(scores[row])) for row in ordered if scores[row] >= least]
        return [(entry_id, score) for entry_id, score in found if entry_id not in self._gone][:count]

    def _reserve(self, rows: int) -> None:
        size = len(self._matrix)
        if rows <= size:
            return
        while size < rows:
            size *= 2
        grown = np.zeros((size, self._dimension), dtype=np.float32)
        grown[: len(self._ids)] = self._matrix[: len(self._ids)]
        self._matrix = grown
