"""The simulated server of a provider: it checks requests and answers them, or commits the fault that a test
asks for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias

import attrs
import trio

from tests.canary import KEY
from tests.providers.servers.anthropic_messages import AnthropicMessages
from tests.providers.servers.azure import DEPLOYMENT, VERSION, AzureChat, AzureResponses
from tests.providers.servers.bedrock import BedrockConverse, BedrockInvoke, BedrockMessages
from tests.providers.servers.chat import Chat
from tests.providers.servers.flavours import COMPATIBLE, MISTRAL, OLLAMA, OPENAI, OPENROUTER
from tests.providers.servers.gemini import Gemini
from tests.providers.servers.http import Answer, Chunk, Drop, Pause, Request, cut, serve
from tests.providers.servers.ollama import OllamaNative
from tests.providers.servers.responses import Responses
from tests.providers.servers.talk import Frame, Heard, Json, Refusal, Said, answer
from tests.providers.servers.vertex import PROJECT, VertexClaude, VertexGemini


class Dialect(Protocol):
    """The dialect of a provider. Pure."""

    @property
    def name(self) -> str: ...
    def open(self, request: Request, key: str) -> tuple[str, bool]: ...
    def check(self, body: Json) -> None: ...
    def hear(self, body: Json, model: str, stream: bool) -> Heard: ...
    def body(self, said: Said, heard: Heard) -> Json: ...
    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]: ...
    def error(self, status: int, why: str) -> Any: ...
    def error_frame(self, why: str) -> bytes: ...


DIALECTS: Mapping[str, Dialect] = {
    "anthropic": AnthropicMessages(),
    "google": Gemini(),
    **{flavour.name: Chat(flavour) for flavour in (OPENAI, MISTRAL, OPENROUTER, OLLAMA, COMPATIBLE)},
    "responses": Responses(),
    "ollama_native": OllamaNative(),
    "azure": AzureChat(),
    "azure_responses": AzureResponses(),
    "bedrock": BedrockMessages(),
    "bedrock_invoke": BedrockInvoke(),
    "bedrock_converse": BedrockConverse(),
    "vertex": VertexGemini(),
    "vertex_claude": VertexClaude(),
}
MODELS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-5-5",
    "google": "gemini-3-flash",
    "openai": "gpt-5.2",
    "responses": "gpt-6.2-sol",
    "mistral": "mistral-large-latest",
    "openrouter": "moonshotai/kimi-k2",
    "ollama": "qwen3:8b",
    "ollama_native": "qwen3:4b",
    "azure": DEPLOYMENT,
    "azure_responses": "another-deployment",
    "bedrock": "anthropic.claude-opus-4-8",
    "bedrock_invoke": "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "bedrock_converse": "eu.amazon.nova-pro-v1:0",
    "vertex": "gemini-3-flash",
    "vertex_claude": "claude-sonnet-4-5@20250929",
    "openai_compatible": "Qwen/Qwen3-8B",
}
SETTINGS: Mapping[str, Json] = {
    "responses": {"provider": "openai", "api": "responses"},
    "ollama_native": {
        "provider": "ollama",
        "api_key_env": "OPENAI_API_KEY",  # of a proxy
        "options": {"num_ctx": 32768, "keep_alive": "30m"},
    },
    "azure": {"query": {"api-version": VERSION}},
    "azure_responses": {"provider": "azure"},
    "bedrock_invoke": {"provider": "bedrock"},
    "bedrock_converse": {"provider": "bedrock"},
    "vertex": {"api_key_env": "OPENAI_API_KEY"},
    "vertex_claude": {"provider": "vertex", "api_key_env": "OPENAI_API_KEY"},
}
"""Settings of a model of a dialect whose name is not that of its provider."""
BELOW: Mapping[str, str] = {
    **dict.fromkeys(("anthropic", "google", "azure", "azure_responses"), ""),
    **dict.fromkeys(("bedrock", "bedrock_invoke", "bedrock_converse"), ""),
    **dict.fromkeys(("vertex", "vertex_claude"), PROJECT),
}
"""The paths of addresses; `/v1` of all others."""

STREAM_TYPES: Mapping[str, str] = {
    "ollama_native": "application/x-ndjson",
    **dict.fromkeys(("bedrock_invoke", "bedrock_converse"), "application/vnd.amazon.eventstream"),
}
"""Types of streams that are no server-sent events."""


def judge(dialect: Dialect, body: Json, model: str) -> None:
    """Raises `Refusal` if the provider would refuse the request for this model."""
    dialect.check(body)
    if isinstance(dialect, Gemini):
        dialect.check_model(body, model)


# ----------------------------------------------------------------- faults

Place: TypeAlias = Literal["head", "first", "text", "call", "stop", "end"]
"""Within the head of the answer; before its body; in a text; in a call; before the reason to stop; at
the end. What is not streamed has no places within: there all but the first two are in its middle."""


@attrs.frozen
class Say:
    """Give this reply instead of the model's."""

    said: Said


