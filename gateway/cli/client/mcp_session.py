"""`stopgo mcp test` and `stopgo mcp call`: connects to servers, and calls a tool."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

from ....actors.approvals.description import describe
from ....actors.arguments.arguments import CheckedArguments, Unfit
from ....actors.gate.gate import PolicyScope, descend, judge, root_scope
from ....actors.gate.review import refuse, review
from ....actors.mcp.server import mcp_server, slow_start
from ....actors.servers.server_status import ServerStartFailed, ServerStatus
from ....actors.tools.catalogue import Catalogue, DuplicateTool, ToolGroup, catalogue, near
from ....actors.tools.tool import (
    CallTool,
    ServerMessage,
    Tool,
    ToolAuthRequired,
    ToolChanged,
    ToolInputRequired,
    ToolOutcomeUnknown,
    ToolUnavailable,
)
from ....config.sections.agent_config import AgentConfig
from ....config.sections.mcp import McpServerConfig
from ....config.text.errors import ConfigError
from ....runtime.errors import ActorCrashed, ActorUnavailable
from ....runtime.event_bus import EventBus
from ....runtime.json_text import load_edge
from ....runtime.ref import ActorRef
from ....runtime.supervision import Supervisor, open_supervisor
from ..process.options import FAILED, WRONG
from ..terminal.terminal import LogToTerminal, Terminal, printable

UNANSWERED = 3
DENIED = 4
INTERRUPTED = 130

_MODERN = "2026"
"""Protocol revisions of this year and later are stateless."""


@attrs.define(eq=False)
class Trial:
    """A server, and the outcome of connecting to it."""

    server: McpServerConfig
    seconds: float = 0.0
    failure: str | None = None
    mistake: bool = False
    """Whether the configuration is wrong."""
    status: ServerStatus | None = None
    ref: ActorRef[ServerMessage] | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.status.tools if self.status is not None else ()


def run_test(config: AgentConfig, servers: Sequence[McpServerConfig]) -> int:
    """Connect to servers, print the outcome, and return the exit code."""
    _log_to(Terminal.of_this_process())
    return _run(partial(_test, config, servers))


def run_call(config: AgentConfig, server: McpServerConfig, tool: str, arguments: str, *, yes: bool) -> int:
    """Call a tool of a server through the gate, and return the exit code."""
    terminal = Terminal.of_this_process()
    _log_to(terminal)
    try:
        given = load_edge(arguments)
    except ValueError as error:
        terminal.tell(f"the arguments are not JSON: {error}", "bad")
        return WRONG
    if not isinstance(given, dict):
        terminal.tell('the arguments must be a JSON object, for instance \'{"name": "x"}\'', "bad")
        return WRONG
    return _run(partial(_call, _Caller(config, server, terminal, yes), tool, given))


def _run(work: Callable[[], Awaitable[int]]) -> int:
    code = INTERRUPTED
    try:
        code = trio.run(_until_terminated, work)
    except* KeyboardInterrupt:
        pass
    return code


async def _until_terminated(work: Callable[[], Awaitable[int]]) -> int:
    """The result of the work. SIGTERM cancels it, so that no server process stays behind."""
    code: int = 128 + signal.SIGTERM
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at, signals, nursery.cancel_scope)
            code = await work()
            nursery.cancel_scope.cancel()
    return code


async def _cancel_at(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


def _log_to(terminal: Terminal) -> None:
    handler = LogToTerminal(terminal)
    logging.basicConfig(level=logging.ERROR, format="%(message)s", handlers=[handler], force=True)
    slow_start.setLevel(logging.WARNING)


@asynccontextmanager
async def _connected(
    config: AgentConfig, servers: Sequence[McpServerConfig]
) -> AsyncIterator[tuple[Trial, ...]]:
    """Connect to servers for the block. Each trial has a connection or a failure."""
    trials = tuple(Trial(server) for server in servers)
    async with open_supervisor(EventBus()) as kernel:
        async with trio.open_nursery() as nursery:
            for trial in trials:
                nursery.start_soon(_connect, kernel, trial, config.tools.max_stored_bytes)
        yield trials


async def _connect(kernel: Supervisor, trial: Trial, most: int) -> None:
    def report(status: ServerStatus) -> None:
        trial.status = status

    # Required, so that a failure of an optional server is reported, too.
    server = attrs.evolve(trial.server, required=True)
    began = trio.current_time()
    try:
        opened = mcp_server(server, report=report, max_stored_bytes=most)
        trial.ref = await kernel.start(f"mcp:{server.name}", opened)
    except ServerStartFailed as error:
        trial.failure, trial.mistake = error.reason, error.mistake
    else:
        if trial.status is not None and trial.status.state != "connected":
            # Started but not connected: the server needs the bearer token of a request.
            trial.failure = f"{trial.status.state}: {trial.status.error}"
    trial.seconds = trio.current_time() - began


# ------------------------------------------------------------------------- test


async def _test(config: AgentConfig, servers: Sequence[McpServerConfig]) -> int:
    async with _connected(config, servers) as trials:
        pass
    policy_scope = descend(root_scope(config), config.agent)
    problem = None
    try:
        named = _catalogue(config, trials)
    except DuplicateTool as error:
        named, problem = Catalogue(), str(error)
    groups = {group.server.name: group for group in named.groups}
    for trial in trials:
        for line in _report(trial, groups.get(trial.server.name), policy_scope):
            print(printable(line))
    if not trials:
        print("No MCP servers configured")
    if problem is not None:
        print(printable(problem))
    if problem is not None or _tell_review(config, trials, named) or any(trial.mistake for trial in trials):
        return WRONG
    return FAILED if any(trial.failure is not None for trial in trials) else 0


def _tell_review(config: AgentConfig, trials: Sequence[Trial], named: Catalogue) -> bool:
    """Print the findings that the start would have for these tools, and return whether it would fail."""
    listed = {trial.server.name: trial.tools for trial in trials if trial.failure is None}
    findings = list(review(config, named.tools, listed))
    tried = {trial.server.name for trial in trials}
    every_server = all(server.name in tried for server in config.enabled_servers)
    for finding in findings:
        # Tools of servers that were not tested are unknown.
        if finding.problem is None and (every_server or not finding.unlisted):
            print(printable(f"stopgo mcp test: warning: {finding.text}"), file=sys.stderr)
    try:
        refuse(findings)
    except ConfigError as error:
        print(printable(str(error)), file=sys.stderr)
        return True
    return False


def _catalogue(config: AgentConfig, trials: Sequence[Trial]) -> Catalogue:
    """The tools of these servers by their names in the agent, including those of disabled servers."""
    servers = tuple(attrs.evolve(trial.server, enabled=True) for trial in trials)
    only = attrs.evolve(config, mcp_servers=servers)
    return catalogue(only, {trial.server.name: trial.tools for trial in trials})


def _report(trial: Trial, group: ToolGroup | None, policy_scope: PolicyScope) -> Iterator[str]:
    name = trial.server.name
    if trial.failure is not None:
        yield f"{name}: failed after {trial.seconds:.2f} s: {trial.failure}"
        return
    assert trial.status is not None
    protocol = trial.status.protocol or "?"
    era = "modern" if protocol >= _MODERN else "legacy"
    count = len(trial.tools)
    tools = "1 tool" if count == 1 else f"{count} tools"
    yield f"{name}: connected in {trial.seconds:.2f} s, protocol {protocol} ({era}), {tools}"
    yield from (f"  left out: {each}" for each in trial.status.left_out)
    if group is None:
        return
    if group.facade is not None:
        yield f"  models see one tool, {group.facade}"
    for tool in group.tools:
        verdict = judge(tool, {}, policy_scope)
        other = f" (its own name: {tool.own_name})" if tool.own_name != tool.name else ""
        yield f"  {tool.name}{other}: {verdict.action} ({verdict.rule}); {_hints(tool)}"
    if left_out := count - len(group.tools):
        yield f"  {left_out} left out by tools.include, tools.exclude or on_duplicate"


def _hints(tool: Tool) -> str:
    given = [f"{name}: {json.dumps(value)}" for name, value in tool.hints.to_json().items()]
    return ", ".join(given) or "no hints"


# ------------------------------------------------------------------------- call


@attrs.frozen(eq=False)
class _Caller:
    config: AgentConfig
    server: McpServerConfig
    terminal: Terminal
    yes: bool

    async def cleared(self, tool: Tool, arguments: Mapping[str, Any]) -> int | None:
        """Judge the call; None if it may be made, else the exit code."""
        policy_scope = descend(root_scope(self.config), self.config.agent)
        verdict = judge(tool, arguments, policy_scope)
        if verdict.action == "deny":
            self.terminal.tell(f"denied: {verdict.rule}", "bad")
            return DENIED
        if verdict.action == "run" or self.yes:
            return None
        self.terminal.tell(f"The gate asks: {verdict.rule}", "question")
        self.terminal.tell(describe(tool.own_name, arguments))
        if not self.terminal.can_ask:
            self.terminal.tell("there is no terminal to ask at; to make the call, add --yes", "bad")
            return UNANSWERED
        answer = await self.terminal.ask("Call it? y: yes, anything else: no >")
        return None if answer is not None and answer.lower() in ("y", "yes") else UNANSWERED

    async def call(self, ref: ActorRef[ServerMessage], tool: Tool, arguments: Mapping[str, Any]) -> int:
        try:
            result = await ref.ask(CallTool(tool.own_name, arguments, shown=tool))
        except (
            ToolUnavailable,
            ToolChanged,
            ToolAuthRequired,
            ToolInputRequired,
            ToolOutcomeUnknown,
            ActorUnavailable,
            ActorCrashed,
        ) as error:
            self.terminal.tell(str(error), "bad")
            return FAILED
        self.terminal.answer(result.content)
        return FAILED if result.is_error else 0


async def _call(caller: _Caller, name: str, given: Mapping[str, Any]) -> int:
    async with _connected(caller.config, (caller.server,)) as (trial,):
        if trial.ref is None or trial.failure is not None:
            caller.terminal.tell(f'MCP server "{trial.server.name}" failed: {trial.failure}', "bad")
            return FAILED
        listed = _catalogue(caller.config, (trial,))
        tool = listed.of_server(trial.server.name, name)
        if tool is None:
            nearest = near(name, [tool.own_name for tool in listed.tools])
            hint = f" (nearest: {', '.join(nearest)})" if nearest else ""
            caller.terminal.tell(f'the server "{trial.server.name}" has no tool "{name}"{hint}', "bad")
            return WRONG
        arguments = await CheckedArguments().fit(tool, given)
        if isinstance(arguments, Unfit):
            caller.terminal.tell(f"the arguments do not fit: {'; '.join(arguments.mistakes)}", "bad")
            return WRONG
        code = await caller.cleared(tool, arguments)
        return code if code is not None else await caller.call(trial.ref, tool, arguments)
