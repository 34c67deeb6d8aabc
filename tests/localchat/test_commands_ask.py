"""``localchat ask``: what reaches the model, what reaches each stream, what is kept."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from localchat.errors import HistoryError
from localchat.history import History, StoredMessage
from localchat.room import SUMMARY_PROMPT
from router.errors import BackendCrashed, ContextOverflow, RouterError
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    Message,
    Notice,
    Predicted,
    Progress,
    ResponseFormat,
    Timings,
    TokenScore,
    Usage,
)
from router.scripted import ScriptedBackend
from tests.localchat.command_line import Engine, Outcome, run
from tests.router.forecasters import FORECAST

Script = Sequence[str | Event | RouterError]
END = Finished("length", Usage(12, 4, 3), Timings(1.0, 2.0, 3.0, 4.0), "tiny")
ENDING = ["validated", "recorded", "finished"]
KEYS = [
    *["text", "model", "finish_reason", "usage", "timings", "route", "decision", "handed_off", "confidence"],
    *["validation", "cache", "simulated", "cost_usd", "entry"],
]


def ask(home: Path, *words: str, stdin: bytes = b"", engine: ScriptedBackend | None = None) -> Outcome:
    return run(home, "ask", *words, stdin=stdin, engine=engine or Engine(["Yes", "."]))


def question(engine: ScriptedBackend) -> str:
    """What the person said last."""
    return engine.requests[-1].messages[-1].content


def stored(home: Path) -> list[StoredMessage]:
    """The branch the latest conversation is at."""
    with History(home / "data/history.db") as history:
        latest = history.latest()
        return history.path(latest.leaf_id or 0) if latest else []


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


# -- what is asked


def test_question_files_and_input_are_joined_in_that_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\n")
    (tmp_path / "b.txt").write_bytes(b"second \xff")
    engine = Engine()
    files = [word for name in "ab" for word in ("--attach", str(tmp_path / f"{name}.txt"))]
    assert ask(tmp_path, "What", "is this?", *files, stdin=b"piped\n", engine=engine).code == 0
    assert question(engine) == (
        "What is this?\n\n"
        '<file name="a.txt">\nfirst\n\n</file>\n\n'
        '<file name="b.txt">\nsecond \ufffd\n</file>\n\n'
        "piped\n"
    )


def test_input_alone_is_a_question_and_nothing_is_none(tmp_path: Path) -> None:
    engine = Engine()
    assert ask(tmp_path, stdin=b"piped", engine=engine).code == 0
    assert question(engine) == "piped"
    for nothing in (b"", b" \n\t "):
        outcome = ask(tmp_path, stdin=nothing)
        assert (outcome.code, outcome.out) == (2, "")
        assert "There is no question" in outcome.err


def test_any_bytes_are_a_question(tmp_path: Path) -> None:
    engine = Engine()
    outcome = ask(tmp_path, "lone \udcff", stdin=b"\0 nul \xed\xa0\x80 surrogate \xff", engine=engine)
    assert (outcome.code, outcome.err) == (0, "")
    assert question(engine) == "lone \ufffd\n\n\0 nul \ufffd\ufffd\ufffd surrogate \ufffd"
    assert stored(tmp_path)[0].content == question(engine)


def test_a_pipe_may_be_attached(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(b"from a pipe")
    engine = Engine()
    assert ask(tmp_path, "Read:", "--attach", f"/dev/fd/{reading}", engine=engine).code == 0
    os.close(reading)
    assert "from a pipe" in question(engine)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("binary", "is not a text file"),
        ("missing", "cannot be read: No such file"),
        ("", "cannot be read: Is a directory"),
        ("large", "is larger than 8 MiB"),
        ("/dev/zero", "is larger than 8 MiB"),
    ],
)
def test_what_cannot_be_attached_is_named(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "large").write_bytes(b"a" * ((8 << 20) + 1))
    outcome = ask(tmp_path, "What?", "--attach", str(tmp_path / name))
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert str(tmp_path / name) in outcome.err
    assert stored(tmp_path) == []


def test_endless_input_is_refused(tmp_path: Path) -> None:
    outcome = ask(tmp_path, stdin=b"a" * ((8 << 20) + 1))
    assert outcome.code == 2
    assert "Standard input is larger than 8 MiB" in outcome.err


def test_flags_reach_the_model(tmp_path: Path) -> None:
    engine = Engine()
    words = ["-s", "Be brief.", "--max-tokens", "7", "--temperature", "0", "--seed", "3", "--top-k", "5"]
    assert ask(tmp_path, *words, "hi", engine=engine).code == 0
    (request,) = engine.requests
    assert request.messages == (Message("system", "Be brief."), Message("user", "hi"))
    s = request.sampling
    assert (s.max_tokens, s.temperature, s.seed, s.top_k) == (7, 0.0, 3, 5)


@pytest.mark.parametrize(
    ("flag", "file", "kind"),
    [("--schema", "a.json", "json_schema"), ("--grammar", "a.gbnf", "gbnf"), ("--grammar", "a.lark", "lark")],
)
def test_a_schema_or_grammar_reaches_the_model(tmp_path: Path, flag: str, file: str, kind: str) -> None:
    (tmp_path / file).write_text('{"type": "é"}', encoding="utf-8")
    engine = Engine()
    assert ask(tmp_path, "hi", flag, str(tmp_path / file), engine=engine).code == 0
    wanted = engine.requests[0].response_format
    assert wanted
    assert (wanted.kind, wanted.source) == (kind, '{"type": "é"}')
    missing = ask(tmp_path, "hi", flag, str(tmp_path / "missing"))
    assert (missing.code, missing.out) == (2, "")


def test_an_expression_reaches_the_model(tmp_path: Path) -> None:
    engine = Engine()
    assert ask(tmp_path, "hi", "--regex", "a+", engine=engine).code == 0
    assert engine.requests[0].response_format == ResponseFormat("regex", "a+")


@pytest.mark.parametrize(
    "words",
    [
        ["--nonsense"],
        ["--json", "--events"],
        ["--schema", "a", "--regex", "b"],
        ["--on-overflow", "truncate"],
        ["--seed", "x"],
        ["--seed", "-1"],
        ["--temperature", "nan"],
        ["--kv-type", "q5"],
        ["--threads", "100000000000"],
    ],
)
def test_wrong_flags_are_wrong_usage(tmp_path: Path, words: Sequence[str]) -> None:
    outcome = ask(tmp_path, *words, "hi")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err
    assert not (tmp_path / "data").exists()


# -- what is shown


def test_plain_is_the_answer_and_one_line_end(tmp_path: Path) -> None:
    script: Script = [Progress("prefill", 1, 2, "tokens"), "<think>hm</think>", "Yes", ".", END]
    assert ask(tmp_path, "hi", engine=Engine(script)) == Outcome(0, "Yes.\n", "")
    assert ask(tmp_path, "hi", engine=Engine(["Yes.\n"])) == Outcome(0, "Yes.\n", "")
    told = "localchat: the check “not empty” failed: The answer is empty.\n"
    assert ask(tmp_path, "hi", engine=Engine([END])) == Outcome(0, "", told)


def test_json_has_exactly_its_keys(tmp_path: Path) -> None:
    outcome = ask(tmp_path, "hi", "--json", engine=Engine(["Yés", ".", END]))
    assert (outcome.code, outcome.err) == (0, "")
    shown = strict_json(outcome.out)
    assert sorted(shown) == sorted(KEYS)
    assert shown["usage"] == {"prompt_tokens": 12, "cached_tokens": 4, "completion_tokens": 3}
    assert shown["timings"] == {
        "load_s": 1.0,
        "ttft_s": 2.0,
        "prefill_tokens_per_s": 3.0,
        "decode_tokens_per_s": 4.0,
    }
    assert (shown["text"], shown["model"], shown["route"]) == ("Yés.", "tiny", "local")
    assert shown["finish_reason"] == "length"
    assert outcome.out.count("\n") == 1


def test_json_and_events_tell_what_was_predicted(tmp_path: Path) -> None:
    script: Script = [Predicted(FORECAST), "Yes", END]
    shown = strict_json(ask(tmp_path, "hi", "--json", engine=Engine(script)).out)
    assert sorted(shown) == sorted([*KEYS, "predicted"])
    predicted = shown["predicted"]
    assert predicted["error_percent"] == pytest.approx(100 * (4.0 / FORECAST.decode_tokens_per_s - 1))
    assert (predicted["low"], predicted["high"], predicted["tier"]) == (70.0, 95.0, "probed")
    assert predicted["terms"]["weights_s"] == FORECAST.terms.weights_s
    outcome = ask(tmp_path, "hi", "--events", engine=Engine(script))
    told = [strict_json(line) for line in outcome.out.splitlines()]
    assert [event["event"] for event in told] == ["started", "routed", "predicted", "delta", *ENDING]
    assert told[2]["forecast"]["verify"] == FORECAST.verify


def test_where_nothing_was_decoded_there_is_no_error(tmp_path: Path) -> None:
    script: Script = [Predicted(FORECAST), Finished("stop")]
    shown = strict_json(ask(tmp_path, "hi", "--json", engine=Engine(script)).out)
    assert shown["predicted"]["error_percent"] is None


def test_a_guess_is_told_and_not_scored(tmp_path: Path) -> None:
    script: Script = [Predicted(replace(FORECAST, guessed=True)), "Yes", END]
    predicted = strict_json(ask(tmp_path, "hi", "--json", engine=Engine(script)).out)["predicted"]
    assert (predicted["guessed"], predicted["error_percent"]) == (True, None)


@pytest.mark.parametrize("script", [["<think>hm</think>Yes"], ["hm", "</think>", "Yes"]])
def test_json_keeps_reasoning_apart(tmp_path: Path, script: Sequence[str]) -> None:
    shown = strict_json(ask(tmp_path, "hi", "--json", engine=Engine(script)).out)
    assert sorted(shown) == sorted([*KEYS, "reasoning"])
    assert (shown["text"], shown["reasoning"]) == ("Yes", "hm")


def test_events_are_one_object_a_line(tmp_path: Path) -> None:
    script: Script = [
        Progress("load", 0.5, 1.0, "fraction"),
        Notice("slow\nmachine"),
        Delta("Yes", scores=(TokenScore(-0.5, 1.0, 0.25),)),
        "</think>",
        "line\nbreak\u2028",
    ]
    outcome = ask(tmp_path, "hi", "--events", engine=Engine(script))
    assert outcome.code == 0
    events = [strict_json(line) for line in outcome.out.rstrip("\n").split("\n")]
    names = ["started", "routed", "progress", "notice", "delta", "reclassified", "delta", *ENDING]
    assert [event["event"] for event in events] == names
    assert events[0]["user"]["content"] == "hi"
    assert events[4]["scores"] == [{"logprob": -0.5, "margin": 1.0, "entropy": 0.25, "forced": False}]
    assert events[6]["text"] == "line\nbreak\u2028"
    assert outcome.err == "localchat: slow\nmachine\n"


def test_notices_go_to_standard_error(tmp_path: Path) -> None:
    for form in ([], ["--json"]):
        outcome = ask(tmp_path, "hi", *form, engine=Engine(["Yes", Notice("slow")]))
        assert outcome.err == "localchat: slow\n"
        assert "slow" not in outcome.out


def test_an_error_is_told_and_what_was_said_is_kept(tmp_path: Path) -> None:
    engine = Engine(["Yes, bu", BackendCrashed("It died.", "Send again.")])
    assert ask(tmp_path, "hi", engine=engine) == Outcome(1, "Yes, bu\n", "localchat: It died. Send again.\n")
    assert ask(tmp_path, "hi", "--json", engine=engine) == Outcome(1, "", "localchat: It died. Send again.\n")
    events = ask(tmp_path, "hi", "--events", engine=engine)
    assert (events.code, events.err) == (1, "")
    last = strict_json(events.out.splitlines()[-1])
    assert last == {"event": "failed", "kind": "BackendCrashed", "message": "It died. Send again."}
    assert [(m.content, m.state) for m in stored(tmp_path)] == [("hi", "done"), ("Yes, bu", "failed")]


def test_an_answer_that_cannot_be_saved_is_shown_and_the_code_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise HistoryError("The disk is full.", "Free some space.")

    monkeypatch.setattr(History, "update", full)
    error = "localchat: The disk is full. Free some space.\n"
    assert ask(tmp_path, "hi") == Outcome(1, "Yes.\n", error)
    shown = ask(tmp_path, "hi", "--json")
    assert (shown.code, shown.err, strict_json(shown.out)["text"]) == (1, error, "Yes.")


# -- what is kept


def test_it_is_saved_and_goes_on_when_asked_to(tmp_path: Path) -> None:
    engine = Engine(["Yes", "."])
    ask(tmp_path, "one", "-c", engine=engine)  # nothing to go on with: a new one
    ask(tmp_path, "two", "-c", engine=engine)
    assert [m.content for m in stored(tmp_path)] == ["one", "Yes.", "two", "Yes."]
    assert [m.content for m in engine.requests[-1].messages[1:]] == ["one", "Yes.", "two"]
    ask(tmp_path, "three", engine=engine)
    assert [m.content for m in stored(tmp_path)] == ["three", "Yes."]


def test_a_system_prompt_given_with_continue_counts_from_then_on(tmp_path: Path) -> None:
    engine = Engine()
    ask(tmp_path, "one", "-s", "Be brief.", engine=engine)
    ask(tmp_path, "two", "-c", engine=engine)
    assert engine.requests[-1].messages[0].content == "Be brief."
    ask(tmp_path, "three", "-c", "-s", "Be long.", engine=engine)
    ask(tmp_path, "four", "-c", engine=engine)
    assert [r.messages[0].content for r in engine.requests[2:]] == ["Be long.", "Be long."]


def test_incognito_leaves_nothing(tmp_path: Path) -> None:
    assert ask(tmp_path, "secret", "--incognito", "--json").code == 0
    assert ask(tmp_path, "secret", "--incognito", "-c").code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_engine_is_let_go_however_it_ends(tmp_path: Path) -> None:
    scripts: list[Script] = [["Yes"], [BackendCrashed("It died.")]]
    for script in scripts:
        engine = Engine(script, loaded=True)
        ask(tmp_path, "hi", engine=engine)
        assert not engine.loaded


# -- when it no longer fits


class Narrow(Engine):
    """Its window holds ``window_tokens`` words; asked for a summary it gives one."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        tokens = await self.count_tokens(request.messages)
        if request.messages[-1].content == SUMMARY_PROMPT:
            self.script = ["They ", "counted."]
        elif tokens + 2 > self.window_tokens:
            self.requests.append(request)
            raise ContextOverflow(tokens, self.window_tokens, 2)
        else:
            self.script = ["fine"]
        async for event in super().stream(request):
            yield event


