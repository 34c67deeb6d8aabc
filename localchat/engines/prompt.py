"""Messages to the tokens of a prompt, for one model.

Knows the model's template and tokenizer; what of the prompt is in the cache
already is the generator's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localchat.engines.runtime import Runtime
from localchat.engines.template import BadTemplate, ChatTemplate, Segment, render
from router.errors import InvalidRequest
from router.request import Message


@dataclass(frozen=True, slots=True)
class Prompt:
    """``text`` is '' where a part of it must not be read for control tokens."""

    tokens: list[int]
    text: str


NEXT_STEP = "Try another file of this model."
LONG_TEXT = 4096
"""Characters from which listing all control tokens (20 ms, once) is cheaper than looking for one."""


class Prompter:
    """Compiles the model's template at the first use."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._bos, self._eos = runtime.special_text("bos"), runtime.special_text("eos")
        self._template: ChatTemplate | None = None

    def prompt(self, messages: Sequence[Message], past: Prompt) -> Prompt:
        """The templated conversation. ``past`` stands for what was generated last: where
        the new text goes on from it, its tokens are taken over.

        Raises InvalidRequest when the template does not compile, refuses the messages or
        makes nothing of them.
        """
        segments = self._segments(messages)
        text = segments[0].text if len(segments) == 1 else ""
        tokens = self._going_on(text, past) or self._tokens(segments)
        if not tokens:
            raise InvalidRequest("The prompt is empty: the model's chat template gives no text.", NEXT_STEP)
        return Prompt(tokens, text)

    def _going_on(self, text: str, past: Prompt) -> list[int]:
        if not past.text or not text.startswith(past.text):
            return []
        # The answer might tokenise otherwise on its own. What follows it begins
        # with a control token: a clean cut.
        rest = self._runtime.tokenize(text[len(past.text) :], special=True, start=False)
        return past.tokens + rest if rest and not self._runtime.piece(rest[0]) else []

    def _segments(self, messages: Sequence[Message]) -> list[Segment]:
        begun = messages[-1].content if messages and messages[-1].role == "assistant" else ""
        told = messages[:-1] if begun else messages
        try:
            self._template = self._template or ChatTemplate(self._runtime.template(), self._bos, self._eos)
            segments = render(self._template, told, self._controls_in(told))
        except BadTemplate as error:
            raise InvalidRequest(str(error), NEXT_STEP) from error
        return [*segments, Segment(begun, True)] if begun else segments

    def _controls_in(self, messages: Sequence[Message]) -> Sequence[str]:
        """The control tokens' texts where a message may hold one."""
        texts = [m.content for m in messages]
        if sum(map(len, texts)) > LONG_TEXT or any(map(self._holds_control, texts)):
            return self._runtime.control_texts()
        return ()

    def _holds_control(self, text: str) -> bool:
        read = self._runtime.tokenize
        return read(text, special=True, start=False) != read(text, special=False, start=False)

    def _tokens(self, segments: Sequence[Segment]) -> list[int]:
        tokens: list[int] = []
        for number, segment in enumerate(segments):
            start = number == 0 and not (self._bos and segment.text.startswith(self._bos))
            tokens += self._runtime.tokenize(segment.text, special=not segment.literal, start=start)
        return tokens