@attrs.frozen
class Fail:
    """Answer with an error status, in the provider's own form or with these bytes."""

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict)
    why: str = "something is wrong here"
    body: bytes | None = None


@attrs.frozen
class Raw:
    """Answer with these bytes, whatever was asked."""

    chunks: Iterable[Chunk]
    status: int = 200
    content_type: str = "application/json"


@attrs.frozen
class Broken:
    """Begin the answer and end it there: by closing the connection, or as if that were all."""

    at: Place
    how: Literal["drop", "end"] = "drop"
    then: tuple[Chunk, ...] = ()
    """Sent before it ends."""


@attrs.frozen
class Slow:
    """Wait so many seconds before each piece, and before the head."""

    seconds: float
    pieces: int = 1
    """Bytes of each."""


@attrs.frozen
class Event:
    """End the stream there with the provider's own error event; without a stream, an error status."""

    at: Place
    why: str = "Overloaded"


Fault: TypeAlias = Say | Fail | Raw | Broken | Slow | Event


@attrs.frozen
class Received:
    """A request that arrived."""

    model: str
    stream: bool
    headers: Mapping[str, str]
    body: Json


@attrs.define(eq=False)
class ModelServer:
    """A server of one dialect. Tests set its behaviour for the next requests or for all."""

    dialect: Dialect
    url: str = ""
    key: str = KEY
    piece: int = 113
    """Bytes per chunk of a streamed answer: prime, so that it falls inside whatever there is."""
    plan: list[Fault | None] = attrs.field(factory=list)
    """Behaviour for the next requests, one entry each; None: answer as the model."""
    always: Fault | None = None
    """Behaviour without a plan."""
    requests: list[Received] = attrs.field(factory=list)
    refusals: list[str] = attrs.field(factory=list)
    """Why requests were refused that should not have been made."""
    asked: trio.Event = attrs.field(factory=trio.Event)
    """Set when a request has arrived."""
    left: int = 0
    """Clients that have left before they had their answer."""
    someone_left: trio.Event = attrs.field(factory=trio.Event)
    answered: Callable[[Heard], Said] = answer

    @property
    def base_url(self) -> str:
        """Settings of a client for this provider."""
        return self.url + BELOW.get(self.dialect.name, "/v1")

    @property
    def model(self) -> str:
        return MODELS[self.dialect.name]

    def leave(self) -> None:
        self.left += 1
        self.someone_left.set()

    async def handle(self, request: Request) -> Answer:
        try:
            model, stream = self.dialect.open(request, self.key)
            body = json.loads(request.body)
            self.asked.set()
            self.requests.append(Received(model, stream, request.headers, body))
            judge(self.dialect, body, model)
        except Refusal as refusal:
            self.refusals.append(str(refusal))
            return Answer.json(refusal.body, refusal.status)
        heard = self.dialect.hear(body, model, stream)
        fault = self.plan.pop(0) if self.plan else self.always
        late = fault.seconds if isinstance(fault, Slow) else 0.0
        return attrs.evolve(self._answer(heard, fault), late=late)

    def _answer(self, heard: Heard, fault: Fault | None) -> Answer:
        said = fault.said if isinstance(fault, Say) else self.answered(heard)
        match fault:
            case Fail():
                if fault.body is None:
                    return Answer.json(
                        self.dialect.error(fault.status, fault.why), fault.status, fault.headers
                    )
                headers = {"content-type": "text/html", **fault.headers}
                return Answer(fault.status, headers, fault.body)
            case Raw():
                return Answer(fault.status, {"content-type": fault.content_type}, chunks=fault.chunks)
            case Broken(at="head"):
                return Answer(head=(b"HTTP/1.1 200 OK\r\ncontent-ty",))
            case Event() if not heard.stream:
                return Answer.json(self.dialect.error(529, fault.why), 529)
            case _ if heard.stream:
                chunks = _streamed(self.dialect, list(self.dialect.frames(said, heard)), fault, self.piece)
                kind = STREAM_TYPES.get(self.dialect.name, "text/event-stream; charset=utf-8")
                return Answer(200, {"content-type": kind}, chunks=chunks)
            case _:
                return _whole(json.dumps(self.dialect.body(said, heard)).encode(), fault)


