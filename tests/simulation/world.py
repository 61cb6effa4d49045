"""The world outside the agent: tools that record their calls, and a model that is a function."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import assert_never

import attrs
import trio

from stopgo.actors.gate.gate import judge, policy_scopes, root_scope
from stopgo.actors.log.words import events as e
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolMessage,
)
from stopgo.actors.notify.notifier import OpenChannel
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.tool import (
    Authenticate,
    CallTool,
    Hints,
    ListTools,
    ServerMessage,
    Tool,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from stopgo.config.checks.tree import tree_from_stored
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.gateway.testing.killing_journal import Killed, KillingJournal
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.journal.protocol import Event, Journal
from tests.actors.notify.told_channels import ToldChannels
from tests.crash.world import label_of

from .peer import Peer
from .plan import DENIED_ABOVE, SERVERS, Life, Plan
from .replies import reply_to
from .trees import walk

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "level": {"type": "integer"}},
    "required": ["name", "level"],
    "additionalProperties": False,
}


class ServerCrash(Exception):
    """A tool server with a bug."""


@attrs.define(eq=False)
class World:
    """The state that survives the agent's process."""

    plan: Plan
    life: Life
    number: int = 0
    """The number of the process, from 1."""
    wrongs: list[str] = attrs.field(factory=list)
    """Violations."""
    told: list[str] = attrs.field(factory=list)
    """The story, one line for each event outside the agent."""
    sent: Counter[str] = attrs.field(factory=Counter)
    """The number of times each call arrived, by conversation, tool and arguments."""
    hooks: ToldChannels = attrs.field(factory=ToldChannels)
    """The channels of notifications."""
    conversations: dict[str, str] = attrs.field(factory=dict)
    """Conversation ids, by the user's name for them."""
    store: Journal | None = None
    journal: KillingJournal | None = None
    closing: float = math.inf
    """The start of this process's shutdown, on trio's clock."""
    halted: bool = False
    """A halt of the agent has been acknowledged."""
    crashed: bool = False
    """A server has crashed in this process. Only one crash, because the supervisor gives up after a few
    restarts."""
    came_to: dict[tuple[str, str, int], str | None] = attrs.field(factory=dict)
    """The results of the attempts that were sent, by conversation, key and number; None: the agent got
    none."""
    peer: Peer = attrs.field(init=False, default=attrs.Factory(lambda self: Peer(self), takes_self=True))
    _asked: dict[tuple[object, ...], tuple[object, set[tuple[str, object]]]] = attrs.field(factory=dict)
    """The requests that models got, by their cause: the turn, and the calls of the replies before."""
    _results: dict[tuple[str, int, str], set[tuple[str, object]]] = attrs.field(factory=dict)
    """The replies whose calls a node's model got in this process, by conversation, turn and node."""
    _working: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    _past: float = 1_000_000.0

    # ------------------------------------------------------------------- time

    def wall(self) -> float:
        """The wall clock, which continues from process to process."""
        return self._past + trio.current_time()

    def night(self, seconds: float) -> None:
        """The process is down until it is started again."""
        self._past += trio.current_time() + seconds
        self._working.clear()
        self.crashed = False

    def tell(self, line: str) -> None:
        self.told.append(f"{self.number}: {trio.current_time():10.3f}  {line}")

    # ------------------------------------------------------------------ tools

    def tools(self, server: str) -> tuple[Tool, ...]:
        changed = "wipe" if self.life.wipe_changed else ""
        return tuple(
            Tool(
                name,
                f"{name} what is named{', thoroughly' if name == changed else ''}",
                SCHEMA,
                server,
                hints=Hints(destructive=True) if name == "peek" and self.life.peek_destructive else hints,
            )
            for name, hints in SERVERS[server].items()
        )

    def open_server(
        self, config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        tools = self.tools(config.name)

        async def handle(message: ServerMessage) -> object:
            match message:
                case Authenticate():
                    return None
                case ListTools():
                    return tools
                case CallTool():
                    return await self._call(config.name, message)
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[ServerMessage]) -> None:
            report(ServerStatus(config.name, "connected", tools=tools))
            await ctx.serve(handle, concurrency=config.max_concurrency)

        return behaviour

    async def _call(self, server: str, call: CallTool) -> ToolResult:
        label = call.arguments["name"]
        conversation, node = label.split(".")[0], label.split(".")[2]
        self._stop_if_dead()
        with self._at_work(conversation, node):
            if trio.current_time() > self.closing:
                self.wrongs.append(f"{call.tool} {label} was made during the shutdown")
            await trio.sleep(self.plan.rng("reach", call.tool, label).choice([0.0, 0.0, 0.0, 2.0]))
            await self.pause()
            self._stop_if_dead()
            if call.on_sent is not None:
                call.on_sent()
            if self.halted and call.shown is not None and call.shown.hints.effect == "once":
                self.wrongs.append(f"{call.tool} {label} left while the agent was halted")
            attempt = await self._check_call(server, call, conversation)
            self.came_to[attempt] = None
            times = self.sent[_name_of(conversation, call)]
            self.tell(f"{call.tool} {dict(call.arguments)} is called, for the {times}. time")
            try:
                result = await self._do(call, self.plan.rng("tool", call.tool, label, times))
            except ToolUnavailable as error:
                self.came_to[attempt] = str(error)
                raise
            self.came_to[attempt] = result.content
            return result

    async def _do(self, call: CallTool, rng: Random) -> ToolResult:
        await trio.sleep(rng.choice([0.0, 0.1, 0.1, 1.0, 3.0, 20.0]))
        self._stop_if_dead()
        what = f"{call.tool} {call.arguments['name']}"
        match rng.choices(["done", "failed", "unavailable", "lost", "crash"], weights=[74, 10, 6, 8, 2]):
            case ["failed"]:
                return ToolResult(f"{what} cannot be done", is_error=True)
            case ["unavailable"]:
                raise ToolUnavailable("there is no connection")
            case ["lost"]:
                raise ToolOutcomeUnknown("the connection was lost")
            case ["crash"] if not self.crashed:
                self.crashed = True
                raise ServerCrash
        return ToolResult(f"{what} is done")

    async def _check_call(self, server: str, call: CallTool, conversation: str) -> tuple[str, str, int]:
        """Check that the intent is on disk and that the call may arrive at all. Returns the attempt."""
        assert self.store is not None
        what = f"{call.tool} {dict(call.arguments)}"
        if call.tool == "wipe" and call.arguments["level"] > DENIED_ABOVE:
            self.wrongs.append(f"{what} was sent, which a rule denies")
        if call.tool == "peek" and self.life.peek_denied:
            self.wrongs.append(f"{what} was sent, which a rule of today denies")
        name = _name_of(conversation, call)
        self.sent[name] += 1
        id = self.conversations.get(conversation, "")
        events = await self.store.events_since(id, 0)
        intents = [event.body for event in events if _is_intent(event, call)]
        if self.sent[name] > len(intents):
            self.wrongs.append(
                f"{what} was sent {self.sent[name]} times, with {len(intents)} intents on disk"
            )
        self._check_gate(call, events)
        self._check_bearer(server, call, conversation, events)
        attempt = (id, intents[-1]["key"], intents[-1]["attempt"]) if intents else (id, "", 0)
        if (
            intents
            and intents[-1]["effect"] == "once"
            and (attempt in self.came_to or _is_over(events, attempt))
        ):
            self.wrongs.append(f"{what} was sent again, or after its end was recorded: {attempt}")
        return attempt

    def _check_gate(self, call: CallTool, events: tuple[Event, ...]) -> None:
        """A call that the gate would ask about today has been approved."""
        trees = {event.body["tree_id"]: event.body["tree"] for event in events if "tree" in event.body}
        run = [event.body["tree_id"] for event in events if event.type == e.RunStarted.type]
        left = [event.body for event in events if _is_intent(event, call)]
        if not left:
            return
        above = root_scope(self.plan.config(self.life))
        [policy_scope] = [
            policy_scope
            for _, policy_scope in policy_scopes(tree_from_stored(trees[run[-1]]), above)
            if policy_scope.node == left[-1]["node"]
        ]
        [tool] = [tool for tool in self.tools(left[-1]["server"]) if tool.name == call.tool]
        action = judge(tool, call.arguments, policy_scope).action
        if action == "deny" or (action == "ask" and not _was_allowed(left[-1]["key"], events)):
            self.wrongs.append(f"{call.tool} {dict(call.arguments)} was sent, and the gate says {action}")

    def _check_bearer(
        self, server: str, call: CallTool, conversation: str, events: tuple[Event, ...]
    ) -> None:
        ours = call.bearer is None or call.bearer.startswith(f"token of {conversation} ")
        begun = max((n for n, event in enumerate(events) if event.type == e.RunStarted.type), default=0)
        left = max((n for n, event in enumerate(events) if _is_intent(event, call)), default=0)
        needed = any(event.body.get("token") for event in events[begun:left])
        if not ours or (server == "web") < (call.bearer is not None):
            self.wrongs.append(f"{call.tool} of {server} came with {call.bearer!r}, from {conversation}")
        if server == "web" and needed and call.bearer is None:
            self.wrongs.append(f"{call.tool} came without the token of its run")

    # ------------------------------------------------------------------ model

    @property
    def open_channel(self) -> OpenChannel:
        return self.hooks.opened_by(lambda: not self.journal_is_dead)

    def open_model(self, name: str, *, folder: Path) -> World:
        return self

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self._stop_if_dead()
        conversation = request.user.split()[0]
        # A further try of a call that is in flight is part of that call.
        if trio.current_time() > self.closing and request.attempt == 1:
            self.wrongs.append(f"{request.node} asked the model during the shutdown")
        self._check_request(conversation, request)
        self.wrongs.extend(f"{request.node} was told {wrong}" for wrong in _wrong_pairs(request))
        await self._check_told(conversation, request)
        rng = self.plan.rng("model", request.user, request.node, request.iteration, request.call)
        with self._at_work(conversation, request.node):
            self.tell(f"{request.node} of {conversation} asks the model ({request.call})")
            await trio.sleep(rng.choice([0.0, 0.05, 0.3, 2.0]))
        if rng.random() < 0.06:
            raise ModelFailed("no model today", retryable=rng.random() < 0.3)
        return reply_to(rng, request)

    async def look_back(self, store: Journal, crashed: str | None = None) -> None:
        """Before a life begins, and after the crash of a conversation whose save failed: a run whose start is
        lost begins anew, perhaps with another agent file, and calls whose results are lost are made again,
        perhaps with another outcome.

        `crashed` is the id of the one conversation that lost something; None: all did.
        """
        names = [name for name, id in self.conversations.items() if crashed in (None, id)]
        kept: set[tuple[str, object]] = set()
        for name in names:
            for event in await store.events_since(self.conversations[name], 0):
                if event.type == e.RunStarted.type:
                    kept.add((name, event.body["turn"]))
                elif event.type == e.BatchFinished.type:
                    kept.add((name, event.body["key"]))
        for key in [key for key in self._results if key[0] in names]:
            del self._results[key]
        for asked, (_, led) in list(self._asked.items()):
            if asked[0] in names and not led <= kept:
                del self._asked[asked]

    def _check_request(self, conversation: str, request: ModelRequest) -> None:
        """A model is told the same when it is asked again, if what led to it is on disk: what a replay tells
        is what was told."""
        if self._repeats(request.node):
            return
        key = (conversation, request.turn, request.user, request.node, request.iteration, request.call)
        told = (request.system, request.messages)
        results = self._results.setdefault((conversation, request.turn, request.node), set())
        if request.call > 1:
            execution = request.step.rpartition(":")[0]
            results.add((conversation, f"{execution}:{request.call - 1}"))
        led = {(conversation, request.turn), *results}  # a loop tells a node of its earlier rounds
        before, _ = self._asked.setdefault(key, (told, led))
        if before != told:
            self.wrongs.append(f"the model was told something else at {key}: {before} and {told}")

    async def _check_told(self, conversation: str, request: ModelRequest) -> None:
        """What became of a call that must not be repeated is on disk before a model hears of it. If nobody
        knows, that is what the model hears, unless a human has looked into it."""
        assert self.store is not None
        told = _told(request.messages)
        asked: dict[str, str] = {}
        open_calls: dict[str, str] = {}
        unknown: dict[str, str] = {}
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for event in await self.store.events_since(self.conversations[conversation], 0):
            key = event.body.get("key", "")
            if event.type == e.ToolStarted.type and event.body["effect"] == "once":
                open_calls[key] = label_of(event.body["arguments"])
                keys[open_calls[key]].add(key)
            elif event.type in (e.ToolFinished.type, e.ToolUnknown.type) and key in open_calls:
                name = open_calls.pop(key)
                if event.type == e.ToolUnknown.type:
                    unknown[key] = name
            elif event.type == e.ApprovalRequested.type and event.body["kind"] == "outcome_unknown":
                asked[event.body["id"]] = key
            elif event.type == e.ApprovalResolved.type:
                unknown.pop(asked.get(event.body["id"], ""), None)
        for name in sorted(told.keys() & set(open_calls.values())):
            self.wrongs.append(f"the model was told of {name} before the disk was")
        for name in sorted(told.keys() & set(unknown.values())):
            # A node that is executed again may make a call of the same name, which may be denied by then.
            again = told[name].startswith("Denied by policy: ") and self._repeats(name.split(".")[2])
            known = not told[name].startswith("The outcome is unknown: ")
            if len(keys[name]) == 1 and known and not again:
                self.wrongs.append(f"the model was told {told[name]!r} of {name}, which may have happened")

    def _repeats(self, node: str) -> bool:
        """Whether a node may be executed twice in an iteration, as far as a request can tell."""
        for tree in self.plan.trees:
            for path, spec in walk(tree):
                if spec["name"] == node:
                    above = [each for at, each in walk(tree) if at == path[: len(at)]]
                    loops = sum(each["type"] == "loop" for each in above)
                    return loops > 1 or any("retries" in each for each in above)
        raise LookupError(node)

    # ----------------------------------------------------------------- insides

    @contextmanager
    def _at_work(self, conversation: str, node: str) -> Iterator[None]:
        """Between these, the node's branch of every parallel above it takes one of that one's turns."""
        life = self.number
        self._working[conversation, node] += 1
        try:
            self._check_turns(conversation)
            yield
        finally:
            if life == self.number:
                self._working[conversation, node] -= 1

    def _check_turns(self, conversation: str) -> None:
        working = {node for (whose, node), count in self._working.items() if whose == conversation and count}
        for tree in self.plan.trees:
            for _, spec in walk(tree):
                if "max_concurrency" not in spec:
                    continue
                branches = [{below["name"] for _, below in walk(child)} for child in spec["agents"]]
                busy = sum(bool(names & working) for names in branches)
                if busy > spec["max_concurrency"]:
                    self.wrongs.append(f"{busy} branches of {spec['name']} work at once: {sorted(working)}")

    @property
    def journal_is_dead(self) -> bool:
        """Whether the present process was killed. Its tasks still unwind, and must have no effect."""
        return self.journal is not None and self.journal.dead

    async def pause(self) -> None:
        """Wait while the process is paused."""

    def _stop_if_dead(self) -> None:
        if self.journal_is_dead:
            raise Killed


