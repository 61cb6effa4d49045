"""The world outside the agent: tools that record their calls, and a model that is a function."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

import attrs
import trio

from stopgo.actors.log.words import events as e
from stopgo.actors.models.messages.messages import (
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolCall,
    Usage,
)
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.delegation import MESSAGE
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.tool import (
    Authenticate,
    CallTool,
    Hints,
    ListTools,
    ServerMessage,
    Tool,
    ToolOutcomeUnknown,
    ToolResult,
)
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.gateway.testing.killing_journal import Killed, KillingJournal
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.journal.protocol import Journal
from tests.actors.notify.told_channels import ToldChannels

from .demands import Demands
from .remote_agent import TOOL as REMOTE
from .remote_agent import Finds, Job, RemoteAgent

HINTS: Mapping[str, Hints] = {
    "wipe": Hints(read_only=False, destructive=True),
    "read": Hints(read_only=True),
    "bump": Hints(read_only=False, destructive=False, idempotent=True),
    "post": Hints(),
}
"""A tool for every class: asked about, read, idempotent, and one that runs unasked but only once."""

ONCE = frozenset({"wipe", "post", REMOTE})

Replies = Mapping[tuple[str, str], Sequence[Sequence[str]]]
"""By user message and node, or `node@iteration`: the calls of one reply after the other, as `tool label`."""

TOOL_SECONDS = 0.1
MODEL_SECONDS = 0.05


@attrs.frozen
class Outside:
    """How tools and model behave in one scenario."""

    replies: Replies
    seconds: Mapping[str, float] = attrs.field(factory=dict)
    """Slow calls and nodes, by label of the call or name of the node."""
    lost: frozenset[str] = frozenset()
    """Labels of calls that are done, but whose first answer is lost."""
    failing: frozenset[str] = frozenset()
    """Nodes whose model fails."""
    failing_first: frozenset[str] = frozenset()
    """Nodes whose model fails when it is asked for the first time."""
    says: Mapping[str, str] = attrs.field(factory=dict)
    """The last reply of a node's model, without calls."""
    later: Mapping[str, Hints] = attrs.field(factory=dict)
    """The hints of tools in processes that start after a call was done."""
    renewed: frozenset[str] = frozenset()
    """Tools whose description is different from the second process on."""
    demands: Demands = attrs.field(factory=Demands)
    """The server's prerequisites, and its elicitations during calls."""
    jobs: Mapping[str, Job] = attrs.field(factory=dict)
    """The behaviour of another agent, by label of the call."""
    finds: Finds = "by key"
    """The way in which that agent finds the tasks of lost messages."""


@attrs.frozen
class Entry:
    """An effect of a tool."""

    tool: str
    label: str
    acknowledged: frozenset[str]
    """Keys of the commands that were answered by then."""


