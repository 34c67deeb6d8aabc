"""What a person may set: flags over environment over TOML over defaults, parsed once.

The dataclasses below are the whole list; names, types and defaults are said here
only. ``engine.ctx`` is ``ctx`` in the TOML table ``[engine]`` and
``LOCALCHAT_ENGINE_CTX`` in the environment. Unknown keys are errors.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from localchat.errors import UsageError
from router.decision import Mode
from router.request import Sampling

T = TypeVar("T")
ENV_PREFIX = "LOCALCHAT_"
NOT_SETTINGS = {"LOCALCHAT_HOME", "LOCALCHAT_REQUIRE_REAL_MODEL"}
MODES = get_args(Mode)
PRIVACY = ("ask", "redact", "local", "send")
KV_TYPES = ("f16", "q8_0", "q4_0", "f32")
MAX_THREADS = 512  # GGML_MAX_N_THREADS in ggml.h
MAX_WAIT_S = 86_400  # a day
MAX_COUNT = 2**31 - 1  # llama.cpp counts tokens and layers in 32 bits


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How a model is run. 0 means: chosen for this machine.

    ``ctx`` tokens of context at most (0: all the model was trained for, as far as
    memory allows); ``threads`` and ``prefill_threads`` (0: measured on first use
    and adapted while running); ``gpu_layers`` -1 for all.
    """

    ctx: int = 0
    threads: int = 0
    prefill_threads: int = 0
    kv_type: str = "f16"
    gpu_layers: int = 0
    lora: str = ""
    lora_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class UiSettings:
    theme: str = "textual-dark"
    vim: bool = False


@dataclass(frozen=True, slots=True)
class CloudSettings:
    """A model elsewhere. Nothing is sent there, and no key is read, unless it is asked for.

    ``preset`` is a kind of server (router/cloud/presets.toml); with ``base_url`` alone it is
    "custom". ``api_key_env`` names the variable that holds the key; a key itself is no setting.
    ``temperature`` is low, because answers are to be reproducible. The waits are explained in
    router/cloud/target.py; prices are in dollars per million tokens, None: from router/prices.toml.
    """

    preset: str = ""
    base_url: str = ""
    model: str = ""
    api_key_env: str = ""
    temperature: float = 0.2
    connect_s: float = 10.0
    first_token_s: float = 60.0
    idle_s: float = 30.0
    total_s: float = 600.0
    input_usd_per_mtok: float | None = None
    cached_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None

    @property
    def is_configured(self) -> bool:
        return bool(self.preset or self.base_url)


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Who answers, and on which terms something leaves this machine.

    ``mode`` is local, auto or cloud; ``offline`` leaves no way off this machine at all.
    ``privacy`` says what becomes of identifiers and secrets in what would leave: ask, redact,
    local (such a question stays here) or send. ``profile`` separates what is cached and spent.
    ``ttft_s`` and ``total_s`` are the longest waits for a local answer in auto mode. ``hard_from``
    is the probability that the cloud's answer is better, from which on it is asked. A question
    whose price is not known goes to the cloud in auto mode only if ``unpriced``. ``cache``: answers
    of the cloud are kept and given again. ``keep_text``: the ledger holds what was said, too.
    ``rules`` is a file of facts that answers are checked against.
    """

    mode: str = "local"
    offline: bool = False
    privacy: str = "ask"
    profile: str = "default"
    daily_usd: float = 1.0
    conversation_usd: float = 0.25
    unpriced: bool = False
    ttft_s: float = 20.0
    total_s: float = 180.0
    hard_from: float = 0.5
    cache: bool = True
    keep_text: bool = False
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    model: str = "default"
    system: str = "You are a helpful assistant. Answer clearly and to the point."
    engine: EngineSettings = field(default_factory=EngineSettings)
    sampling: Sampling = field(default_factory=Sampling)
    ui: UiSettings = field(default_factory=UiSettings)
    cloud: CloudSettings = field(default_factory=CloudSettings)
    routing: RoutingSettings = field(default_factory=RoutingSettings)


def load_settings(
    file: Path, environ: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """Settings from all four places.

    ``flags`` maps dotted names ("sampling.seed") to values of the right type;
    None means not given. Raises UsageError for what is unknown or of the wrong
    type, naming where it stands and the nearest right name.
    """
    values: dict[str, object] = {}
    values.update(_from_toml(file))
    values.update(_from_environment(environ))
    values.update({name: value for name, value in (flags or {}).items() if value is not None})
    return _validated(_apply(Settings(), values))


def setting_types(kind: type = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and type of every setting."""
    hints = get_type_hints(kind)
    for item in fields(kind):
        name, hint = f"{prefix}{item.name}", hints[item.name]
        if is_dataclass(hint):
            assert isinstance(hint, type)
            yield from setting_types(hint, f"{name}.")
        else:
            yield name, hint


def _from_toml(file: Path) -> Iterator[tuple[str, object]]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Correct or remove it.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text: {error}.", "Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not valid TOML: {error}.", "Correct that line.") from error
    types = dict(setting_types())
    for name, value in _flatten(table):
        yield name, _checked(name, value, types, str(file))


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    types = dict(setting_types())
    names = {ENV_PREFIX + name.replace(".", "_").upper(): name for name in types}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable not in names:
            raise UsageError(f"{variable} is not a setting.{_nearest(variable, names)}")
        name = names[variable]
        yield name, _checked(name, _read(text, types[name], variable), types, variable)


def _read(text: str, hint: Any, where: str) -> object:
    """``text`` from the environment as the type ``hint`` asks for."""
    kinds = get_args(hint) or (hint,)
    try:
        if bool in kinds:
            return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[
                text.lower()
            ]
        if str in kinds and hint is str:
            return text
        if str in kinds:  # a tuple of strings
            return [part for part in text.split(",") if part]
        return int(text) if int in kinds else float(text)
    except (KeyError, ValueError) as error:
        raise UsageError(f"{where}={text!r} is not {_kind(hint)}.") from error


