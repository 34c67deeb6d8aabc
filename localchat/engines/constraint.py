"""Which tokens a schema, expression or grammar allows next (by llguidance)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from localchat.engines.runtime import Logits
from router.errors import InvalidRequest
from router.request import ResponseFormat


class Constraint:
    """Masks logits for one answer."""

    def __init__(self, wanted: ResponseFormat, tokenizer: Any, vocabulary_size: int) -> None:
        """Raises InvalidRequest when ``wanted`` does not compile: it is never ignored."""
        from llguidance import LLMatcher

        self._wanted = wanted
        self._matcher = LLMatcher(tokenizer, _grammar(wanted), log_level=0)
        if self._matcher.is_error():
            raise _refused(wanted, self._matcher.get_error())
        self._mask = np.zeros(-(-vocabulary_size // 32), np.int32)
        self._size = vocabulary_size
        self._allowed()  # only now does it notice that nothing can match
        if self._matcher.is_error():
            raise _refused(wanted, "no text can match it")

    @property
    def complete(self) -> bool:
        """Nothing more may follow."""
        return bool(self._matcher.is_stopped())

    def apply(self, logits: Logits) -> bool:
        """Set what is not allowed to -inf; True when only one token was allowed."""
        allowed = self._allowed()
        if self._matcher.is_error():  # too complex: the mask allows the end, as if all were well
            raise _refused(self._wanted, self._matcher.get_error())
        np.copyto(logits, -np.inf, where=~allowed)
        return int(np.count_nonzero(allowed)) == 1

    def _allowed(self) -> npt.NDArray[np.bool_]:
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        return np.unpackbits(self._mask.view(np.uint8), count=self._size, bitorder="little").view(np.bool_)

    def accept(self, token: int) -> None:
        if not self._matcher.consume_token(token) and self._matcher.is_error():
            raise _refused(self._wanted, self._matcher.get_error())


def matches(wanted: ResponseFormat, text: str) -> bool:
    """Whether ``text`` as a whole is one that ``wanted`` allows; takes time in proportion to its length.

    Of a JSON schema it wants the order of properties too. Raises InvalidRequest when
    ``wanted`` does not compile.
    """
    from llguidance import LLMatcher, LLTokenizer

    matcher = LLMatcher(LLTokenizer("byte"), _grammar(wanted), log_level=0)
    if matcher.is_error():
        raise _refused(wanted, matcher.get_error())
    data = list(text.encode("utf-8", "replace"))
    return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())


def _grammar(wanted: ResponseFormat) -> str:
    from llguidance import LLMatcher

    try:
        match wanted.kind:
            case "json_schema":
                json.loads(wanted.source)
                # White space between tokens is fixed: a free one lets a model stall
                # to the token limit.
                return LLMatcher.grammar_from_json_schema(
                    wanted.source, overrides={"whitespace_flexible": False}
                )
            case "regex":
                return LLMatcher.grammar_from_regex(wanted.source)
            case "lark":
                return LLMatcher.grammar_from_lark(wanted.source)
            case "gbnf":
                from llguidance.gbnf_to_lark import any_to_lark

                return LLMatcher.grammar_from_lark(any_to_lark(wanted.source))
    except Exception as error:  # its converter raises plain ones
        raise _refused(wanted, str(error)) from error


def _refused(wanted: ResponseFormat, why: str) -> InvalidRequest:
    name = {"json_schema": "JSON schema", "regex": "regular expression"}.get(wanted.kind, "grammar")
    return InvalidRequest(f"The {name} cannot be used: {_first_words(why)}.", "Correct it and ask again.")


def _first_words(why: str) -> str:
    """Without the parser's state, which follows in <state>."""
    return why.partition("<state>")[0].strip().rstrip(".")[:500]
