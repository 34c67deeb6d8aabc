"""The vectors of one partition in memory, and which of them lie nearest to another.

Owns matrices that grow by doubling. The result is that of comparing with every row, but most
rows are read to a third only: with lengths known, what the rest could add is bounded (Cauchy
and Schwarz), and a threshold is high. Rows are never moved: what has gone from the store is
found out when its row comes up.
"""

from __future__ import annotations

import numpy as np

from router.cache.embed import Vector

FIRST_ROWS = 256
ROUNDING = 1e-5  # of a sum of products in single precision
FEW = 8  # up to one row in so many is gathered; of more, the whole matrix is read


class Vectors:
    """Unit vectors under their ids."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._head_size = dimension // 3
        self._head, self._tail, self._tail_length = self._empty(FIRST_ROWS)
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
            row = self._unit(blob)
            at = len(self._ids)
            self._head[at], self._tail[at] = row[: self._head_size], row[self._head_size :]
            self._tail_length[at] = np.linalg.norm(row[self._head_size :])
            self._ids.append(entry_id)

    def drop(self, entry_id: int) -> None:
        self._gone.add(entry_id)

    def nearest(self, vector: Vector, count: int, least: float = -1.0) -> list[tuple[int, float]]:
        """Up to ``count`` ids with their cosines of at least ``least``, nearest first."""
        size = len(self._ids)
        head, tail = vector[: self._head_size], vector[self._head_size :]
        scores = self._head[:size] @ head
        at_most = scores + self._tail_length[:size] * np.float32(np.linalg.norm(tail))
        rows = np.flatnonzero(at_most >= least - ROUNDING)
        rest = self._tail[rows] @ tail if len(rows) * FEW <= size else (self._tail[:size] @ tail)[rows]
        scores = scores[rows] + rest
        found: list[tuple[int, float]] = []
        for n in np.argsort(-scores, kind="stable"):
            if scores[n] < least or len(found) == count:
                break
            if self._ids[rows[n]] not in self._gone:
                found.append((self._ids[rows[n]], float(scores[n])))
        return found

    def _unit(self, blob: bytes) -> Vector:
        if len(blob) == 4 * self._dimension:
            row = np.frombuffer(blob, dtype="<f4")
            if abs(np.linalg.norm(row.astype(np.float64)) - 1) < 1e-3:  # a NaN is no unit either
                return row
        return np.zeros(self._dimension, dtype=np.float32)

    def _empty(self, rows: int) -> tuple[Vector, Vector, Vector]:
        shapes = (rows, self._head_size), (rows, self._dimension - self._head_size), (rows,)
        head, tail, length = (np.zeros(shape, dtype=np.float32) for shape in shapes)
        return head, tail, length

    def _reserve(self, rows: int) -> None:
        size = len(self._head)
        if rows <= size:
            return
        while size < rows:
            size *= 2
        kept = self._head, self._tail, self._tail_length
        self._head, self._tail, self._tail_length = self._empty(size)
        for new, old in zip((self._head, self._tail, self._tail_length), kept, strict=True):
            new[: len(old)] = old
