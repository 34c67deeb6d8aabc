"""One measurement after another: what most studies repeat.

Owns serving a workload with a deployment, a table that grows row by row, and lines made of
rows. Which points are measured and what is said of them is each study's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from router.simcloud.deployment import Deployment, build
from router.simcloud.loop import Loop
from router.simcloud.metrics import Summary
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.studies.table import Series, Table

Row = dict[str, float | str]
Point = TypeVar("Point")


def serve(
    deployment: Deployment, jobs: Iterable[Job], each: Callable[[Completed | Rejected], None] | None = None
) -> Summary:
    parts = build(deployment, each)
    Loop([parts.engine], jobs).run()
    return parts.recorder.summary()


def sweep(
    points: Sequence[Point],
    measure: Callable[[Point], Row | None],
    table: Callable[[list[Row]], Table],
    progress: Callable[[float], None],
) -> Iterator[Table]:
    """A table after every point, so that what was measured is kept when somebody stops. A point may say
    nothing, and then has no row."""
    rows: list[Row] = []
    for done, point in enumerate(points, 1):
        row = measure(point)
        if row is not None:
            rows.append(row)
        progress(done / len(points))
        yield table(rows)


def lines(rows: Iterable[Row], label: str, x: str, y: str) -> tuple[Series, ...]:
    """A line for every value in column ``label``; rows without a number in ``x`` or ``y`` are left out."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        across, up = row[x], row[y]
        if isinstance(across, int | float) and isinstance(up, int | float):
            points.setdefault(str(row[label]), []).append((float(across), float(up)))
    return tuple(
        Series(name, tuple(p[0] for p in line), tuple(p[1] for p in line)) for name, line in points.items()
    )
