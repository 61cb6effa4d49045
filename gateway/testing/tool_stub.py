"""Tools of a test in the place of real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import attrs
import trio

from ...actors.common.errors import StartError
from ...actors.mcp.server import HANDLERS
from ...actors.supervisor import OpenServer
from ...actors.tools.server_status import ServerStatus
from ...actors.tools.tool import Authenticate, CallTool, Hints, ListTools, ServerMessage, Tool, ToolResult
from ...config.agent_config import AgentConfig
from ...config.mcp import McpServerConfig
from ...runtime.context import Behaviour, Context
from .killing_journal import Killed

Stubs: TypeAlias = Mapping[str, Sequence["ToolStub"]]
"""The tools of each server, by its name in the agent file."""


@attrs.define(eq=False)
class ToolStub:
    """A tool of a test, in the place of a server's: what it says of itself, and what it answers.

    As far as it gives no annotations, the rules of the agent file for unannotated tools apply.
    """

    name: str
    """Its name, as its server would list it."""
    returns: str | Callable[[Mapping[str, Any]], str] = "done"
    """The result of a call, or a function of its arguments that gives the result."""
    read_only: bool | None = attrs.field(default=None, kw_only=True)
    """`readOnlyHint`: it changes nothing."""
    destructive: bool | None = attrs.field(default=None, kw_only=True)
    """`destructiveHint`: it may delete or overwrite."""
    idempotent: bool | None = attrs.field(default=None, kw_only=True)
    """`idempotentHint`: calling it twice changes no more than calling it once."""
    is_error: bool = attrs.field(default=False, kw_only=True)
    """Whether its results are errors."""
    seconds: float = attrs.field(default=0.1, kw_only=True)
    """What a call takes, in virtual time."""
    description: str = attrs.field(default="", kw_only=True)
    """What models and people are told that it is for."""
    input_schema: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "object"}, kw_only=True)
    """JSON Schema of its arguments."""
    calls: list[Mapping[str, Any]] = attrs.field(factory=list, init=False)
    """The arguments of the calls that arrived, in their order. What they do counts as done from then on."""

    def result(self, arguments: Mapping[str, Any]) -> str:
        return self.returns if isinstance(self.returns, str) else self.returns(arguments)

    @property
    def may_be_repeated(self) -> bool:
        """Whether it says that a second call does no harm."""
        return bool(self.read_only or (self.idempotent and not self.destructive))

    @property
    def hints(self) -> Hints:
        return Hints(self.read_only, self.destructive, self.idempotent)


def check_stubs(config: AgentConfig, stubs: Stubs) -> None:
    """Raises `StartError` unless every server of the file has stubs, and no other."""
    servers = {server.name for server in config.enabled_servers}
    wrong = [f'server "{name}" has no stubs' for name in sorted(servers - stubs.keys())]
    wrong += [
        f'there are stubs for "{name}", which is no server of the file'
        for name in sorted(stubs.keys() - servers)
    ]
    if config.remote_agents:
        names = ", ".join(agent.name for agent in config.remote_agents)
        wrong.append(f"agents of others ({names}) cannot stand in a test: there are no stubs for them")
    if wrong:
        raise StartError("\n".join(wrong))


def all_of(stubs: Stubs) -> Iterator[ToolStub]:
    return (stub for tools in stubs.values() for stub in tools)


def serve_stubs(stubs: Stubs, is_dead: Callable[[], bool]) -> OpenServer:
    """What opens the servers. `is_dead`: the process was killed, so what still unwinds does nothing."""

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
