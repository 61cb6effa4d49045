"""Requests of the SDK of Anthropic over a real socket, where they differ from the hand-written client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stopgo.actors.models.client import ModelClient
from stopgo.actors.models.messages import ModelReply, ModelTool, UserMessage, unheard
from stopgo.actors.models.model import Model
from stopgo.runtime.json_text import MAX_DEPTH

from .conftest import HELLO_ANTHROPIC, Provider, events, failure, opened, request, whole


@pytest.fixture
def model(provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    return opened("anthropic", provider.url, client, tmp_path, monkeypatch)


async def test_a_whole_reply_and_every_setting(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"thinking": {"type": "adaptive"}, "top_k": 5, "new_setting": {"a": 1}}
    settings: Any = {"stream": False, "temperature": 0.2, "max_tokens": 100_000, "options": options}
    model = opened("anthropic", provider.url, client, tmp_path, monkeypatch, **settings)
    provider.answers = [whole(HELLO_ANTHROPIC.whole)]
    assert await model.complete(request(), unheard) == ModelReply("hello")
    (body,) = provider.bodies
    assert {name: body[name] for name in options} == options
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.2, 100_000, "m-1")
    assert not body.get("stream")
    assert body["tools"][0]["name"] == "add"
    assert body["system"][0]["text"] == "Be brief."


async def test_lone_surrogate_is_replaced(model: Model, provider: Provider) -> None:
    provider.answers = [events(*HELLO_ANTHROPIC.events)]
    await model.complete(request(UserMessage("x\ud83d")), unheard)
    assert provider.bodies[0]["messages"][0]["content"][0]["text"] == "x\ufffd"
    assert provider.bodies[0]["model"] == "m-1"


async def test_lone_surrogate_is_replaced_at_any_depth(model: Model, provider: Provider) -> None:
    schema: dict[str, Any] = {"description": "x\ud83d"}
    for _ in range(MAX_DEPTH):
        schema = {"properties": {"v": schema}}
    provider.answers = [events(*HELLO_ANTHROPIC.events)]
    await model.complete(request(tools=(ModelTool("t", "", schema),)), unheard)
    assert provider.bodies[0]["tools"][0]["name"] == "t"


@pytest.mark.parametrize("status", [408, 409, 500, 503, 504, 529])
async def test_sdk_does_not_retry(model: Model, provider: Provider, status: int) -> None:
    provider.answers = [whole(b"<html>", status, type="text/html", x_should_retry="true")]
    failed = await failure(model)
    assert (failed.status, failed.retryable) == (status, True)
    assert provider.answers == []
