"""Everything a cloud can do wrong ends in one typed error that names the next step, and nothing is lost."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import zlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router.cloud.breaker import Breaker
from router.cloud.client.backend import CloudBackend
from router.cloud.keys import ApiKey, FoundKey
from router.cloud.receive import PIECES_BEYOND
from router.cloud.target import Deadlines, make_target
from router.errors import (
    CloudBusy,
    CloudCutOff,
    CloudError,
    CloudFault,
    CloudMalformed,
    CloudModelUnknown,
    CloudRefused,
    CloudResting,
    CloudTimeout,
    CloudUnreachable,
    ContextOverflow,
    InvalidRequest,
    RouterError,
    TooLarge,
)
from router.request import Delta, Event, Finished, Notice, Usage
from tests.router.cloud.cloud_server import DONE, GOOD, JSON, SSE, Answer, Cloud, chunk, error, running_cloud
from tests.router.cloud.test_client import REQUEST, Time, answer_of, backend_of, finish

HASTE = Deadlines(connect_s=2, first_token_s=0.4, idle_s=0.4, total_s=1.6)
WHOLE = [Delta("Hel"), Delta("lo")]


async def failure(backend: CloudBackend) -> tuple[list[Event], RouterError]:
    """What came before the error, and the error."""
    events: list[Event] = []
    with pytest.raises(RouterError) as caught:
        async for event in backend.stream(REQUEST):
            events.append(event)  # noqa: PERF401  # those before the error are wanted
    await backend.close()
    checked(caught.value)
    return events, caught.value


def checked(error: RouterError) -> None:
    """It says what to do, and none of httpx's errors, which hold the request, hangs on it."""
    assert error.next_step
    chain: BaseException | None = error
    while chain := chain.__cause__ or chain.__context__:
        assert not type(chain).__module__.startswith(("httpx", "httpcore", "h11"))


async def outcome(*answers: Answer, **options: Any) -> tuple[Cloud, list[Event], RouterError]:
    async with running_cloud(*answers) as cloud:
        return cloud, *await failure(backend_of(cloud, **options))


async def success(*answers: Answer, **options: Any) -> tuple[Cloud, list[Event]]:
    async with running_cloud(*answers) as cloud:
        return cloud, await answer_of(backend_of(cloud, **options))


# -- before the answer


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(400, "temperature is wrong", param="temperature"), InvalidRequest),
        (error(401, code="invalid_api_key"), CloudRefused),
        (error(402), CloudBusy),
        (error(403), CloudRefused),
        (error(404, code="model_not_found"), CloudModelUnknown),
        (error(409), CloudError),
        (error(413), TooLarge),
        (error(422), InvalidRequest),
        (error(429, code="insufficient_quota"), CloudBusy),
    ],
)
async def test_a_refusal_is_not_tried_again(answer: Answer, kind: type[RouterError]) -> None:
    cloud, events, raised = await outcome(answer)
    assert type(raised) is kind
    assert (len(cloud.requests), events) == (1, [])
    assert str(answer.status) in raised.message


async def test_a_context_overflow_has_its_counts() -> None:
    words = (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    )
    _, _, raised = await outcome(error(400, words, code="context_length_exceeded"))
    assert isinstance(raised, ContextOverflow)
    assert (raised.prompt_tokens, raised.window_tokens) == (9000, 8192)


@pytest.mark.parametrize("answer", [error(408), error(429), error(500), error(502), error(503), error(529)])
async def test_what_may_pass_is_tried_again(answer: Answer) -> None:
    time = Time()
    cloud, events = await success(answer, answer, Answer(), sleep=time.sleep)
    assert len(cloud.requests) == 3
    first, second, *rest = events
    assert isinstance(first, Notice)
    assert isinstance(second, Notice)
    assert "Trying again in 0.5 s" in first.text
    assert rest[:-1] == WHOLE
    assert time.waits_s == [0.5, 1.0]


async def test_patience_ends_with_the_last_error() -> None:
    time = Time()
    cloud, events, raised = await outcome(error(500), error(503, "Still."), sleep=time.sleep)
    assert (type(raised), len(cloud.requests), len(events)) == (CloudFault, 3, 2)
    assert "503" in raised.message
    assert "Still." in raised.message


@pytest.mark.parametrize(
    ("header", "wait_s"), [({"Retry-After": "3"}, 3.0), ({"retry-after-ms": "250"}, 0.25), ({}, 0.5)]
)
async def test_a_wait_the_server_asks_for_is_kept(header: dict[str, str], wait_s: float) -> None:
    time = Time()
    await success(error(429, headers=header), Answer(), sleep=time.sleep)
    assert time.waits_s == [wait_s]


