"""Request-level batching of generation: by hand beside static, and against the server of batches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.simcloud.dynamic.batch_cost import PaddedGeneration
from router.simcloud.dynamic.repository import Call, Repository, ServedModel
from router.simcloud.dynamic.rule import BatchRule
from router.simcloud.dynamic.server import Answered, Outcome, Server
from router.simcloud.gpu import find_gpu
from router.simcloud.llm import find_llm
from router.simcloud.request import Job
from router.simcloud.roofline import Roofline
from router.simcloud.schedulers.orca import Orca
from router.simcloud.schedulers.request_level import RequestLevel
from router.simcloud.schedulers.static import Static
from tests.router.simcloud.serving import TEN_MS, job, serve

JOBS = [job(0, 0.0, 16, 2), job(1, 0.004, 16, 4), job(2, 0.006, 16, 1)]


def ends_ms(policy: RequestLevel | Static | Orca) -> list[int]:
    done = serve(JOBS, policy)
    return [done.end_ms(number) for number in range(3)]


def test_a_delay_forms_the_batch_that_static_misses() -> None:
    """Static sends 0 alone; with 5 ms of delay 1 is in its batch, and 2 waits for that batch's end."""
    assert ends_ms(Static(8)) == [20, 60, 30]
    assert ends_ms(RequestLevel(BatchRule(8))) == [20, 60, 30]
    assert ends_ms(RequestLevel(BatchRule(8, max_delay_s=0.005))) == [25, 45, 55]
    assert ends_ms(Orca(8)) == [20, 50, 20]


def test_the_arrival_that_completes_a_size_sends_it() -> None:
    assert ends_ms(RequestLevel(BatchRule(8, (3,), 0.5))) == [26, 46, 16]
    assert ends_ms(RequestLevel(BatchRule(2, (), 0.5))) == [24, 44, 516]


@st.composite
def equal_prompts(draw: st.DrawFn) -> list[Job]:
    at_s, jobs = 0.0, []
    for number in range(draw(st.integers(1, 15))):
        at_s += draw(st.one_of(st.just(0.0), st.floats(0.0, 0.2)))
        jobs.append(job(number, at_s, draw(st.integers(1, 200)), draw(st.integers(1, 40))))
    return jobs


@pytest.mark.parametrize("cost", [TEN_MS, Roofline(find_llm("llama-3-8b"), find_gpu("a100"))])
@given(jobs=equal_prompts(), delay_s=st.sampled_from([0.0, 0.05, 1.0]), preferred=st.sampled_from([(), (3,)]))
@settings(max_examples=25, deadline=None)
def test_engine_and_batch_server_agree(
    cost: Roofline, jobs: list[Job], delay_s: float, preferred: tuple[int, ...]
) -> None:
    """Written twice, once by steps and once by whole batches: first tokens and batch ends are the same."""
    rule = BatchRule(4, preferred, delay_s)
    stepped = serve(jobs, RequestLevel(rule), cost=cost)
    found: list[Outcome] = []
    model = ServedModel("m", PaddedGeneration(cost), rule)
    Server(Repository([model]), map(Call, jobs), found.append).run()
    for each in found:
        assert isinstance(each, Answered)
        done = stepped.completed[each.request.id]
        assert done.first_token_s == pytest.approx(each.first_s, abs=1e-9)
        assert done.finished_s <= each.finished_s + 1e-9
    last_s = max(each.finished_s for each in stepped.completed.values())
    assert last_s == pytest.approx(max(each.finished_s for each in found if isinstance(each, Answered)))
