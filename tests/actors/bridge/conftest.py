"""An agent whose model waits for the test."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from stopgo import Agent, AgentConfig, Emit, LlmNode, ModelReply, ModelRequest, open_agent


@attrs.define(eq=False)
class Gated:
    """A model that replies when the gate opens, and its agent."""

    folder: Path
    gate: threading.Event = attrs.field(factory=threading.Event)
    asked: threading.Event = attrs.field(factory=threading.Event)
    grace: float = 5.0
    dies: trio.Event = attrs.field(factory=trio.Event)

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self.asked.set()
        await trio.to_thread.run_sync(self.gate.wait, abandon_on_cancel=True)
        return ModelReply(f"{request.user}!")

    def config(self) -> AgentConfig:
        node = LlmNode(name="parrot", prompt="", model="my:parrot")
        return AgentConfig(agent=node, data_dir=self.folder / "data", shutdown_grace=self.grace)

    def opening(self) -> AbstractAsyncContextManager[Agent]:
        return open_agent(self.config(), open_model=lambda name, *, folder: self)

    @asynccontextmanager
    async def mortal(self) -> AsyncIterator[Agent]:
        """An agent that fails when `dies` is set."""
        async with self.opening() as agent:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._die)
                    yield agent
                    nursery.cancel_scope.cancel()
            except* OSError as group:
                raise group.exceptions[0] from None

    async def _die(self) -> None:
        await self.dies.wait()
        raise OSError("the disk is gone")


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    return Gated(tmp_path)


@pytest.fixture
def parrot(gated: Gated) -> Gated:
    """The same with its gate open."""
    gated.gate.set()
    return gated