async def test_a_wait_beyond_the_deadline_is_told_instead() -> None:
    cloud, events, raised = await outcome(error(429, headers={"Retry-After": "3600"}))
    assert isinstance(raised, CloudBusy)
    assert (raised.retry_after_s, len(cloud.requests), events) == (3600, 1, [])


async def test_all_tries_share_one_deadline() -> None:
    time = Time()
    deadlines = Deadlines(first_token_s=5)
    header = {"Retry-After": "3"}
    cloud, events, raised = await outcome(
        error(503, headers=header), clock=time, sleep=time.sleep, deadlines=deadlines
    )
    assert (len(cloud.requests), len(events), type(raised)) == (2, 1, CloudFault)


async def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        target = make_target("custom", base_url=f"http://127.0.0.1:{held.getsockname()[1]}", model="m")
        time = Time()
        events, raised = await failure(
            CloudBackend(target, lambda: FoundKey(None, ""), sleep=time.sleep, chance=lambda: 0.0)
        )
    assert (type(raised), len(events), time.waits_s) == (CloudUnreachable, 2, [0.5, 1.0])
    assert "cannot be reached" in raised.message
    assert "Start the server" in raised.next_step


async def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("anyio.connect_tcp", unknown)
    target = make_target("custom", base_url="https://cloud.invalid/v1", model="m")
    backend = CloudBackend(target, lambda: FoundKey(None, ""), sleep=Time().sleep)
    _, raised = await failure(backend)
    assert isinstance(raised, CloudUnreachable)
    assert "No address is known for cloud.invalid" in raised.message


async def test_a_server_that_cannot_prove_who_it_is() -> None:
    async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(no_tls, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        target = make_target("custom", base_url=url, model="m")
        events, raised = await failure(CloudBackend(target, lambda: FoundKey(None, "")))
    assert isinstance(raised, CloudUnreachable)
    assert "TLS" in raised.message
    assert events == []  # no use in trying again


async def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        Path(__file__).with_name("self_signed.pem")
    )  # made for this test, of no other use
    heard = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        target = make_target("custom", base_url=url, model="m")
        key = FoundKey(ApiKey("sk-secret"), "a test")
        events, raised = await failure(CloudBackend(target, lambda: key))
    assert isinstance(raised, CloudUnreachable)
    assert "cannot prove who it is (TLS)" in raised.message
    assert (events, heard) == ([], [])  # no second try, and nothing was sent


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_named_and_not_followed(status: int) -> None:
    moved = Answer((), status, {"Location": "https://elsewhere.example/v1\x1b[31m?secret=1"})
    cloud, events, raised = await outcome(moved, key="sk-1")
    assert (len(cloud.requests), events) == (1, [])
    assert "https://elsewhere.example/v1" in raised.message
    assert "secret" not in raised.message
    assert "\x1b" not in raised.message


async def test_a_connection_that_is_closed_at_once_is_tried_again() -> None:
    cloud, events = await success(Answer(silent=True), Answer(), sleep=Time().sleep)
    assert len(cloud.requests) == 2
    assert events[1:-1] == WHOLE


@pytest.mark.parametrize("content_type", ["text/html", "text/plain", "application/octet-stream"])
async def test_a_wrong_content_type(content_type: str) -> None:
    page = Answer((b"<html>Log in</html>",), 200, {"Content-Type": content_type})
    _, events, raised = await outcome(page)
    assert isinstance(raised, CloudMalformed)
    assert (events, content_type in raised.message) == ([], True)


async def test_no_content_type_is_taken_for_a_stream() -> None:
    _, events = await success(Answer(headers={}))
    assert events[:-1] == WHOLE


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 70_000, b"x" * 200_000])
async def test_an_error_with_any_body(body: bytes) -> None:
    _, _, raised = await outcome(Answer((body,) if body else (), 401, JSON))
    assert isinstance(raised, CloudRefused)


async def test_an_error_whose_body_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.cloud.client.backend.ERROR_PATIENCE_S", 0.05)
    _, _, raised = await outcome(Answer((b"{", 9.0), 401, JSON))
    assert isinstance(raised, CloudRefused)


# -- in time


async def test_no_first_token_in_time() -> None:
    for answer in (Answer(pause_s=9), Answer((chunk(opens=True), 9.0)), Answer((b": alive\n\n", 0.05) * 40)):
        cloud, events, raised = await outcome(answer, deadlines=HASTE)
        assert (type(raised), events, len(cloud.requests)) == (CloudTimeout, [], 1)
        assert "first_token" in raised.next_step


async def test_a_stream_that_stalls_keeps_what_came() -> None:
    for rest in ((9.0,), (b": alive\n\n", 0.03) * 40, (b"data", 0.03) * 40):
        # Only the one wait is short: on a busy machine another one could end first.
        patient = Deadlines(idle_s=HASTE.idle_s)
        _, events, raised = await outcome(Answer((chunk("a"), *rest)), deadlines=patient)
        assert (type(raised), events) == (CloudTimeout, [Delta("a")])
        assert "idle" in raised.next_step