def talk(home: Path, engine: Narrow) -> None:
    """Three turns of 200 words and a short one."""
    for text in ("alpha " * 200, "beta " * 200, "gamma " * 200, "delta"):
        assert ask(home, "-c", "-s", "Be brief.", text, engine=engine).code == 0


FORMS: Sequence[Sequence[str]] = [[], ["--json"], ["--events"]]


@pytest.mark.parametrize("form", FORMS)
def test_by_default_it_fails_and_nothing_is_cut(tmp_path: Path, form: Sequence[str]) -> None:
    engine = Narrow()
    talk(tmp_path, engine)
    engine.window_tokens = 450
    outcome = ask(tmp_path, "-c", "last", *form, engine=engine)
    assert outcome.code == 1
    assert "(160 too many)" in outcome.err + outcome.out
    assert not any(m.excluded for m in stored(tmp_path))


@pytest.mark.parametrize("form", FORMS)
def test_drop_leaves_out_the_oldest_and_says_which(tmp_path: Path, form: Sequence[str]) -> None:
    engine = Narrow()
    talk(tmp_path, engine)
    engine.window_tokens = 450
    outcome = ask(tmp_path, "-c", "last", "--on-overflow", "drop", *form, engine=engine)
    assert outcome.code == 0
    assert outcome.err.startswith("localchat: Leaving out the oldest turn to make room: “alpha alpha")
    assert "fine" in outcome.out
    assert "too many" not in outcome.out
    if form == ["--json"]:
        assert sorted(strict_json(outcome.out)) == sorted(KEYS)
    if form == ["--events"]:
        names = [strict_json(line)["event"] for line in outcome.out.splitlines()]
        assert names == ["started", "routed", "notice", "started", "routed", "delta", *ENDING]
    sent = engine.requests[-1].messages
    assert sent[0].content == "Be brief."
    assert [m.content.split()[0] for m in sent[1:]] == [
        "beta",
        "fine",
        "gamma",
        "fine",
        "delta",
        "fine",
        "last",
    ]
    assert [m.excluded for m in stored(tmp_path)] == [True] * 2 + [False] * 8


