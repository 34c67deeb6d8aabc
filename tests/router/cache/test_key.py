"""What may share an answer: any field that shapes one keeps two questions apart."""

from __future__ import annotations

import unicodedata
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.cache.key import CacheTarget, Key, key_of, normalised
from router.request import ChatRequest, Message, ResponseFormat, Sampling, Tools
from tests.router.cache.fakes import TARGET

REQUEST = ChatRequest((Message("system", "Be brief."), Message("user", "What is osmosis?")))


def key(
    request: ChatRequest = REQUEST,
    target: CacheTarget = TARGET,
    language: str = "en",
    embedder: str = "e:1",
    attachments: tuple[str, ...] = (),
) -> Key:
    return key_of(request, target, language=language, embedder_id=embedder, attachments=attachments)


OTHER_SAMPLING = {
    "temperature": 0.0, "top_p": 0.5, "top_k": 3, "min_p": 0.2, "repeat_penalty": 1.2,
    "frequency_penalty": 0.4, "presence_penalty": 0.4, "seed": 4, "max_tokens": 5, "stop": ("\n",),
}  # fmt: skip


def test_every_field_of_sampling_is_tried() -> None:
    assert set(OTHER_SAMPLING) == {field.name for field in fields(Sampling)}


@pytest.mark.parametrize("name", OTHER_SAMPLING)
def test_another_sampling_is_another_partition(name: str) -> None:
    sampling = replace(REQUEST.sampling, **{name: OTHER_SAMPLING[name]})

    assert key(replace(REQUEST, sampling=sampling)).partition != key().partition


@pytest.mark.parametrize("name", [field.name for field in fields(CacheTarget)])
def test_another_target_is_another_partition(name: str) -> None:
    assert key(target=replace(TARGET, **{name: "another"})).partition != key().partition


LAST = REQUEST.messages[-1]
OTHERS = [
    key(replace(REQUEST, messages=(Message("system", "Be long."), LAST))),
    key(replace(REQUEST, messages=(LAST,))),
    key(replace(REQUEST, messages=(Message("user", "Be brief."), LAST))),
    key(replace(REQUEST, messages=(*REQUEST.messages, Message("assistant", "Yes."), LAST))),
    key(replace(REQUEST, messages=(Message("system", "Be brief.", tool_calls="[]"), LAST))),
    key(replace(REQUEST, tools=Tools("[]"))),
    key(replace(REQUEST, response_format=ResponseFormat("regex", "a"))),
    key(replace(REQUEST, response_format=ResponseFormat("lark", "a"))),
    key(language="de"),
    key(embedder="e:2"),
    key(attachments=("abc",)),
]


def test_everything_else_that_shapes_an_answer_keeps_apart() -> None:
    partitions = [one.partition for one in (key(), *OTHERS)]

    assert len(set(partitions)) == len(partitions)


def test_the_last_text_is_no_part_of_the_partition() -> None:
    """Else no paraphrase could ever hit (litellm#29086)."""
    other = replace(REQUEST, messages=(REQUEST.messages[0], Message("user", "Explain osmosis.")))

    assert key(other).partition == key().partition
    assert key(other).exact != key().exact


@settings(deadline=None)
@given(st.text(), st.text())
def test_parts_never_run_into_one_another(one: str, other: str) -> None:
    first = key(replace(REQUEST, messages=(Message("system", one + other), LAST)))
    second = key(replace(REQUEST, messages=(Message("system", one), Message("system", other), LAST)))

    assert first.partition != second.partition


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="`")))
def test_white_space_and_composition_do_not_matter_in_prose(text: str) -> None:
    prose = " ".join(text.split())
    spread = "  ".join(["", *prose.split(), ""])

    assert normalised(unicodedata.normalize("NFD", spread)) == normalised(prose)
    assert normalised(normalised(text)) == normalised(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is US?", "What is us?"),
        ("What is 1?", "What is 2?"),
        ("Run `a  b`", "Run `a b`"),
        ("if x:\n    y\nz", "if x:\n    y\n    z"),
    ],
)
def test_case_digits_and_code_matter(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)
