"""Laws of the exported documents: JSON loses nothing, Markdown keeps its headings whatever was said."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from localchat.export import to_json, to_markdown
from localchat.history import ConversationInfo, History, StoredMessage
from router.request import Timings, Usage

INFO = ConversationInfo(1, "A title", "", 1.0, 2.0, 1, 1)
MESSAGE = StoredMessage(1, 1, None, "user", "", "", "done", "", 1.0, False, "message", None, None, 0, 1)

# Whatever can open something in Markdown. No "#": the headings found must be the document's own.
PIECES = [
    "```",
    "````",
    "~~~",
    "`",
    "<!--",
    "-->",
    "<div>",
    "<pre>",
    "</pre>",
    "<?",
    "<x",
    "[a]: b",
    "|",
    "\\",
]
PIECES += [
    "- ",
    "1. ",
    "7) ",
    "> ",
    "* ",
    " ",
    "   ",
    "    ",
    "\t",
    "text",
    "\n",
    "\n",
    "\n",
    "\n\n",
    "\r",
    "\0",
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def said(content: str, **changes: object) -> StoredMessage:
    return replace(MESSAGE, content=content, **changes)


def headings(document: str) -> list[str]:
    """The headings a reader of CommonMark sees at the top level, those made by underlining aside."""
    tokens = MarkdownIt("commonmark").parse(document)
    return [
        inline.content
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.markup.startswith("#")
    ]


@settings(max_examples=500, deadline=None)
@given(contents=st.lists(MARKDOWN, max_size=3), system=MARKDOWN, reasoning=MARKDOWN)
def test_nothing_said_breaks_the_headings_or_is_changed(
    contents: list[str], system: str, reasoning: str
) -> None:
    messages = [said(content, reasoning=reasoning) for content in contents]
    info = replace(INFO, system=system)
    document = to_markdown(info, [*messages, said("end", role="assistant")], reasoning=True)
    expected = ["A title", *["System prompt"] * bool(system)]
    expected += ["User", *["Reasoning", "Answer"] * bool(reasoning)] * len(contents)
    assert headings(document) == [*expected, "Assistant"]
    assert all(text in document for text in [*contents, system])


@pytest.mark.parametrize(
    "content",
    [
        "Run this:\n\n```python\nprint('<!--')\n```\n\nDone.",
        "1. First\n   ```sh\n   ls\n   ```\n2. Second",
        "~~~\n```\n~~~",
        "````md\n```\nnested\n```\n````",
        "> ```\n> quoted",
        "inline ```code``` and a < b",
    ],
)
def test_what_ends_within_itself_stays_markdown(content: str) -> None:
    assert to_markdown(INFO, [said(content)]) == f"# A title\n\n## User\n\n{content}\n"


@pytest.mark.parametrize("content", ["```\nopen", "<!-- open", "- ```\nx\n  ```", "````\n```"])
def test_what_might_not_end_is_set_as_code(content: str) -> None:
    tokens = MarkdownIt("commonmark").parse(to_markdown(INFO, [said(content)]))
    assert [token.content for token in tokens if token.type == "fence"] == [content + "\n"]


def test_headings_say_who_spoke_and_how_it_ended() -> None:
    messages = [
        said("Why?", excluded=True),
        said("Bec", role="assistant", model="qwen\n3", state="stopped", reasoning="hm"),
        said("Asked why.", role="assistant", kind="summary"),
    ]
    assert to_markdown(replace(INFO, title="", system="Be brief."), messages) == (
        "# Untitled conversation\n\n## System prompt\n\nBe brief.\n\n"
        "## User (left out of the context)\n\nWhy?\n\n"
        "## Assistant (qwen 3, stopped)\n\nBec\n\n## Summary\n\nAsked why.\n"
    )


def test_reasoning_is_exported_only_when_asked_for() -> None:
    messages = [said("42", role="assistant", reasoning="six by nine")]
    assert "six by nine" not in to_markdown(INFO, messages)
    assert "### Reasoning\n\nsix by nine\n\n### Answer\n\n42" in to_markdown(INFO, messages, reasoning=True)


@settings(max_examples=50, deadline=None)
@given(content=st.text(), reasoning=st.text())
def test_json_loses_nothing(content: str, reasoning: str) -> None:
    with History(None) as history:
        conversation = history.new_conversation(system=content)
        root = history.add(conversation.id, None, "user", content)
        for state in ("done", "failed"):
            answer = history.add(conversation.id, root.id, "assistant", "", state="streaming", model="m")
            history.update(
                answer.id,
                content=content,
                reasoning=reasoning,
                state=state,
                usage=Usage(3, 2, 1),
                timings=Timings(0.1),
            )
        info, tree = history.conversation(conversation.id), history.tree(conversation.id)
    document = json.loads(json.dumps(to_json(info, tree)))
    assert document["version"] == 1
    assert ConversationInfo(**document["conversation"]) == info
    assert [message_of(item) for item in document["messages"]] == tree


def message_of(item: dict[str, object]) -> StoredMessage:
    figures = {
        name: kind(**item[name]) if item[name] else None
        for name, kind in [("usage", Usage), ("timings", Timings)]
    }
    return StoredMessage(**{**item, **figures})
