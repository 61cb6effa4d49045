"""An agent with tools and models of this process, a journal in memory and virtual time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import attrs
import pytest
import trio
import yaml
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.agent.supervisor import OpenRemoteAgent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Result, Turn
from stopgo.actors.log.writer.observer import Observer
from stopgo.actors.mcp.server import HANDLERS
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    Delta,
    Emit,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolMessage,
    Usage,
)
from stopgo.actors.models.providers.model import Model
from stopgo.actors.notify.notifier import OpenChannel
from stopgo.actors.notify.webhook import Webhook
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import Authenticate, CallTool, Hints, ListTools, ServerMessage, Tool, ToolResult
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Event, Journal

T = TypeVar("T")


@attrs.frozen
class Streamed:
    """A reply that comes in pieces, or fails after some."""

    pieces: tuple[Delta, ...]
    then: ModelReply | Exception
    pause: float = 1.0
    """Seconds after each piece."""


Step: TypeAlias = ModelReply | Exception | Streamed | Callable[[ModelRequest], Awaitable[ModelReply]]
"""What a node's model does at one call."""
Work: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[ToolResult | str]]

DESTRUCTIVE = Hints(destructive=True)
READ_ONLY = Hints(read_only=True)
IDEMPOTENT = Hints(idempotent=True, destructive=False)
HARMLESS = Hints(destructive=False)

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}

PATIENCE = 3600.0
"""Virtual seconds after which a test that waits in vain fails."""
EPOCH = 1_700_000_000.0


def say(text: str, *, usage: Usage = Usage()) -> ModelReply:  # noqa: B008 - frozen
    return ModelReply(text, usage=usage)


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


def use(*calls: ToolCall, text: str = "") -> ModelReply:
    return ModelReply(text, calls, stop="tool_calls")


def after(seconds: float, step: ModelReply) -> Step:
    async def late(_: ModelRequest) -> ModelReply:
        await trio.sleep(seconds)
        return step

    return late


def once(event: trio.Event, step: ModelReply) -> Step:
    async def late(_: ModelRequest) -> ModelReply:
        await event.wait()
        return step

    return late


def answer(turn: Turn) -> Result:
    assert turn.result is not None
    return turn.result


async def code_of(wait: Awaitable[object]) -> str:
    """Of the error that it raises."""
    with pytest.raises(AgentError) as caught:
        await wait
    return caught.value.code


def results_in(request: ModelRequest) -> list[ToolMessage]:
    """The results of calls, as the model gets them."""
    return [message for message in request.messages if isinstance(message, ToolMessage)]


def calls_in(request: ModelRequest) -> list[ToolCall]:
    """The calls of earlier replies, as the model gets them."""
    replies = [message for message in request.messages if isinstance(message, AssistantMessage)]
    return [each for reply in replies for each in reply.tool_calls]


def working(seconds: float) -> Work:
    """The work of a tool that takes this long."""

    async def work(_: Mapping[str, Any]) -> str:
        await trio.sleep(seconds)
        return "ok"

    return work


async def never(_: Mapping[str, Any]) -> str:
    """The work of a tool that does not end."""
    await trio.sleep_forever()
    raise AssertionError


def llm(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "llm", "name": name, "prompt": f"You are {name}.", **more}


def sequential(name: str, *agents: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "sequential", "name": name, "agents": list(agents), **more}


def parallel(name: str, *agents: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "parallel", "name": name, "agents": list(agents), **more}


_configs: dict[str, AgentConfig] = {}
"""Agent files that were read, without their folders: reading one takes longer than most tests."""


