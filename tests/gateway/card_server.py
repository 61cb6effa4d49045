"""An HTTP server whose answers the test says, such as the card of an agent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

CARD = "/.well-known/agent-card.json"


class _Handler(BaseHTTPRequestHandler):
    answers: Mapping[str, tuple[int, Any]]
    seen: list[Mapping[str, str]]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append({"path": self.path, **{name.lower(): each for name, each in self.headers.items()}})
        status, answer = self.answers.get(self.path, (404, None))
        host = self.headers["Host"]
        body = json.dumps(answer).replace("{here}", f"http://{host}").encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def card_server(answers: Mapping[str, tuple[int, Any]]) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Where it listens, and the path and the headers of what arrives. `answers`: status and JSON, by path; in
    the JSON, `{here}` is where it listens."""
    seen: list[Mapping[str, str]] = []
    handler = type("Handler", (_Handler,), {"answers": answers, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()
