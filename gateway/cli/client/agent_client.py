"""HTTP client of a running agent, for the commands that need one.

Every POST has an Idempotency-Key. If its response is lost, the POST is repeated with the same key, so the
server executes it once, even if it was restarted meanwhile.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import attrs
import httpx2
import trio

from ....actors.common.http_proxies import Routed, said_by_proxy
from ....actors.common.tls import TlsUnusable, trusted, why_unreached
from ....runtime.json_text import load
from ....runtime.restart import Backoff
from ..process.options import API_KEY, credential_headers

JsonObject: TypeAlias = dict[str, Any]

RETRIES = Backoff(first=0.2, limit=5.0, jitter=0.5)
PATIENCE = 120.0
"""Seconds to repeat a POST while the server does not respond."""
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
"""Seconds to wait for a response."""
TURN_TIMEOUT = 300.0
"""Seconds until the response to a message or decision counts as lost. It comes when the run rests."""
LONGEST_TURN = 3600.0
"""Seconds to repeat a POST that waits for the run, as long as each attempt takes long."""
UNAUTHORIZED = 401
_NO_KEY = f"Set the environment variable {API_KEY} to a valid API key of the agent."
_UNKNOWN = "It is unknown whether the request was executed."
TEMPORARY = frozenset({502, 503, 504})
"""Status codes of a server that is restarting, and of a proxy in front of it."""


class ServerError(Exception):
    """The server refused the request or did not respond. The text is a sentence for a person."""

    def __init__(
        self, message: str, *, hint: str | None = None, status: int = 0, body: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status
        """Status of the response; 0 without one."""
        self.details: Mapping[str, Any] = body or {}
        """JSON of the response."""

    @property
    def may_pass(self) -> bool:
        """Whether a retry can help."""
        return not self.status or self.status in TEMPORARY


@attrs.define(eq=False)
class AgentClient:
    """Made by `open_client`."""

    url: str
    """Without a slash at its end."""
    headers: Mapping[str, str] = attrs.field(repr=False)
    """Sent with every request."""
    _http: httpx2.AsyncClient

    async def get(self, path: str, **params: str) -> JsonObject:
        """Raises ServerError."""
        return await self._request("GET", path, params=params)

    async def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, wait: bool = True, key: str | None = None
    ) -> JsonObject:
        """POST something, once. Without `wait`, the response comes as soon as the change is durable.

        Raises:
            ServerError: the server refused, or did not respond for `PATIENCE` seconds; with `wait`, for
                `LONGEST_TURN` seconds if it accepted the requests.
        """
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        if not wait:
            headers["Prefer"] = "respond-async"
        timeout = httpx2.Timeout(TURN_TIMEOUT if wait else READ_TIMEOUT, connect=CONNECT_TIMEOUT)
        begun = reached = trio.current_time()
        failures = 0
        while True:
            sent = trio.current_time()
            try:
                return await self._request("POST", path, json=body or {}, headers=headers, timeout=timeout)
            except ServerError as error:
                if not error.may_pass:
                    raise
                now = trio.current_time()
                if wait and now - sent > READ_TIMEOUT and now - begun < LONGEST_TURN:  # the run goes on
                    failures, reached = 0, now
                failures += 1
                delay = RETRIES.delay(failures)
                if now + delay - reached > PATIENCE:
                    raise ServerError(error.message, hint=_UNKNOWN, status=error.status) from error
            await trio.sleep(delay)

    async def _request(self, method: str, path: str, **options: Any) -> JsonObject:
        try:
            response = await self._http.request(method, f"{self.url}{path}", **options)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise unreached(self.url, error) from error
        return json_of(response.status_code, response.content, self.url)


def json_of(status: int, content: bytes | None, url: str) -> JsonObject:
    """The JSON of a response. Raises ServerError if it is an error or does not come from an agent."""
    try:
        body = load((content or b"").decode())
    except ValueError:
        body = None
    if not isinstance(body, dict) or (status >= 300 and not isinstance(body.get("error"), str)):
        raise ServerError(
            f"no agent answers at {url}: the response has status {status} and is not its JSON", status=status
        )
    if status >= 300:
        hint = _NO_KEY if status == UNAUTHORIZED else body.get("hint")
        raise ServerError(body["error"], hint=hint, status=status, body=body)
    return body


class UnknownId(ServerError):
    """No id or more than one id begins with the given text."""


async def full_id(
    text: str, ids: Callable[[], Awaitable[Iterable[str]]], kind: str, hint: str | None = None
) -> str:
    """The id that a person gave: a whole one, or the beginning of one of `ids`.

    Raises:
        UnknownId: `kind`, a plural, names the things in its text.
    """
    with suppress(ValueError):
        return str(uuid.UUID(text))
    found = [each for each in await ids() if text and each.startswith(text.lower())]
    if len(found) != 1:
        raise UnknownId(f"{len(found) or 'no'} {kind} have an id that begins with {text!r}", hint=hint)
    return found[0]


def unreached(url: str, error: BaseException) -> ServerError:
    """The error for a failed connection."""
    match error:
        case httpx2.TimeoutException() | trio.TooSlowError():
            usual = "not in time"
        case httpx2.UnsupportedProtocol():
            usual = str(error)
        case httpx2.ProxyError():
            usual = said_by_proxy(error)
        case _:
            usual = "the connection broke"
    why = why_unreached(error) or usual
    return ServerError(f"no agent answers at {url}: {why}")


@asynccontextmanager
async def open_client(url: str, bearer: str | None = None) -> AsyncIterator[AgentClient]:
    """A client of the agent at `url`, which sends `bearer` and the API key of the environment with every
    request. It follows no redirects. Sends nothing yet. Raises ServerError: the trusted authorities cannot be
    read."""
    headers = credential_headers()
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    timeout = httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
    try:
        transport = Routed(httpx2.Limits(), trusted())
    except TlsUnusable as error:
        raise ServerError(str(error)) from error
    http = httpx2.AsyncClient(transport=transport, headers=headers, trust_env=False, timeout=timeout)
    async with http:
        yield AgentClient(url, headers, http)
