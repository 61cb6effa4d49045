"""A stdio tool server that misbehaves on request, to see a client survive it.

`UNRULY` is a comma-separated list:
    noise        garbage, invalid UTF-8 and blank lines before every message
    mixed        malformed tools among good ones, one without a schema type, one that is only a task
    pages        the tools in two pages, and a cursor that repeats
    listless     lists what is no list of tools
    restless     lists another tool at every look, and then says that they have changed
    mute         answers nothing at all
    selective    ignores the methods it does not know, as some older servers do
    fragile      ends with an error at the first request that it does not know (Python SDK 1.2 to 1.8)
    exit         writes a reason to stderr and exits with code 3 before it answers
    stubborn     ignores SIGTERM and the end of its input
    family       starts a grandchild that ignores SIGTERM; its pid goes to the file named by `FAMILY`

The file named by `STARTS` gets a line at each start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODES = frozenset(os.environ.get("UNRULY", "").split(","))
OBJECT = {"type": "object"}
GOOD: list[dict[str, Any]] = [
    {"name": "big", "description": "A long text", "inputSchema": OBJECT},
    {"name": "broken_utf8", "description": "A text that is not UTF-8", "inputSchema": OBJECT},
    {"name": "broken_pair", "description": "A text cut in a surrogate pair", "inputSchema": OBJECT},
    {"name": "environment", "description": "The environment variables", "inputSchema": OBJECT},
    {"name": "directory", "description": "Where it runs", "inputSchema": OBJECT},
    {"name": "fails", "description": "An error result", "inputSchema": OBJECT},
    {"name": "refuses", "description": "A JSON-RPC error", "inputSchema": OBJECT},
    {"name": "invalid", "description": "A result that is no result", "inputSchema": OBJECT},
    {"name": "no_reply", "description": "A reply that is no JSON-RPC", "inputSchema": OBJECT},
    {
        "name": "structured",
        "description": "Not what its schema says",
        "inputSchema": OBJECT,
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
    {"name": "only_structured", "description": "A result without content", "inputSchema": OBJECT},
    {"name": "unheard_of", "description": "Content of kinds nobody knows", "inputSchema": OBJECT},
    {"name": "nothing", "description": "A result that says nothing at all", "inputSchema": OBJECT},
    {"name": "chatty", "description": "Progress without end, and odd", "inputSchema": OBJECT},
    {
        "name": "insistent",
        "description": "Ask, and tell of no known level, and read nothing",
        "inputSchema": OBJECT,
    },
    {"name": "relist", "description": "Say that the tools have changed", "inputSchema": OBJECT},
]
MIXED: list[Any] = [
    {"name": "bad_schema", "inputSchema": {"type": "string"}},
    {"description": "nameless", "inputSchema": OBJECT},
    "not even an object",
    {"name": "long_task", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}},
    {"name": "no_type", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "bad_hint", "inputSchema": OBJECT, "annotations": {"readOnlyHint": "perhaps"}},
]
extra_tools: list[dict[str, Any]] = []
refusals: list[str] = []
"""Of the tools' next listings."""


def write(line: bytes) -> None:
    if "noise" in MODES:
        line = b"starting up...\n\xff\xfe not UTF-8\n\n{}\n[1]\n" + line
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def text(content: str, **result: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **result}


def tools_page(cursor: str | None) -> dict[str, Any]:
    tools = [*GOOD, *extra_tools, *(MIXED if "mixed" in MODES else [])]
    if "pages" not in MODES:
        return {"tools": tools}
    return {"tools": tools[:3] if cursor is None else tools[3:], "nextCursor": "again"}


def call(request_id: int, name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    match name:
        case "chatty":
            for n in range(int(arguments["steps"])):
                told = {"progressToken": meta["progressToken"], "progress": n, "message": "x" * 1000}
                send({"method": "notifications/progress", "params": told})
            for odd in ({}, {"progress": "much"}, {"progress": 1, "total": float("nan")}):
                send({"method": "notifications/progress", "params": {**meta, **odd}})
            result = text("said it all")
        case "insistent":
            for n in range(int(arguments["times"])):
                send({"id": f"ask {n}", "method": "ping"})
                send({"method": "notifications/message", "params": {"level": "warn", "data": n}})
            result = text("asked it all")
        case "big":
            result = text("x" * int(arguments["size"]))
            if arguments.get("order") == "id last":
                write(json.dumps({"result": result, "jsonrpc": "2.0", "id": request_id}).encode())
                return
            if arguments.get("order") == "list":  # it looks like one, until its id is known
                write(json.dumps({"result": {"tools": [], **result}, "id": request_id}).encode())
                return
        case "broken_utf8":
            body = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": text("caf@")}).encode()
            write(body.replace(b"@", b"\xe9"))
            return
        case "broken_pair":
            result = text("caf\ud83d")
        case "environment":
            result = text(json.dumps(dict(os.environ)))
        case "directory":
            result = text(os.getcwd())
        case "fails":
            result = text("the disk is full", isError=True)
        case "refuses":
            send({"id": request_id, "error": {"code": -32000, "message": "database is locked"}})
            return
        case "invalid":
            result = {"content": "not a list"}
        case "only_structured":
            result = {"structuredContent": {"n": 7}}
        case "unheard_of":
            odd = [{"type": "hologram", "data": [1, None]}, "just a text", {"type": []}]
            result = {"content": [*text("a")["content"], *odd]}
        case "nothing":
            result = {}
        case "no_reply":
            send({"id": request_id, "result": 7})
            return
        case "relist":
            refusals.extend(["not now"] * int(arguments.get("refusals", 0)))
            extra_tools.append({"name": "fresh", "inputSchema": OBJECT})
            send({"method": "notifications/tools/list_changed"})
            result = text("changed")
        case _:
            result = text("no structure", structuredContent={"n": "seven"})
    send({"id": request_id, "result": result})


def answer(message: dict[str, Any]) -> None:
    request_id, params = message["id"], message.get("params") or {}
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "unruly-server", "version": "1.0.0"},
            }
            send({"id": request_id, "result": result})
        case "tools/list" if refusals:
            send({"id": request_id, "error": {"code": -32603, "message": refusals.pop()}})
        case "tools/list" if "listless" in MODES:
            send({"id": request_id, "result": {"tools": None}})
        case "tools/list":
            if "restless" in MODES:
                extra_tools.append({"name": f"look_{len(extra_tools)}", "inputSchema": OBJECT})
            send({"id": request_id, "result": tools_page(params.get("cursor"))})
            if "restless" in MODES:
                send({"method": "notifications/tools/list_changed"})
        case "tools/call":
            call(request_id, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
        case method if "fragile" in MODES:
            print(f"validation error: {method}", file=sys.stderr)
            sys.exit(1)
        case method if "selective" not in MODES:
            send({"id": request_id, "error": {"code": -32601, "message": f"Method not found: {method}"}})


def start_family() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-S", "-E", "-c", code])
    with open(os.environ["FAMILY"], "w") as file:
        file.write(f"{os.getpid()} {child.pid}")


def main() -> None:
    if "STARTS" in os.environ:
        with open(os.environ["STARTS"], "a") as file:
            file.write("started\n")
    if "exit" in MODES:
        print("fatal: no database", file=sys.stderr)
        sys.exit(3)
    if "stubborn" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "family" in MODES:
        start_family()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "mute" not in MODES and "id" in message and "method" in message:
            answer(message)
    while "stubborn" in MODES:
        time.sleep(1)


if __name__ == "__main__":
    main()