def _wrong_pairs(request: ModelRequest) -> Iterator[str]:
    """Violations in the calls of a request: each belongs to the node, and its results follow directly."""
    waiting: list[str] = []
    for message in request.messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.call_id:
                yield f"a result without its call: {message}"
        elif waiting:
            yield f"a call without its result: {waiting}"
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            for call in message.tool_calls:
                if label_of(call.arguments).split(".")[2] != request.node:
                    yield f"of the call of another node: {call}"
    if waiting:
        yield f"calls without results: {waiting}"


def _told(messages: Sequence[ChatMessage]) -> dict[str, str]:
    """The results that a model gets, by the name in the call's arguments."""
    told: dict[str, str] = {}
    left: Iterator[ToolCall] = iter(())
    for message in messages:
        if isinstance(message, AssistantMessage):
            left = iter(message.tool_calls)
        elif isinstance(message, ToolMessage):
            told[label_of(next(left).arguments)] = message.content
    return told


def _is_intent(event: Event, call: CallTool) -> bool:
    asked = (call.tool, call.arguments)
    return event.type == e.ToolStarted.type and (event.body["tool"], event.body["arguments"]) == asked


def _is_over(events: tuple[Event, ...], attempt: tuple[str, str, int]) -> bool:
    ends = [event.body for event in events if event.type in (e.ToolFinished.type, e.ToolUnknown.type)]
    return any((each["key"], each["attempt"]) == attempt[1:] for each in ends)


def _was_allowed(key: str, events: tuple[Event, ...]) -> bool:
    asked = [event.body for event in events if event.type == e.ApprovalRequested.type]
    keys = {each["id"]: each["key"] for each in asked}
    said = [event.body for event in events if event.type == e.ApprovalResolved.type]
    decisions = [each["decision"] for each in said if keys[each["id"]] == key]
    return any(each.get("approved") or each.get("action") == "retry" for each in decisions)


def _name_of(conversation: str, call: CallTool) -> str:
    return f"{conversation} {call.tool} {json.dumps(call.arguments, sort_keys=True)}"
