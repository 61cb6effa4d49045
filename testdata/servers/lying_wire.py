"""What lying_agent.py reads and writes: one request for each connection, over either binding of A2A 1.0."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import attrs
import h11
import trio

Json = dict[str, Any]

PATHS = {"JSONRPC": "/a2a", "HTTP+JSON": "/rest"}
STREAMED = {"SendStreamingMessage", "SubscribeToTask"}
SENT = {"SendMessage", "SendStreamingMessage"}
CODES = {-32001: 404, -32004: 400, -32601: 404, -32602: 400}
"""The status of HTTP for an error of JSON-RPC."""
MOST = 10_000_000
"""Bytes of a request's head: ids that a client got are in it."""


@attrs.define(eq=False)
class Call:
    """A request, and the connection that it is answered on: the only one, for it is closed then."""

    stream: trio.SocketStream
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    about: str = ""
    """The words of the task that it is about, once that is known."""

    async def write(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def head(self, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} As It Likes", f"content-type: {kind}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        await self.head(status, content_length=str(len(body)), **headers)
        await self.write(body)

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        await self.answer(json.dumps(value).encode(), status, **headers)

    async def repeat(self, block: bytes, times: int) -> None:
        """In writes that are large enough to be quick, and small enough to keep."""
        at_once = max(1, 64_000 // len(block))
        for _ in range(times // at_once):
            await self.write(block * at_once)
        await self.write(block * (times % at_once))


@attrs.frozen
class Asked:
    """What a request asks for, over either binding."""

    method: str
    params: Json
    id: Any = None
    """Of the JSON-RPC request."""
    rest: bool = False

    @property
    def streamed(self) -> bool:
        return self.method in STREAMED

    def wrapped(self, result: Any) -> bytes:
        return json.dumps(
            result if self.rest else {"jsonrpc": "2.0", "id": self.id, "result": result}
        ).encode()

    def refused(self, code: int, message: str) -> bytes:
        if self.rest:
            status = CODES[code]
            return json.dumps({"error": {"code": status, "status": "REFUSED", "message": message}}).encode()
        return json.dumps(
            {"jsonrpc": "2.0", "id": self.id, "error": {"code": code, "message": message}}
        ).encode()

    def of_task(self, task: Json) -> bytes:
        """The answer, or the event of a stream, that has the whole task."""
        bare = self.method in ("GetTask", "CancelTask")
        return self.wrapped(task if bare else {"task": task})


def asked_of(call: Call, binding: str) -> Asked | None:
    if binding == "JSONRPC":
        match call.body:
            case {"id": id, "method": str(method)} if call.path == "/a2a":
                return Asked(method, call.body.get("params") or {}, id)
        return None
    path = call.path.partition("?")[0].removeprefix("/rest/")
    match path.split(":"):
        case ["message", "send"]:
            return Asked("SendMessage", call.body, rest=True)
        case ["message", "stream"]:
            return Asked("SendStreamingMessage", call.body, rest=True)
    name, _, verb = path.removeprefix("tasks/").partition(":")
    methods = {"": "GetTask", "cancel": "CancelTask", "subscribe": "SubscribeToTask"}
    if verb not in methods or not path.startswith("tasks/"):
        return None
    return Asked(methods[verb], {"id": unquote(name)}, rest=True)


async def refuse(call: Call, asked: Asked | None, code: int, message: str) -> None:
    asked = asked or Asked("", {}, rest=True)
    await call.answer(asked.refused(code, message), CODES[code] if asked.rest else 200)


async def event(call: Call, asked: Asked, result: Json) -> None:
    await call.write(b"data: " + asked.wrapped(result) + b"\n\n")


async def read(stream: trio.SocketStream) -> Call | None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST)
    request: h11.Request | None = None
    body = b""
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            case h11.Request() as request:
                pass
            case h11.Data() as data:
                body += data.data
            case h11.EndOfMessage() if request is not None:
                break
            case _:
                return None
    try:
        parsed = json.loads(body) if body else None
    except ValueError:
        parsed = body.decode("utf-8", "replace")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return Call(stream, request.method.decode(), request.target.decode("latin-1"), headers, parsed)
