"""What a model call costs beyond a bare POST of the same body with httpx2, in CPU of this process.

Hand-written providers may cost twice as much. What Anthropic's SDK adds is shown beside: the same codec and
the same reading over a plain POST, so that the difference is the SDK's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.codec import Codec
from stopgo.actors.models.codecs.google_codec import GoogleCodec, path
from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.messages.messages import (
    AskModel,
    AssistantMessage,
    ChatMessage,
    Delta,
    ModelRequest,
    ModelTool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers.client import ModelClient, open_client
from stopgo.actors.models.providers.http_model import HttpModel
from stopgo.actors.models.providers.model import Model, model_actor
from stopgo.config.sections.models import ModelSpec, Provider
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.json_text import dump_wire
from stopgo.runtime.supervision import open_supervisor

from .inprocess import no_collection
from .model_process import LATENCY, TEXT
from .served import report, serving

SERVER = str(Path(__file__).with_name("model_process.py"))
ROUNDS = 3
CALLS = {1: 20, 16: 96, 200: 400}
"""How many in a round, by how many at a time."""
TARGET = 2.0
BOUND = 2.5
"""What holds beside other work on the machine."""

SCHEMA = {"type": "object", "properties": {"pattern": {"type": "string", "description": "A regex."}}}
TOOLS = tuple(ModelTool(f"resources_{name}", TEXT, SCHEMA) for name in ("list", "add", "remove", "show"))


def exchange(number: int) -> list[ChatMessage]:
    call = ToolCall(f"call_{number}", "resources_list", {"pattern": f"^test-{number}$"})
    result = ToolMessage(call.id, call.name, TEXT * 3)
    return [
        UserMessage(f"Show me {number}. {TEXT}"),
        AssistantMessage(TEXT, (call,)),
        result,
        AssistantMessage(TEXT),
    ]


REQUEST = ModelRequest(
    system=TEXT * 4,
    messages=(*(message for number in range(4) for message in exchange(number)), UserMessage("And now?")),
    tools=TOOLS,
    user="And now?",
    node="main",
    turn=5,
    call=1,
)
Call = Callable[[], Awaitable[object]]


async def cpu_of(call: Call, at_a_time: int) -> float:
    """Milliseconds of CPU for one call."""
    left = CALLS[at_a_time]

    async def caller(number: int) -> None:
        nonlocal left
        # Nobody calls in lockstep: a crowd that sends at once wakes the server once, and looks cheaper.
        await trio.sleep(LATENCY * number / at_a_time)
        while left > 0:
            left -= 1
            await call()

    with no_collection():
        began = time.process_time()
        async with trio.open_nursery() as nursery:
            for number in range(at_a_time):
                nursery.start_soon(caller, number)
        return (time.process_time() - began) / CALLS[at_a_time] * 1000


async def best_of_each(calls: dict[str, Call], at_a_time: int) -> dict[str, float]:
    """In turns, and the best of each, for the machine is shared."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        await call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name].append(await cpu_of(call, at_a_time))
    return {name: min(times) for name, times in taken.items()}


@asynccontextmanager
async def asked(model: Model) -> AsyncIterator[Call]:
    """Through the actor, with somebody who follows."""

    def emit(attempt: int, delta: Delta) -> None:
        pass

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("model", model_actor(model, max_concurrency=1000))

        async def call() -> None:
            reply = await ref.ask(AskModel(REQUEST, emit))
            assert reply.tool_calls
            assert reply.text

        yield call


def bare(client: httpx2.AsyncClient, url: str, body: bytes) -> Call:
    async def call() -> None:
        response = await client.post(url, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 200

    return call


def wire(spec: ModelSpec, address: str) -> tuple[Codec, str]:
    match spec.provider:
        case "google":
            return GoogleCodec(spec), address + path(spec)
        case "anthropic":
            return AnthropicCodec(spec), f"{address}/v1/messages"
        case _:
            return OpenAICodec(spec, PROFILES[spec.provider].flavour), f"{address}/chat/completions"


async def measure(
    provider: Provider, stream: bool, address: str, client: ModelClient
) -> list[dict[str, Any]]:
    spec = ModelSpec(provider, provider, "m", base_url=address, api_key_env="BENCH_KEY", stream=stream)
    codec, url = wire(spec, address)
    body = dump_wire(codec.body(REQUEST))
    model = open_model(spec, folder=Path(), client=client)
    found = []
    async with (
        asked(model) as ours,
        asked(HttpModel("plain", httpx2.URL(url), {}, (), codec, client)) as plain,
        httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
        ) as http,
    ):
        for at_a_time in CALLS:
            calls = {"bare": bare(http, url, body), "ours": ours}
            if provider == "anthropic":
                calls["without_sdk"] = plain
            taken = await best_of_each(calls, at_a_time)
            figures: dict[str, Any] = {f"{name}_ms": each for name, each in taken.items()}
            figures |= {"at_a_time": at_a_time, "ratio": taken["ours"] / taken["bare"]}
            if provider == "anthropic":
                figures["ratio_without_sdk"] = taken["without_sdk"] / taken["bare"]
            report(
                bench="model call", provider=provider, stream=stream, body=len(body), target=TARGET, **figures
            )
            found.append(figures)
    return found


@pytest.mark.bench
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", ["openai", "google", "anthropic"])
async def test_a_model_call_over_a_bare_post(
    provider: Provider, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_KEY", "bench")
    with serving([sys.executable, SERVER]) as (address, _):
        async with open_client(max_connections=1000) as client:
            found = await measure(provider, stream, f"http://{address}", client)
    for figures in found:
        assert figures.get("ratio_without_sdk", figures["ratio"]) <= BOUND
