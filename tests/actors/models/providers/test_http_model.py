"""The seven kinds over real sockets, as far as they are hand-written."""

from __future__ import annotations

import gzip
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.common import sse_parser
from stopgo.actors.models.client import ModelClient
from stopgo.actors.models.messages import ModelFailed, ModelReply, TextDelta, UserMessage, unheard
from stopgo.actors.models.model import Model
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers import reading
from stopgo.actors.models.providers.reading import failures_of
from stopgo.config.models import ModelSpec
from tests.canary import KEY

from .conftest import Heard, Piece, Provider, Wait, chunk, events, head, request, whole

ANSWER = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}
CHUNKS = [
    {"choices": [{"delta": {"content": "hel"}}]},
    {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]},
    "[DONE]",
]


@pytest.fixture
def model(provider: Provider, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Model:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    return open_model(ModelSpec("openai:gpt", "openai", "gpt"), folder=tmp_path, client=client)


async def failure(model: Model) -> ModelFailed:
    with trio.fail_after(5):
        with pytest.raises(ModelFailed) as failed:
            await model.complete(request(), unheard)
    assert KEY not in str(failed.value)
    assert str(failed.value).startswith("openai:gpt: ")
    return failed.value


async def test_a_reply_in_events(model: Model, provider: Provider) -> None:
    provider.answers = [events(*CHUNKS)]
    heard = Heard()
    assert await model.complete(request(), heard) == ModelReply("hello")
    assert heard.deltas == [TextDelta("hel"), TextDelta("lo")]
    (sent,) = provider.heads
    assert sent.startswith(b"POST /chat/completions HTTP/1.1\r\n")
    assert f"authorization: bearer {KEY}".encode() in sent.lower()
    assert b"content-type: application/json\r\n" in sent.lower()
    assert provider.bodies[0]["stream"] is True


@pytest.mark.parametrize(
    ("stream", "method"), [(True, "streamGenerateContent?alt=sse"), (False, "generateContent")]
)
async def test_gemini(
    provider: Provider,
    client: ModelClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    stream: bool,
    method: str,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_BASE_URL", provider.url)
    spec = ModelSpec("google:gemini", "google", "gemini", stream=stream)
    answer = {"candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}]}
    provider.answers = [events(answer) if stream else whole(answer)]
    model = open_model(spec, folder=tmp_path, client=client)
    assert await model.complete(request(), unheard) == ModelReply("hello")
    (sent,) = provider.heads
    assert sent.startswith(f"POST /v1beta/models/gemini:{method} HTTP/1.1\r\n".encode())
    assert f"x-goog-api-key: {KEY}".encode() in sent.lower()


async def test_openrouter_gets_the_program_name(
    provider: Provider, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    monkeypatch.setenv("OPENROUTER_BASE_URL", provider.url)
    provider.answers = [events(*CHUNKS)]
    model = open_model(ModelSpec("openrouter:x", "openrouter", "x"), folder=tmp_path, client=client)
    await model.complete(request(), unheard)
    assert b"x-title: agent stop and go" in provider.heads[0].lower()


async def test_server_without_a_key_gets_no_header(
    provider: Provider, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider.answers = [events(*CHUNKS)]
    spec = ModelSpec("local", "openai_compatible", "llama", base_url=provider.url)
    await open_model(spec, folder=tmp_path, client=client).complete(request(), unheard)
    assert b"authorization" not in provider.heads[0].lower()


async def test_whole_answer_to_a_streaming_request_is_read(model: Model, provider: Provider) -> None:
    provider.answers = [whole(ANSWER)]
    assert await model.complete(request(), unheard) == ModelReply("hello")


async def test_one_connection_serves_many_calls(model: Model, provider: Provider) -> None:
    provider.answers = [events(*CHUNKS), whole(ANSWER), whole({}, 500), events(*CHUNKS)]
    assert (await model.complete(request(), unheard)).text == "hello"
    assert (await model.complete(request(), unheard)).text == "hello"
    assert (await failure(model)).status == 500
    assert (await model.complete(request(), unheard)).text == "hello"
    assert provider.connections == 1


async def test_complete_answer_need_not_end(model: Model, provider: Provider) -> None:
    open_end = events(*CHUNKS, ends=False)
    provider.answers = [[*open_end, Wait()], open_end]
    for _ in range(2):
        with trio.fail_after(5):
            assert (await model.complete(request(), unheard)).text == "hello"


async def test_an_error(model: Model, provider: Provider) -> None:
    body = {"error": {"message": f"no such key: {KEY}"}}
    provider.answers = [whole(body, 429, retry_after="7")]
    failed = await failure(model)
    assert str(failed) == "openai:gpt: no such key: *** (status 429)"
    assert (failed.status, failed.retryable, failed.retry_after) == (429, True, 7.0)


@pytest.mark.parametrize(
    "broken",
    [
        [],
        [b"HTTP/1.1 20"],
        [head(content_length=100)],
        [head(content_length=100) + b'{"choices": ['],
        events(ends=False),
        events(CHUNKS[0], ends=False),
        [*events(CHUNKS[0], ends=False), chunk(b'data: {"choi')],
        [head(type="text/event-stream") + b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'],
        [b"nonsense\r\n\r\n"],
    ],
)
async def test_broken_connection_is_retryable(model: Model, provider: Provider, broken: list[Piece]) -> None:
    provider.answers = [broken]
    failed = await failure(model)
    assert failed.retryable
    assert failed.status is None


async def test_unreachable_server(
    client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{KEY}@127.0.0.1:{port}")
    model = open_model(ModelSpec("openai:gpt", "openai", "gpt"), folder=tmp_path, client=client)
    failed = await failure(model)
    assert str(failed) == "openai:gpt: the provider cannot be reached: connection refused"
    assert failed.retryable
    assert KEY not in repr(model)


@pytest.mark.parametrize(
    "answer",
    [
        whole(b"<html>Welcome</html>", type="text/html"),
        whole(b"hello"),
        whole(b""),
        whole(b"\xff\xfe"),
        whole([]),
        events("nonsense"),
    ],
)
async def test_garbage_is_not_retryable(model: Model, provider: Provider, answer: list[Piece]) -> None:
    provider.answers = [answer]
    failed = await failure(model)
    assert "not understood" in str(failed)
    assert not failed.retryable


async def test_a_redirect_is_not_followed(model: Model, provider: Provider) -> None:
    provider.answers = [whole(b"", 307, location="https://elsewhere.example/")]
    assert str(await failure(model)) == "openai:gpt: Temporary Redirect (status 307)"


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("type", ["application/json", "text/event-stream"])
async def test_an_answer_is_bounded(
    model: Model, provider: Provider, monkeypatch: pytest.MonkeyPatch, type: str, status: int
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1_000)
    body = b": a comment\n\n" * 100 if type.startswith("text") else b" " * 1_001
    provider.answers = [whole(body, status, type=type)]
    assert "the answer is larger than" in str(await failure(model))


async def test_an_event_is_bounded(model: Model, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 1_000)
    provider.answers = [[*events(CHUNKS[0], ends=False), *[chunk(b"data: x")] * 200]]
    assert "an event of the answer is too large" in str(await failure(model))


async def test_compressed_answer_is_refused(model: Model, provider: Provider) -> None:
    provider.answers = [whole(gzip.compress(b"[]" * 1_000_000), content_encoding="gzip")]
    assert "the answer is larger than" in str(await failure(model))
    assert b"accept-encoding: identity" in provider.heads[0].lower()


@pytest.mark.parametrize(
    "pieces", [[Wait()], [head(type="text/event-stream"), Wait()], [*events(CHUNKS[0], ends=False), Wait()]]
)
async def test_leaving_closes_the_connection(model: Model, provider: Provider, pieces: list[Piece]) -> None:
    provider.answers = [pieces]
    with trio.move_on_after(0.3) as scope:
        await model.complete(request(UserMessage("hi")), unheard)
    assert scope.cancelled_caught
    with trio.fail_after(5):
        await provider.gone.wait()


@pytest.mark.parametrize(
    ("error", "text", "retryable"),
    [
        (httpx2.ConnectTimeout(KEY), "connecting took too long", True),
        (httpx2.ConnectError(KEY), "the provider cannot be reached", True),
        (httpx2.ProxyError(KEY), "the proxy set in the environment does not reach the provider", True),
        (httpx2.ReadError(KEY), "the connection broke before the answer was complete", True),
        (httpx2.TooManyRedirects(KEY), "the answer cannot be read (TooManyRedirects)", False),
    ],
)
def test_library_errors_become_our_sentences(error: Exception, text: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed) as failed, failures_of("openai:gpt", None):
        raise error
    assert (str(failed.value), failed.value.retryable) == (f"openai:gpt: {text}", retryable)
