"""HTTP to one address: requests out, bytes in, and what its failures mean.

Connects to nothing before the first request. Does not know how long anybody waits, what is
tried again, or what the bytes say.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Generator, Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TypeVar

import httpx

from router.cloud.address import Address
from router.cloud.inflate import Inflater
from router.cloud.keys import ApiKey
from router.cloud.wire import said
from router.errors import CloudCutOff, CloudError, CloudMalformed, CloudUnreachable, RouterError

T = TypeVar("T")
HEADERS = {
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "localchat",
}


class _Bearer(httpx.Auth):
    """Puts the key into a request at the last moment; no repr of it shows the key."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._key.reveal()}"
        yield request


async def _take_location(response: httpx.Response) -> None:
    """Before httpx looks at it: so it never builds a redirected request, not even from a bad address."""
    response.extensions["location"] = response.headers.pop("location", "")


class Connection:
    """Connections to one address, kept for the next request."""

    def __init__(self, address: Address, connect_s: float) -> None:
        self._address = address
        self._connect_s = connect_s
        self._client: httpx.AsyncClient | None = None

    async def post(self, body: bytes, key: ApiKey | None) -> Response:
        """The answer as soon as its headers are there. Raises a CloudError."""
        client = self._client = self._client or self._opened()
        request = client.build_request("POST", self._address.completions_url, content=body)
        auth = _Bearer(key) if key else None
        sending = client.send(request, stream=True, auth=auth)
        return Response(await _explained(sending, self._address, answered=False), self._address)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client:
            await client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        """No redirects, which could lead a key elsewhere; no cookies; no proxy to this machine itself."""
        return httpx.AsyncClient(
            headers=HEADERS,
            timeout=httpx.Timeout(None, connect=self._connect_s),
            event_hooks={"response": [_take_location]},
            trust_env=not self._address.is_loopback,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )


class Response:
    """What came back, read piece by piece."""

    def __init__(self, response: httpx.Response, address: Address) -> None:
        self._response = response
        self._address = address
        self._raw = response.aiter_raw()
        self._inflater: Inflater | None = None
        self._inflated: Iterator[bytes] = iter(())
        self.status = response.status_code
        self.headers = response.headers

    @property
    def media_type(self) -> str:
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @property
    def redirects_to(self) -> str | None:
        """The place a redirect names, as a person may see it; None where it is none."""
        if not 300 <= self.status < 400:
            return None
        return said(str(self._response.extensions["location"]).partition("?")[0], 100) or "nowhere"

    async def next(self) -> bytes | None:
        """The next piece of the body, None at its end. Raises a CloudError."""
        while (piece := self._next_inflated()) is None:
            raw = await _explained(anext(self._raw, None), self._address, answered=True)
            if raw is None:
                return None
            self._inflated = self._feed(raw)
        return piece

    async def close(self) -> None:
        """Ends the connection where the body was not read to its end."""
        await self._response.aclose()

    def _feed(self, raw: bytes) -> Iterator[bytes]:
        try:
            self._inflater = self._inflater or Inflater(self.headers.get("content-encoding", ""))
        except ValueError as error:
            raise malformed(str(error)) from None
        return self._inflater.feed(raw)

    def _next_inflated(self) -> bytes | None:
        try:
            return next(self._inflated, None)
        except ValueError as error:
            raise malformed(str(error)) from None


def malformed(what: str) -> CloudMalformed:
    return CloudMalformed(
        f"The cloud does not keep to the format: {what}.",
        "Check base_url and preset in [cloud], or let the local model answer.",
    )


async def _explained(step: Awaitable[T], address: Address, *, answered: bool) -> T:
    """``step``'s result, or a CloudError for what went wrong on the way.

    It is raised outside of the except clause: httpx's own error, whose frames hold the key,
    must not hang on to it.
    """
    try:
        return await step
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        trouble = _trouble(error, address, answered)
    raise trouble


def _trouble(error: Exception, address: Address, answered: bool) -> RouterError:
    if answered:
        return CloudCutOff("The connection to the cloud broke off in the middle of the answer.", "Ask again.")
    place, causes = address.place, list(_causes(error))
    if any(isinstance(cause, ssl.SSLError) or "certificate" in str(cause).lower() for cause in causes):
        step = "Check the address, this machine's clock and proxy, or set SSL_CERT_FILE."
        return CloudUnreachable(f"{place} cannot prove who it is (TLS).", step, may_pass=False)
    if isinstance(error, httpx.ProxyError):
        return CloudUnreachable(f"The proxy does not connect to {place}.", "Check HTTPS_PROXY and NO_PROXY.")
    step = f"Start the server at {place}." if address.is_loopback else "Check the network and base_url."
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return CloudUnreachable(f"No address is known for {address.host}.", step)
    if isinstance(error, httpx.ConnectTimeout):
        return CloudUnreachable(f"{place} does not take the connection in time.", step)
    if isinstance(error, httpx.ConnectError):
        return CloudUnreachable(f"{place} cannot be reached.", step)
    if isinstance(error, httpx.LocalProtocolError | httpx.InvalidURL | httpx.UnsupportedProtocol):
        return CloudError(f"The request to {place} cannot be sent.", "Check base_url and the key.")
    return CloudUnreachable(f"{place} closed the connection without an answer.", step)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