@attrs.define(eq=False)
class World:
    """The state that survives the agent's process."""

    outside: Outside
    ledger: list[Entry] = attrs.field(factory=list)
    requests: dict[tuple[int, str, int, int], ModelRequest] = attrs.field(factory=dict)
    """The requests that the model got, by turn, node, number of the call and iteration."""
    wrongs: list[str] = attrs.field(factory=list)
    """Violations."""
    acknowledged: set[str] = attrs.field(factory=set)
    life: int = 0
    journal: KillingJournal | None = None
    closing: float = math.inf
    """The start of this process's shutdown, on trio's clock."""
    authorized: bool = False
    """The run has a token, so none of its calls may be sent without one."""
    asked: Counter[str] = attrs.field(factory=Counter)
    """The number of questions that the server has asked, by label of the call."""
    visited: set[str] = attrs.field(factory=set)
    """Labels of the calls whose address a human has visited."""
    remote: RemoteAgent = attrs.field(init=False)
    told: ToldChannels = attrs.field(factory=ToldChannels)
    _past: float = 1_000_000.0

    def __attrs_post_init__(self) -> None:
        self.remote = RemoteAgent(self, self._job, self.outside.finds)

    def _job(self, text: str) -> Job:
        return self.outside.jobs.get(text, Job())

    @property
    def alive(self) -> bool:
        """Whether the present process is alive. After a kill, its tasks still unwind, and must have no
        effect."""
        return self.journal is None or not self.journal.dead

    def times(self, label: str) -> int:
        return Counter(entry.label for entry in self.ledger)[label]

    # ------------------------------------------------------------------- time

    def wall(self) -> float:
        """The wall clock, which continues from process to process."""
        return self._past + trio.current_time()

    def night(self) -> None:
        """The process is down until it is started again."""
        self._past += trio.current_time() + 60

    # ------------------------------------------------------------------ tools

    def open_server(
        self, config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        tools = self._tools(config.name)
        locked = self.outside.demands.locked
        listed = () if locked else tools

        async def handle(message: ServerMessage) -> object:
            nonlocal listed
            match message:
                case Authenticate():
                    listed = tools
                    report(ServerStatus(config.name, "connected", tools=tools))
                    return None
                case ListTools():
                    return listed
                case CallTool():
                    return await self._call(message)
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[ServerMessage]) -> None:
            if locked:
                report(ServerStatus(config.name, "auth_required", wanted=Wanted(config.name, 401)))
            else:
                report(ServerStatus(config.name, "connected", tools=tools))
            await ctx.serve(handle, concurrency=config.max_concurrency)

        return behaviour

    def _tools(self, server: str) -> tuple[Tool, ...]:
        hints = {**HINTS, **(self.outside.later if self.ledger else {})}
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        }
        return tuple(
            Tool(name, self._described(name), schema, server, hints=each) for name, each in hints.items()
        )

    def _described(self, tool: str) -> str:
        renewed = self.life > 1 and tool in self.outside.renewed
        return f"{tool} what is named" + (", as of today" if renewed else "")

    async def _call(self, message: CallTool) -> ToolResult:
        tool, label = message.tool, message.arguments["name"]
        self._stop_if_dead()
        if message.on_sent is not None:
            message.on_sent()
        self._note_late(f"{tool} {label} was called")
        self.check_forwarded(message.bearer, f"{tool} {label}")
        demands = self.outside.demands
        demands.check_token(self, label, message)
        agreed = demands.check_answers(self, label, message)
        if label in demands.amid:
            agreed = await demands.ask(self, label, message)
            self._stop_if_dead()
        if not agreed:
            return ToolResult("then nothing is done", is_error=True)
        self.note(tool, label)
        await trio.sleep(self.outside.seconds.get(label, TOOL_SECONDS))
        if label in self.outside.lost and self.times(label) == 1:
            raise ToolOutcomeUnknown("the connection was lost")
        return ToolResult(result_of(tool, label))

    def note(self, tool: str, label: str) -> None:
        """Record an effect in the ledger."""
        self.ledger.append(Entry(tool, label, frozenset(self.acknowledged)))

    def check_forwarded(self, bearer: str | None, what: str) -> None:
        if bearer is None and self.authorized:
            self.wrongs.append(f"{what} went out without a token")
        self.authorized |= bearer is not None

    # ------------------------------------------------------------------ model

    async def look_back(self, journal: Journal) -> None:
        """Before a life begins: a run whose start is lost begins anew, perhaps with another agent file."""
        begun = set()
        for row in (await journal.list()).rows:
            for event in await journal.events_since(row.stream, 0):
                if event.type == e.RunStarted.type:
                    begun.add(event.body["turn"])
        self.requests = {key: request for key, request in self.requests.items() if key[0] in begun}

    def open_model(self, name: str, *, folder: Path) -> World:
        return self

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self._stop_if_dead()
        self._note_late(f"{request.node} asked the model")
        key = (request.turn, request.node, request.call, request.iteration)
        again = key in self.requests
        first = self.requests.setdefault(key, request)
        if (first.system, first.messages) != (request.system, request.messages):
            self.wrongs.append(f"the model was asked something else at {key} than before")
        await trio.sleep(self.outside.seconds.get(request.node, MODEL_SECONDS))
        fails_now = request.node in self.outside.failing_first and not again
        if fails_now or request.node in self.outside.failing:
            raise ModelFailed("no model today")
        return reply_to(self.outside, request)

    def _note_late(self, what: str) -> None:
        # What began at the very moment of the shutdown was faster.
        if trio.current_time() > self.closing:
            self.wrongs.append(f"{what} during the shutdown")

    def _stop_if_dead(self) -> None:
        if not self.alive:
            raise Killed


def label_of(arguments: Mapping[str, Any]) -> str:
    """The label of a call with these arguments."""
    return str(arguments.get("name") or arguments[MESSAGE])


def result_of(tool: str, label: str) -> str:
    return f"{tool} {label} is done"


def reply_to(outside: Outside, request: ModelRequest) -> ModelReply:
    batches = outside.replies.get((request.user, f"{request.node}@{request.iteration}"))
    if batches is None:
        batches = outside.replies.get((request.user, request.node), ())
    usage = Usage(input_tokens=10, output_tokens=request.call)
    if request.call > len(batches):
        seen = ", ".join(result.name for result in request.results) or "nothing"
        return ModelReply(outside.says.get(request.node, f"{request.node} saw {seen}"), usage=usage)
    calls = []
    for index, call in enumerate(batches[request.call - 1]):
        tool, label = call.split()
        arguments = {MESSAGE if tool == REMOTE else "name": label}
        calls.append(ToolCall(f"{request.node}-{request.call}-{index}", tool, arguments))
    return ModelReply(tool_calls=tuple(calls), usage=usage)
