"""The routes of A2A: JSON-RPC at `/a2a`, HTTP+JSON below it, and the cards."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from email.utils import formatdate
from importlib.metadata import version
from time import time
from typing import Any, assert_never

import attrs

from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.a2a_headers import HITL, IDEMPOTENCY, LOOK, VERSION_HEADER
from ...actors.a2a.wire.http_paths import find
from ...actors.a2a.wire.json_rpc import Id, id_of, read_call, write_error, write_result
from ...actors.a2a.wire.task import (
    Answer,
    CancelTask,
    DeletePush,
    GetCard,
    GetPush,
    GetTask,
    ListPush,
    ListTasks,
    Request,
    Send,
    SetPush,
    StreamItem,
    Subscribe,
)
from ...actors.agent.agent import Agent
from ...runtime.json_text import dump_wire
from ..http import headers, sse
from ..http.access_log import RPC
from ..http.body import parse_json
from ..http.errors import MethodNotAllowed, NotFound, RequestError
from ..http.etag import etag_of, matches
from ..http.event_stream import StreamBody, stream_reply
from ..http.identity import Lifetime
from ..http.quart_app import Application
from ..http.request import HttpRequest as HTTPRequest
from ..http.responses import JSON, Reply, reply
from .agent_card import EXTENSIONS, AgentAbout, Offered, card
from .as_a2a_error import as_a2a_error
from .dialect import (
    OLDER,
    V03,
    V03_HTTP,
    V1,
    Dialect,
    check_version,
    dialect_of,
    extensions_in,
)
from .message_delivery import Caller
from .origin import origin_of
from .output_modes import OutputModes
from .push import PushNotifier
from .push_hook import SetBy
from .task_server import TaskServer

MAX_STREAMS = 100
"""Maximum number of concurrent streams of one client."""
CARD_AGE = 60
"""Seconds for which a client may cache a card."""
_A2A_JSON = "application/a2a+json"
_CURL_DEFAULT = "application/x-www-form-urlencoded"
"""The default of curl; accepted, because many examples use curl."""
_V03_STREAMS = ("message/stream", "tasks/resubscribe")


@attrs.frozen
class A2A:
    agent: Agent
    offered: Offered
    _tasks: TaskServer
    _push: PushNotifier | None
    _streams: Counter[str] = attrs.field(factory=Counter)
    """Numbers of open streams by client address."""
    _started: float = attrs.field(factory=time)
    """When the cards last changed (UTC seconds)."""

    @classmethod
    def of(cls, agent: Agent, offered: Offered, push: PushNotifier | None = None) -> A2A:
        offered = attrs.evolve(offered, push=offered.push and push is not None)
        return cls(agent, offered, TaskServer(agent, push), push)

    def add_to(self, app: Application) -> None:
        for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
            app.add(path, path, self.card, ["GET"], public=True)
        for path in ("/a2a", "/a2a/"):
            app.add(path, path, self.json_rpc, ["POST"])
        app.add("/a2a/{path:path}", "/a2a/...", self.http, ["GET", "POST", "DELETE"])

    # -------------------------------------------------------------------- bindings

    async def json_rpc(self, http: HTTPRequest) -> Reply:
        """Handle a JSON-RPC call. Every answer has status 200, errors included."""
        id: Id = None
        dialect = V1
        body: Any = None
        try:
            body = await _body(http)
            id = id_of(body)
            call = read_call(body)
            dialect = dialect_of(call, _version(http))
            http.facts[RPC] = call.method
            wanted = dialect.read(call.method, call.params)
            return await self._respond(
                http,
                wanted,
                dialect,
                lambda answer: write_result(id, dialect.write_answer(wanted, answer)),
                lambda item: write_result(id, dialect.write_item(item)),
            )
        except A2AError as error:
            refused = write_error(id, error, details=dialect.is_v1)
            if dialect is V03 and isinstance(body, Mapping) and body.get("method") in _V03_STREAMS:
                # Clients of 0.3 expect a stream as the answer to a streaming method, errors included.
                return Reply(sse.encode(refused), content_type=sse.CONTENT_TYPE)
            return reply(refused)

    async def http(self, http: HTTPRequest, path: str) -> Reply:
        found = find("GET" if http.method == "HEAD" else http.method, path)
        if isinstance(found, tuple):
            if found:
                raise MethodNotAllowed(valid_methods=found)
            raise NotFound
        dialect = V1 if found.is_v1 else V03_HTTP
        try:
            check_version(_version(http))
            body = await _body(http, optional=True) if http.method == "POST" else {}
            params = {**http.args, **(body if isinstance(body, Mapping) else {}), **found.params}
            wanted = dialect.read(found.method, params if isinstance(body, Mapping) else body)
            return await self._respond(
                http,
                wanted,
                dialect,
                lambda answer: {} if answer is None else dialect.write_answer(wanted, answer),
                dialect.write_item,
            )
        except A2AError as error:
            return _http_reply(http, dialect.write_error(error), error.kind.http)

    async def _respond(
        self,
        http: HTTPRequest,
        wanted: Request,
        dialect: Dialect,
        write_answer: Callable[[Answer], Any],
        write_item: Callable[[StreamItem], Any],
    ) -> Reply:
        """Answer a request with an object or a stream. Raises `A2AError`."""
        extensions = extensions_in(http.headers)
        self._check(wanted, extensions)
        if isinstance(wanted, Subscribe) or (isinstance(wanted, Send) and wanted.stream):
            items = self._items(http, wanted, dialect, extensions)
            response = await self._stream(http, items, write_item)
        else:
            response = _http_reply(http, write_answer(await self._answer(http, wanted, dialect, extensions)))
        if active := sorted(extensions & EXTENSIONS.keys()):
            response.headers = {**response.headers, "A2A-Extensions": ", ".join(active)}
        return response

    def _check(self, wanted: Request, extensions: frozenset[str]) -> None:
        required = self.offered.required_extension
        if required is not None and required not in extensions:
            raise A2AError("EXTENSION_SUPPORT_REQUIRED", f"the agent needs the extension {required}")
        streams = isinstance(wanted, Subscribe) or (isinstance(wanted, Send) and wanted.stream)
        if streams and not self.offered.streaming:
            raise A2AError("UNSUPPORTED_OPERATION", "the agent does not stream")
        pushes = isinstance(wanted, SetPush | GetPush | ListPush | DeletePush)
        if (pushes or (isinstance(wanted, Send) and wanted.push)) and not self.offered.push:
            raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "the agent sends no push notifications")
        if isinstance(wanted, GetCard) and not self.offered.extended_card:
            raise A2AError("UNSUPPORTED_OPERATION", "the agent has no extended card")

    # --------------------------------------------------------------------- answers

    async def _answer(
        self, http: HTTPRequest, wanted: Request, dialect: Dialect, extensions: frozenset[str]
    ) -> Answer:
        hitl, tasks = HITL in extensions, self._tasks_for(http)
        match wanted:
            case Send():
                modes = OutputModes(wanted.modes)
                modes.check()
                answer = await tasks.send(wanted, self._caller(http, wanted, dialect, extensions))
                shown = modes.item(answer)
                assert isinstance(shown, type(answer))
                return shown
            case GetTask():
                if LOOK in extensions:
                    await tasks.look(wanted)
                return await tasks.get(wanted, hitl=hitl, with_pending=LOOK in extensions)
            case CancelTask():
                return await tasks.cancel(wanted, hitl=hitl)
            case ListTasks():
                return await tasks.list(wanted, hitl=hitl)
            case GetCard() if not dialect.is_v1 and self.agent.config.auth is None:
                raise A2AError(
                    "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "there is no card for authenticated clients"
                )
            case GetCard():
                with as_a2a_error():
                    return card(self._about(http, tasks.agent), self.offered, extended=True)
            case SetPush() | GetPush() | ListPush() | DeletePush():
                assert self._push is not None  # `_check` has refused the request otherwise
                by = SetBy(dialect.is_v1, hitl, http.peer, _lifetime(http))
                return await self._push.answer(wanted, by, tasks.agent)
            case Subscribe():
                raise AssertionError("a subscription is answered with a stream")
            case _:
                assert_never(wanted)

    async def _items(
        self, http: HTTPRequest, wanted: Send | Subscribe, dialect: Dialect, extensions: frozenset[str]
    ) -> AsyncGenerator[StreamItem, None]:
        modes = OutputModes(wanted.modes if isinstance(wanted, Send) else ())
        modes.check()
        tasks = self._tasks_for(http)
        match wanted:
            case Send():
                items = tasks.stream(wanted, self._caller(http, wanted, dialect, extensions))
            case Subscribe():
                items = tasks.subscribe(wanted, hitl=HITL in extensions)
            case _:
                assert_never(wanted)
        async with aclosing(items):
            async for item in items:
                if (shown := modes.item(item)) is not None:
                    yield shown

    async def _stream(
        self,
        http: HTTPRequest,
        items: AsyncGenerator[StreamItem, None],
        write_item: Callable[[StreamItem], Any],
    ) -> Reply:
        """Wait for the first item before the response begins, so that a refusal becomes an error response."""
        http.count_stream()
        peer = http.peer
        if self._streams[peer] >= MAX_STREAMS:
            raise A2AError("RESOURCE_EXHAUSTED", f"{MAX_STREAMS} streams of this client are open")
        with self._counted(peer):
            first = await anext(items)
        if http.method == "HEAD":
            await items.aclose()
            return stream_reply()

        async def events() -> AsyncGenerator[bytes, None]:
            with self._counted(peer):
                async with aclosing(items):
                    yield sse.encode(write_item(first))
                    async for item in items:
                        yield sse.encode(write_item(item))

        return stream_reply(
            StreamBody(events(), self.agent.draining.wait, str(http.facts.get("conversation", "")))
        )

    @contextmanager
    def _counted(self, peer: str) -> Iterator[None]:
        """Count a stream of this client while the block runs."""
        self._streams[peer] += 1
        try:
            yield
        finally:
            self._streams.subtract([peer])
            if not self._streams[peer]:
                del self._streams[peer]

    def _tasks_for(self, http: HTTPRequest) -> TaskServer:
        return attrs.evolve(self._tasks, agent=self.agent.acting_as(http.principal))

    def _caller(self, http: HTTPRequest, send: Send, dialect: Dialect, extensions: frozenset[str]) -> Caller:
        """Raises `A2AError`."""
        try:
            token = headers.tool_token(http)
            key = headers.idempotency_key(http.headers, "POST", "/a2a")
        except RequestError as error:
            raise A2AError("INVALID_PARAMS", error.message) from error
        if key is None and IDEMPOTENCY in extensions and send.message.id:
            key = hashlib.sha256(f"{IDEMPOTENCY}\n{send.message.id}".encode()).hexdigest()
        if key is not None:
            key = headers.own_key(http, key)
        return Caller(
            session_id=http.session_id(key),
            key=key,
            token=token,
            hitl=HITL in extensions,
            continues=dialect is OLDER,
            is_v1=dialect.is_v1,
            peer=http.peer,
            lifetime=_lifetime(http),
            origin=origin_of(send.message, http.traceparent, self.agent.id),
        )

    # ----------------------------------------------------------------------- cards

    async def card(self, http: HTTPRequest) -> Reply:
        body = dump_wire(card(self._about(http, self.agent), self.offered))
        etag = etag_of(body)
        caching = {
            "Cache-Control": f"public, max-age={CARD_AGE}",
            "ETag": etag,
            "Last-Modified": formatdate(self._started, usegmt=True),
        }
        if matches(http.headers, etag):
            return Reply(b"", 304, headers=caching)
        return Reply(body, headers=caching)

    def _about(self, http: HTTPRequest, agent: Agent) -> AgentAbout:
        config = agent.config
        # Without `public_url`, the host that the client used, admitted by `host_and_origin`: agents that call
        # this one send credentials to no other origin.
        url = config.server.public_url or f"http://{http.host}"
        return AgentAbout(
            config.name,
            config.description,
            version("agent-stop-and-go"),
            url.rstrip("/"),
            agent.tools(),
            config.auth,
        )


async def _body(http: HTTPRequest, *, optional: bool = False) -> Any:
    """The JSON of the request. `optional`: an empty body is an empty object.

    Raises `A2AError` for invalid JSON or its media type, and `RequestError` as `HTTPRequest.body` does.
    """
    data = await http.body()
    if optional and not data.strip():
        return {}
    media_type = http.headers.get("Content-Type", JSON).partition(";")[0].strip().lower()
    if media_type not in (JSON, _A2A_JSON, _CURL_DEFAULT):
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", f"{media_type[:50]} is not {JSON}")
    try:
        return parse_json(data)
    except RequestError as error:
        if error.code != "invalid_request_body":
            raise
        raise A2AError("PARSE_ERROR", f"Parse error: {error.message}") from error


def _lifetime(http: HTTPRequest) -> Lifetime:
    """The lifetime of the credential of the request; without one, it does not end."""
    return Lifetime() if http.identity is None else http.identity.lifetime


def _version(http: HTTPRequest) -> str:
    return (http.headers.get(VERSION_HEADER) or http.args.get(VERSION_HEADER, "")).strip()


def _http_reply(http: HTTPRequest, body: Any, status: int = 200) -> Reply:
    """A reply in the media type of A2A if the client accepts or sends it, else in plain JSON."""
    asked = f"{http.headers.get('Accept', '')},{http.headers.get('Content-Type', '')}"
    return Reply(dump_wire(body), status, _A2A_JSON if _A2A_JSON in asked else JSON)
