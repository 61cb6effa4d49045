"""HTTP requests to one remote agent, in the version and binding of its card.

The run's bearer token and the configured headers are sent only to origins that the configuration names: an
interface at another origin is called at the configured one or not at all (`card_reader.usable`), and
redirects are not followed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
import trio

from ...config.sections.a2a import RemoteAgentConfig
from ...runtime.envelope import current_trace
from ...runtime.json_text import load_provider
from ..common.http_proxies import Routed, said_by_proxy
from ..common.sse_parser import EventTooLarge, SseParser
from ..common.tls import TlsUnusable, trusted, why_unreached
from ..tools.delegation import Hop, RemoteAgentStatus
from ..tools.tool import ToolAuthRequired
from .wire.a2a_errors import A2AError, InvalidAnswer
from .wire.a2a_headers import HITL, IDEMPOTENCY
from .wire.card_reader import Card, Elsewhere, card_urls, named_origins, origin_of, read_card, usable
from .wire.client_codec import HttpCall, Interface, read_answer, read_event, write_call
from .wire.task import ClientRequest, Message, StreamItem, Task, TaskPage

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
CARD_TIMEOUT = 10.0
CARD_AGE = 300.0
"""Seconds until a card is read again. It is read again earlier if the agent does not behave as it says."""
SILENCE = 60.0
"""Seconds without a byte after which a stream of a known task is closed. The task is read instead."""
KEEP_ALIVE = 2.0
"""Seconds that an idle connection is kept. Servers close theirs after five (uvicorn, Node), and the outcome
of a message sent at that moment would be unknown."""
MAX_CARD = 1024 * 1024
MAX_ANSWER = 16 * 1024 * 1024
MOST_VALUES = 50_000
"""Maximum number of objects and lists in one answer or event."""
MAX_STREAM = 64 * 1024 * 1024
"""Maximum bytes of one stream. The task is read instead."""
MAX_EVENTS = 100_000
"""Maximum number of events of one stream."""

_NOT_THERE = (404, 405, 410, 415, 501)
"""HTTP statuses of an endpoint that does not exist."""


class RequestNotSent(Exception):
    """The agent has not accepted the request. The text says why."""

    def __init__(self, why: str, *, again: bool = False, stale: bool = False) -> None:
        super().__init__(why)
        self.again = again
        """Whether another attempt may succeed."""
        self.stale = stale
        """Whether to read the card again, because the agent may have moved."""


class Lost(Exception):
    """The agent may have accepted the request, but there is no readable answer. The text says why."""


@attrs.frozen
class Contact:
    """The way to reach the agent."""

    interface: Interface
    streaming: bool
    idempotent: bool
    """Whether a repeated message counts as the same message."""
    hitl: bool = False
    """Whether to activate kagent's extension for approvals. An agent of this runtime asks in its own form."""
    named: str = ""
    """Where the card says its interfaces are, if none of them is at an allowed origin."""


@attrs.frozen
class FoundCard:
    url: str
    body: Any
    """The JSON of the card; None: the text is not JSON."""


