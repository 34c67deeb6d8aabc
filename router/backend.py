"""What answers a request: one method; and what a model on this machine adds.

Knows nothing of how: an engine in a child process, an HTTP client and
:mod:`router.scripted` all look like this.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from router.request import ChatRequest, Event, Message


class Backend(Protocol):
    @property
    def model(self) -> str:
        """The name shown to a person."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """Yield Progress, Notice and Delta events, then one Finished.

        Closing the iterator, or cancelling the task that reads it, stops the
        computation before control returns.

        Raises: a :class:`router.errors.RouterError`; what was yielded before
        stays valid.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model says of itself.

    ``window_tokens`` is the context that can really be used here;
    ``trained_tokens`` what the model was trained for; ``threads`` in use for
    decoding and prefill.
    """

    name: str
    quantization: str
    parameters: int
    file_bytes: int
    window_tokens: int
    trained_tokens: int
    decode_threads: int
    prefill_threads: int
    engine: str


class LocalModel(Backend, Protocol):
    """A Backend whose model lives on this machine."""

    @property
    def info(self) -> ModelInfo | None:
        """None until the model is loaded."""
        ...

    def load(self) -> AsyncGenerator[Event, None]:
        """Load now instead of at the first request, yielding Progress. Idempotent."""
        ...

    async def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the templated prompt, by the model's own tokenizer. Loads if need be."""
        ...

    async def close(self) -> None:
        """Free the model and end its process. Idempotent; a later request loads again."""
        ...
