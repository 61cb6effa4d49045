"""Real servers for the client: child processes, and an HTTP server that fails on demand."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import psutil
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.mcp import connection
from stopgo.actors.mcp.server import mcp_server
from stopgo.actors.mcp.transports import http, stdio, watcher
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.tool import CallTool, ServerMessage, ToolOutcomeUnknown
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff
from stopgo.runtime.supervision import open_supervisor
from tests.waiting import LIMIT, until

SERVERS = Path(__file__).parents[3] / "testdata" / "servers"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The calls that `echo_server.py` made, one JSON line each."""
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def echo(ledger: Path) -> Callable[..., McpServerConfig]:
    def config(**changes: Any) -> McpServerConfig:
        script = str(SERVERS / "echo_server.py")
        env = {"LEDGER": str(ledger)}
        given = {"name": "echo", "command": sys.executable, "args": ("-S", script), "env": env}
        return McpServerConfig(**{**given, "timeout": LIMIT, "connect_timeout": LIMIT, **changes})

    return config


@pytest.fixture
def unruly() -> Callable[..., McpServerConfig]:
    def config(modes: str = "", env: dict[str, str] | None = None, **changes: Any) -> McpServerConfig:
        script = str(SERVERS / "unruly_server.py")
        env = {"UNRULY": modes, **(env or {})}
        given = {"name": "unruly", "command": sys.executable, "args": ("-S", script), "env": env}
        return McpServerConfig(**{**given, "timeout": LIMIT, "connect_timeout": LIMIT, **changes})

    return config


Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]


@pytest.fixture
def statuses() -> list[ServerStatus]:
    """The reports of the actor of `serving`."""
    return []


@pytest.fixture
def serving(statuses: list[ServerStatus]) -> Open:
    """Return a context manager that runs the actor of a server."""

    @asynccontextmanager
    async def serving(config: McpServerConfig, **options: Any) -> Any:
        async with open_supervisor(EventBus()) as supervisor:
            yield await supervisor.start(config.name, mcp_server(config, report=statuses.append, **options))

    return serving


@pytest.fixture
def clock() -> MockClock:
    """A clock that runs at the normal rate, and with which a test can jump over a timeout."""
    return MockClock(rate=1.0)


async def times_out(
    server: ActorRef[ServerMessage], call: CallTool, reached: Callable[[], bool], clock: MockClock
) -> str:
    """Return the error of a call with a timeout of 600 s, which passes once `reached` holds."""
    told: list[str] = []

    async def ask() -> None:
        with pytest.raises(ToolOutcomeUnknown) as raised:
            await server.ask(call)
        told.append(str(raised.value))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await until(reached)
        clock.jump(600.0)
        await until(lambda: bool(told))
    return told[0]


async def attempts_end(statuses: list[ServerStatus], clock: MockClock) -> None:
    """Let the 600 s for the start pass after some attempts; then wait for the cancellation."""
    await until(lambda: [status.state for status in statuses].count("connecting") > 2)
    clock.jump(600.0)
    await trio.sleep_forever()


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that can be bound by its number, and is not given to other processes meanwhile."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


