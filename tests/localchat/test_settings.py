"""Flags over environment over TOML over defaults; what is wrong is named, with its place."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localchat.errors import UsageError
from localchat.flags import SETTING_FLAGS
from localchat.paths import Paths, find_paths
from localchat.settings import NOT_SETTINGS, Settings, load_settings, setting_types

NO_FILE = Path("/nowhere/config.toml")

SAMPLES: Mapping[str, Sequence[Any]] = {
    "routing.mode": ["local", "auto", "cloud"],
    "routing.offline": [True, False],
    "routing.privacy": ["ask", "redact", "local", "send"],
    "routing.profile": ["work", "a b"],
    "routing.daily_usd": [0.0, 2.5],
    "routing.conversation_usd": [0.0, 0.25],
    "routing.unpriced": [True, False],
    "routing.ttft_s": [0.5, 86_400.0],
    "routing.total_s": [1.0, 600.0],
    "routing.hard_from": [0.0, 0.5, 1.0],
    "routing.cache": [True, False],
    "routing.keep_text": [True, False],
    "routing.rules": ["", "facts.toml"],
    "model": ["default", "other/model.gguf", 'odd "name"'],
    "system": ["", "Be brief.", "two\nlines é"],
    "engine.ctx": [0, 512, 2**31 - 1],
    "engine.threads": [0, 1, 512],
    "engine.prefill_threads": [0, 2, 512],
    "engine.kv_type": ["f16", "q8_0", "q4_0", "f32"],
    "engine.gpu_layers": [-1, 0, 99],
    "engine.lora": ["", "~/adapter.gguf"],
    "engine.lora_scale": [1.0, -0.5, 2.0],
    "sampling.temperature": [0.0, 0.7, 5.0],
    "sampling.top_p": [0.01, 0.5, 1.0],
    "sampling.top_k": [0, 1, 100],
    "sampling.min_p": [0.0, 0.05, 1.0],
    "sampling.repeat_penalty": [0.1, 1.0, 1.3],
    "sampling.frequency_penalty": [0.0, -1.0, 0.5],
    "sampling.presence_penalty": [0.0, 1.5],
    "sampling.seed": [0, 42, 2**32 - 2],
    "sampling.max_tokens": [1, 4096],
    "sampling.stop": [(), ("END",), ("a", "b")],
    "ui.theme": ["textual-dark", "nord"],
    "ui.vim": [True, False],
    "cloud.preset": ["", "openai", "llama.cpp"],
    "cloud.base_url": ["", "https://api.example/v1"],
    "cloud.model": ["", "a/model:7b"],
    "cloud.api_key_env": ["", "MY_KEY"],
    "cloud.temperature": [0.0, 0.2, 5.0],
    "cloud.connect_s": [0.1, 10.0],
    "cloud.first_token_s": [1.5, 86400.0],
    "cloud.idle_s": [1.0, 30.0],
    "cloud.total_s": [1.0, 600.0],
    "cloud.input_usd_per_mtok": [0.0, 2.5],
    "cloud.cached_usd_per_mtok": [0.0, 0.25],
    "cloud.output_usd_per_mtok": [0.0, 10.0],
}
"""Valid values of every setting."""

WRONG: Mapping[type | str, Sequence[Any]] = {
    "int": [1.5, True, "7", [7]],
    "float": ["0.5", True, [0.5]],
    "str": [1, True, ["a"]],
    "bool": [1, "true"],
    "tuple": ["END", [1], [["a"]]],
}


def nested(values: Mapping[str, Any]) -> str:
    """``values`` as TOML, with tables."""
    top = [f"{name} = {toml(value)}" for name, value in values.items() if "." not in name]
    tables: dict[str, list[str]] = {}
    for name, value in values.items():
        table, dot, key = name.partition(".")
        if dot:
            tables.setdefault(table, []).append(f"{key} = {toml(value)}")
    return "\n".join([*top, *(f"[{name}]\n" + "\n".join(lines) for name, lines in tables.items())])


def toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def variable(name: str) -> str:
    return "LOCALCHAT_" + name.replace(".", "_").upper()


def environ(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        variable(name): ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
    }


def value_of(loaded: Settings, name: str) -> Any:
    found: Any = loaded
    for part in name.split("."):
        found = getattr(found, part)
    return found


def from_toml(tmp_path: Path, text: str | bytes) -> Settings:
    file = tmp_path / "config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(file, {})


def kind_of(name: str) -> str:
    hint = str(dict(setting_types())[name])
    return next(kind for kind in ("tuple", "bool", "int", "float", "str") if kind in hint)


def test_the_samples_cover_every_setting() -> None:
    assert set(SAMPLES) == set(dict(setting_types()))
    assert set(SETTING_FLAGS.values()) <= set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_setting_can_be_set_in_each_place(tmp_path: Path, name: str) -> None:
    for value in SAMPLES[name]:
        got = [
            from_toml(tmp_path, nested({name: value})),
            load_settings(NO_FILE, environ({name: value})),
            load_settings(NO_FILE, {}, {name: value}),
        ]
        assert [value_of(loaded, name) for loaded in got] == [value] * 3
        assert [type(value_of(loaded, name)) for loaded in got] == [type(value)] * 3


def some_values() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(SAMPLES[name]) for name in SAMPLES})


@settings(max_examples=60, deadline=None)
@given(some_values(), some_values(), some_values())
def test_flags_win_over_environment_over_toml_over_defaults(
    file: dict[str, Any], variables: dict[str, Any], flags: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.toml")
        path.write_text(nested(file), encoding="utf-8")
        not_given = dict.fromkeys(SETTING_FLAGS.values())
        loaded = load_settings(path, environ(variables) | {"PATH": "/bin"}, not_given | flags)
    expected = file | variables | flags
    for name in SAMPLES:
        assert value_of(loaded, name) == expected.get(name, value_of(Settings(), name))


def test_without_anything_the_defaults_hold() -> None:
    assert load_settings(NO_FILE, {}) == load_settings(NO_FILE, {}, {"sampling.seed": None}) == Settings()
    assert load_settings(NO_FILE, dict.fromkeys(NOT_SETTINGS, "x")) == Settings()


# -- what is wrong is named


@pytest.mark.parametrize("name", SAMPLES)
def test_a_wrong_type_names_file_setting_and_what_is_wanted(tmp_path: Path, name: str) -> None:
    for value in WRONG[kind_of(name)]:
        with pytest.raises(UsageError) as caught:
            from_toml(tmp_path, nested({name: value}))
        text = str(caught.value)
        assert str(tmp_path / "config.toml") in text
        assert f"{name} = {value!r} is not" in text


@pytest.mark.parametrize(
    ("toml_text", "nearest"),
    [
        ("modle = 'x'", "model"),
        ("temperature = 0.5", "sampling.temperature"),
        ("[engine]\ntemperature = 0.5", "sampling.temperature"),
        ("[sampling]\ntemprature = 0.5", "sampling.temperature"),
        ("[sampling]\nctx = 512", "engine.ctx"),
        ("[egine]\nctx = 512", "engine.ctx"),
        ("ctx = 512", "engine.ctx"),
        ("[model]\nname = 'x'", "model"),
        ("[engine.threads]\ndecode = 2", "engine.threads"),
    ],
)
def test_an_unknown_key_or_wrong_table_names_the_nearest(
    tmp_path: Path, toml_text: str, nearest: str
) -> None:
    with pytest.raises(UsageError) as caught:
        from_toml(tmp_path, toml_text)
    assert str(tmp_path) in str(caught.value)
    assert f"Did you mean '{nearest}'?" in str(caught.value)


def test_a_key_like_no_other_gets_the_whole_list(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"unknown setting 'qqqqq'\. Known: cloud\.api_key_env, .* ui\.vim\."
    ):
        from_toml(tmp_path, "qqqqq = 1")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("LOCALCHAT_MODLE", "x", "LOCALCHAT_MODLE is not a setting. Did you mean 'LOCALCHAT_MODEL'?"),
        ("LOCALCHAT_TEMPERATURE", "1", "Did you mean 'LOCALCHAT_SAMPLING_TEMPERATURE'?"),
        ("LOCALCHAT_ENGINE_CTX", "big", "LOCALCHAT_ENGINE_CTX='big' is not a whole number."),
        ("LOCALCHAT_ENGINE_CTX", "1.5", "is not a whole number"),
        ("LOCALCHAT_ENGINE_CTX", "", "is not a whole number"),
        ("LOCALCHAT_SAMPLING_SEED", "9" * 5000, "is not a whole number"),
        ("LOCALCHAT_SAMPLING_TOP_P", "high", "is not a number"),
        ("LOCALCHAT_UI_VIM", "perhaps", "is not true or false"),
    ],
)
def test_a_wrong_variable_is_named(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(NO_FILE, {name: text})
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "Yes", "0", "false", "no"])
def test_true_and_false_have_the_usual_names(text: str) -> None:
    loaded = load_settings(NO_FILE, {"LOCALCHAT_UI_VIM": text})
    assert loaded.ui.vim == (text.lower() in ("1", "true", "yes"))


OUT_OF_RANGE: Mapping[str, Sequence[float]] = {
    "sampling.temperature": [-0.1, 5.1, float("nan"), float("inf"), 10**400],
    "sampling.top_p": [0.0, 1.1, float("nan")],
    "sampling.top_k": [-1],
    "sampling.min_p": [-0.1, 1.1],
    "sampling.repeat_penalty": [0.0, -1.0, float("inf"), float("nan")],
    "sampling.frequency_penalty": [float("inf"), float("nan")],
    "sampling.presence_penalty": [float("-inf"), float("nan"), -(10**400)],
    "sampling.max_tokens": [0, -1],
    "sampling.seed": [-1, 2**32 - 1],
    "engine.ctx": [-1, 2**31],
    "engine.threads": [-1, 513],
    "engine.prefill_threads": [-1, 513],
    "engine.gpu_layers": [-2, 2**31],
    "engine.lora_scale": [float("nan"), float("inf")],
    "cloud.temperature": [-0.1, 5.1, float("nan")],
    "cloud.connect_s": [0.0, -1.0, float("nan")],
    "cloud.first_token_s": [0.0, float("inf")],
    "cloud.idle_s": [0.0],
    "cloud.total_s": [0.0, 86_401],
    "cloud.input_usd_per_mtok": [-0.1, float("inf"), float("nan")],
    "cloud.cached_usd_per_mtok": [-0.1],
    "cloud.output_usd_per_mtok": [-0.1],
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_value_out_of_range_is_named_wherever_it_stands(tmp_path: Path, name: str) -> None:
    table, _, key = name.partition(".")
    for value in OUT_OF_RANGE[name]:
        with pytest.raises(UsageError, match=f"^{name} must be"):
            from_toml(tmp_path, f"[{table}]\n{key} = {value}")
        if abs(value) != 10**400:
            with pytest.raises(UsageError, match=f"^{name} must be"):
                load_settings(NO_FILE, environ({name: value}))
            with pytest.raises(UsageError, match=f"^{name} must be"):
                load_settings(NO_FILE, {}, {name: value})


@pytest.mark.parametrize("name", ["cloud.input_usd_per_mtok", "cloud.total_s", "sampling.top_p"])
def test_a_whole_number_is_a_number(tmp_path: Path, name: str) -> None:
    table, _, key = name.partition(".")
    assert value_of(from_toml(tmp_path, f"[{table}]\n{key} = 1"), name) == 1.0


def test_a_key_in_the_settings_is_refused_without_being_quoted(tmp_path: Path) -> None:
    for text in ("api_key_env = 'sk-secret-1'", "api_key = 'sk-secret-1'"):
        with pytest.raises(UsageError, match="api_key_env") as caught:
            from_toml(tmp_path, f"[cloud]\n{text}")
        assert "secret" not in str(caught.value)


def test_an_unknown_cache_type_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"engine\.kv_type must be one of f16, q8_0, q4_0, f32"):
        load_settings(NO_FILE, {"LOCALCHAT_ENGINE_KV_TYPE": "q5_0"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[engine\nctx = 1", "is not valid TOML"),
        (b"model = 'a'\nmodel = 'b'", "is not valid TOML"),
        (b"model = '\xff\xfe'", "is not UTF-8 text"),
        ("model = 'x'".encode("utf-16"), "is not UTF-8 text"),
        (b"model = 1979-05-27", "is not text"),
        (b"[engine]\nctx = " + b"9" * 5000, "is not valid TOML"),
        (b"model = " + b"[" * 100_000, "is not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_toml(tmp_path, content)
    assert str(tmp_path / "config.toml") in str(caught.value)
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_named_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    folder = tmp_path / "config.toml"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"config\.toml cannot be read: Is a directory\."):
        load_settings(folder, {})
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match=r"loop\.toml cannot be read"):
        load_settings(loop, {})
    (tmp_path / "file").touch()
    assert load_settings(tmp_path / "file" / "config.toml", {}) == Settings()


def test_an_empty_file_and_empty_tables_change_nothing(tmp_path: Path) -> None:
    assert from_toml(tmp_path, "# nothing\n[engine]\n[sampling]\n[ui]\n") == Settings()


# -- where files live


def test_localchat_home_holds_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path))
    paths = find_paths()
    assert paths == Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    assert (paths.settings, paths.history) == (tmp_path / "config/config.toml", tmp_path / "data/history.db")
    assert paths.models == tmp_path / "data/models"
    assert list(tmp_path.iterdir()) == []


def test_localchat_home_may_be_in_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALCHAT_HOME", "~/chat")
    assert find_paths().data == tmp_path / "chat/data"
    monkeypatch.setenv("LOCALCHAT_HOME", "~nobody-of-that-name/chat")
    with pytest.raises(UsageError, match="no such user"):
        find_paths()


@pytest.mark.parametrize("home", [None, ""])
def test_without_it_the_platform_says_where(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    monkeypatch.delenv("LOCALCHAT_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("LOCALCHAT_HOME", home)
    paths = find_paths()
    assert all("localchat" in str(path) for path in (paths.config, paths.data, paths.cache))
