"""What leaves holds nothing of what was found, and the answer has it again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.wire import Dialect, request_to_json
from router.errors import CloudCutOff, RouterError
from router.privacy import Redaction, Restorer, preview, redact, restored, scan
from router.privacy.folding import fold
from router.privacy.scanning import texts
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    Message,
    ResponseFormat,
    Sampling,
    TokenScore,
    ToolCall,
    Tools,
)
from tests.router.privacy.values import EXAMPLES, PAIRS, PRIVATE_KEY

DIALECT = Dialect()
VALUES = [value for _, value in PAIRS]
FILLING = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [*VALUES, "<EMAIL_1>", "<CARD_2>", "<", ">", "<EMAIL_", "1", " ", "\u200b", "@", "\\u0031"]
    ),
    st.sampled_from(["call 467 3395 ", "467 3395", "password: hunter2hunter ", "hunter2hunter"]),
)
SOME_TEXT = st.lists(FILLING, max_size=8).map("".join)


def ask(*contents: str) -> ChatRequest:
    return ChatRequest(tuple(Message("user", content) for content in contents))


@given(st.lists(SOME_TEXT, min_size=1, max_size=3))
def test_restoring_undoes_redacting(contents: list[str]) -> None:
    request = ask(*contents)
    hidden, redaction = redact(request)
    assert tuple(redaction.restore(message.content) for message in hidden.messages) == tuple(contents)


@given(st.lists(SOME_TEXT, min_size=1, max_size=3))
def test_nothing_of_a_found_value_is_left(contents: list[str]) -> None:
    request = ask(*contents)
    found = [request.messages[f.place.index].content[f.start : f.end] for f in scan(request)]
    hidden, _ = redact(request)
    left = [fold(text).text for _, text in texts(hidden)]
    for value in (fold(each).text for each in found):
        if len(value) >= 6:
            assert not [text for text in left if value in text]


@given(SOME_TEXT, st.data())
def test_any_cutting_restores_alike(content: str, data: st.DataObject) -> None:
    _, redaction = redact(ask(content, "ada@example.org", "4111111111111111"))
    answer = data.draw(
        st.lists(
            st.one_of(
                st.text(max_size=5),
                st.sampled_from(
                    [*redaction.hidden, "<", "<EMAIL", "<EMAIL_", "<<", "<EMAIL_1", "1>", "<CARD_99>"]
                ),
            )
        ).map("".join)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)))))
    restorer = Restorer(redaction.hidden)
    pieces = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    assert "".join(map(restorer.feed, pieces)) + restorer.end() == redaction.restore(answer)


def test_one_value_one_placeholder() -> None:
    hidden, redaction = redact(ask("ada@example.org or bob@example.org", "Yes, ada@example.org"))
    assert [message.content for message in hidden.messages] == ["<EMAIL_1> or <EMAIL_2>", "Yes, <EMAIL_1>"]
    assert redaction.counts == {"email": 2}
    assert redaction.restore("Write to <EMAIL_2>.") == "Write to bob@example.org."
    assert "example.org" not in repr(redaction)


def test_a_placeholder_that_stands_there_already_is_not_used() -> None:
    text = "<EMAIL_1> is how it looks; \uff1cEMAIL_2\uff1e too. Mine: ada@example.org"
    _hidden, redaction = redact(ask(text))
    assert list(redaction.hidden) == ["<EMAIL_3>"]
    assert redaction.restore("<EMAIL_1> <EMAIL_3>") == "<EMAIL_1> ada@example.org"


def test_what_a_word_told_once_is_hidden_wherever_it_stands() -> None:
    hidden, _ = redact(ask("Phone: 467 3395", "Is 467 3395 right? Or 1467 33950?"))
    assert hidden.messages[1].content == "Is <PHONE_1> right? Or 1<PHONE_1>0?"


def test_the_same_conversation_gets_the_same_placeholders_later() -> None:
    first, _ = redact(ask("I am ada@example.org", "and 4111111111111111"))
    later, _ = redact(ask("I am ada@example.org", "and 4111111111111111", "cc bob@example.org"))
    assert later.messages[:2] == first.messages


def test_a_request_without_any_is_the_same_one() -> None:
    request = ask("What is the capital of Sweden?")
    same, redaction = redact(request)
    assert same is request
    assert not redaction


def test_tools_schema_and_stop_strings_stay_valid() -> None:
    call = [
        {
            "id": "1",
            "function": {
                "name": "mail",
                "arguments": json.dumps({"to": "bob@example.org", "key": PRIVATE_KEY}),
            },
        }
    ]
    request = ChatRequest(
        (
            Message("assistant", "", json.dumps(call)),
            Message("tool", "sent to bob@example.org", tool_call_id="1"),
        ),
        Sampling(stop=("bob@example.org",)),
        ResponseFormat("json_schema", json.dumps({"const": "bob@example.org"})),
        Tools(json.dumps([{"description": "bob@example.org"}])),
    )
    hidden, redaction = redact(request)
    sent = request_to_json(replace(hidden, messages=(*hidden.messages, Message("user", ""))), "m", DIALECT)
    arguments = json.loads(sent["messages"][0]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"to": "<EMAIL_1>", "key": "<PRIVATE_KEY_1>"}
    assert sent["messages"][1]["content"] == "sent to <EMAIL_1>"
    assert (sent["stop"], sent["tools"][0]["description"]) == (["<EMAIL_1>"], "<EMAIL_1>")
    assert sent["response_format"]["json_schema"]["schema"] == {"const": "<EMAIL_1>"}
    assert redaction.restore(hidden.messages[0].tool_calls) == request.messages[0].tool_calls


async def play(*events: Event | RouterError) -> AsyncGenerator[Event, None]:
    for event in events:
        if isinstance(event, RouterError):
            raise event
        yield event


def secrets() -> Redaction:
    return redact(ask("ada@example.org", PRIVATE_KEY))[1]


async def test_a_stream_has_its_values_back() -> None:
    score = TokenScore(-0.1, 1.0, 0.2)
    events = play(
        Delta("<EMA", "reasoning", (score,)),
        Delta("Dear <EM"),
        Delta("IL_1>!", "reasoning", (score, score)),
        ToolCall(0, "1", "mail", '{"key": "<PRIVATE_'),
        Delta("AIL_1>, a <"),
        ToolCall(0, arguments='KEY_1>"}'),
        Finished("stop"),
    )
    seen = [event async for event in restored(events, secrets())]
    said = {
        kind: "".join(e.text for e in seen if isinstance(e, Delta) and e.kind == kind)
        for kind in ("text", "reasoning")
    }
    assert said == {"reasoning": "ada@example.org!", "text": "Dear ada@example.org, a <"}
    assert sum(len(event.scores) for event in seen if isinstance(event, Delta)) == 3
    arguments = "".join(event.arguments for event in seen if isinstance(event, ToolCall))
    assert json.loads(arguments) == {"key": PRIVATE_KEY}
    assert isinstance(seen[-1], Finished)


async def test_what_was_said_before_a_fault_is_said() -> None:
    seen: list[Event] = []
    with pytest.raises(CloudCutOff):
        events = restored(play(Delta("a <EMAIL_1"), CloudCutOff("gone")), secrets())
        seen.append(await anext(events))
        seen.append(await anext(events))
        await anext(events)
    assert seen == [Delta("a "), Delta("<EMAIL_1")]


async def test_closing_it_closes_what_it_reads() -> None:
    source = play(Delta("a"), Delta("b"))
    async with aclosing(restored(source, secrets())) as events:
        await anext(events)
    with pytest.raises(StopAsyncIteration):
        await anext(source)


async def test_values_in_a_json_answer_leave_it_json() -> None:
    events = play(Delta('{"key": "<PRIVATE_KEY_1>"}'), Finished("stop"))
    seen = [event async for event in restored(events, secrets(), as_json=True)]
    assert isinstance(seen[0], Delta)
    assert json.loads(seen[0].text) == {"key": PRIVATE_KEY}


@given(SOME_TEXT)
def test_the_preview_is_what_is_sent(content: str) -> None:
    request = ask(content)
    shown = preview(request, "m", DIALECT)
    assert json.loads(shown) == json.loads(json.dumps(request_to_json(request, "m", DIALECT)))
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_the_preview_shows_a_redacted_request_readably() -> None:
    hidden, _ = redact(ask(f"Grüße an {EXAMPLES['email'][0]}\u200b"))
    assert '"Grüße an <EMAIL_1>\\u200b"' in preview(hidden, "m", DIALECT)