@pytest.fixture(autouse=True)
def quick_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REPAIRS", Backoff(first=0.1, limit=0.3))


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these limit comes by itself, unless a test says otherwise; a busy machine may take long."""
    monkeypatch.setattr(http, "CONNECT_TIMEOUT", LIMIT)
    monkeypatch.setattr(watcher, "START_TIMEOUT", LIMIT)
    for name in ("PROBE_TIMEOUT", "DRAIN_GRACE", "EXIT_CODE_GRACE", "REAP_GRACE"):
        monkeypatch.setattr(stdio, name, LIMIT)


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = set(psutil.Process().children())  # such as a database that several tests share
    yield
    assert set(psutil.Process().children()) - before == set()


@attrs.define
class HttpPeer:
    """A Streamable HTTP server of our own, controlled by the test."""

    url: str = ""
    calls: list[tuple[str, str | None]] = attrs.field(factory=list)
    """Tool and `Authorization` header of each call that arrived."""
    callers: list[object] = attrs.field(factory=list)
    """The client's address of each call, one per connection."""
    other_bearers: list[str] = attrs.field(factory=list)
    """`Authorization` headers of requests other than calls."""
    token: str = ""
    """The only token that is accepted; empty: any, or none."""
    content: str = ""
    """The text of results; empty: the name of the tool."""
    reply_id: int | None = None
    """The id of results; None: that of the request."""
    more: dict[str, Any] = attrs.field(factory=dict)
    """Further members of results."""
    listed: tuple[Mapping[str, Any], ...] = ()
    """Further tools of the list."""
    on_call: str = "answer"
    """answer, stream (with a charset that is none), hang_up, cut (a stream ends before the reply, and says
    how to go on), break (so does the connection under it), redirect (to itself, once, with a body of `LONG`
    bytes), a code of JSON-RPC (below 0), or an HTTP status, perhaps with where to go."""
    refusal: str = "refused"
    """The message of a JSON-RPC error."""
    before: bytes = b""
    after: bytes = b""
    """Around the JSON of every reply."""
    media_type: str = "application/json"
    moved: int = 0
    """The status that redirects each request to the address with a slash; 0: none does."""
    headers: dict[str, str] = attrs.field(factory=dict)
    """Further headers of every reply; `content-encoding: gzip` compresses the body."""
    cookies: list[str | None] = attrs.field(factory=list)
    """`Cookie` headers of calls."""
    redirected: int = 0
    """Bytes of a redirect's body that the client accepted."""
    resumed: list[str] = attrs.field(factory=list)
    """`Last-Event-ID` headers after a cut; the second such request brings the reply."""
    cut_id: int = 0
    streams: list[str] = attrs.field(factory=list)
    """The outcomes of its own streams, in order: end, cut, tell (announce a tool `fresh`), or an HTTP status;
    then 405."""
    opened: int = 0
    """Own streams that the client requested."""
    fresh: bool = False
    notifications: list[dict[str, Any]] = attrs.field(factory=list)
    on_connect: int = 200
    """The status of requests other than calls."""
    connect_error: str = ""
    """The error message that goes with another status than 200."""
    leaves: int = 0
    """How many times to close a connection when it is reused."""
    session: str | None = "first"
    unknown_session: tuple[int, str] = (404, "")
    """Status and body of the answer to a request in another session."""
    probe_session: str | None = None
    """The session that the answer to a probe names; None: `session`."""
    on_leave: str = "answer"
    """The reaction to a DELETE: answer or hang."""
    ended: list[str] = attrs.field(factory=list)
    """Sessions that the client has ended."""
    slow: threading.Event = attrs.field(factory=threading.Event)
    """When set, the call of `slow` and a hanging DELETE return."""
    seen: list[Mapping[str, str]] = attrs.field(factory=list)
    """The headers of all POST requests."""


LONG = 30_000_000


@pytest.fixture
def http_peer() -> Iterator[HttpPeer]:
    peer = HttpPeer()
    with serving_peer(peer):
        yield peer


