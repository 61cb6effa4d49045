"""Any conversation, with the provider changed at any point, is taken by each provider and understood."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelReply,
    ModelRequest,
    ModelTool,
    ToolCall,
    ToolMessage,
    UserMessage,
    unheard,
)
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import Api, ModelSpec, Provider
from tests.providers.servers.azure import VERSION
from tests.providers.servers.model_server import DIALECTS, SETTINGS
from tests.providers.servers.talk import Heard, Json, Said, SaidCall
from tests.providers.servers.transport import ServersTransport, servers_without_sockets


@attrs.frozen
class Variant:
    """One model as somebody may have configured it."""

    kind: Provider
    model: str
    options: Json = attrs.field(factory=dict)
    max_tokens: int | None = None
    api: Api | None = None
    server: str = attrs.field(default=attrs.Factory(lambda self: self.api or self.kind, takes_self=True))
    """Its dialect."""
    query: dict[str, str] = attrs.field(factory=dict)


INCLUDE = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
VARIANTS = (
    Variant("anthropic", "claude-sonnet-5-5"),
    Variant("anthropic", "claude-opus-5-5", {"thinking": {"type": "adaptive"}}),
    Variant("anthropic", "claude-haiku-5-5", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, 4096),
    Variant("google", "gemini-3-flash", INCLUDE),
    Variant("google", "gemini-3-pro"),
    Variant("google", "gemini-2.5-flash", INCLUDE),
    Variant("openai", "gpt-5.2", max_tokens=100),
    Variant("openai", "gpt-4.1"),
    Variant("openai", "gpt-6.2-sol", api="responses"),
    Variant("openai", "gpt-4o", api="responses"),
    Variant("mistral", "mistral-large-latest", max_tokens=100),
    Variant("mistral", "magistral-medium-latest"),
    Variant("openrouter", "moonshotai/kimi-k2"),
    Variant("ollama", "qwen3:8b"),
    Variant("ollama", "qwen3:4b", {"num_ctx": 8192}, 200, server="ollama_native"),
    Variant("azure", "my-deployment", query={"api-version": VERSION}),
    Variant("azure", "another-deployment", server="azure_responses"),
    Variant("azure", "third", {"reasoning_effort": "low"}, server="azure_responses"),
    Variant("bedrock", "anthropic.claude-opus-4-8", {"thinking": {"type": "adaptive"}}),
    Variant("bedrock", "eu.anthropic.claude-sonnet-4-6-v1:0", max_tokens=100, server="bedrock_invoke"),
    Variant("bedrock", "eu.amazon.nova-pro-v1:0", max_tokens=100, server="bedrock_converse"),
    Variant("bedrock", "arn:aws:bedrock:eu-west-1:1:a/b", server="bedrock_converse"),
    Variant("vertex", "gemini-3-pro-of-vertex", INCLUDE),
    Variant("vertex", "claude-opus-5", {"thinking": {"type": "adaptive"}}, server="vertex_claude"),
    Variant("openai_compatible", "Qwen/Qwen3-8B"),
)
NAMES = ("resources_add", "files/read.all", "9 lives ü", 100 * "x")
"""Not every provider takes all of them as they are."""
TOOLS = tuple(
    ModelTool(name, f"Does {name}", {"type": "object", "properties": {"a": {"type": "string"}}})
    for name in NAMES
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
spoken = texts.filter(lambda text: bool(text.strip()))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(texts, values, max_size=3)
results = st.tuples(texts, st.booleans())
"""The result of a tool, and whether it is an error."""
# Of models that are none of ours: scripts, or those of an embedding program.
foreign_ids = st.sampled_from(["call_1_0", "functions.x:0", "a b/c", "ü", 60 * "long"]) | spoken


@attrs.frozen
class Spoken:
    """One reply of a provider's model, with the results of its calls."""

    variant: Variant
    said: Said
    stream: bool
    results: tuple[tuple[str, bool], ...]
    edited: Json | None
    """By a human, in place of the first call's arguments."""


@attrs.frozen
class Foreign:
    """A reply of a model that no provider of ours gave."""

    text: str
    calls: tuple[tuple[str, str, Json], ...]
    results: tuple[tuple[str, bool], ...]


Step: TypeAlias = str | Spoken | Foreign
"""A text is a message of the user."""


@st.composite
def spoken_steps(draw: st.DrawFn) -> Spoken:
    calls = draw(st.lists(st.builds(SaidCall, st.sampled_from(NAMES), arguments), max_size=3))
    said = Said(
        draw(spoken if not calls else texts.filter(lambda text: text == "" or bool(text.strip()))),
        tuple(calls),
        nonce=str(draw(st.integers(0, 10**9))),
        tokens_in=50,
        tokens_out=9,
    )
    count = len(calls)
    return Spoken(
        draw(st.sampled_from(VARIANTS)),
        said,
        draw(st.booleans()),
        tuple(draw(st.lists(results, min_size=count, max_size=count))),
        draw(st.none() | arguments),
    )


