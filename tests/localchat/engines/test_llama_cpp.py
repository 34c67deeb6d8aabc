"""llama.cpp as a runtime: a state that is cut, grown, aborted and continued stays right."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localchat.engines import llama_cpp
from localchat.engines.llama_binding import load_binding
from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.protocol import LoadOptions
from localchat.engines.runtime import Aborted, LoadFailed, Logits
from tests.localchat.engines.tiny_model import CONTEXT, CONTROLS, write_tiny_model

Open = Callable[..., LlamaRuntime]
STORY = [ord(c) for c in "the quick brown fox jumps over the lazy dog; " * 200]
CLOSE = 0.15  # logits of the tiny model have a spread of 3; batches of another size take other kernels
# The default model's vocabulary lacks a few bytes: those of rare controls and of planes nobody writes in.
assigned = st.characters(max_codepoint=0x1FAFF, exclude_categories=["Cc", "Cs", "Cn", "Co"])
SHARED = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def open_tiny(tiny_model: Path) -> Iterator[Open]:
    opened: list[LlamaRuntime] = []

    def open_it(path: Path = tiny_model, **options: object) -> LlamaRuntime:
        values: dict[str, object] = {"threads": 1, "prefill_threads": 1, **options}
        opened.append(LlamaRuntime(LoadOptions(str(path), **values), lambda _: True))  # type: ignore[arg-type]  # made from words
        return opened[-1]

    yield open_it
    for runtime in opened:
        runtime.close()


def after(runtime: LlamaRuntime, tokens: list[int], step: int = 10_000) -> Logits:
    """The logits after ``tokens``, computed anew, ``step`` at a time."""
    runtime.keep(0)
    for at in range(0, len(tokens), step):
        runtime.eval(tokens[at : at + step])
    return runtime.logits().copy()


# -- the state


@pytest.mark.parametrize("step", [1, 7, 64, 511, 600])
def test_any_steps_give_the_same_logits(open_tiny: Open, step: int) -> None:
    runtime = open_tiny()
    np.testing.assert_allclose(after(runtime, STORY[:700], step), after(runtime, STORY[:700]), atol=CLOSE)


@given(st.lists(st.tuples(st.integers(0, 90), st.lists(st.integers(0, 258), max_size=40)), max_size=6))
@SHARED
def test_what_is_kept_and_continued_is_as_if_computed_anew(
    open_tiny: Open, moves: list[tuple[int, list[int]]]
) -> None:
    runtime, tokens = open_tiny(ctx=512), [1, 2, 3]
    runtime.eval(tokens)
    for kept, more in moves:
        assert runtime.keep(kept) == min(kept, len(tokens))
        tokens = tokens[:kept] + more
        if more:
            runtime.eval(more)
            expected = after(open_tiny(ctx=512), tokens)
            np.testing.assert_allclose(runtime.logits(), expected, atol=CLOSE)


@pytest.mark.parametrize("kv_type", ["f16", "f32", "q8_0", "q4_0"])
def test_a_context_that_grows_keeps_its_state(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch, kv_type: str
) -> None:
    growing = open_tiny(kv_type=kv_type)
    first = growing.context_tokens
    for at in range(0, 2500, 500):
        growing.eval(STORY[at : at + 500])
    assert first < 2500 <= growing.context_tokens <= CONTEXT
    grown = growing.logits().copy()
    monkeypatch.setattr(llama_cpp, "FIRST_CONTEXT_TOKENS", CONTEXT)
    large = open_tiny(kv_type=kv_type)
    assert large.context_tokens == CONTEXT
    np.testing.assert_allclose(grown, after(large, STORY[:2500], 500), atol=CLOSE)


def test_a_context_grows_up_to_the_window_and_is_used_to_its_last_token(open_tiny: Open) -> None:
    runtime = open_tiny(ctx=3000)
    assert runtime.window_tokens == 3000
    runtime.eval(STORY[:2999])
    runtime.eval(STORY[2999:3000])
    assert np.isfinite(runtime.logits()).all()


def test_the_window_is_never_larger_than_what_the_model_was_trained_for(open_tiny: Open) -> None:
    assert open_tiny(ctx=10**9).window_tokens == CONTEXT
    assert open_tiny(ctx=0).window_tokens == CONTEXT
    assert open_tiny(ctx=1).window_tokens == 1


def test_the_number_of_threads_does_not_change_the_logits(open_tiny: Open) -> None:
    runtime = open_tiny()
    alone = after(runtime, STORY[:300])
    runtime.set_threads(2, 2)
    np.testing.assert_allclose(after(runtime, STORY[:300]), alone, atol=CLOSE)


# -- stopping


def test_a_stopped_computation_leaves_the_state_as_it_was(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "N_BATCH", 64)  # many batches in one call
    runtime = open_tiny()
    expected = after(runtime, STORY[:100])
    stopped = 0
    for n in range(20):
        runtime.keep(50)
        timer = threading.Timer(0.002 * (n + 1), runtime.abort, [True])
        timer.start()
        try:
            runtime.eval(STORY[1000:5000])
        except Aborted:
            stopped += 1
        timer.join()
        runtime.abort(False)
        runtime.keep(50)
        runtime.eval(STORY[50:100])
        np.testing.assert_allclose(runtime.logits(), expected, atol=CLOSE)
    assert stopped


def test_tokens_of_a_stopped_call_are_forgotten_whole(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "N_BATCH", 32)
    runtime, calls = open_tiny(), 0
    decode = runtime._decode

    def stop_at_the_third(tokens: list[int]) -> None:
        nonlocal calls
        calls += 1
        runtime.abort(calls == 3)
        decode(tokens)

    monkeypatch.setattr(runtime, "_decode", stop_at_the_third)
    with pytest.raises(Aborted):
        runtime.eval(STORY[:200])
    runtime.abort(False)
    assert runtime.keep(10_000) == 0


def test_an_abort_holds_until_it_is_lifted(open_tiny: Open) -> None:
    runtime = open_tiny()
    runtime.abort(True)
    for _ in range(2):
        with pytest.raises(Aborted):
            runtime.eval([1, 2, 3])
    runtime.abort(False)
    np.testing.assert_allclose(after(runtime, [1, 2, 3]), after(open_tiny(), [1, 2, 3]), atol=CLOSE)


def test_an_abort_reaches_a_context_that_has_grown(open_tiny: Open) -> None:
    runtime = open_tiny()
    runtime.eval(STORY[:3000])
    runtime.abort(True)
    with pytest.raises(Aborted):
        runtime.eval([1])


@pytest.mark.real_model
def test_a_long_prefill_is_stopped_from_another_thread(real_runtime: LlamaRuntime) -> None:
    runtime = real_runtime
    prompt = runtime.tokenize("The capital of France is", special=False, start=True)
    expected = after(runtime, prompt)
    long = runtime.tokenize("a b c d " * 1000, special=False, start=False)[:2000]
    timer = threading.Timer(0.1, runtime.abort, [True])
    timer.start()
    with pytest.raises(Aborted):
        for at in range(0, len(long), 500):
            runtime.eval(long[at : at + 500])
    timer.join()
    runtime.abort(False)
    assert runtime.keep(10_000) < len(prompt) + len(long)
    np.testing.assert_allclose(after(runtime, prompt), expected, atol=1e-2)


# -- text


@pytest.mark.real_model
@given(st.text(assigned | st.sampled_from("\n\t\0"), max_size=60))
@SHARED
def test_the_pieces_of_a_text_are_the_text(real_runtime: LlamaRuntime, text: str) -> None:
    tokens = real_runtime.tokenize(text, special=False, start=False)
    assert b"".join(map(real_runtime.piece, tokens)) == text.encode("utf-8", "replace")


@pytest.mark.parametrize(
    "text", ["", "\0", "a\0b", "é🙂", " ", "\r\n\t", "\u2028\ufeff", "<s", "x" * 100_000]
)
def test_odd_texts_come_back_whole(open_tiny: Open, text: str) -> None:
    runtime = open_tiny()
    tokens = runtime.tokenize(text, special=True, start=False)
    assert b"".join(map(runtime.piece, tokens)).decode() == text


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_text_is_a_token_only_where_it_is_meant(open_tiny: Open, control: str) -> None:
    runtime = open_tiny()
    (token,) = runtime.tokenize(control, special=True, start=False)
    assert runtime.piece(token) == b""
    assert runtime.is_end(token) == (control == "<|im_end|>")
    assert runtime.tokenize(control, special=False, start=False) == list(control.encode())
    assert set(runtime.control_texts()) == set(CONTROLS)


def test_control_texts_come_longest_first(open_tiny: Open) -> None:
    lengths = [len(text) for text in open_tiny().control_texts()]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.real_model
def test_the_default_model_says_what_it_is(real_runtime: LlamaRuntime) -> None:
    facts = real_runtime.describe()
    assert 134e6 < facts["parameters"] < 135e6
    assert facts["trained_tokens"] == 8192
    assert "Q4_1" in facts["quantization"]
    assert real_runtime.special_text("eos") == "<|im_end|>"
    assert "<|im_start|>" in real_runtime.template()
    assert real_runtime.kv_bytes_per_token() == 2 * 30 * 3 * 64 * 2


@pytest.mark.real_model
def test_the_default_model_knows_a_capital(real_runtime: LlamaRuntime) -> None:
    prompt = real_runtime.tokenize("The capital of France is", special=False, start=False)
    best = int(after(real_runtime, prompt).argmax())
    assert real_runtime.piece(best) == b" Paris"
    np.testing.assert_allclose(after(real_runtime, prompt, 1), after(real_runtime, prompt), atol=0.5)


# -- what cannot be loaded


def test_files_that_are_no_models_are_refused_in_words(
    open_tiny: Open, tiny_model: Path, tmp_path: Path
) -> None:
    whole = tiny_model.read_bytes()
    contents = {
        "noise": np.random.default_rng(1).bytes(10_000),
        "empty": b"",
        "cut header": whole[:500],
        "cut tensors": whole[:-1000],
        "only a magic": b"GGUF",
        "another version": b"GGUF" + (99).to_bytes(4, "little") + whole[8:],
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(content)
        with pytest.raises(LoadFailed) as caught:
            open_tiny(path)
        assert len(str(caught.value)) > 10
    with pytest.raises(LoadFailed):
        open_tiny(tmp_path / "missing.gguf")
    with pytest.raises(LoadFailed):
        open_tiny(tmp_path)
    with pytest.raises(LoadFailed):
        open_tiny(write_tiny_model(tmp_path / "vocabulary.gguf", weights=False))


def test_a_name_that_is_not_unicode_is_no_obstacle(open_tiny: Open, tiny_model: Path, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.gguf"))
    path.write_bytes(tiny_model.read_bytes())
    assert open_tiny(path).vocabulary_size == 259


@pytest.mark.parametrize("lora", ["/nowhere/adapter.gguf", "/dev/null"])
def test_a_missing_adapter_is_named(open_tiny: Open, lora: str) -> None:
    with pytest.raises(LoadFailed, match=lora):
        open_tiny(lora=lora)


@pytest.mark.parametrize("layers", [1, -1])
def test_layers_for_a_gpu_need_a_build_with_one(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch, layers: int
) -> None:
    monkeypatch.setattr(load_binding(), "llama_supports_gpu_offload", lambda: False)
    with pytest.raises(LoadFailed, match="gpu_layers must be 0"):
        open_tiny(gpu_layers=layers)


def test_loading_can_be_stopped(tiny_model: Path) -> None:
    with pytest.raises(Aborted):
        LlamaRuntime(LoadOptions(str(tiny_model)), lambda _: False)


def test_progress_of_loading_ascends_to_all(tiny_model: Path) -> None:
    seen: list[float] = []

    def hear(fraction: float) -> bool:
        seen.append(fraction)
        return True

    LlamaRuntime(LoadOptions(str(tiny_model)), hear).close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_closing_twice_is_nothing(open_tiny: Open) -> None:
    runtime = open_tiny()
    runtime.close()
    runtime.close()


def test_a_file_without_a_template_has_none(open_tiny: Open, tmp_path: Path) -> None:
    assert open_tiny(write_tiny_model(tmp_path / "base.gguf", template=None)).template() == ""


def test_a_long_template_is_read_whole(open_tiny: Open, tmp_path: Path) -> None:
    template = "{# " + "é" * 30_000 + " #}{{ messages[0].content }}"
    assert open_tiny(write_tiny_model(tmp_path / "long.gguf", template=template)).template() == template


def test_control_texts_declared_as_a_users_own_cannot_be_typed_either(
    open_tiny: Open, tmp_path: Path
) -> None:
    """Some converters write the marks of turns as user-defined tokens, which are always read."""
    path = write_tiny_model(tmp_path / "user.gguf", kind=gguf.TokenType.USER_DEFINED)
    runtime = open_tiny(path)
    for control in ("<|im_start|>", "<|im_end|>"):  # the template has these
        assert len(runtime.tokenize(control, special=True, start=False)) == 1
        assert runtime.tokenize(control, special=False, start=False) == list(control.encode())