@attrs.define(eq=False)
class AgentLink:
    """The HTTP client of one agent. Methods raise `RequestNotSent`, `Lost`, `A2AError` and
    `ToolAuthRequired`."""

    config: RemoteAgentConfig
    report: Callable[[RemoteAgentStatus], None]
    log: logging.Logger
    found: FoundCard | None = None
    """The card, once it has been found."""
    _client: httpx2.AsyncClient | None = None
    _contact: Contact | None = None
    _read_at: float = 0.0
    _missing: set[str] = attrs.field(factory=set)
    """URLs of interfaces where there was no endpoint. Others of the card are tried."""
    _reading: trio.Lock = attrs.field(factory=trio.Lock)

    async def contact(self, *, again: bool = False) -> Contact:
        """The contact that the card describes. `again`: read the card again. Raises `RequestNotSent`."""
        async with self._reading:
            fresh = trio.current_time() < self._read_at + CARD_AGE
            if self._contact is None or again or not fresh:
                try:
                    self._contact = await self._discover()
                except RequestNotSent as error:
                    self.report(RemoteAgentStatus("unreachable", str(error)))
                    raise
                self._read_at = trio.current_time()
                self.report(RemoteAgentStatus("reached"))
            return self._contact

    def without_streams(self) -> None:
        """Record that the agent has no streams, contrary to its card."""
        if self._contact is not None:
            self._contact = attrs.evolve(self._contact, streaming=False)

    async def ask(
        self,
        request: ClientRequest,
        hop: Hop,
        bearer: str | None,
        timeout: float = SILENCE,
        extensions: Sequence[str] = (),
    ) -> Task | Message | TaskPage:
        """Send a request and return its answer. `timeout`: maximum seconds without a byte."""
        contact = await self.contact()
        call = write_call(contact.interface, request, (*self._extensions(contact), *extensions))
        async with self._sent(call, hop, bearer, timeout) as response:
            body = _json(await _read(response, MAX_ANSWER))
            return self._answer(contact, request, response, body)

    async def stream(
        self, request: ClientRequest, hop: Hop, bearer: str | None, silence: float = SILENCE
    ) -> AsyncGenerator[StreamItem, None]:
        """The items of a stream as they arrive. The stream is closed after `silence` seconds without a
        byte."""
        contact = await self.contact()
        call = write_call(contact.interface, request, self._extensions(contact))
        async with self._sent(call, hop, bearer, silence) as response:
            if "event-stream" not in response.headers.get("content-type", "").lower():
                body = _json(await _read(response, MAX_ANSWER))
                if response.status_code >= 400:
                    self._answer(contact, request, response, body)
                yield _item(contact.interface, body)
                return
            parser, events, has_begun = SseParser(), 0, False
            async with aclosing(_chunks(response, MAX_STREAM)) as chunks:
                async for chunk in chunks:
                    try:
                        found = parser.texts(chunk)
                    except EventTooLarge:
                        raise Lost("an event of its stream is too large") from None
                    events += len(found)
                    if events > MAX_EVENTS:
                        raise Lost("its stream has too many events")
                    for event in found:
                        try:
                            item = _item(contact.interface, _json(event))
                        except (A2AError, RequestNotSent) as error:
                            if not has_begun:
                                raise
                            # The agent has accepted the request, so this does not refuse it.
                            raise Lost(f"its stream ended with an error: {str(error)[:500]}") from error
                        has_begun = True
                        yield item

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    # ------------------------------------------------------------------------- HTTP

    def _extensions(self, contact: Contact) -> tuple[str, ...]:
        return (*((IDEMPOTENCY,) if contact.idempotent else ()), *((HITL,) if contact.hitl else ()))

    def _http(self) -> httpx2.AsyncClient:
        """Raises `RequestNotSent`."""
        if self._client is None:
            import httpx2

            # httpx2 logs the URL of every request, which may contain a key.
            logging.getLogger("httpx2").setLevel(logging.WARNING)
            # The slots of the callers bound the number of connections.
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE)
            try:
                self._client = httpx2.AsyncClient(
                    transport=Routed(limits, trusted()),
                    trust_env=False,
                    headers={"accept-encoding": "identity"},
                )
            except TlsUnusable as error:
                raise RequestNotSent(str(error)) from error
        return self._client

    @asynccontextmanager
    async def _sent(
        self, call: HttpCall, hop: Hop, bearer: str | None, silence: float
    ) -> AsyncIterator[httpx2.Response]:
        """Send a call. The response is no error of HTTP, and its body is unread."""
        headers = {**call.headers, **self.config.all_headers, "X-Session-ID": hop.session_id}
        if hop.traceparent is not None:
            headers["traceparent"] = hop.traceparent
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        async with self._open(call, headers, silence) as response:
            status = response.status_code
            if status in (401, 403):
                if self.config.api_key is not None:  # a bearer token is not checked then
                    raise RequestNotSent(f"it refuses the API key (HTTP {status})")
                challenge = response.headers.get("www-authenticate")
                text = f"the agent answered HTTP {status}"
                raise ToolAuthRequired(text, status=status, challenge=challenge)
            if 300 <= status < 400:
                raise RequestNotSent("it answers with a redirect, which is not followed", stale=True)
            self.report(RemoteAgentStatus("reached"))
            yield response

    @asynccontextmanager
    async def _open(
        self, call: HttpCall, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[httpx2.Response]:
        import httpx2

        client = self._http()
        timeout = httpx2.Timeout(silence, connect=CONNECT_TIMEOUT)
        try:
            request = client.build_request(
                call.verb, call.url, headers=dict(headers), content=call.body, timeout=timeout
            )
        except (ValueError, TypeError, httpx2.InvalidURL) as error:
            raise RequestNotSent("its address or a header cannot be sent") from error
        try:
            # Redirects and cookies stay off, because they could send a body to another origin.
            response = await client.send(request, stream=True, follow_redirects=False, auth=None)
            client.cookies.clear()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError) as error:
            why = said_by_proxy(error) if isinstance(error, httpx2.ProxyError) else why_unreached(error)
            text = "it cannot be reached" + (f": {why}" if why else "")
            self.report(RemoteAgentStatus("unreachable", text))
            raise RequestNotSent(text, again=True) from error
        except httpx2.UnsupportedProtocol as error:
            raise RequestNotSent(f"its address cannot be used: {error}") from error
        except httpx2.TransportError as error:
            raise Lost(f"the connection broke ({type(error).__name__})") from error
        try:
            yield response
        except httpx2.TransportError as error:
            raise Lost(f"the connection broke ({type(error).__name__})") from error
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                await response.aclose()

    # -------------------------------------------------------------------- discovery

    async def _discover(self) -> Contact:
        """Raises `RequestNotSent`."""
        url = self.config.url
        card = None
        with trio.move_on_after(CARD_TIMEOUT) as limit:
            card = await self._find_card()
        if limit.cancelled_caught:
            raise RequestNotSent("its card did not arrive in time", again=True)
        if card is None or any(each.version == "older" for each in card.interfaces):
            if url.endswith(".json"):
                raise RequestNotSent("there is no card at its address")
            return Contact(Interface(url, "JSONRPC", "older"), streaming=False, idempotent=False)
        assert self.found is not None
        try:
            places = usable(card, url, self.config.origins, self.found.url)
        except (Elsewhere, ValueError) as error:
            raise RequestNotSent(str(error)) from error
        self._missing.intersection_update(each.url for each in places)
        interface = next((each for each in places if each.url not in self._missing), places[0])
        named = "" if interface in card.interfaces else named_origins(card)
        if named and self._contact is None:
            self.log.info("%s; its interface is called at %s", named, origin_of(interface.url))
        idempotent = IDEMPOTENCY in card.extensions
        hitl = HITL in card.extensions and not idempotent
        return Contact(interface, card.streaming, idempotent, hitl, named)

    def _answer(
        self, contact: Contact, request: ClientRequest, response: httpx2.Response, body: Any
    ) -> Task | Message | TaskPage:
        try:
            return _answer(contact.interface, request, response, body)
        except RequestNotSent as error:
            if error.stale and response.status_code in _NOT_THERE:
                self._missing.add(contact.interface.url)
                if contact.named:
                    raise RequestNotSent(f"{error}; {contact.named}", stale=True) from error
            raise

    async def _find_card(self) -> Card | None:
        """None: the agent has no card. Raises `RequestNotSent`."""
        try:
            urls = card_urls(self.config.url)
        except ValueError as error:
            raise RequestNotSent(f"its address cannot be used: {error}") from error
        # The session of the run that causes the reading, so that the logs of both agents have it.
        session = current_trace.get().get("sid")
        headers = (
            self.config.all_headers
            if session is None
            else {**self.config.all_headers, "X-Session-ID": session}
        )
        for url in urls:
            call = HttpCall("GET", url, {"Accept": "application/json"}, None)
            try:
                async with self._open(call, {**call.headers, **headers}, CARD_TIMEOUT) as response:
                    if response.status_code in (404, 405, 410):
                        continue
                    if response.status_code != 200:
                        text = f"its card is answered with HTTP {response.status_code}"
                        raise RequestNotSent(text, again=response.status_code >= 500)
                    self.found = FoundCard(url, _json(await _read(response, MAX_CARD)))
                    return read_card(self.found.body)
            except InvalidAnswer as error:
                raise RequestNotSent(f"its card cannot be read: {error}") from error
            except Lost as error:
                raise RequestNotSent(f"its card cannot be read: {error}", again=True) from error
        return None


