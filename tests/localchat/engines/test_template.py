"""Chat templates: what common ones give, and what an evil one or an evil message cannot do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.engines.template import BadTemplate, ChatTemplate, render
from router.request import Message
from tests.localchat.engines import templates

SYSTEM, HI = Message("system", "Be brief."), Message("user", "Hi <b>&'\"")
TALK = (SYSTEM, Message("user", " Hi "), Message("assistant", "Hello."), Message("user", "é🙂"))

EXPECTED = {
    "CHATML": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
    "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\né🙂<|im_end|>\n<|im_start|>assistant\n",
    "HEADERS": "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\né🙂<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "NO_SYSTEM": "<s><start_of_turn>user\nBe brief.\n\n Hi<end_of_turn>\n"
    "<start_of_turn>model\nHello.<end_of_turn>\n<start_of_turn>user\né🙂<end_of_turn>\n"
    "<start_of_turn>model\n",
    "INST": "<s>[INST] Be brief.\n\n Hi  [/INST] Hello.</s>[INST] é🙂 [/INST]",
    "ALL_MEANS": '<|system|>Be brief. 4\n<|user|>{"text": " Hi "}\n<|assistant|>{"text": "Hello."}\n'
    '<|user|>{"text": "é🙂"}!\n<|assistant|>',
    "GENERATION": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
    "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\né🙂<|im_end|>\n<|im_start|>assistant\n",
}


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, "<s>", "</s>")


@pytest.mark.parametrize("name", EXPECTED)
def test_templates_of_common_families(name: str) -> None:
    assert template(getattr(templates, name)).text(TALK) == EXPECTED[name]


def test_a_file_without_a_template_gets_a_transcript_to_go_on_with() -> None:
    assert template("").text([SYSTEM, HI]) == "system: Be brief.\nuser: Hi <b>&'\"\nassistant:"


def test_a_default_system_message_of_the_template_is_kept() -> None:
    assert template(templates.CHATML).text([HI]).startswith("<|im_start|>system\nBe helpful.<|im_end|>")


def test_json_in_a_prompt_is_not_escaped_for_html() -> None:
    assert template("{{ messages[0] | tojson }}").text([HI]) == '{"role": "user", "content": "Hi <b>&\'\\""}'
    assert template("{{ messages | tojson(indent=1) }}").text([HI]).startswith('[\n {\n  "role"')


def test_blocks_leave_no_blank_lines() -> None:
    source = "{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n"
    assert template(source).text([Message("user", "a"), Message("user", "b")]) == "a\nb\n"


def test_a_refused_conversation_says_the_templates_own_words() -> None:
    with pytest.raises(BadTemplate, match="roles must alternate"):
        template(templates.NO_SYSTEM).text([HI, HI])
    with pytest.raises(BadTemplate, match="System role not supported"):
        template(templates.NO_SYSTEM).text([SYSTEM])


# -- evil templates


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__ }}",
        "{{ messages[0]['__class__']['__init__']['__globals__'] }}{{ messages[0].__init__.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ strftime_now.__globals__['json'] }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ lipsum.__globals__['os'].popen('true').read() }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ (messages | attr('__class__')).x }}",
        "{{ '{0.__class__.__mro__}'.format(messages) | length }}{{ '%s'.__mod__.x }}",
        "{% import 'os' as os %}",
        "{% include '/etc/passwd' %}",
        "{% extends 'x' %}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{% for i in range(999999999) %}x{% endfor %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'content': 'x'}) }}",
        "{{ messages.clear() }}",
        "{{ 1 / 0 }}",
        "{{ messages[99].content }}",
        "{{ undefined_function() }}",
        "{{ undefined_thing.x }}",
        "{{ raise_exception('no') }}",
        "{{ raise_exception() }}",
        "{{ raise_exception(messages) }}",
        "{{ strftime_now(1) }}",
        "{{ messages | tojson(indent='x', y=range) }}{{ range | tojson }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' | nosuchfilter }}",
        "{% nosuchtag %}",
        "{{ ",
        "{% for %}",
        "{% for m in messages %}" * 25 + "{% endfor %}" * 25,
        "{{ " + "(" * 5000 + ")" * 5000 + " }}",
        "{{ " + "-" * 100_000 + "1 }}",
        "{% generation %}",
    ],
    ids=lambda source: source[:60],
)
def test_an_evil_or_broken_template_only_fails(source: str) -> None:
    before = [Message("user", "x")]
    with pytest.raises(BadTemplate):
        template(source).text(before)
    assert before == [Message("user", "x")]


def test_a_format_string_shows_no_secrets() -> None:
    with pytest.raises(BadTemplate):
        template("{{ '{0.__class__.__init__.__globals__}'.format(messages[0]) }}").text([HI])


def test_an_endless_complaint_of_a_template_is_cut() -> None:
    with pytest.raises(BadTemplate) as caught:
        template("{{ raise_exception('x' * 1000000) }}").text([HI])
    assert len(str(caught.value)) < 2000


# -- evil messages

CONTROLS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|start|>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<<s>>",
    "<s><s>",
    "ab",
)
"""Overlapping ones, some within others, one made of hexadecimal digits."""
ROLES = ("system", "user", "assistant", "user")

evil = st.lists(
    st.one_of(st.sampled_from(CONTROLS), st.sampled_from(["<", "|", ">", " ", "a", "b", "0", "x", "[", "é"])),
    max_size=8,
).map("".join)
conversations = st.tuples(evil, evil, evil, evil).map(
    lambda texts: [Message(role, text) for role, text in zip(ROLES, texts, strict=True)]  # type: ignore[arg-type]  # made from words
)
SOURCES = ("CHATML", "HEADERS", "NO_SYSTEM", "INST")
longest_first = sorted(CONTROLS, key=len, reverse=True)


@given(conversations, st.sampled_from(SOURCES))
def test_the_segments_are_the_plain_rendering(messages: list[Message], name: str) -> None:
    plain = template(getattr(templates, name))
    segments = render(plain, messages, longest_first)
    assert "".join(segment.text for segment in segments) == plain.text(messages)


@given(conversations, st.sampled_from(SOURCES))
def test_no_control_token_comes_from_a_message(messages: list[Message], name: str) -> None:
    """What is not literal holds as many control texts as with harmless messages."""
    plain = template(getattr(templates, name))
    harmless = plain.text([Message(m.role, "é") for m in messages])
    shown = [segment.text for segment in render(plain, messages, longest_first) if not segment.literal]
    for control in CONTROLS:
        assert sum(text.count(control) for text in shown) == harmless.count(control)


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("name", SOURCES)
def test_every_control_text_in_every_role_is_literal(control: str, role: str, name: str) -> None:
    content = f" {control}x{control} "
    messages = [Message(r, content if r == role else "é") for r in ROLES]  # type: ignore[arg-type]  # made from words
    segments = render(template(getattr(templates, name)), messages, longest_first)
    hidden = [segment.text for segment in segments if segment.literal]
    assert "".join(hidden) == control * 2 * ROLES.count(role)


def test_without_controls_in_the_messages_there_is_one_segment() -> None:
    (segment,) = render(template(templates.CHATML), TALK, longest_first)
    assert (segment.text, segment.literal) == (EXPECTED["CHATML"], False)


@pytest.mark.parametrize("width", range(60))
def test_a_template_that_cuts_contents_never_crashes(width: int) -> None:
    cutting = template(f"{{{{ messages[0].content[:{width}] }}}}|{{{{ messages[0].content[-{width}:] }}}}")
    try:
        segments = render(cutting, [Message("user", "x <s> y </s> z")], longest_first)
    except BadTemplate:
        return
    for a, b in itertools.pairwise(segments):
        assert a.text
        assert b.text
