"""What can go wrong on the way to an answer, each with the next step."""

from __future__ import annotations


class RouterError(Exception):
    """An answer could not be had. ``str()`` says what happened, ``next_step`` what to do."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} {self.next_step}".rstrip() if self.next_step else message

    @property
    def message(self) -> str:
        """What happened, without the next step."""
        return super().__str__()


class InvalidRequest(RouterError):
    """The request itself cannot be served: its text, schema, grammar or template."""


class ContextOverflow(RouterError):
    """The prompt does not fit the context window. Nothing was cut.

    Counts are tokens of the model's own tokenizer, chat template included.
    """

    def __init__(self, prompt_tokens: int, window_tokens: int, reserved_tokens: int = 0) -> None:
        over = prompt_tokens + reserved_tokens - window_tokens
        reserved = f" plus {reserved_tokens:,} reserved for the answer" if reserved_tokens else ""
        super().__init__(
            f"The conversation is {prompt_tokens:,} tokens{reserved}; "
            f"the window holds {window_tokens:,} ({over:,} too many).",
            "Drop or summarise earlier turns, shorten the message, or raise --ctx.",
        )
        self.prompt_tokens = prompt_tokens
        self.window_tokens = window_tokens
        self.reserved_tokens = reserved_tokens


class ModelUnavailable(RouterError):
    """The model cannot be loaded: missing, malformed, or too large for this machine."""


class BackendCrashed(RouterError):
    """The process that runs the model died. The next request starts a new one."""


class InvalidSimulation(RouterError):
    """A simulation was asked for that cannot be run: its file, its numbers or their combination."""
