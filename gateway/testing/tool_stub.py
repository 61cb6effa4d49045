"""Stubs for the tools of a tested agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import attrs
import trio

from ...actors.agent.supervisor import OpenServer
from ...actors.common.errors import StartError
from ...actors.mcp.server import HANDLERS
from ...actors.servers.server_status import ServerStatus
from ...actors.tools.tool import Authenticate, CallTool, Hints, ListTools, ServerMessage, Tool, ToolResult
from ...config.sections.agent_config import AgentConfig
from ...config.sections.mcp import McpServerConfig
from ...runtime.context import Behaviour, Context
from .killing_journal import Killed

Stubs: TypeAlias = Mapping[str, Sequence["ToolStub"]]
"""The tools of each server, by its name in the agent file."""


@attrs.define(eq=False)
class ToolStub:
    """A stub for the tool of a server: its definition, its result, and the calls it has received.

    Annotations that are not given count as in the agent file for unannotated tools.
    """

    name: str
    """The name, as the server lists it."""
    returns: str | Callable[[Mapping[str, Any]], str] = "done"
    """The result of a call, or a function that returns the result for the arguments."""
    read_only: bool | None = attrs.field(default=None, kw_only=True)
    """`readOnlyHint`: the tool changes nothing."""
    destructive: bool | None = attrs.field(default=None, kw_only=True)
    """`destructiveHint`: the tool may delete or overwrite."""
    idempotent: bool | None = attrs.field(default=None, kw_only=True)
    """`idempotentHint`: repeating a call has no further effect."""
    is_error: bool = attrs.field(default=False, kw_only=True)
    """Whether the results are errors."""
    seconds: float = attrs.field(default=0.1, kw_only=True)
    """The duration of a call, in seconds of virtual time."""
    description: str = attrs.field(default="", kw_only=True)
    """The description for models and people."""
    input_schema: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "object"}, kw_only=True)
    """JSON Schema of the arguments."""
    calls: list[Mapping[str, Any]] = attrs.field(factory=list, init=False)
    """The arguments of the received calls, in order. A received call counts as done."""

    def result(self, arguments: Mapping[str, Any]) -> str:
        return self.returns if isinstance(self.returns, str) else self.returns(arguments)

    @property
    def may_be_repeated(self) -> bool:
        """Whether the annotations allow to repeat a call."""
        hints = self.hints.in_effect
        return bool(hints.read_only or (hints.idempotent and not hints.destructive))

    @property
    def hints(self) -> Hints:
        return Hints(self.read_only, self.destructive, self.idempotent)


def check_stubs(config: AgentConfig, stubs: Stubs) -> None:
    """Raise `StartError` unless the stubs are for exactly the servers of the file."""
    servers = {server.name for server in config.enabled_servers}
    wrong = [f'server "{name}" has no stubs' for name in sorted(servers - stubs.keys())]
    wrong += [
        f'there are stubs for "{name}", which is not a server of the file'
        for name in sorted(stubs.keys() - servers)
    ]
    if config.remote_agents:
        names = ", ".join(agent.name for agent in config.remote_agents)
        wrong.append(f"other agents ({names}) cannot be tested, because there are no stubs for them")
    if wrong:
        raise StartError("\n".join(wrong))


def all_of(stubs: Stubs) -> Iterator[ToolStub]:
    return (stub for tools in stubs.values() for stub in tools)


def serve_stubs(stubs: Stubs, is_dead: Callable[[], bool]) -> OpenServer:
    """Return the function that opens servers. After `is_dead()`, calls of the killed process have no
    effect."""

    def open_server(
        config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        own = {stub.name: stub for stub in stubs[config.name]}
        listed = tuple(_tools(config.name, own.values()))

        async def handle(message: ServerMessage) -> object:
            match message:
                case ListTools():
                    return listed
                case CallTool():
                    return await _call(own[message.tool], message, is_dead)
                case Authenticate():
                    return None
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[ServerMessage]) -> None:
            report(ServerStatus(config.name, "connected", tools=listed))
            await ctx.serve(handle, concurrency=HANDLERS)

        return behaviour

    return open_server


def _tools(server: str, stubs: Iterable[ToolStub]) -> Iterator[Tool]:
    for stub in stubs:
        yield Tool(stub.name, stub.description, stub.input_schema, server, hints=stub.hints)


async def _call(stub: ToolStub, message: CallTool, is_dead: Callable[[], bool]) -> ToolResult:
    if is_dead():
        raise Killed
    if message.on_sent is not None:
        message.on_sent()
    stub.calls.append(message.arguments)
    result = stub.result(message.arguments)
    await trio.sleep(stub.seconds)
    return ToolResult(result, stub.is_error)
