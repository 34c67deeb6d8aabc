"""Files that are no models, and options and templates that fail: said in words, and no more than that."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from localchat.engines.process import EngineModel
from localchat.weights import check_usable
from router.errors import BackendCrashed, ModelUnavailable
from tests.localchat.engines.talk import ask, engine, events_of, load, works
from tests.localchat.engines.tiny_model import write_tiny_model


def flipped(whole: bytes, seed: int) -> bytes:
    """The header with a few bits turned: lengths, types and counts gone wrong."""
    chance, data = random.Random(seed), bytearray(whole)
    for _ in range(3):
        data[chance.randrange(4, 6000)] ^= 1 << chance.randrange(8)
    return bytes(data)


NOT_MODELS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "text": lambda whole: b"# Not a model\n" * 100,
    "zeros": lambda whole: bytes(5000),
    "cut in the header": lambda whole: whole[:3000],
    "cut in the tensors": lambda whole: whole[:-5000],
    "no tensors": lambda whole: whole[:16] + (0).to_bytes(8, "little") + whole[24:],
    "millions of keys": lambda whole: whole[:16] + (2**40).to_bytes(8, "little") + whole[24:],
    "another architecture": lambda whole: whole.replace(b"llama", b"lamma"),
}


@pytest.mark.parametrize("name", NOT_MODELS)
async def test_a_file_that_is_no_model_is_unavailable_in_words(
    name: str, tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(NOT_MODELS[name](tiny_model.read_bytes()))
    model = engine(path)
    for _ in range(2):  # the same words, whether it was just tried or not
        with pytest.raises(ModelUnavailable, match=r"some-model cannot be loaded: .{10}") as caught:
            await events_of(model, ask("hello"))
        assert "Traceback" not in str(caught.value)
        assert caught.value.next_step
    path.write_bytes(tiny_model.read_bytes())  # put right, it loads without more ado
    assert await works(model) == []
    await model.close()


@pytest.mark.parametrize("seed", range(6))
async def test_a_damaged_header_takes_nothing_with_it(seed: int, tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(flipped(tiny_model.read_bytes(), seed))
    model = engine(path)
    with contextlib.suppress(ModelUnavailable, BackendCrashed):  # some bits do no harm
        await events_of(model, ask("hello"))
    await model.close()


async def test_a_vocabulary_without_weights(tmp_path: Path) -> None:
    model = engine(write_tiny_model(tmp_path / "vocabulary.gguf", weights=False))
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        await load(model)
    await model.close()


async def test_a_file_that_has_vanished(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_model.read_bytes())
    model = engine(path)
    await load(model)
    path.unlink()
    assert await works(model) == []  # what is loaded stays
    await model.close()
    with pytest.raises(ModelUnavailable, match="No such file"):
        await works(model)
    await model.close()


async def test_the_diagnosis_of_the_file_is_told_instead_of_the_librarys_words(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"not a model")

    def diagnose() -> str:
        try:
            check_usable(path, 1 << 40)
        except Exception as error:
            return str(error)
        return ""

    plain = engine(path)
    model = EngineModel("some-model", plain._options, diagnose)
    with pytest.raises(ModelUnavailable, match=r"model\.gguf"):
        await load(model)
    await model.close()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"lora": "/nowhere/a.gguf"}, "/nowhere/a.gguf"),
        ({"gpu_layers": 5}, "gpu_layers"),
        ({"kv_type": "q4_0"}, ""),
    ],
    ids=str,
)
async def test_options(tiny_model: Path, option: dict[str, object], said: str) -> None:
    model = engine(tiny_model, **option)
    if said:
        with pytest.raises(ModelUnavailable, match=said):
            await works(model)
    else:
        assert await works(model) == []
    await model.close()


@pytest.mark.parametrize(
    "template", ["{% broken", "{{ 1 / 0 }}", "{% for m in messages %}" * 25, "{# nothing #}"]
)
async def test_a_bad_template_does_not_end_the_child(template: str, tmp_path: Path) -> None:
    model = engine(write_tiny_model(tmp_path / "bad.gguf", template=template))
    await load(model)
    pid = model.pid
    for _ in range(2):
        with pytest.raises(Exception, match="template"):
            await works(model)
    assert model.pid == pid
    await model.close()


async def test_a_folder_with_modules_of_the_same_names_is_no_obstacle(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People run the program where their own Python files are."""
    for name in ("queue", "socket", "json", "numpy", "jinja2", "llama_cpp", "localchat", "router"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    model = engine(tiny_model)
    assert await works(model) == []
    await model.close()