def _streamed(dialect: Dialect, frames: list[Frame], fault: Fault | None, piece: int) -> Iterator[Chunk]:
    match fault:
        case Broken():
            last: Chunk = Drop() if fault.how == "drop" else b""
            return chain(cut(_until(frames, fault.at), piece), fault.then, (last,))
        case Event():
            return cut(_whole_until(frames, fault.at) + dialect.error_frame(fault.why), piece)
        case Slow():
            data = b"".join(frame.data for frame in frames)
            return (each for part in cut(data, fault.pieces) for each in (Pause(fault.seconds), part))
        case _:
            return cut(b"".join(frame.data for frame in frames), piece)


def _until(frames: list[Frame], place: Place) -> bytes:
    """The chunks before the end at that place. In a text or call, they end in the middle of a frame."""
    data = _whole_until(frames, place)
    if place in {"text", "call"}:
        within = next(frame.data for frame in frames[_index(frames, place) :])
        data += within[: len(within) // 2]
    return data


def _whole_until(frames: list[Frame], place: Place) -> bytes:
    return b"".join(frame.data for frame in frames[: _index(frames, place)])


def _index(frames: list[Frame], place: Place) -> int:
    if place == "first":
        return 0
    marked = [index for index, frame in enumerate(frames) if frame.mark == place]
    if not marked:  # nothing of the kind is said: before it ends
        marked = [index for index, frame in enumerate(frames) if frame.mark == "stop"]
    return marked[len(marked) // 2] if place in {"text", "call"} else marked[0]


def _whole(body: bytes, fault: Fault | None) -> Answer:
    headers = {"content-type": "application/json"}
    match fault:
        case Broken():
            sent = body[: 0 if fault.at == "first" else len(body) // 2]
            if fault.how == "end":
                return Answer(200, headers, sent)
            return Answer(200, headers, chunks=(sent, *fault.then, Drop()), length=len(body))
        case Slow():
            parts = (each for part in cut(body, fault.pieces) for each in (Pause(fault.seconds), part))
            return Answer(200, headers, chunks=parts, length=len(body))
        case _:
            return Answer(200, headers, body)


@asynccontextmanager
async def open_servers(*names: str) -> AsyncIterator[dict[str, ModelServer]]:
    """Servers of these providers for the length of the block, by name."""
    servers = {name: ModelServer(DIALECTS[name]) for name in names}
    async with trio.open_nursery() as nursery:
        for server in servers.values():
            port = await nursery.start(serve, server.handle, server.leave)
            server.url = f"http://127.0.0.1:{port}"
        yield servers
        nursery.cancel_scope.cancel()
