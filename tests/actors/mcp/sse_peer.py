"""A server of the older HTTP kind, controlled by the test."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

DESCRIPTION = ""
"""A description in the input schema of its tools."""


@attrs.define
class SsePeer:
    url: str = ""
    endpoint: str = "/messages?session=1"
    on_stream: int = 200
    """The status of a GET."""
    on_message: int = 202
    """The status of a call's POST; 0 closes the connection, -1 does not answer."""
    body: bytes = b"<h1>sorry</h1>"
    """The body that goes with an error status."""
    calls: list[tuple[str, str | None]] = attrs.field(factory=list)
    """Tool and `Authorization` header of each call that arrived."""
    before: str = ""
    """The beginning of the path of every POST, which the endpoint event lacks."""
    posts: list[str] = attrs.field(factory=list)
    """The path of every POST."""
    moved: str = ""
    """A prefix of every path; requests without it are redirected."""
    cancelled: list[int] = attrs.field(factory=list)
    """Ids of cancelled requests."""
    headers: list[str | None] = attrs.field(factory=list)
    """The header `x-key` of every request."""
    promised: int = 0
    """The declared length of its stream; a stream that ends earlier is a broken connection."""
    say: queue.Queue[bytes | None] = attrs.field(factory=queue.Queue)
    """Events to the client; None ends the stream."""
    ended: threading.Event = attrs.field(factory=threading.Event)

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.say.put(b"event: message\ndata: " + body + b"\n\n")


@contextmanager
def sse_peer() -> Iterator[SsePeer]:
    peer = SsePeer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            peer.headers.append(self.headers["x-key"])
            if not self.path.startswith("/moved") and peer.moved:
                return reply(self, 307, location=peer.moved + self.path)
            if peer.on_stream != 200:
                return reply(self, peer.on_stream, peer.body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            if peer.promised:
                self.send_header("content-length", str(peer.promised))
            self.end_headers()
            if not peer.endpoint:
                return None
            self.wfile.write(f": hello\n\nevent: endpoint\ndata: {peer.endpoint}\n\n".encode())
            while (event := peer.say.get()) is not None:
                self.wfile.write(event)
            return None

        def do_POST(self) -> None:
            peer.headers.append(self.headers["x-key"])
            peer.posts.append(self.path)
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path == peer.endpoint and peer.moved:
                return reply(self, 307, location=peer.moved + self.path)
            if not self.path.endswith(peer.endpoint) or not self.path.startswith(peer.before):
                return reply(self, 405, b"Method Not Allowed")
            if message["method"] == "notifications/cancelled":
                peer.cancelled.append(message["params"]["requestId"])
            if message["method"] == "tools/call":
                peer.calls.append((message["params"]["name"], self.headers["authorization"]))
                if peer.on_message == 0:
                    return None
                if peer.on_message == -1:
                    answer(peer, message)
                    peer.ended.wait()
                    return None
                if peer.on_message != 202:
                    return reply(self, peer.on_message, peer.body)
            reply(self, 202)
            return answer(peer, message)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    peer.url = f"http://127.0.0.1:{server.server_port}/sse"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield peer
    finally:
        peer.say.put(None)
        peer.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def answer(peer: SsePeer, message: dict[str, Any]) -> None:
    match message["method"]:
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "older", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "description": DESCRIPTION}
            result = {"tools": [{"name": name, "inputSchema": schema} for name in ("echo", "silent")]}
        case "tools/call" if message["params"]["name"] == "echo":
            result = {"content": [{"type": "text", "text": "echo"}]}
        case _:
            return
    peer.send({"id": message["id"], "result": result})


def reply(
    handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", location: str | None = None
) -> None:
    handler.send_response(status)
    if location is not None:
        handler.send_header("location", location)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
