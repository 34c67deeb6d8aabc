"""Conversations as documents: Markdown to read, JSON to keep.

Owns both formats. Pure: gets values, returns values, and knows neither the
store nor files.

In the Markdown, content stands word for word under a heading for its role. A
message that would leave a code fence or an HTML block open, and so swallow the
headings after it, is set as one code block instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict

from localchat.history import ConversationInfo, StoredMessage

JSON_VERSION = 1


def to_json(info: ConversationInfo, messages: Iterable[StoredMessage]) -> dict[str, object]:
    """Everything that is stored, every branch given, ready for ``json.dumps``. Times are Unix seconds."""
    return {
        "format": "localchat conversation",
        "version": JSON_VERSION,
        "conversation": asdict(info),
        "messages": [asdict(message) for message in messages],
    }


def to_markdown(info: ConversationInfo, messages: Iterable[StoredMessage], *, reasoning: bool = False) -> str:
    """One branch, as ``History.path`` gives it; with the models' reasoning only when asked for."""
    blocks = ["# " + (" ".join(info.title.split()) or "Untitled conversation")]
    if info.system:
        blocks += ["## System prompt", _contained(info.system)]
    for message in messages:
        blocks += _section(message, reasoning)
    return "\n\n".join(blocks) + "\n"


def _section(message: StoredMessage, reasoning: bool) -> list[str]:
    blocks = ["## " + _heading(message)]
    if reasoning and message.reasoning:
        blocks += ["### Reasoning", _contained(message.reasoning), "### Answer"]
    if message.content:
        blocks.append(_contained(message.content))
    return blocks


def _heading(message: StoredMessage) -> str:
    name = "Summary" if message.kind == "summary" else message.role.capitalize()
    notes = [
        " ".join(message.model.split()),
        "" if message.state == "done" else message.state,
        "left out of the context" if message.excluded else "",
    ]
    said = ", ".join(filter(None, notes))
    return f"{name} ({said})" if said else name


def _contained(content: str) -> str:
    """``content`` itself, or set as code where it could reach beyond its own end."""
    return content if _ends_within_itself(content) else _as_code(content)


def _as_code(content: str) -> str:
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{content}\n{fence}"


_LINE = re.compile(r"(?P<lead>(?: |(?:[-*+]|[0-9]{1,9}[.)]) )*)(?P<rest>.*)", re.DOTALL)
_FENCE = re.compile(r"(?P<run>`{3,}(?=[^`]*$)|~{3,})", re.DOTALL)  # with a backtick behind, it is inline code
_HTML_BLOCK = re.compile(r"<[A-Za-z/!?]")  # more than https://spec.commonmark.org/0.31.2/#html-blocks allows


def _ends_within_itself(content: str) -> bool:
    """Whether every fence is closed beyond doubt and no HTML block begins outside of them.

    Not a Markdown parser: it says no to whatever lists or HTML could make
    ambiguous, and a no costs only looks.
    """
    fence, column = "", 0
    for line in re.split(r"\r\n?|\n", content):
        lead, rest = _split(line)
        if fence and rest and len(lead) < column:
            return False  # might be the end of a list, and of the fence with it
        if fence and _closes(fence, lead + rest):
            if len(lead) != column:
                return False
            fence = ""
        elif not fence:
            if _HTML_BLOCK.match(rest):
                return False
            if opening := _FENCE.match(rest):
                if lead.strip():
                    return False  # behind what might be a list's mark
                fence, column = opening["run"], len(lead)
    return not fence


def _split(line: str) -> tuple[str, str]:
    """Indentation and list marks, and what stands behind them."""
    match = _LINE.fullmatch(line.expandtabs(4).rstrip(" "))
    return (match["lead"], match["rest"]) if match else ("", line)


def _closes(fence: str, line: str) -> bool:
    run = line.strip(" ")
    return len(run) >= len(fence) and not run.strip(fence[0])
