"""An agent of this process whose models are at local servers, and tools that keep a ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.models.messages.errors import UnknownProvider
from stopgo.actors.models.providers.model import Model
from tests.actors.world import HARMLESS, PATIENCE, READ_ONLY, World, wall
from tests.providers.servers.model_server import SETTINGS, ModelServer
from tests.providers.tools import TOOLS


@attrs.define(eq=False)
class Story(World):
    """A `World` whose models are real clients; the first server's model is the agent's."""

    servers: Mapping[str, ModelServer] = attrs.field(factory=dict)
    llm: dict[str, Any] = attrs.field(factory=dict)
    models: dict[str, Any] = attrs.field(factory=dict)
    """Settings of each model, besides its address."""
    transport: httpx2.AsyncBaseTransport | None = None

    def __attrs_post_init__(self) -> None:
        for name, description, schema in TOOLS:
            hints = READ_ONLY if name.endswith("list") else HARMLESS
            self.tool(name, hints, _done(name), schema=schema, description=description)

    def open_model(self, name: str, *, folder: Path) -> Model:
        raise UnknownProvider(name)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """One life of the agent; the journal outlives it."""
        self.settings["llm"] = {"model": next(iter(self.servers)), **self.llm}
        self.settings["models"] = {
            name: {
                "provider": server.dialect.name,
                "model": server.model,
                "base_url": server.base_url,
                **SETTINGS.get(server.dialect.name, {}),
                **self.models.get(name, {}),
            }
            for name, server in self.servers.items()
        }
        with trio.fail_after(PATIENCE):
            async with open_agent(
                self.config(),
                journal=self.journal,
                wall=wall,
                open_server=self.open_server,
                model_transport=self.transport,
            ) as agent:
                yield agent


def _done(tool: str) -> str:
    if tool == "resources_list":
        return '{"resources": null, "count": 0}'
    return '{"removed_count": 1}' if tool == "resources_remove" else '{"name": "ünïcode-1", "value": 7}'


KEYS = (
    *("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "MISTRAL_API_KEY", "OPENROUTER_API_KEY"),
    *("AZURE_OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
)
