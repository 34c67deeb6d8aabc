"""MLC model directories: mlc-chat-config.json and tensor-cache.json, bytes in, frozen values out.

Owns the two files' format. Does not know what a parameter is for (mlc_shape does) and
never opens a shard. Refuses in one line what is malformed, in bounded memory and time.

Format: python/mlc_llm/interface/gen_config.py of mlc-llm and
python/tvm/contrib/tvmjs.py of TVM, which names the index tensor-cache.json;
older versions wrote ndarray-cache.json.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType

from bandwidth_model.errors import HeaderError

CONFIG_NAME = "mlc-chat-config.json"
INDEX_NAMES = ("tensor-cache.json", "ndarray-cache.json")

# Our own limits: the index of a 670B mixture of experts has about 30 MB and 50k parameters.
MAX_JSON_BYTES = 64 * 2**20
MAX_PARAMETERS = 2**17
MAX_DIMENSIONS = 8
MAX_ELEMENTS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class MlcParameter:
    """``stored_bytes`` are on disk; in memory it takes ``memory_bytes``, as its dtype says."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    stored_bytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def memory_bytes(self) -> int:
        return self.elements * dtype_bits(self.dtype) // 8


@dataclass(frozen=True, slots=True)
class MlcHeader:
    """``model`` is the model_config of the architecture, ``config`` all around it."""

    model_type: str
    quantization: str
    config: Mapping[str, object]
    model: Mapping[str, object]
    parameters: tuple[MlcParameter, ...]

    def whole(self, *keys: str, default: int = 0) -> int:
        """The first non-negative whole number under one of ``keys``, the model's own before the rest."""
        for mapping in (self.model, self.config):
            for key in keys:
                value = mapping.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
                    return value
        return default

    def flag(self, key: str) -> bool:
        return self.model.get(key) is True


def parse_mlc(config: bytes, index: bytes) -> MlcHeader:
    """Read the two files of a model directory; raises HeaderError for anything else."""
    chat = _mapping(_decoded(config, CONFIG_NAME), CONFIG_NAME)
    model = _mapping(chat.get("model_config"), f"model_config of {CONFIG_NAME}")
    nested = model.get("text_config")  # models that also see keep the language model there
    return MlcHeader(
        model_type=_text(chat.get("model_type"), f"model_type of {CONFIG_NAME}"),
        quantization=_text(chat.get("quantization"), f"quantization of {CONFIG_NAME}"),
        config=MappingProxyType(chat),
        model=MappingProxyType({**model, **nested} if isinstance(nested, dict) else model),
        parameters=_parameters(_mapping(_decoded(index, INDEX_NAMES[0]), INDEX_NAMES[0])),
    )


def is_mlc_directory(path: str | os.PathLike[str]) -> bool:
    return (Path(path) / CONFIG_NAME).is_file()


def read_mlc(path: str | os.PathLike[str]) -> MlcHeader:
    """Read a model directory."""
    folder = Path(path)
    index = next((folder / name for name in INDEX_NAMES if (folder / name).is_file()), None)
    if index is None:
        raise HeaderError(f"{folder} has neither {INDEX_NAMES[0]} nor {INDEX_NAMES[1]}")
    return parse_mlc(_bounded_read(folder / CONFIG_NAME), _bounded_read(index))


def dtype_bits(dtype: str) -> int:
    """The last number of a name such as float16, bfloat16, uint32 or e4m3_float8 that is a width."""
    if "float8" in dtype:
        return 8
    widths = [int(width) for width in re.findall(r"\d+", dtype[:32]) if width in ("8", "16", "32", "64")]
    if not widths:
        raise HeaderError(f"the data type {dtype[:32]!r} is unknown")
    return widths[-1]


def _bounded_read(path: Path) -> bytes:
    if not path.is_file():  # reading a pipe would hang
        raise HeaderError(f"{path} is missing")
    with path.open("rb") as file:
        data = file.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise HeaderError(f"{path} has more than {MAX_JSON_BYTES:,} bytes")
    return data


def _decoded(data: bytes, name: str) -> object:
    if len(data) > MAX_JSON_BYTES:
        raise HeaderError(f"{name} has more than {MAX_JSON_BYTES:,} bytes")
    try:
        decoded: object = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        why = str(error).partition("\n")[0]
        raise HeaderError(f"{name} is no JSON: {why}") from None
    return decoded


def _parameters(index: Mapping[str, object]) -> tuple[MlcParameter, ...]:
    parameters = tuple(_records(index))
    names = {parameter.name for parameter in parameters}
    if not parameters:
        raise HeaderError(f"{INDEX_NAMES[0]} names no parameters")
    if len(names) != len(parameters):
        raise HeaderError(f"{INDEX_NAMES[0]} names a parameter twice")
    return parameters


def _records(index: Mapping[str, object]) -> Iterator[MlcParameter]:
    count = 0
    for shard in _list(index.get("records"), "records"):
        for record in _list(_mapping(shard, "a shard").get("records"), "records of a shard"):
            count += 1
            if count > MAX_PARAMETERS:
                raise HeaderError(f"{INDEX_NAMES[0]} names more than {MAX_PARAMETERS:,} parameters")
            yield _parameter(_mapping(record, "a parameter"))


def _parameter(record: Mapping[str, object]) -> MlcParameter:
    name = _text(record.get("name"), "the name of a parameter")
    shape = _list(record.get("shape"), f"the shape of {name}")
    sizes = tuple(_size(each, f"a dimension of {name}") for each in shape[: MAX_DIMENSIONS + 1])
    if len(sizes) > MAX_DIMENSIONS or prod(sizes) > MAX_ELEMENTS:
        raise HeaderError(f"the parameter {name!r} is too large")
    dtype = _text(record.get("dtype"), f"the dtype of {name}")
    dtype_bits(dtype)
    return MlcParameter(name, sizes, dtype, _size(record.get("nbytes"), f"nbytes of {name}"))


def _mapping(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise HeaderError(f"{what} is no JSON object")
    return value


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise HeaderError(f"{what} is no JSON list")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 512:
        raise HeaderError(f"{what} is no name")
    return value


def _size(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_ELEMENTS:
        raise HeaderError(f"{what} is no size")
    return value
