"""A model that stops in the middle of its reply until it is told to go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs


@attrs.define
class PausedModel:
    address: str
    pieces: tuple[str, str]
    """What it says before it stops, and after."""
    config: Path
    _go_on: threading.Event = attrs.field(factory=threading.Event)

    def go_on(self) -> None:
        self._go_on.set()

    def wait(self) -> None:
        self._go_on.wait()


@contextmanager
def paused_model(folder: Path, *pieces: str, **settings: Any) -> Iterator[PausedModel]:
    """The model, and the file of an agent that has it and these settings."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.write({"role": "assistant", "content": model.pieces[0]})
            model.wait()
            self.write({"content": model.pieces[1]})
            self.write({}, finish="stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def write(self, delta: dict[str, Any], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {"id": "c", "object": "chat.completion.chunk", "model": "paused", "choices": [choice]}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        address = f"http://127.0.0.1:{server.server_port}/v1"
        config = folder / "paused.yaml"
        models = {"paused": {"provider": "openai_compatible", "model": "paused", "base_url": address}}
        agent = {"name": "teller", "llm": {"model": "paused"}, "models": models, **settings}
        config.write_text(json.dumps(agent))
        first, second = pieces
        model = PausedModel(address, (first, second), config)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            model.go_on()
            server.shutdown()
            thread.join()
