"""A tool server of one file and no dependencies, over HTTP; it starts in no time, to be killed often:

    python http_server.py PORT LEDGER DELAY

Streamable HTTP at `/mcp`, with a session that only this process knows; the older kind at `/sse`. Every
call is appended to the ledger, a line with its text, and on disk, some seconds before it is answered.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT, LEDGER, DELAY = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
SESSION = f"{os.getpid()}-{os.urandom(4).hex()}"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": "note", "description": "Write the text into the ledger", "inputSchema": SCHEMA}]

streams: dict[str, queue.Queue[bytes]] = {}
"""The older kind's, by session."""
writing = threading.Lock()


def record(text: str) -> None:
    with writing, open(LEDGER, "ab") as ledger:
        ledger.write(text.encode() + b"\n")
        ledger.flush()
        os.fsync(ledger.fileno())


def reply_to(message: dict[str, Any]) -> dict[str, Any] | None:
    """The JSON-RPC reply; None to a notification."""
    match message:
        case {"id": _, "method": "initialize"}:
            info = {"name": "http-server", "version": "1.0.0"}
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
        case {"id": _, "method": "tools/list"}:
            result = {"tools": TOOLS}
        case {"id": _, "method": "tools/call", "params": {"arguments": {"text": text}}}:
            record(text)
            time.sleep(DELAY)
            result = {"content": [{"type": "text", "text": text}]}
        case {"id": id}:
            return {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}
        case _:
            return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/sse":
            return self.reply(405)
        session = os.urandom(4).hex()
        stream = streams[session] = queue.Queue()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"event: endpoint\ndata: /messages?{session}\n\n".encode())
        while True:
            self.wfile.write(b"event: message\ndata: " + stream.get() + b"\n\n")

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path, _, session = self.path.partition("?")
        if path == "/messages":
            if session not in streams:
                return self.reply(404)
            self.reply(202)
            if (answer := reply_to(message)) is not None:
                streams[session].put(json.dumps(answer).encode())
            return None
        if path != "/mcp" or self.headers["mcp-session-id"] not in (None, SESSION):
            return self.reply(404)
        answer = reply_to(message)
        return self.reply(202) if answer is None else self.reply(200, json.dumps(answer).encode())

    def do_DELETE(self) -> None:
        self.reply(200)

    def reply(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", SESSION)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    Server(("127.0.0.1", PORT), Handler).serve_forever()
