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
    """The request itself cannot be served: its text, schema, grammar or template.

    ``param`` is the field of an OpenAI request that is wrong, where one is.
    """

    def __init__(self, message: str, next_step: str = "", *, param: str = "") -> None:
        super().__init__(message, next_step)
        self.param = param


class ContextOverflow(RouterError):
    """The prompt does not fit the context window. Nothing was cut.

    Counts are tokens of the model's own tokenizer, chat template included.
    """

    def __init__(
        self,
        prompt_tokens: int,
        window_tokens: int,
        reserved_tokens: int = 0,
        remedy: str = "raise --ctx",
    ) -> None:
        over = prompt_tokens + reserved_tokens - window_tokens
        reserved = f" plus {reserved_tokens:,} reserved for the answer" if reserved_tokens else ""
        super().__init__(
            f"The conversation is {prompt_tokens:,} tokens{reserved}; "
            f"the window holds {window_tokens:,} ({over:,} too many).",
            f"Drop or summarise earlier turns, shorten the message, or {remedy}.",
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


class TooLarge(InvalidRequest):
    """The cloud says the request is too large for it and does not say by how much."""


class CloudError(RouterError):
    """The cloud did not answer as asked. What the server said of it is quoted as plain, short text.

    ``status`` of HTTP, None where none came; ``retry_after_s`` the wait the server asks for;
    ``may_pass``: the same request may succeed a moment later.
    """

    may_pass = False

    def __init__(
        self,
        message: str,
        next_step: str = "",
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        may_pass: bool | None = None,
    ) -> None:
        super().__init__(message, next_step)
        self.status = status
        self.retry_after_s = retry_after_s
        if may_pass is not None:
            self.may_pass = may_pass


class CloudMisconfigured(CloudError):
    """Its address, key or preset cannot be used. Nothing was sent."""


class CloudUnreachable(CloudError):
    """No connection, or one that was lost before the first byte of an answer."""

    may_pass = True


class CloudRefused(CloudError):
    """401 and 403: the key is missing, wrong, or not allowed to do this."""


class CloudModelUnknown(CloudError):
    """404: this address does not have that model, or there is no such address."""


class CloudBusy(CloudError):
    """429: too many requests or tokens; or, with ``may_pass`` False, nothing left to spend."""

    may_pass = True


class CloudFault(CloudError):
    """408 and 5xx: something went wrong over there."""

    may_pass = True


class CloudTimeout(CloudError):
    """It took longer than the settings allow; which wait it was is in the message."""


class CloudCutOff(CloudError):
    """The connection ended in the middle of the answer. What came before stays valid."""


class CloudMalformed(CloudError):
    """What came back is not the format that was agreed, or larger than anything meant to be read."""


class CloudResting(CloudError):
    """It failed several times in a row and is left alone for a while. Nothing was sent."""


class CacheUnavailable(RouterError):
    """The store of answers cannot be used. Questions go to the cloud as if there were none.

    ``unreadable``: no program can read it as it is, so nothing is lost by removing it.
    """

    def __init__(self, message: str, next_step: str = "", *, unreadable: bool = False) -> None:
        super().__init__(message, next_step)
        self.unreadable = unreadable


class EmbedderUnavailable(RouterError):
    """What recognises paraphrases is missing or not the one that was measured. Exact repeats still hit."""
