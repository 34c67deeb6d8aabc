"""Request lists of others: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.errors import InvalidSimulation
from router.simcloud.kv import content_keys
from router.simcloud.trace_files import open_trace

VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,3\n0.25,20,4\n"
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
MOONCAKE = '{"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'
ALIKE = (list(range(33)), [*range(20), *range(90, 110)])  # the first 20 tokens are the same
WORKLOAD = (
    f'{{"input_toks": 33, "output_toks": 2, "arrival_time_ns": 1500000000, "input_tok_ids": {ALIKE[0]}}}\n'
    f'{{"input_toks": 40, "output_toks": 3, "arrival_time_ns": 2000000000, "input_tok_ids": {ALIKE[1]}}}\n'
    '{"input_toks": 9, "output_toks": 3, "arrival_time_ns": 2000000000}\n'
)
VLLM = """{"arrival_time": 100.5, "input_toks": 7, "output_toks": 2}
{"arrival_time": 101.0, "input_toks": 8, "output_toks": 3}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "requests"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (VIDUR, [(0.25, 20, 4), (0.5, 10, 3)]),
        (AZURE, [(0.0, 374, 44), (4.314579, 396, 109)]),
        (MOONCAKE, [(3.0, 6758, 500)]),
        (VLLM, [(0.0, 7, 2), (0.5, 8, 3)]),
        (WORKLOAD, [(1.5, 33, 2), (2.0, 40, 3), (2.0, 9, 3)]),
    ],
)
def test_formats(tmp_path: Path, text: str, expected: list[tuple[float, int, int]]) -> None:
    jobs = list(open_trace(written(tmp_path, text)))
    found = [(each.request.arrived_s, each.request.prompt_tokens, each.output_tokens) for each in jobs]
    assert found == pytest.approx(expected)


def test_mooncake_names_shared_prompts(tmp_path: Path) -> None:
    (job,) = open_trace(written(tmp_path, MOONCAKE), max_tokens=600)
    assert (job.request.prefix, job.request.prefix_block_tokens, job.request.max_tokens) == ((0, 1), 512, 600)


def test_prompts_given_by_their_tokens_are_known_to_begin_alike(tmp_path: Path) -> None:
    first, second, bare = (job.request for job in open_trace(written(tmp_path, WORKLOAD)))
    assert (len(first.prefix), len(second.prefix), bare.prefix) == (2, 2, ())
    assert first.prefix[0] == second.prefix[0]
    assert first.prefix[1] != second.prefix[1]
    assert len(content_keys(first, 16)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,c\n1,2,3\n", "no request list"),
        (VIDUR + "1.0,-4,2\n", "line 4"),
        (VIDUR + "1.0,4\n", "too few columns"),
        (VIDUR + "nan,4,3\n", "time of arrival"),
        (VIDUR.splitlines()[0] + "\n", "no requests"),
        (MOONCAKE + "{\n", "line 2"),
        ('{"timestamp": 1}\n', "input_length"),
        ('{"arrival_time_ns": -1, "input_toks": 3, "output_toks": 2}\n', "time of arrival"),
        ('{"arrival_time_ns": 1, "input_toks": 3, "output_toks": 2, "input_tok_ids": 7}\n', "line 1"),
        ("", "no request list"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidSimulation, match=said):
        list(open_trace(written(tmp_path, text)))