@st.composite
def foreign_steps(draw: st.DrawFn) -> Foreign:
    ids = draw(st.lists(foreign_ids, max_size=3, unique=True))
    calls = tuple((id, draw(st.sampled_from(NAMES)), draw(arguments)) for id in ids)
    count = len(calls)
    given = tuple(draw(st.lists(results, min_size=count, max_size=count)))
    return Foreign(draw(texts if calls else spoken), calls, given)


steps = st.lists(spoken | spoken_steps() | foreign_steps(), min_size=1, max_size=7)


@attrs.define(eq=False)
class Talk:
    """A conversation as the product keeps it, and the models it is held with."""

    transport: ServersTransport
    models: dict[tuple[str, bool], Model]
    messages: list[ChatMessage] = attrs.field(factory=lambda: [UserMessage("begin")])
    calls: int = 0

    def request(self) -> ModelRequest:
        self.calls += 1
        return ModelRequest(
            system="You help.",
            messages=tuple(self.messages),
            tools=TOOLS,
            user="begin",
            node="main",
            turn=1,
            call=self.calls,
        )

    async def ask(self, variant: Variant, said: Said, *, stream: bool) -> ModelReply:
        server = self.transport.servers[variant.server]
        server.answered = partial(_in_wire_names, said)
        reply = await self.models[variant.model, stream].complete(self.request(), unheard)
        assert server.refusals == []
        return reply

    def keep(self, text: str, calls: tuple[ToolCall, ...], given: Any, **more: Any) -> None:
        if not text and not calls:
            return
        self.messages.append(AssistantMessage(text, calls, **more))
        for call, (content, is_error) in zip(calls, given, strict=True):
            self.messages.append(ToolMessage(call.id, call.name, content, is_error))


def _in_wire_names(said: Said, heard: Heard) -> Said:
    """The reply with the wire names of the tools, in their order."""
    calls = (attrs.evolve(call, name=heard.tools[NAMES.index(call.name)].name) for call in said.calls)
    return attrs.evolve(said, calls=tuple(calls), thinking="Hm … 🤔" if heard.thinks else "")


@asynccontextmanager
async def talk() -> AsyncIterator[Talk]:
    transport = servers_without_sockets(**{kind: kind for kind in DIALECTS})
    client = ModelClient(max_connections=4, transport=transport)
    models: dict[tuple[str, bool], Model] = {}
    for variant in VARIANTS:
        for stream in (False, True):
            spec = ModelSpec(
                name=variant.model,
                provider=variant.kind,
                model=variant.model,
                api=variant.api,
                base_url=transport.servers[variant.server].base_url,
                api_key_env=SETTINGS.get(variant.server, {}).get("api_key_env"),
                stream=stream,
                max_tokens=variant.max_tokens,
                options=variant.options,
                query=variant.query,
            )
            models[variant.model, stream] = open_model(spec, folder=Path(), client=client)
    try:
        yield Talk(transport, models)
    finally:
        await client.aclose()


async def hold(steps: list[Step]) -> None:
    async with talk() as held:
        for step in steps:
            match step:
                case str():
                    held.messages.append(UserMessage(step))
                case Foreign():
                    if isinstance(held.messages[-1], AssistantMessage):
                        held.messages.append(UserMessage("and"))
                    calls = tuple(ToolCall(*call) for call in step.calls)
                    held.keep(step.text, calls, step.results)
                case Spoken():
                    await speak(held, step)
        if isinstance(held.messages[-1], AssistantMessage):
            held.messages.append(UserMessage("well?"))
        for variant in VARIANTS:
            for stream in (False, True):
                said = Said("Indeed.", nonce=f"{variant.model}{stream}", tokens_in=50, tokens_out=3)
                reply = await held.ask(variant, said, stream=stream)
                assert reply.text == "Indeed."
                assert reply.usage.output_tokens == 3


async def speak(held: Talk, step: Spoken) -> None:
    if isinstance(held.messages[-1], AssistantMessage):
        held.messages.append(UserMessage("and"))
    said = step.said
    reply = await held.ask(step.variant, said, stream=step.stream)

    assert reply.text == said.text
    assert [call.name for call in reply.tool_calls] == [call.name for call in said.calls]
    assert [dict(call.arguments) for call in reply.tool_calls] == [call.arguments for call in said.calls]
    assert [call.problem for call in reply.tool_calls] == [None] * len(said.calls)
    assert reply.stop == ("tool_calls" if said.calls else "end")
    calls = reply.tool_calls
    if step.edited is not None and calls:
        calls = (attrs.evolve(calls[0], arguments=step.edited), *calls[1:])
    held.keep(reply.text, calls, step.results, verbatim=reply.verbatim)


# Not explained: that takes minutes, because every example is a conversation with thirteen models.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
SHARED = [HealthCheck.function_scoped_fixture]


@pytest.mark.providers
@settings(max_examples=200, phases=PHASES, suppress_health_check=SHARED)
@given(steps=steps)
def test_every_history_is_accepted_by_every_provider(steps: list[Step]) -> None:
    trio.run(partial(hold, steps))


@settings(max_examples=15, phases=PHASES, suppress_health_check=SHARED)
@given(steps=steps)
def test_sample_histories_are_accepted_by_every_provider(steps: list[Step]) -> None:
    trio.run(partial(hold, steps))
