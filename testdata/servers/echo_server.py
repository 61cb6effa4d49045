"""A tool server of one file and no dependencies: newline-delimited JSON-RPC over stdio.

Every call that is executed is appended to the file named by `LEDGER`, one JSON line each, on disk
before it is answered: what is in that file has happened, whatever the client came to believe.
`DELAY` is how many seconds `wipe` and `plain` take between the two.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

PROTOCOL_VERSION = "2025-11-25"
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}

TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Give the text back",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "slow",
        "description": "Take some seconds",
        "inputSchema": SECONDS,
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "crash",
        "description": "Die in the middle of the call",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "wipe",
        "description": "Destroy what the text names",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": False, "destructiveHint": True},
    },
    {
        "name": "bump",
        "description": "Set a counter",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    },
    {"name": "plain", "description": "Say nothing about itself", "inputSchema": TEXT},
]

writing = threading.Lock()


def send(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    with writing:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def record(tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    path = os.environ.get("LEDGER")
    if path is None:
        return
    trace = meta.get("traceparent")
    fields = {"tool": tool, "arguments": arguments, "pid": os.getpid(), "traceparent": trace}
    entry = json.dumps(fields).encode() + b"\n"
    ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(ledger, entry)
        os.fsync(ledger)
    finally:
        os.close(ledger)


def execute(request_id: object, tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    record(tool, arguments, meta)
    if tool == "crash":
        os._exit(7)
    if tool == "slow":
        time.sleep(float(arguments["seconds"]))
    if tool in ("wipe", "plain"):
        time.sleep(float(os.environ.get("DELAY", "0")))
    text = arguments.get("text", f"{tool} done")
    send({"id": request_id, "result": {"content": [{"type": "text", "text": text}], "isError": False}})


def answer(message: dict[str, Any]) -> None:
    request_id, params = message["id"], message.get("params") or {}
    match message["method"]:
        case "initialize":
            info = {"name": "echo-server", "version": "1.0.0"}
            result = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
            send({"id": request_id, "result": result})
        case "ping":
            send({"id": request_id, "result": {}})
        case "tools/list":
            send({"id": request_id, "result": {"tools": TOOLS}})
        case "tools/call" if any(tool["name"] == params.get("name") for tool in TOOLS):
            call = (request_id, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
            threading.Thread(target=execute, args=call, daemon=True).start()
        case "tools/call":
            send(
                {
                    "id": request_id,
                    "error": {"code": -32602, "message": f"Unknown tool: {params.get('name')}"},
                }
            )
        case method:
            send({"id": request_id, "error": {"code": -32601, "message": f"Method not found: {method}"}})


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)


if __name__ == "__main__":
    main()
