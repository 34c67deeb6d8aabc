"""What the generation loop needs of a native runtime, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


class Aborted(Exception):
    """The computation was stopped by :meth:`Runtime.abort`."""


class LoadFailed(Exception):
    """The native library refused the file or the options."""


class Branches(Protocol):
    """Copies of what a Runtime has seen, each going on by itself, all computed together."""

    def eval(self, tokens: Mapping[int, int]) -> None:
        """Append one token each to the branches named, in one computation. Raises Aborted."""
        ...

    def logits(self, branch: int) -> Logits:
        """Of a branch that was named in the last eval; a view that the next one overwrites."""
        ...

    def close(self) -> None: ...


class Runtime(Protocol):
    """One model and one sequence of tokens it has seen (the KV cache).

    Not thread-safe, except for :meth:`abort`.
    """

    window_tokens: int

    def tokenize(self, text: str, *, special: bool, start: bool) -> list[int]:
        """Token ids. ``special``: control tokens are recognised in the text;
        ``start``: add what the model wants at the start of a sequence."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes of a token; control tokens give none."""
        ...

    def control_texts(self) -> Sequence[str]:
        """The texts that ``tokenize(special=True)`` reads as control tokens."""
        ...

    def is_end(self, token: int) -> bool: ...

    def keep(self, count: int) -> int:
        """Forget all but the first ``count`` tokens; says how many really stay
        (0 for models whose state cannot be cut)."""
        ...

    def eval(self, tokens: Sequence[int]) -> None:
        """Append tokens. Raises Aborted; then the tokens of this call are forgotten."""
        ...

    def logits(self) -> Logits:
        """Of the last token, shape [vocabulary]; a view that the next eval overwrites."""
        ...

    def branches(self, count: int, tokens: int) -> Branches:
        """``count`` copies, each with room for ``tokens`` more. To be closed. Raises LoadFailed."""
        ...

    def set_threads(self, decode: int, prefill: int) -> None: ...

    def abort(self, on: bool) -> None:
        """Stop (or allow again) any computation, from any thread."""
        ...

    def constraint_tokenizer(self) -> Any:
        """The vocabulary as llguidance wants it (built on first use)."""
        ...

    def template(self) -> str:
        """The model's own chat template, or '' when the file has none."""
        ...

    def special_text(self, which: str) -> str:
        """The text of the 'bos' or 'eos' token, or ''."""
        ...
