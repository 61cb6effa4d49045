"""From names in a configuration to models that can be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.common.errors import StartError
from stopgo.actors.models import model_actors
from stopgo.actors.models.messages.errors import UnknownProvider
from stopgo.actors.models.messages.messages import AskModel, Emit, ModelFailed, ModelReply, ModelRequest
from stopgo.actors.models.model_actors import ModelActors, OpenModel, most_calls
from stopgo.actors.models.providers.client import CONNECT_TIMEOUT, ModelClient, open_client
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.models import ContextConfig, LlmConfig, ModelConfig, ModelSpec, Prices
from stopgo.config.sections.nodes import LlmNode
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.supervision import open_supervisor

REQUEST = ModelRequest(system="", messages=(), tools=(), user="hello", node="main", turn=1, call=1)


@attrs.define(eq=False)
class Slow:
    """Takes ten seconds, and counts how many it is asked at a time."""

    name: str
    now: int = 0
    most: int = 0

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await trio.sleep(10)
        finally:
            self.now -= 1
        return ModelReply(self.name)


def config(**more: Any) -> AgentConfig:
    return AgentConfig(agent=LlmNode(name="n", prompt="", model="mine:a"), **more)


@asynccontextmanager
async def started(config: AgentConfig, own: OpenModel | None) -> AsyncIterator[ModelActors]:
    async with open_client(1) as client, open_supervisor(EventBus()) as kernel:
        yield ModelActors(kernel, config, client, own)


async def test_model_actor_uses_the_configuration(autojump_clock: MockClock) -> None:
    models: dict[str, Slow] = {}

    def own(name: str, *, folder: Path) -> Model:
        return models.setdefault(name, Slow(name))

    named = {"quick": ModelConfig(provider="openai", model="x", timeout=5.0)}
    async with started(config(llm=LlmConfig(max_concurrency=3, timeout=25.0), models=named), own) as found:
        with pytest.raises(ModelFailed, match="did not answer within 5 s"):
            await (await found.get("quick")).ref.ask(AskModel(REQUEST))
        one = await found.get("mine:a")
        assert await found.get("mine:a") is one
        begin = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(7):
                nursery.start_soon(one.ref.ask, AskModel(REQUEST))
        assert trio.current_time() - begin == 30  # waiting for a slot does not count
        assert models["mine:a"].most == 3
        assert found.names() == ("quick", "mine:a")


async def test_started_model_has_prices_context_and_images(autojump_clock: MockClock) -> None:
    prices, large, small = (
        Prices(1.0, 2.0),
        ContextConfig(max_input_tokens=9),
        ContextConfig(max_input_tokens=3),
    )
    named = {
        "priced": ModelConfig(provider="openai", model="x", prices=prices),
        "small": ModelConfig(provider="openai", model="x", context=small, images=False),
    }
    async with started(config(models=named, context=large), lambda name, *, folder: Slow(name)) as found:
        settings = {
            name: attrs.astuple(await found.get(name), recurse=False)[1:]
            for name in ("mine:a", "priced", "small", "offline:rules")
        }
    assert settings == {
        "mine:a": (None, large, True),
        "priced": (prices, large, True),
        "small": (None, small, False),
        "offline:rules": (Prices(0.0, 0.0), large, True),
    }


async def test_own_models_take_precedence(autojump_clock: MockClock) -> None:
    def own(name: str, *, folder: Path) -> Model:
        if name == "mine:a":
            return Slow(name)
        raise UnknownProvider(f"not mine: {name}")

    async with started(config(), own) as found:
        await found.get("mine:a")
        await found.get("offline:rules")
        with pytest.raises(ModelFailed, match="not mine: mine:b"):
            await found.get("mine:b")
        with pytest.raises(ModelFailed, match='unknown model "offline:magic"'):
            await found.get("offline:magic")
    async with started(config(), None) as found:
        with pytest.raises(ModelFailed, match='unknown provider "mine"'):
            await found.get("mine:a")


async def test_fallback_models_are_checked_at_startup(autojump_clock: MockClock) -> None:
    node = LlmNode(name="n", prompt="", model="offline:one", fallbacks=("script:none.yaml", "offline:two"))
    with pytest.raises(StartError) as refused:
        async with open_agent(AgentConfig(agent=node), journal=MemoryJournal()):
            pytest.fail("it started")
    first, second, third = str(refused.value).split("\n")
    assert 'unknown model "offline:one"' in first
    assert "none.yaml" in second
    assert 'unknown model "offline:two"' in third


# ------------------------------------------------------------------------ the client


class Transport(httpx2.AsyncBaseTransport):
    def __init__(self) -> None:
        self.closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text=f"{request.url}")

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()  # closing takes its time
        self.closed = True


@attrs.frozen
class Posting:
    spec: ModelSpec
    client: ModelClient

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return ModelReply((await self.client.get().post(f"http://models/{self.spec.name}")).text)


async def test_all_models_share_one_client(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[ModelClient] = []

    def open_model(spec: ModelSpec, *, folder: Path, client: ModelClient) -> Model:
        clients.append(client)
        return Posting(spec, client)

    monkeypatch.setattr(model_actors, "open_model", open_model)
    transport = Transport()
    node = LlmNode(name="n", prompt="", model="openai:x", fallbacks=("openai:y",))
    async with open_agent(
        AgentConfig(agent=node), journal=MemoryJournal(), model_transport=transport
    ) as agent:
        turn = await agent.start_conversation("hi")
        assert turn.result is not None
        assert turn.result.response == "http://models/openai:x"
        assert clients == [clients[0]] * 2
        assert not transport.closed
    assert transport.closed


async def test_client_is_closed_when_cancelled(autojump_clock: MockClock) -> None:
    transport = Transport()
    with trio.CancelScope() as scope:
        async with open_client(1, transport) as client:
            client.get()
            scope.cancel()
    assert transport.closed


def test_client_has_a_connection_for_every_call() -> None:
    def named(most: int) -> ModelConfig:
        return ModelConfig(provider="openai", model="x", max_concurrency=most)

    node = LlmNode(name="n", prompt="", model="a", fallbacks=("b", "mine:x", "google:g"))
    models = {"a": named(5), "b": named(7), "unused": named(1000)}
    assert most_calls(AgentConfig(agent=node, models=models)) == 5 + 7 + 64
    assert most_calls(config()) == 1


async def test_deadline_is_that_of_the_model() -> None:
    async with open_client(3) as client:
        timeout = client.get().timeout
        assert (timeout.connect, timeout.read, timeout.write, timeout.pool) == (
            CONNECT_TIMEOUT,
            None,
            None,
            None,
        )
