"""The models the engine tests run: a tiny one with random weights, and the default one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.protocol import LoadOptions
from localchat.weights import Catalog
from tests.localchat.engines.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="session")
def default_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fails where the weights are missing: what needs them is never skipped."""
    folder = tmp_path_factory.mktemp("catalog")
    return Catalog(models=folder, cache=folder).find("default").path


@pytest.fixture(scope="session")
def real_runtime(default_model: Path) -> Iterator[LlamaRuntime]:
    """One for all tests that leave nothing behind; they begin with ``keep(0)``."""
    runtime = LlamaRuntime(LoadOptions(str(default_model), threads=1, prefill_threads=1), lambda _: True)
    yield runtime
    runtime.close()
