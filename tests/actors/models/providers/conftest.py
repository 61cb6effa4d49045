"""A provider in this process, which answers with given bytes over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
import trio

from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    Delta,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ModelTool,
    Usage,
    UserMessage,
    unheard,
)
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import ModelSpec
from tests.canary import KEY

Kind = Literal["openai", "anthropic"]
ADD = ModelTool("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def request(
    *messages: ChatMessage, system: str = "Be brief.", tools: Sequence[ModelTool] = (ADD,)
) -> ModelRequest:
    return ModelRequest(
        system=system,
        messages=messages or (UserMessage("hi"),),
        tools=tuple(tools),
        user="hi",
        node="main",
        turn=1,
        call=1,
    )


def kept(reply: ModelReply) -> AssistantMessage:
    """The reply as a message of the next request."""
    return AssistantMessage(reply.text, reply.tool_calls, reply.verbatim)


def opened(
    kind: Kind, url: str, client: ModelClient, folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> Model:
    """The model `m` of a provider at another address."""
    monkeypatch.setenv(f"{kind.upper()}_API_KEY", KEY)
    monkeypatch.setenv(f"{kind.upper()}_BASE_URL", url)
    return open_model(ModelSpec("m", kind, "m-1", **more), folder=folder, client=client)


async def failure(model: Model) -> ModelFailed:
    """The failure of a request to the model `m`."""
    with pytest.raises(ModelFailed) as failed:
        await model.complete(request(), unheard)
    assert KEY not in str(failed.value)
    assert str(failed.value).startswith("m: ")
    return failed.value


class Heard:
    """The emitted deltas."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    def __call__(self, delta: Delta) -> None:
        self.deltas.append(delta)


@attrs.frozen
class Wait:
    """Before the next piece of an answer: for the event, or for ever."""

    event: trio.Event | None = None


Piece = bytes | Wait


def head(status: int = 200, type: str = "application/json", **headers: object) -> bytes:
    """An answer that ends with its connection, unless it has a length."""
    lines = [f"HTTP/1.1 {status} Reason", f"content-type: {type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def whole(body: object, status: int = 200, type: str = "application/json", **headers: object) -> list[Piece]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [head(status, type, content_length=len(raw), **headers) + raw]


def chunk(raw: bytes) -> bytes:
    return f"{len(raw):x}\r\n".encode() + raw + b"\r\n"


def events(*bodies: object, ends: bool = True) -> list[Piece]:
    """Server-sent events, one chunk each; without the last chunk the connection breaks."""
    pieces: list[Piece] = [head(type="text/event-stream", transfer_encoding="chunked")]
    for body in bodies:
        data = body if isinstance(body, str) else json.dumps(body)
        pieces.append(chunk(f"data: {data}\n\n".encode()))
    return [*pieces, b"0\r\n\r\n"] if ends else pieces


@attrs.frozen
class Hello:
    """The reply "hello" in the format of one provider."""

    kind: Kind
    whole: dict[str, Any]
    events: list[Any]
    path: str
    usage: Usage = attrs.field(factory=Usage)

    @property
    def begun(self) -> list[Any]:
        """The events up to the first text."""
        return self.events[: next(at for at, each in enumerate(self.events, 1) if "hel" in str(each))]


HELLO_OPENAI = Hello(
    "openai",
    {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]},
    [
        {"choices": [{"delta": {"content": "hel"}}]},
        {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]},
        "[DONE]",
    ],
    path="/chat/completions",
)
HELLO_ANTHROPIC = Hello(
    "anthropic",
    {"type": "message", "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"},
    [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    path="/v1/messages",
    usage=Usage(3),
)


@pytest.fixture(params=[HELLO_OPENAI, HELLO_ANTHROPIC], ids=["openai", "anthropic"])
def hello(request: pytest.FixtureRequest) -> Hello:
    """Both clients pass the tests that use this: the hand-written one and the SDK of Anthropic."""
    found: Hello = request.param
    return found


@attrs.define(eq=False)
class Provider:
    url: str
    answers: list[list[Piece]] = attrs.field(factory=list)
    """One for each request, in order."""
    heads: list[bytes] = attrs.field(factory=list)
    bodies: list[Any] = attrs.field(factory=list)
    raw: list[bytes] = attrs.field(factory=list)
    """The same as bytes."""
    connections: int = 0
    gone: trio.Event = attrs.field(factory=trio.Event)
    """The client closed a connection."""

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        buffer = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffer:
                    if not (more := await stream.receive_some()):
                        return
                    buffer += more
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                while len(buffer) < length:
                    buffer += await stream.receive_some()
                self.heads.append(head)
                self.raw.append(buffer[:length])
                self.bodies.append(json.loads(buffer[:length]))
                buffer = buffer[length:]
                if not await self._answer(stream, self.answers.pop(0)):
                    return
        except trio.BrokenResourceError:
            pass
        finally:
            self.gone.set()
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.SocketStream, pieces: list[Piece]) -> bool:
        """Whether the connection is still good."""
        for piece in pieces:
            if isinstance(piece, bytes):
                await stream.send_all(piece)
            elif piece.event is not None:
                await piece.event.wait()
            else:
                # Until the client leaves.
                return bool(await stream.receive_some())
        head, _, body = b"".join(piece for piece in pieces if isinstance(piece, bytes)).partition(b"\r\n\r\n")
        return body.endswith(b"0\r\n\r\n") or f"content-length: {len(body)}" in head.decode().split("\r\n")


@pytest.fixture
async def provider(nursery: trio.Nursery) -> Provider:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    found = Provider(f"http://127.0.0.1:{port}")
    nursery.start_soon(trio.serve_listeners, found.serve, [listener])
    return found


@pytest.fixture
async def client() -> AsyncIterator[ModelClient]:
    made = ModelClient(max_connections=16)
    yield made
    await made.aclose()