def _checked(name: str, value: object, types: Mapping[str, Any], where: str) -> object:
    if name not in types:
        raise UsageError(f"{where}: unknown setting {name!r}.{_nearest(name, types)}")
    hint = types[name]
    if float in (get_args(hint) or (hint,)) and type(value) is int:
        value = float(str(value))  # TOML has no largest whole number: too large a one is inf
    if get_origin(hint) is tuple:
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
    elif type(value) in (get_args(hint) or (hint,)):
        return value
    raise UsageError(f"{where}: {name} = {value!r} is not {_kind(hint)}.")


def _kind(hint: Any) -> str:
    kinds = get_args(hint) or (hint,)
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    if hint is not str and str in kinds:
        return "a list of texts"
    return next((names[kind] for kind in kinds if kind in names), "a valid value")


def _nearest(name: str, known: Mapping[str, object]) -> str:
    last = name.removeprefix(ENV_PREFIX) if name.startswith(ENV_PREFIX) else name.rpartition(".")[2]
    tail = f"_{last}" if name.startswith(ENV_PREFIX) else f".{last}"
    near = [k for k in known if f".{k}".endswith(tail)]  # right name, wrong table
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(sorted(known))}."


def _apply(settings: T, values: Mapping[str, object]) -> T:
    changes: dict[str, Any] = {}
    for item in fields(settings):  # type: ignore[arg-type]  # T is one of the dataclasses above
        value = getattr(settings, item.name)
        if is_dataclass(value):
            mine = {n.partition(".")[2]: v for n, v in values.items() if n.startswith(f"{item.name}.")}
            changes[item.name] = _apply(value, mine)
        elif item.name in values:
            changes[item.name] = values[item.name]
    return replace(settings, **changes)  # type: ignore[type-var]  # likewise


def _validated(settings: Settings) -> Settings:
    s, e = settings.sampling, settings.engine
    rules: list[tuple[bool, str]] = [
        (0.0 <= s.temperature <= 5.0, "sampling.temperature must be between 0 and 5."),
        (0.0 < s.top_p <= 1.0, "sampling.top_p must be above 0 and at most 1."),
        (0.0 <= s.min_p <= 1.0, "sampling.min_p must be between 0 and 1."),
        (s.top_k >= 0, "sampling.top_k must be 0 (off) or more."),
        (0.0 < s.repeat_penalty < math.inf, "sampling.repeat_penalty must be above 0 and finite."),
        (math.isfinite(s.frequency_penalty), "sampling.frequency_penalty must be finite."),
        (math.isfinite(s.presence_penalty), "sampling.presence_penalty must be finite."),
        (s.max_tokens is None or s.max_tokens > 0, "sampling.max_tokens must be 1 or more."),
        (s.seed is None or 0 <= s.seed < 2**32 - 1, "sampling.seed must be between 0 and 4294967294."),
        (0 <= e.ctx <= MAX_COUNT, f"engine.ctx must be between 0 (automatic) and {MAX_COUNT}."),
        (0 <= e.threads <= MAX_THREADS, f"engine.threads must be between 0 (automatic) and {MAX_THREADS}."),
        (
            0 <= e.prefill_threads <= MAX_THREADS,
            f"engine.prefill_threads must be between 0 (automatic) and {MAX_THREADS}.",
        ),
        (e.kv_type in KV_TYPES, f"engine.kv_type must be one of {', '.join(KV_TYPES)}."),
        (-1 <= e.gpu_layers <= MAX_COUNT, f"engine.gpu_layers must be between -1 (all) and {MAX_COUNT}."),
        (math.isfinite(e.lora_scale), "engine.lora_scale must be finite."),
    ]
    for holds, message in [*rules, *_cloud_rules(settings.cloud), *_routing_rules(settings.routing)]:
        if not holds:
            raise UsageError(message)
    return settings


def _cloud_rules(cloud: CloudSettings) -> Iterator[tuple[bool, str]]:
    yield 0.0 <= cloud.temperature <= 5.0, "cloud.temperature must be between 0 and 5."
    for name in ("connect_s", "first_token_s", "idle_s", "total_s"):
        yield (
            0.0 < getattr(cloud, name) <= MAX_WAIT_S,
            f"cloud.{name} must be above 0 and at most {MAX_WAIT_S}.",
        )
    for name in ("input", "cached", "output"):
        price = getattr(cloud, f"{name}_usd_per_mtok")
        holds = price is None or 0.0 <= price < math.inf
        yield holds, f"cloud.{name}_usd_per_mtok must be 0 or more and finite."
    safe = not cloud.api_key_env or cloud.api_key_env.isidentifier()
    # not quoted: it may be a key
    yield safe, "cloud.api_key_env must be the name of an environment variable, not the key itself."


def _routing_rules(routing: RoutingSettings) -> Iterator[tuple[bool, str]]:
    yield routing.mode in MODES, f"routing.mode must be one of {', '.join(MODES)}."
    yield routing.privacy in PRIVACY, f"routing.privacy must be one of {', '.join(PRIVACY)}."
    yield bool(routing.profile), "routing.profile must be a name."
    for name in ("daily_usd", "conversation_usd"):
        yield 0.0 <= getattr(routing, name) < math.inf, f"routing.{name} must be 0 or more and finite."
    for name in ("ttft_s", "total_s"):
        yield 0.0 < getattr(routing, name) <= MAX_WAIT_S, f"routing.{name} must be above 0 and at most a day."
    yield 0.0 <= routing.hard_from <= 1.0, "routing.hard_from must be between 0 and 1."