@contextmanager
def serving_peer(peer: HttpPeer, port: int = 0) -> Iterator[None]:
    """Serve the peer in a thread for the length of a block; then close all of its connections."""
    connections: set[socket.socket] = set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        used = False

        def setup(self) -> None:
            super().setup()
            connections.add(self.connection)

        def finish(self) -> None:
            connections.discard(self.connection)
            with suppress(OSError):  # closed by us
                super().finish()

        def do_POST(self) -> None:
            if self.used and peer.leaves:
                peer.leaves -= 1
                self.close_connection = True
                return
            self.used = True
            peer.seen.append({name.lower(): value for name, value in self.headers.items()})
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not self.has_moved():
                answer_http(peer, self, message)

        def do_GET(self) -> None:
            if not self.has_moved():
                answer_get(peer, self)

        def has_moved(self) -> bool:
            if peer.moved and self.path == "/mcp":
                reply(self, peer.moved, more={"location": "/mcp/"})
                return True
            return False

        def do_DELETE(self) -> None:
            if self.has_moved():
                return
            peer.ended.append(self.headers["mcp-session-id"])
            if peer.on_leave == "hang":
                peer.slow.wait()
            reply(self, 200)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    peer.url = f"http://127.0.0.1:{server.server_port}/mcp"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        peer.slow.set()
        server.shutdown()
        thread.join()
        server.server_close()
        for connection in list(connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def answer_get(peer: HttpPeer, handler: BaseHTTPRequestHandler) -> None:
    if (last := handler.headers["last-event-id"]) is None:
        return answer_stream(peer, handler)
    peer.resumed.append(last)
    result = {"content": [{"type": "text", "text": "resumed"}]}
    message = {"jsonrpc": "2.0", "id": peer.cut_id, "result": result}
    event = f"id: {last}+\n\n" if len(peer.resumed) == 1 else f"data: {json.dumps(message)}\n\n"
    return reply(handler, 200, event.encode(), "text/event-stream")


def answer_stream(peer: HttpPeer, handler: BaseHTTPRequestHandler) -> None:
    peer.opened += 1
    how = peer.streams.pop(0) if peer.streams else "405"
    if how.isdigit():
        return reply(handler, int(how))
    event = b"retry: 0\n\n"
    if how == "tell":
        peer.fresh = True
        event = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
    if how == "cut":
        handler.close_connection = True
        return reply(handler, 200, event, "text/event-stream", missing=5)
    return reply(handler, 200, event, "text/event-stream")


def answer_http(peer: HttpPeer, handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
    authorization = handler.headers["authorization"]
    if peer.token and authorization != f"Bearer {peer.token}":
        return reply(handler, 401)
    if message["method"] != "tools/call" and authorization is not None:
        peer.other_bearers.append(authorization)
    if message["method"] != "tools/call" and peer.on_connect != 200:
        said = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": peer.connect_error}}
        body = json.dumps(said).encode() if peer.connect_error else b""
        return reply(handler, peer.on_connect, body, more=peer.headers)
    session = handler.headers["mcp-session-id"]
    if session not in (None, peer.session):
        refused, text = peer.unknown_session
        return reply(handler, refused, text.encode())
    match message["method"]:
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object"}
            names = ("echo", "slow", "fresh") if peer.fresh else ("echo", "slow")
            result = {"tools": [*({"name": name, "inputSchema": schema} for name in names), *peer.listed]}
        case "tools/call":
            tool = message["params"]["name"]
            peer.calls.append((tool, authorization))
            peer.callers.append(handler.client_address)
            peer.cookies.append(handler.headers["cookie"])
            if peer.on_call == "redirect":
                peer.on_call = "answer"
                return redirect_at_length(peer, handler)
            if peer.on_call == "stream":
                content = [{"type": "text", "text": peer.content}] if peer.content else []
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}
                event = f"data: {json.dumps(answer)}\n\n".encode()
                return reply(handler, 200, event, "text/event-stream; charset=rot13")
            if peer.on_call == "hang_up":
                handler.close_connection = True
                return None
            if peer.on_call in ("cut", "break"):
                peer.cut_id = message["id"]
                handler.close_connection = peer.on_call == "break"
                begun = b"retry: 10\nid: first\ndata: \n\n"
                return reply(handler, 200, begun, "text/event-stream", missing=5 * handler.close_connection)
            if peer.on_call.startswith("-"):
                error = {"code": int(peer.on_call), "message": peer.refusal}
                return reply_json(peer, handler, {"id": message["id"], "error": error}, peer.session)
            if peer.on_call != "answer":
                status, *location = peer.on_call.split(" ")
                more = {"location": location[0]} if location else {}
                return reply(handler, int(status), b"<h1>sorry</h1>", "text/html", more=more)
            if tool == "slow":
                peer.slow.wait()
            result = {**peer.more, "content": [{"type": "text", "text": peer.content or tool}]}
            message["id"] = peer.reply_id or message["id"]
        case _ if "id" not in message:
            peer.notifications.append(message)
            return reply(handler, 202)
        case _:
            error = {"code": -32601, "message": "Method not found"}
            session = peer.session or peer.probe_session
            return reply_json(peer, handler, {"id": message["id"], "error": error}, session)
    return reply_json(peer, handler, {"id": message["id"], "result": result}, peer.session)


def reply_json(
    peer: HttpPeer, handler: BaseHTTPRequestHandler, message: dict[str, Any], session: str | None
) -> None:
    body = peer.before + json.dumps({"jsonrpc": "2.0", **message}).encode() + peer.after
    if peer.headers.get("content-encoding") == "gzip":
        body = gzip.compress(body)
    reply(handler, 200, body, peer.media_type, session=session, more=peer.headers)


def redirect_at_length(peer: HttpPeer, handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.send_response(307)
    handler.send_header("location", handler.path)
    handler.end_headers()
    with suppress(ConnectionError):
        while peer.redirected < LONG:
            peer.redirected += handler.wfile.write(bytes(100_000))


def reply(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes = b"",
    content_type: str = "application/json",
    session: str | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    missing: int = 0,
) -> None:
    handler.send_response(status)
    handler.send_header("content-type", content_type)
    handler.send_header("content-length", str(len(body) + missing))
    for name, value in more.items():
        handler.send_header(name, value)
    if status == 307 and "location" not in more:
        handler.send_header("location", "http://elsewhere.invalid/mcp")
    if session is not None:
        handler.send_header("mcp-session-id", session)
    handler.end_headers()
    handler.wfile.write(body)
