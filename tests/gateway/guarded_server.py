"""A tool server over HTTP that wants a token: of everybody, or of those who call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "guarded", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
}


class _Handler(BaseHTTPRequestHandler):
    open_to: frozenset[str]
    """Methods that need no token."""

    def do_GET(self) -> None:
        self._say(405)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message["method"] not in self.open_to:
            self._say(401)
        elif "id" not in message:
            self._say(202)
        else:
            result = RESULTS[message["method"]]
            self._say(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def _say(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def guarded_server(*open_to: str) -> Iterator[str]:
    """Where it listens. These methods need no token."""
    handler = type("Handler", (_Handler,), {"open_to": frozenset(open_to)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()