# -------------------------------------------------------------------- reading answers


async def _chunks(response: httpx2.Response, most: int) -> AsyncGenerator[bytes, None]:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Lost("its answer is compressed, which was not requested")
    left = most
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            left -= len(chunk)
            if left < 0:
                raise Lost(f"its answer is larger than {most // 1024 // 1024} MiB")
            yield chunk


async def _read(response: httpx2.Response, most: int) -> bytes:
    body = bytearray()
    async with aclosing(_chunks(response, most)) as chunks:
        async for chunk in chunks:
            body += chunk
    return bytes(body)


def _json(text: bytes | str) -> Any:
    """The value of a JSON text; None: it is not JSON, or so large that reading it would block the event
    loop."""
    try:
        found = text.decode() if isinstance(text, bytes) else text
        return None if found.count("{") + found.count("[") > MOST_VALUES else load_provider(found)
    except ValueError:
        return None


def _answer(
    interface: Interface, request: ClientRequest, response: httpx2.Response, body: Any
) -> Task | Message | TaskPage:
    status = response.status_code
    try:
        return read_answer(interface, request, status, body)
    except A2AError as error:
        if status in _NOT_THERE and error.reason == "INTERNAL_ERROR":  # an error of the server, not of A2A
            raise RequestNotSent(f"its endpoint answers HTTP {status}", stale=True) from error
        raise _exception_for(error) from error
    except InvalidAnswer as error:
        if status in _NOT_THERE:
            raise RequestNotSent(f"its endpoint answers HTTP {status}", stale=True) from error
        if status == 429:
            raise RequestNotSent("it is overloaded (HTTP 429)", again=True) from error
        if 400 <= status < 500:
            raise RequestNotSent(f"it answers HTTP {status}") from error
        raise Lost(
            f"it answers HTTP {status}" if status >= 500 else f"its answer cannot be read: {error}"
        ) from error


def _item(interface: Interface, body: Any) -> StreamItem:
    try:
        return read_event(interface, body)
    except A2AError as error:
        raise _exception_for(error) from error
    except InvalidAnswer as error:
        raise Lost(f"its stream cannot be read: {error}") from error


def _exception_for(error: A2AError) -> Exception:
    """The exception for an agent's error. Most errors refuse the request; with others, the agent may have
    accepted it."""
    match error.reason:
        case "UNAVAILABLE" | "INTERNAL_ERROR" | "INVALID_AGENT_RESPONSE":
            return Lost(f"it answers: {str(error)[:500]}")
        case "RESOURCE_EXHAUSTED":
            return RequestNotSent("it is overloaded", again=True)
        case "METHOD_NOT_FOUND" | "VERSION_NOT_SUPPORTED":
            return RequestNotSent(f"it answers: {str(error)[:500]}", stale=True)
        case _:
            return error