@attrs.define(eq=False)
class World:
    folder: Path
    journal: Journal = attrs.field(factory=lambda: MemoryJournal(wall))
    tools: dict[str, tuple[Tool, Work]] = attrs.field(factory=dict)
    plans: dict[tuple[str, int | None], Sequence[Step]] = attrs.field(factory=dict)
    models: dict[str, list[Step]] = attrs.field(factory=dict)
    """What a model of this name says, try by try, whoever asks; then the plans count again."""
    requests: list[ModelRequest] = attrs.field(factory=list)
    replies: list[tuple[str, ModelRequest]] = attrs.field(factory=list)
    """The same with the model that was asked."""
    ledger: list[tuple[str, Mapping[str, Any]]] = attrs.field(factory=list)
    """Calls as they arrived at their tools."""
    bearers: list[str | None] = attrs.field(factory=list)
    ready: list[float | None] = attrs.field(factory=list)
    """Since when, in trio's time."""
    settings: dict[str, Any] = attrs.field(factory=dict)
    """Of the agent file, beside what `config` puts there."""
    broken: dict[str, str] = attrs.field(factory=dict)
    """Servers that do not start, and why."""
    stubborn: dict[str, str] = attrs.field(factory=dict)
    """Servers that fail to stop, and why."""
    slow_start: float = 0.0
    """Seconds every server takes to start."""
    slow_stop: float = 0.0
    """Seconds every server takes to stop."""
    open_remote_agent: OpenRemoteAgent | None = None
    open_channel: OpenChannel = Webhook.of
    out_of_reach: float = 0.0
    """Seconds until a call can leave."""
    observers: Sequence[Observer] = ()
    running: list[str] = attrs.field(factory=list)
    """Servers that run now."""
    _reports: dict[str, Callable[[ServerStatus], None]] = attrs.field(factory=dict)
    concurrent: dict[str, int] = attrs.field(factory=dict)
    """The most calls at the same time, by tool, and of all under ``""``."""
    _now: dict[str, int] = attrs.field(factory=dict)

    # ------------------------------------------------------------- what there is

    def tool(
        self,
        name: str,
        hints: Hints = HARMLESS,
        work: Work | str | Exception | None = None,
        *,
        server: str = "tools",
        schema: Mapping[str, Any] = SCHEMA,
        description: str = "",
    ) -> None:
        """Offer a tool that answers with a text, fails, or does some work."""

        async def plain(_: Mapping[str, Any]) -> str:
            if isinstance(work, Exception):
                raise work
            return work if isinstance(work, str) else f"{name} ok"

        doing = work if callable(work) else plain
        self.tools[name] = (Tool(name, description, schema, server, hints=hints), doing)

    def plan(self, node: str, *steps: Step, turn: int | None = None) -> None:
        """What the model says to a node, call by call; in one turn only, or in all that have no own."""
        self.plans[node, turn] = steps

    def called(self, tool: str) -> int:
        return sum(name == tool for name, _ in self.ledger)

    def asked(self, node: str) -> list[ModelRequest]:
        return [request for request in self.requests if request.node == node]

    # ------------------------------------------------------------------- running

    def config(self) -> AgentConfig:
        names = dict.fromkeys(tool.server for tool, _ in self.tools.values())
        file = {
            "prompt": "You help.",
            "llm": {"model": "test:model"},
            "data_dir": str(self.folder / "data"),
            "mcp_servers": [{"name": name, "command": "none"} for name in names],
            **{key: value for key, value in self.settings.items() if value != {}},
        }
        path, data_dir = self.folder / "agent.yaml", self.folder / "data"
        key = json.dumps(file | {"data_dir": ""})
        if key not in _configs or "${" in key:  # its values may have changed since
            path.write_text(yaml.safe_dump(file))
            _configs[key] = load_config(path, own_providers={"test"})
        return attrs.evolve(_configs[key], data_dir=data_dir, source=path)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """One life of the agent; the journal outlives it."""
        assert isinstance(trio.lowlevel.current_clock(), MockClock), "tests never really sleep"
        with trio.fail_after(PATIENCE):
            async with open_agent(
                self.config(),
                journal=self.journal,
                wall=wall,
                open_server=self.open_server,
                open_remote_agent=self.open_remote_agent,
                open_model=self.open_model,
                observers=self.observers,
                open_channel=self.open_channel,
            ) as agent:
                yield agent

    def open_server(
        self, config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        name = config.name

        async def behaviour(ctx: Context[ServerMessage]) -> None:
            await trio.sleep(self.slow_start)
            if name in self.broken:
                raise ServerStartFailed(name, self.broken[name])
            self._reports[name] = report
            self.relist(name)

            async def handle(message: ServerMessage) -> Any:
                match message:
                    case Authenticate(bearer=bearer):
                        return await self._authenticate(name, bearer)
                    case ListTools():
                        return self._listed(name)
                    case CallTool(tool=tool):
                        assert self.tools[tool][0].server == name
                        if self.out_of_reach:
                            await trio.sleep(self.out_of_reach)
                        if message.on_sent is not None:
                            message.on_sent()
                        return await self._call(message)

            self.running.append(name)
            try:
                await ctx.serve(handle, concurrency=HANDLERS)
                await trio.sleep(self.slow_stop)
            finally:
                self.running.remove(name)
                if name in self.stubborn:
                    raise OSError(self.stubborn[name])

        return behaviour

    def relist(self, server: str) -> None:
        """Have a server say what it lists now."""
        self.lists(server, *self._listed(server))

    def lists(self, server: str, *tools: Tool) -> None:
        """Have a server say that it lists these."""
        self._reports[server](ServerStatus(server, "connected", tools=tools))

    def _listed(self, server: str) -> tuple[Tool, ...]:
        return tuple(tool for tool, _ in self.tools.values() if tool.server == server)

    async def _authenticate(self, server: str, bearer: str) -> None:
        raise AssertionError(f"{server} waits for no token")

    async def _call(self, message: CallTool) -> ToolResult:
        self.ledger.append((message.tool, message.arguments))
        self.bearers.append(message.bearer)
        self.ready.append(message.since)
        for count in ("", message.tool):
            self._now[count] = self._now.get(count, 0) + 1
            self.concurrent[count] = max(self.concurrent.get(count, 0), self._now[count])
        try:
            result = await self.tools[message.tool][1](message.arguments)
        finally:
            for count in ("", message.tool):
                self._now[count] -= 1
        return result if isinstance(result, ToolResult) else ToolResult(result)

    def open_model(self, name: str, *, folder: Path) -> Model:
        return _Model(self, name)


@attrs.define(eq=False)
class _Model:
    _world: World
    _name: str

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self._world.requests.append(request)
        self._world.replies.append((self._name, request))
        await trio.lowlevel.checkpoint()
        if own := self._world.models.get(self._name):
            return await _do(own.pop(0), request, emit)
        plans = self._world.plans
        steps = plans.get((request.node, request.turn)) or plans.get((request.node, None), ())
        if request.call > len(steps):
            return say(f"{request.node} done")
        return await _do(steps[request.call - 1], request, emit)


async def _do(step: Step, request: ModelRequest, emit: Emit) -> ModelReply:
    if isinstance(step, Streamed):
        for piece in step.pieces:
            emit(piece)
            await trio.sleep(step.pause)
        return await _do(step.then, request, emit)
    if isinstance(step, Exception):
        raise step
    return step if isinstance(step, ModelReply) else await step(request)


def wall() -> float:
    return EPOCH + trio.current_time()


async def types(journal: Journal, conversation: str) -> list[str]:
    return [event.type for event in await events(journal, conversation)]


async def events(journal: Journal, conversation: str) -> tuple[Event, ...]:
    found = await journal.events_since(conversation, 0)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return found
