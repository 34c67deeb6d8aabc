"""Folders of measured kernel times: which layout a folder has, and reading its columns.

Owns recognising layouts and saying what is wrong with a file. The layouts' meaning is in
``kernel_tables`` (whole kernels per layer, microseconds) and ``vidur_tables``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from router.errors import InvalidSimulation
from router.simcloud.roofline import Roofline
from router.simcloud.step_cost import StepCost


def read_tables(folder: Path, roofline: Roofline) -> StepCost:
    """The step cost that a folder's tables describe; what they leave out is the roofline's."""
    from router.simcloud.kernel_tables import KernelTables
    from router.simcloud.vidur_tables import LinearOps, VidurTables

    for place in (folder, folder / "kernels"):
        if (place / "dense.csv").is_file():
            return KernelTables.read(place, roofline.llm.layers, roofline.gpu.overhead_s)
        if found := sorted(place.glob("*linear_ops_per_layer.csv")):
            prefix = found[0].name.removesuffix("linear_ops_per_layer.csv")
            return VidurTables.read(place, prefix, roofline.llm.layers, roofline.gpu.overhead_s)
        if (place / "mlp.csv").is_file():
            return LinearOps.read(place / "mlp.csv", roofline)
    raise InvalidSimulation(
        f"{folder} holds no kernel tables that are known.",
        "It needs dense.csv, attention.csv and per_sequence.csv; or NAME_linear_ops_per_layer.csv,"
        " NAME_attn_decode_per_layer.csv and NAME_attn_prefill_per_layer.csv; or vidur's mlp.csv.",
    )


def rows(path: Path, columns: Iterable[str]) -> Iterator[dict[str, str]]:
    """Lines of a CSV file that has at least ``columns``."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise InvalidSimulation(f"{path} has no column {', '.join(missing)}.")
            yield from reader
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSimulation(f"{path} cannot be read: {error}.") from error


def number(path: Path, row: dict[str, str], column: str) -> float:
    try:
        value = float(row[column] or 0.0)
    except (ValueError, TypeError) as error:
        raise InvalidSimulation(f"{path}: {row[column]!r} in column {column} is no number.") from error
    if not 0 <= value < 1e15:
        raise InvalidSimulation(f"{path}: {value} in column {column} is out of range.")
    return value