@pytest.mark.parametrize("form", FORMS)
def test_summarise_puts_a_summary_in_their_place(tmp_path: Path, form: Sequence[str]) -> None:
    engine = Narrow()
    talk(tmp_path, engine)
    engine.window_tokens = 550
    outcome = ask(tmp_path, "-c", "last", "--on-overflow", "summarise", *form, engine=engine)
    assert outcome.code == 0
    assert outcome.err.startswith("localchat: Summarising the 2 oldest turns to make room: “alpha alpha")
    assert "”, “beta beta" in outcome.err
    assert "counted" not in outcome.out
    if not form:
        assert outcome.out == "fine\n"
    sent = engine.requests[-1].messages
    assert sent[0].content == "Be brief.\n\nEarlier in this conversation: They counted."
    assert [m.content.split()[0] for m in sent[1:]] == ["gamma", "fine", "delta", "fine", "last"]
    kinds = [m.kind for m in stored(tmp_path)]
    assert kinds == ["message"] * 8 + ["summary"] + ["message"] * 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", ["drop", "summarise"])
def test_a_question_too_long_by_itself_fails_in_words(
    tmp_path: Path, policy: str, form: Sequence[str]
) -> None:
    engine = Narrow()
    talk(tmp_path, engine)
    engine.window_tokens = 300
    outcome = ask(tmp_path, "-c", "long " * 400, "--on-overflow", policy, *form, engine=engine)
    assert outcome.code == 1
    assert "402 tokens" in outcome.err + outcome.out
    assert not any(m.excluded for m in stored(tmp_path))
    engine.window_tokens = 10_000
    assert ask(tmp_path, "-c", "short", engine=engine).out == "fine\n"
