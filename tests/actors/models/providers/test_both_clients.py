"""The hand-written client and the SDK of Anthropic behave alike over a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from stopgo.actors.models.messages.messages import ModelReply, TextDelta, unheard
from stopgo.actors.models.providers import reading
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.model import Model
from tests.canary import KEY
from tests.waiting import until

from .conftest import (
    Heard,
    Hello,
    Piece,
    Provider,
    Wait,
    chunk,
    events,
    failure,
    head,
    opened,
    request,
    whole,
)


@pytest.fixture
def model(
    hello: Hello, provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Model:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "not-this-one")
    return opened(hello.kind, provider.url, client, tmp_path, monkeypatch)


async def test_a_reply_in_events(model: Model, provider: Provider, hello: Hello) -> None:
    provider.answers = [events(*hello.events)]
    heard = Heard()
    assert await model.complete(request(), heard) == ModelReply("hello", usage=hello.usage)
    assert heard.deltas == [TextDelta("hel"), TextDelta("lo")]
    (sent,) = provider.heads
    assert sent.startswith(f"POST {hello.path} HTTP/1.1\r\n".encode())
    assert f"authorization: bearer {KEY}".encode() in sent.lower()
    assert b"content-type: application/json\r\n" in sent.lower()
    assert b"not-this-one" not in sent
    assert provider.bodies[0]["stream"] is True


async def test_custom_headers_and_parameters_are_sent(
    hello: Hello, provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"headers": {"X-Team": "blue", "authorization": "Basic dXNlcjpwYXNz"}}
    more["query"] = {"api-version": "2025-04-01", "zone": "a&b"}
    model = opened(hello.kind, provider.url, client, tmp_path, monkeypatch, **more)
    provider.answers = [events(*hello.events), whole({"error": {"message": "bad dXNlcjpwYXNz"}}, status=401)]
    await model.complete(request(), unheard)
    (sent,) = provider.heads
    assert sent.startswith(f"POST {hello.path}?api-version=2025-04-01&zone=a%26b HTTP/1.1\r\n".encode())
    assert sent.lower().count(b"authorization:") == 1
    assert b"authorization: Basic dXNlcjpwYXNz\r\n" in sent.replace(b"Authorization", b"authorization")
    assert b"x-team: blue\r\n" in sent.lower()
    assert "dXNlcjpwYXNz" not in str(await failure(model))


async def test_whole_answer_to_a_streaming_request_is_read(
    model: Model, provider: Provider, hello: Hello
) -> None:
    provider.answers = [whole(hello.whole)]
    assert await model.complete(request(), unheard) == ModelReply("hello")


async def test_one_connection_serves_many_calls(model: Model, provider: Provider, hello: Hello) -> None:
    provider.answers = [events(*hello.events), whole(hello.whole), whole({}, 500), events(*hello.events)]
    for _ in range(2):
        assert (await model.complete(request(), unheard)).text == "hello"
    assert (await failure(model)).status == 500
    assert (await model.complete(request(), unheard)).text == "hello"
    assert provider.connections == 1


async def test_an_error_is_tried_once_and_hides_the_key(model: Model, provider: Provider) -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": f"too fast, {KEY}"}}
    provider.answers = [whole(error, 429, retry_after="7")]
    failed = await failure(model)
    assert str(failed) == "m: too fast, *** (status 429)"
    assert (failed.status, failed.retryable, failed.retry_after) == (429, True, 7.0)


BREAKS: dict[str, Any] = {
    "at once": lambda _: [],
    "in the status": lambda _: [b"HTTP/1.1 20"],
    "after the head": lambda _: [head(content_length=100)],
    "in the body": lambda _: [head(content_length=100) + b'{"choices": ['],
    "in an error": lambda _: [head(500, content_length=100) + b"x"],
    "no HTTP": lambda _: [b"nonsense\r\n\r\n"],
    "before the first event": lambda _: events(ends=False),
    "between events": lambda hello: events(*hello.begun, ends=False),
    "in an event": lambda hello: [*events(*hello.begun, ends=False), chunk(b'data: {"choi')],
    "in a stream without length": lambda _: [head(type="text/event-stream") + b'data: {"type": "x"}\n\n'],
    "an end without the last event": lambda hello: events(*hello.begun),
}


@pytest.mark.parametrize("where", BREAKS)
async def test_broken_connection_is_retryable(
    model: Model, provider: Provider, hello: Hello, where: str
) -> None:
    provider.answers = [BREAKS[where](hello)]
    failed = await failure(model)
    assert failed.retryable
    assert failed.status is None


async def test_unreachable_server(
    hello: Hello, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    model = opened(hello.kind, f"http://user:{KEY}@127.0.0.1:{port}", client, tmp_path, monkeypatch)
    failed = await failure(model)
    assert str(failed) == "m: the provider cannot be reached: connection refused"
    assert failed.retryable
    assert KEY not in repr(model)


GARBAGE = [
    whole(b"<html>Welcome</html>", type="text/html"),
    whole(b"hello"),
    whole(b"\xff\xfe"),
    whole([]),
    events("nonsense"),
]


@pytest.mark.parametrize("answer", GARBAGE)
@pytest.mark.parametrize("stream", [True, False])
async def test_garbage_is_not_retryable(
    hello: Hello,
    provider: Provider,
    client: ModelClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
    answer: Any,
) -> None:
    provider.answers = [answer]
    failed = await failure(opened(hello.kind, provider.url, client, tmp_path, monkeypatch, stream=stream))
    assert "not understood" in str(failed)
    assert not failed.retryable


@pytest.mark.parametrize("type", ["text/plain; charset=utf-8", "application/json", "", "Text/Event-Stream"])
async def test_stream_of_another_content_type_is_read(
    model: Model, provider: Provider, hello: Hello, type: str
) -> None:
    # openclaw#97454, foundry-dev-tools#195: gateways send streams as JSON or plain text.
    framed = b"".join(piece for piece in events(*hello.events) if isinstance(piece, bytes))
    _, *chunks = framed.split(b"data: ")
    body = b"".join(b"data: " + chunk.split(b"\n\n")[0] + b"\n\n" for chunk in chunks)
    provider.answers = [whole(body, type=type)]
    assert (await model.complete(request(), unheard)).text == "hello"


@pytest.mark.parametrize("end", [b"", b"\n\ndata: [DONE]\n\n"])
async def test_whole_answer_with_the_type_of_a_stream_is_read(
    model: Model, provider: Provider, hello: Hello, end: bytes
) -> None:
    # 9router#3492
    body = json.dumps(hello.whole).encode() + end
    provider.answers = [[head(type="text/event-stream", content_length=len(body)), body[:9], body[9:]]]
    assert (await model.complete(request(), unheard)).text == "hello"


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("type", ["application/json", "text/event-stream"])
async def test_an_answer_is_bounded(
    model: Model, provider: Provider, monkeypatch: pytest.MonkeyPatch, type: str, status: int
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1_000)
    body = b": a comment\n\n" * 100 if type.startswith("text") else b" " * 1_001
    provider.answers = [whole(body, status, type=type)]
    assert "the answer is larger than" in str(await failure(model))


@pytest.mark.parametrize("sent", ["nothing", "the head", "an event"])
async def test_leaving_closes_the_connection(
    model: Model, provider: Provider, hello: Hello, sent: str
) -> None:
    pieces: dict[str, list[Piece]] = {
        "nothing": [],
        "the head": [head(type="text/event-stream")],
        "an event": events(*hello.begun, ends=False),
    }
    provider.answers = [[*pieces[sent], Wait()]]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.complete, request(), unheard)
        await until(lambda: len(provider.heads) == 1)
        nursery.cancel_scope.cancel()
    await provider.gone.wait()
