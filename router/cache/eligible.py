"""What is never kept and never answered from what was kept, each with its reason in words.

Pure. Owns the rules for requests and for answers. Whether a text holds personal data it
asks; whether two questions mean the same is the guards' business.
"""

from __future__ import annotations

from collections.abc import Callable

from router.cache.language import OTHER
from router.cache.perishable import perishable
from router.request import ChatRequest, Finished, Message

MOST_TEMPERATURE = 0.3  # above it, two answers to one question are meant to differ
MOST_ANSWER_CHARS = 200_000
MOST_QUESTION_CHARS = 20_000

HasPersonalData = Callable[[str], bool]


def why_not_asked(
    request: ChatRequest, *, language: str, fresh: bool, has_personal_data: HasPersonalData
) -> str:
    """Why this request has nothing to do with the cache; "" where it may.

    ``language`` of the last text; ``fresh``: the user wants another answer than the one before.
    """
    if fresh:
        return "a new answer was asked for"
    if request.sampling.temperature > MOST_TEMPERATURE:
        return f"temperature {request.sampling.temperature:g} is above {MOST_TEMPERATURE:g}"
    if request.tools or any(_uses_tools(message) for message in request.messages):
        return "tools take part"
    if not request.messages or request.messages[-1].role != "user":
        return "the last message is not a question"
    return _why_not_text(request, language, has_personal_data)


def _uses_tools(message: Message) -> bool:
    return message.role == "tool" or bool(message.tool_calls or message.tool_call_id)


def _why_not_text(request: ChatRequest, language: str, has_personal_data: HasPersonalData) -> str:
    last = request.messages[-1].content
    if not last.strip():
        return "the question is empty"
    if len(last) > MOST_QUESTION_CHARS:
        return "the question is too long"
    if not _is_storable(last):
        return "the question is not valid text"
    if language == OTHER:
        return "its language is not one whose perishable questions are known"
    if any(has_personal_data(message.content) for message in request.messages):
        return "personal data"
    # A follow-up such as "and in Rome?" perishes with the question before it.
    asked = [message.content for message in request.messages if message.role == "user"]
    return next((reason for text in asked if (reason := perishable(text, language))), "")


def why_not_kept(answer: str, finished: Finished, has_personal_data: HasPersonalData) -> str:
    """Why this answer is not kept; "" where it may be."""
    if finished.finish_reason != "stop":
        return f"the answer ended with {finished.finish_reason}"
    if not answer.strip():
        return "the answer is empty"
    if len(answer) > MOST_ANSWER_CHARS:
        return "the answer is too long"
    if not _is_storable(answer):
        return "the answer is not valid text"
    return "personal data" if has_personal_data(answer) else ""


def _is_storable(text: str) -> bool:
    """Lone surrogates have no place in UTF-8, and so in the store."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
