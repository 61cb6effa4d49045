"""Claude over a real socket, through the SDK."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from stopgo.actors.models.client import ModelClient
from stopgo.actors.models.messages import ModelFailed, ModelReply, ModelTool, TextDelta, UserMessage, unheard
from stopgo.actors.models.model import Model
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers import reading
from stopgo.config.models import ModelSpec
from stopgo.runtime.json_text import MAX_DEPTH
from tests.canary import KEY

from .conftest import Heard, Piece, Provider, Wait, events, head, request, whole

ANSWER = {"type": "message", "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}
EVENTS = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
]


@pytest.fixture
def environment(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "not-this-one")


def opened(client: ModelClient, tmp_path: Any, **more: Any) -> Model:
    spec = ModelSpec("claude-x", "anthropic", "claude-x", **more)
    return open_model(spec, folder=tmp_path, client=client)


@pytest.fixture
def model(environment: None, client: ModelClient, tmp_path: Any) -> Model:
    return opened(client, tmp_path)


async def failure(model: Model) -> ModelFailed:
    with trio.fail_after(10):
        with pytest.raises(ModelFailed) as failed:
            await model.complete(request(), unheard)
    assert KEY not in str(failed.value)
    assert str(failed.value).startswith("claude-x: ")
    return failed.value


async def test_a_reply_in_events(model: Model, provider: Provider) -> None:
    provider.answers = [events(*EVENTS)]
    heard = Heard()
    reply = await model.complete(request(), heard)
    assert reply.text == "hello"
    assert reply.usage.input_tokens == 3
    assert heard.deltas == [TextDelta("hello")]
    (sent,) = provider.heads
    assert sent.startswith(b"POST /v1/messages HTTP/1.1\r\n")
    assert f"authorization: bearer {KEY}".encode() in sent.lower()
    assert b"not-this-one" not in sent
    assert provider.bodies[0]["stream"] is True


async def test_a_whole_reply_and_every_setting(
    environment: None, provider: Provider, client: ModelClient, tmp_path: Any
) -> None:
    options = {"thinking": {"type": "adaptive"}, "top_k": 5, "new_setting": {"a": 1}}
    model = opened(client, tmp_path, stream=False, temperature=0.2, max_tokens=100_000, options=options)
    provider.answers = [whole(ANSWER)]
    assert await model.complete(request(), unheard) == ModelReply("hello")
    (body,) = provider.bodies
    assert {name: body[name] for name in options} == options
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.2, 100_000, "claude-x")
    assert not body.get("stream")
    assert body["tools"][0]["name"] == "add"
    assert body["system"][0]["text"] == "Be brief."


async def test_lone_surrogate_is_replaced(model: Model, provider: Provider) -> None:
    provider.answers = [events(*EVENTS)]
    await model.complete(request(UserMessage("x\ud83d")), unheard)
    assert provider.bodies[0]["messages"][0]["content"][0]["text"] == "x\ufffd"
    assert provider.bodies[0]["model"] == "claude-x"


async def test_lone_surrogate_is_replaced_at_any_depth(model: Model, provider: Provider) -> None:
    schema: dict[str, Any] = {"description": "x\ud83d"}
    for _ in range(MAX_DEPTH):
        schema = {"properties": {"v": schema}}
    provider.answers = [events(*EVENTS)]
    await model.complete(request(tools=(ModelTool("t", "", schema),)), unheard)
    assert provider.bodies[0]["tools"][0]["name"] == "t"


async def test_an_error_is_tried_once(model: Model, provider: Provider) -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": f"too fast, {KEY}"}}
    provider.answers = [whole(error, 429, retry_after="7")]
    failed = await failure(model)
    assert str(failed) == "claude-x: too fast, *** (status 429)"
    assert (failed.status, failed.retryable, failed.retry_after) == (429, True, 7.0)


@pytest.mark.parametrize("status", [408, 409, 500, 503, 504, 529])
async def test_sdk_does_not_retry(model: Model, provider: Provider, status: int) -> None:
    provider.answers = [whole(b"<html>", status, type="text/html", x_should_retry="true")]
    failed = await failure(model)
    assert (failed.status, failed.retryable) == (status, True)
    assert provider.answers == []


@pytest.mark.parametrize(
    "broken",
    [
        [],
        [head(content_length=100)],
        [head(content_length=100) + b'{"content": ['],
        events(ends=False),
        events(*EVENTS[:3], ends=False),
        events(*EVENTS[:3]),
        [head(500, content_length=100) + b"x"],
    ],
)
async def test_broken_connection_is_retryable(model: Model, provider: Provider, broken: list[Piece]) -> None:
    provider.answers = [broken]
    failed = await failure(model)
    assert failed.retryable
    assert failed.status is None


async def test_unreachable_server(
    environment: None, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}")
    model = opened(client, tmp_path)
    failed = await failure(model)
    assert str(failed) == "claude-x: the provider cannot be reached: connection refused"
    assert failed.retryable
    assert KEY not in repr(model)


@pytest.mark.parametrize("answer", [whole(b"hello"), whole(b"<html>", type="text/html"), events("nonsense")])
@pytest.mark.parametrize("stream", [True, False])
async def test_garbage_is_not_retryable(
    environment: None,
    provider: Provider,
    client: ModelClient,
    tmp_path: Any,
    stream: bool,
    answer: list[Piece],
) -> None:
    provider.answers = [answer]
    failed = await failure(opened(client, tmp_path, stream=stream))
    assert "not understood" in str(failed)
    assert not failed.retryable


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_is_bounded(
    model: Model, provider: Provider, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1_000)
    provider.answers = [whole(b" " * 1_001, status)]
    assert "the answer is larger than" in str(await failure(model))


async def test_one_connection_serves_many_calls(model: Model, provider: Provider) -> None:
    provider.answers = [events(*EVENTS), whole({}, 500), whole(ANSWER), events(*EVENTS)]
    assert (await model.complete(request(), unheard)).text == "hello"
    assert (await failure(model)).status == 500
    for _ in range(2):
        assert (await model.complete(request(), unheard)).text == "hello"
    assert provider.connections == 1


async def test_leaving_closes_the_connection(model: Model, provider: Provider) -> None:
    provider.answers = [[*events(*EVENTS[:3], ends=False), Wait()]]
    with trio.move_on_after(0.5) as scope:
        await model.complete(request(), unheard)
    assert scope.cancelled_caught
    with trio.fail_after(5):
        await provider.gone.wait()
