"""The hand-written client over a real socket: its kinds of provider, and its own bounds."""

from __future__ import annotations

import gzip
from typing import Any

import httpx2
import pytest

from stopgo.actors.common import sse_parser
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ToolCall,
    ToolMessage,
    UserMessage,
    unheard,
)
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.key_mask import KeyMask
from stopgo.actors.models.providers.model import Model
from stopgo.actors.models.providers.openai_model import ChatModel
from stopgo.actors.models.providers.reading import failures_of
from stopgo.config.sections.models import ModelSpec
from tests.canary import KEY

from .conftest import HELLO_OPENAI, Provider, Wait, chunk, events, failure, opened, request, whole


@pytest.fixture
def model(provider: Provider, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Model:
    return opened("openai", provider.url, client, tmp_path, monkeypatch)


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
    provider.answers = [events(*HELLO_OPENAI.events)]
    model = open_model(ModelSpec("openrouter:x", "openrouter", "x"), folder=tmp_path, client=client)
    await model.complete(request(), unheard)
    assert b"x-title: agent stop and go" in provider.heads[0].lower()


async def test_server_without_a_key_gets_no_header(
    provider: Provider, client: ModelClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider.answers = [events(*HELLO_OPENAI.events)]
    spec = ModelSpec("local", "openai_compatible", "llama", base_url=provider.url)
    await open_model(spec, folder=tmp_path, client=client).complete(request(), unheard)
    assert b"authorization" not in provider.heads[0].lower()


async def test_complete_answer_need_not_end(model: Model, provider: Provider) -> None:
    open_end = events(*HELLO_OPENAI.events, ends=False)
    provider.answers = [[*open_end, Wait()], open_end]
    for _ in range(2):
        assert (await model.complete(request(), unheard)).text == "hello"


async def test_a_redirect_is_not_followed(model: Model, provider: Provider) -> None:
    provider.answers = [whole(b"", 307, location="https://elsewhere.example/")]
    assert str(await failure(model)) == "m: Temporary Redirect (status 307)"


async def test_an_event_is_bounded(model: Model, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 1_000)
    provider.answers = [[*events(*HELLO_OPENAI.begun, ends=False), *[chunk(b"data: x")] * 200]]
    assert "an event of the answer is too large" in str(await failure(model))


async def test_compressed_answer_is_refused(model: Model, provider: Provider) -> None:
    provider.answers = [whole(gzip.compress(b"[]" * 1_000_000), content_encoding="gzip")]
    assert "the answer is compressed" in str(await failure(model))
    assert b"accept-encoding: identity" in provider.heads[0].lower()


@pytest.mark.parametrize(
    ("error", "text", "retryable"),
    [
        (httpx2.ConnectTimeout(KEY), "connecting took too long", True),
        (httpx2.ConnectError(KEY), "the provider cannot be reached", True),
        (httpx2.ProxyError(KEY), "the proxy of the environment does not reach it", True),
        (httpx2.ReadError(KEY), "the connection broke before the answer was complete", True),
        (httpx2.TooManyRedirects(KEY), "the answer cannot be read (TooManyRedirects)", False),
    ],
)
def test_library_errors_become_our_sentences(error: Exception, text: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed) as failed, failures_of("openai:gpt", lambda: KeyMask(())):
        raise error
    assert (str(failed.value), failed.value.retryable) == (f"openai:gpt: {text}", retryable)


@pytest.mark.parametrize(
    ("address", "named"), [("https://api.openai.com/v1", False), ("https://gateway.example/v1", True)]
)
async def test_results_are_named_except_for_openai(
    client: ModelClient, tmp_path: Any, address: str, named: bool
) -> None:
    # Gemini behind such an address needs the name: ollama/ollama#14214, vectorize-io/hindsight#187.
    spec = ModelSpec("m", "openai", "gpt-4o", base_url=address, api_key="k")
    model = open_model(spec, folder=tmp_path, client=client)
    assert isinstance(model, ChatModel)
    called = AssistantMessage("", (ToolCall("1", "files.read", {}),))
    history = (UserMessage("x"), called, ToolMessage("1", "files.read", "done"))
    _, _, asked, result = model.chat.codec.body(request(*history))["messages"]
    assert result.get("name") == (asked["tool_calls"][0]["function"]["name"] if named else None)
