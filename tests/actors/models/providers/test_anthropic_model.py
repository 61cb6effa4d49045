"""Requests of the SDK of Anthropic over a real socket, where they differ from the hand-written client."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from stopgo.actors.models.messages.errors import UnacceptedSetting
from stopgo.actors.models.messages.messages import ModelReply, ModelTool, UserMessage, unheard
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers.claude_families import version_for
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import ModelSpec
from stopgo.runtime.json_text import MAX_DEPTH
from tests.canary import KEY

from .conftest import HELLO_ANTHROPIC, Provider, events, failure, opened, request, whole


@pytest.fixture
def model(provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    return opened("anthropic", provider.url, client, tmp_path, monkeypatch)


def of_claude(
    name: str,
    provider: Provider,
    client: ModelClient,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    **settings: Any,
) -> Model:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    spec = ModelSpec(name, "anthropic", name, base_url=provider.url, **settings)
    return open_model(spec, folder=folder, client=client)


async def test_a_whole_reply_and_every_setting(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"thinking": {"type": "disabled"}, "top_k": 5, "new_setting": {"a": 1}}
    settings: Any = {"stream": False, "temperature": 0.2, "max_tokens": 100_000, "options": options}
    model = of_claude("claude-sonnet-4-6", provider, client, tmp_path, monkeypatch, **settings)
    provider.answers = [whole(HELLO_ANTHROPIC.whole)]
    assert await model.complete(request(), unheard) == ModelReply("hello")
    (body,) = provider.bodies
    assert {name: body[name] for name in options} == options
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.2, 100_000, "claude-sonnet-4-6")
    assert b"anthropic-version: 2023-06-01" in provider.heads[0].lower()
    assert not body.get("stream")
    assert body["tools"][0]["name"] == "add"
    assert body["system"][0]["text"] == "Be brief."


async def test_without_sampling_the_version_is_that_of_the_sdk(model: Model, provider: Provider) -> None:
    provider.answers = [events(*HELLO_ANTHROPIC.events)]
    await model.complete(request(), unheard)
    assert b"anthropic-version: 2026-10-21" in provider.heads[0].lower()


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("claude-opus-4-7", {"temperature": 0.2}, "temperature is accepted by Claude up to 4.6 only"),
        (
            "claude-opus-4-70",
            {"temperature": 0.2},
            "temperature is accepted by Claude up to 4.6 only",
        ),
        ("claude-fable-5-1", {"options": {"top_k": 5, "top_p": 1}}, "top_k and top_p are accepted by Claude"),
        ("an-alias", {"temperature": 1.0}, "temperature is accepted by Claude up to 4.6 only"),
        (
            "claude-sonnet-4-5",
            {"temperature": 0.2, "options": {"top_p": 0.9}},
            "temperature or top_p, not both",
        ),
        # Anthropic, "Extended thinking", "Feature compatibility".
        (
            "claude-sonnet-4-5",
            {"temperature": 0.2, "options": {"thinking": {"type": "enabled", "budget_tokens": 2000}}},
            "with thinking, Claude accepts neither",
        ),
        (
            "claude-opus-4-6",
            {"options": {"top_k": 5, "thinking": {"type": "adaptive"}}},
            "with thinking, Claude accepts neither",
        ),
    ],
)
def test_settings_that_the_family_refuses_fail_the_start(
    name: str, settings: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """https://github.com/cline/cline/issues/10572: status 400 at each turn."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    spec = ModelSpec(name, "anthropic", name, **settings)
    with pytest.raises(UnacceptedSetting, match=why) as raised:
        open_model(spec, folder=tmp_path, client=cast(Any, None))
    assert str(raised.value).startswith(f'model "{name}": ')


@pytest.mark.parametrize(
    "name",
    [
        "claude-2.1",
        "claude-instant-1.2",
        "claude-3-haiku-20240307",
        "claude-3-5-sonnet-latest",
        "claude-3-7-sonnet@20250219",
        "claude-sonnet-4-20250514",
        "claude-opus-4-1-20250805",
        "claude-haiku-4-5",
        "claude-opus-4-6",
        "claude-opus-4.1",
    ],
)
def test_older_families_take_sampling(name: str) -> None:
    assert version_for(ModelSpec("m", "anthropic", name, temperature=0.5)) == "2023-06-01"


def test_server_of_another_maker_decides_about_its_models() -> None:
    # MiniMax, DeepSeek and vLLM have Anthropic's API for models of their own.
    spec = ModelSpec("m", "anthropic", "MiniMax-M2", temperature=0.5, base_url="https://api.minimax.test")
    assert version_for(spec) == "2023-06-01"


def test_temperature_of_1_is_accepted_with_thinking() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert version_for(ModelSpec("m", "anthropic", "claude-opus-4-6", temperature=1, options=thinking))


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