async def test_an_answer_that_never_ends() -> None:
    _, events, raised = await outcome(Answer((chunk("a"), 0.02) * 400), deadlines=HASTE)
    assert isinstance(raised, CloudTimeout)
    assert "total" in raised.next_step
    assert len(events) > 2


async def test_an_answer_that_never_ends_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.cloud.receive.MAX_ANSWER_CHARS", 10_000)
    _, events, raised = await outcome(Answer((chunk("x" * 1000),) * 1000))
    assert isinstance(raised, CloudMalformed)
    assert len(events) == 10


async def test_a_slow_drip_is_read() -> None:
    drip: list[bytes | float] = []
    for byte in b"".join(GOOD):
        drip += [bytes([byte]), 0.0]
    _, events = await success(Answer(drip))
    assert events[:-1] == WHOLE


async def test_a_reader_that_is_slow_is_no_stall() -> None:
    async with running_cloud(Answer((*GOOD[:2], 0.02, *GOOD[2:]))) as cloud:
        backend = backend_of(cloud, deadlines=Deadlines(2, 5, 0.4, 30))
        events = []
        async for event in backend.stream(REQUEST):
            events.append(event)
            await asyncio.sleep(0.5)
        await backend.close()
    assert finish(events).usage == Usage(5, 2, 2)


async def test_the_end_is_not_waited_for_once_the_model_ended() -> None:
    """Counts that never come, or a connection that stays open, cost no answer."""
    ended = (chunk("a"), chunk(finish_reason="stop"))
    for body in ((*ended, 9.0), (*ended, DONE, 9.0)):
        _, events = await success(Answer(body), deadlines=HASTE)
        assert events[0] == Delta("a")
        assert finish(events).finish_reason == "stop"


# -- in the middle of the answer


async def test_a_cut_in_mid_stream_keeps_what_came_and_is_not_asked_again() -> None:
    for body in ((*GOOD[:2],), (*GOOD[:2], GOOD[2][:9])):
        for cut in (True, False):
            cloud, events, raised = await outcome(Answer(body, cut=cut))
            assert (type(raised), events, len(cloud.requests)) == (CloudCutOff, [Delta("Hel")], 1)


async def test_an_empty_stream_is_no_answer() -> None:
    _, events, raised = await outcome(Answer(()))
    assert (type(raised), events) == (CloudCutOff, [])


async def test_a_stream_that_ends_without_the_closing_word_is_whole() -> None:
    _, events = await success(Answer(GOOD[:-1]))
    assert events[:-1] == WHOLE
    _, events = await success(Answer((*GOOD[:4],), cut=True))
    assert finish(events).usage_is_estimate


async def test_a_closing_word_without_a_reason_is_an_end() -> None:
    _, events = await success(Answer((chunk("a"), DONE)))
    assert finish(events).finish_reason == "unknown"


@pytest.mark.parametrize(
    "piece",
    [
        b"data: {broken\n\n",
        b"data: []\n\n",
        b'data: {"choices": 7}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"choices": [{"delta": {}, "finish_reason": "error"}]}\n\n',
        b"data: " + b"x" * (2 << 20) + b"\n\n",
        (b"data: " + b"x" * 1000 + b"\n") * 5000,
    ],
    ids=["broken", "list", "choices", "deep", "error", "huge line", "huge event"],
)
async def test_a_damaged_piece_ends_the_answer_and_keeps_what_came(piece: bytes) -> None:
    _, events, raised = await outcome(Answer((chunk("a"), piece, chunk("b"), DONE)))
    assert (type(raised), events) == (CloudMalformed, [Delta("a")])


async def test_pieces_in_one_packet_come_out_before_the_damage() -> None:
    _, events, raised = await outcome(Answer((chunk("a") + chunk("b") + b"data: {\n\n",)))
    assert (type(raised), events) == (CloudMalformed, [Delta("a"), Delta("b")])


async def test_what_is_not_utf_8_is_replaced() -> None:
    broken = chunk("a").replace(b'"a"', b'"\xff"')
    _, events = await success(Answer((broken, chunk(finish_reason="stop"), DONE)))
    assert events[0] == Delta("\ufffd")


async def test_an_error_in_the_stream_is_what_it_says() -> None:
    event = b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'
    _, events, raised = await outcome(Answer((chunk("a"), event)))
    assert (type(raised), events, "overloaded" in raised.message) == (CloudFault, [Delta("a")], True)
    cloud, events = await success(Answer((event,)), Answer(), sleep=Time().sleep)
    assert (len(cloud.requests), events[1:-1]) == (2, WHOLE)  # before the first token it is tried again


