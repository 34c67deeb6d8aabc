"""Whatever a header claims, the answer is finite numbers or one line."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localchat.commands.predict import as_json
from localchat.commands.predict_text import lines
from localchat.errors import LocalchatError
from localchat.estimate import Question, estimate
from localchat.hardware import choose_hardware
from localchat.paths import find_paths
from localchat.weights.shapes import shape_at
from tests.bandwidth_model.tiny_gguf import gguf_bytes
from tests.localchat.small_models import HIDDEN, LAYERS, METADATA, VOCABULARY, layer, small_gguf, tensor

KEYS = (
    "context_length",
    "embedding_length",
    "block_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.kv_lora_rank",
    "expert_count",
    "expert_used_count",
    "nextn_predict_layers",
)
DEVICES = (["RTX 4090"], ["RTX 4090", "Ryzen 9 7950X"])

claims = st.dictionaries(
    st.sampled_from([f"llama.{key}" for key in KEYS]),
    st.integers(0, 2**32 - 1)
    | st.sampled_from([0, 1, 2])
    | st.floats(allow_nan=True)
    | st.text(max_size=5)
    | st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=6),
)


def answered(path: Path) -> None:
    with suppress(LocalchatError):
        shape = shape_at(path)
        for devices in DEVICES:
            hardware = choose_hardware(devices, [], None, find_paths())
            found = estimate(shape, hardware, Question())
            json.dumps(as_json(found), allow_nan=False)
            assert all(line.isprintable() for line in lines(found, "name"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(claims)
def test_any_metadata(tmp_path: Path, claimed: dict[str, object]) -> None:
    tensors = [tensor("token_embd.weight", (HIDDEN, VOCABULARY), "Q8_0")]
    tensors += [each for index in range(LAYERS) for each in layer(index)]
    path = tmp_path / "claims.gguf"
    path.write_bytes(gguf_bytes({**METADATA, **claimed}, tensors))
    answered(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.integers(8, 1500), st.integers(0, 255)), max_size=3))
def test_any_damage(tmp_path: Path, damage: list[tuple[int, int]]) -> None:
    content = bytearray(small_gguf(20))
    for place, value in damage:
        content[place] = value
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    answered(path)


def test_a_model_without_layers_is_not_split(tmp_path: Path) -> None:
    path = tmp_path / "table.gguf"
    path.write_bytes(gguf_bytes(METADATA, [tensor("token_embd.weight", (HIDDEN, VOCABULARY), "Q8_0")]))
    answered(path)