# -- compression nobody asked for


def compressed(pieces: Sequence[bytes], encoding: str) -> Answer:
    data = b"".join(pieces)
    body = gzip.compress(data) if encoding == "gzip" else zlib.compress(data)
    return Answer(
        [body[start : start + 20] for start in range(0, len(body), 20)],
        headers={**SSE, "Content-Encoding": encoding},
    )


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compression_is_read(encoding: str) -> None:
    _, events = await success(compressed(GOOD, encoding))
    assert events[:-1] == WHOLE


async def test_compression_that_explodes_is_bounded() -> None:
    _, _, raised = await outcome(compressed([b"data: " + b" " * (64 << 20)], "gzip"))
    assert isinstance(raised, CloudMalformed)
    bomb = compressed([b'{"a": "' + b" " * (64 << 20)], "gzip")
    _, _, raised = await outcome(Answer(bomb.body, headers={**JSON, "Content-Encoding": "gzip"}))
    assert isinstance(raised, CloudMalformed)


@pytest.mark.parametrize(
    ("headers", "body"),
    [({"Content-Encoding": "br"}, b"x"), ({"Content-Encoding": "gzip"}, b"not gzip at all")],
)
async def test_compression_that_cannot_be_read(headers: dict[str, str], body: bytes) -> None:
    _, _, raised = await outcome(Answer((body,), headers={**SSE, **headers}))
    assert isinstance(raised, CloudMalformed)
    assert "compress" in raised.message


# -- whole answers


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b'{"choices": []}', b'{"choices": [{"finish_reason": "error"}]}']
)
async def test_a_whole_answer_that_is_damaged(body: bytes) -> None:
    _, events, raised = await outcome(Answer((body,) if body else (), headers=JSON))
    assert (type(raised), events) == (CloudMalformed, [])


async def test_an_error_with_status_200() -> None:
    body = json.dumps({"error": {"message": "No such model", "code": 404}}).encode()
    _, _, raised = await outcome(Answer((body,), headers=JSON))
    assert isinstance(raised, CloudModelUnknown)


async def test_a_whole_answer_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.cloud.client.backend.MAX_BODY_BYTES", 1000)
    _, _, raised = await outcome(Answer((b" " * 100,) * 100, headers=JSON))
    assert isinstance(raised, CloudMalformed)
    _, _, raised = await outcome(Answer((b" ", 9.0), headers=JSON), deadlines=HASTE)
    assert isinstance(raised, CloudTimeout)


# -- the breaker


async def test_a_cloud_that_keeps_failing_is_left_alone_and_then_tried() -> None:
    time, breaker = Time(), Breaker(failures_to_open=3, rest_s=10)
    async with running_cloud(error(500), error(500), error(500), Answer()) as cloud:
        backend = backend_of(cloud, clock=time, sleep=time.sleep, breaker=breaker)
        _, raised = await failure(backend)
        assert (type(raised), breaker.state(time())) == (CloudFault, "open")
        _, raised = await failure(backend)
        assert (type(raised), len(cloud.requests)) == (CloudResting, 3)
        assert "10 s" in raised.next_step
        time.now_s += 10
        assert finish(await answer_of(backend))
        assert breaker.state(time()) == "closed"


async def test_refusals_do_not_open_the_breaker() -> None:
    time, breaker = Time(), Breaker(failures_to_open=1)
    for answer in (error(400), error(401), error(404), error(413), error(429, code="insufficient_quota")):
        await outcome(answer, breaker=breaker)
        assert breaker.state(time()) == "closed"


async def test_leaving_in_the_trial_lets_the_next_one_try() -> None:
    time, breaker = Time(), Breaker(failures_to_open=1, rest_s=10)
    async with running_cloud(error(501), Answer((chunk("a"), 9.0)), Answer()) as cloud:
        backend = backend_of(cloud, clock=time, breaker=breaker, deadlines=Deadlines(first_token_s=0.3))
        await failure(backend)
        time.now_s += 10
        async with aclosing(backend.stream(REQUEST)) as events:
            assert await anext(events) == Delta("a")
            assert breaker.permit(time()) > 0  # one trial at a time
        assert isinstance((await answer_of(backend))[-1], Finished)


async def test_an_answer_that_goes_on_beyond_its_limit_is_ended() -> None:
    request = replace(REQUEST, sampling=replace(REQUEST.sampling, max_tokens=20))
    async with running_cloud(Answer((chunk("x"),) * 5_000)) as cloud:
        backend = backend_of(cloud)
        events = [event async for event in backend.stream(request)]
        await backend.close()
    assert finish(events).finish_reason == "length"
    assert 20 <= sum(isinstance(event, Delta) for event in events) <= 20 + PIECES_BEYOND + 1
