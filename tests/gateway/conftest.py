"""The app over real sockets with an agent whose answers the test decides, and commands in this process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import httpx2
import pytest
import trio

from stopgo.actors.access.principal import Principal
from stopgo.actors.agent.lists import ApprovalPage, ConversationItem, ConversationPage, ListedTool, LogEnd
from stopgo.actors.agent.precedents import Precedent
from stopgo.actors.agent.watch import Announced, Watched
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.approvals.tool_approval import ToolQuestion
from stopgo.actors.common.errors import AgentError
from stopgo.actors.common.fleet import FleetMember, FleetView, Process
from stopgo.actors.conversation.result import Result, Turn, turn_of
from stopgo.actors.gate.halt import HaltState
from stopgo.actors.gate.policies import StoredPolicy
from stopgo.actors.log.fold.state import Conversation, fold
from stopgo.actors.log.words import events
from stopgo.actors.log.words.deltas import AnyDelta
from stopgo.actors.log.words.event_json import encode
from stopgo.actors.log.words.inbox import Received
from stopgo.actors.log.words.outcomes import Replied
from stopgo.actors.models.messages.messages import ToolCall
from stopgo.actors.models.messages.usage import StepUsage
from stopgo.actors.notify.delivery import ChannelDelivery
from stopgo.actors.replay.call_page import CallPage
from stopgo.actors.replay.policy_use import PolicyUse
from stopgo.actors.replay.recorded_call import Damage
from stopgo.actors.replay.rule_report import RuleReport
from stopgo.actors.servers.health import Health, PartHealth
from stopgo.actors.tools.catalogue import Catalogue
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.nodes import LlmNode
from stopgo.gateway.app import make_app
from stopgo.gateway.auth.authenticator import Authenticator
from stopgo.gateway.cli.commands import run_command, serve_command, web_command
from stopgo.gateway.cli.main import main
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.http_server import HttpServer, bind, open_server
from stopgo.gateway.signals import stops
from stopgo.runtime.journal.protocol import Event, NewEvent
from tests.contract import hold_async
from tests.http_client import http_client

AT = 1_795_255_200.0  # 2026-11-21T10:00:00Z

ARGUMENTS = {"name": "web-1", "value": 42}
ASKED = ToolQuestion(
    id=ex.APPROVAL_ID,
    key="1/0:1.0",
    question="1/0:1.0",
    tool_name="resources_add",
    tool_args=ARGUMENTS,
    description="**ADD Resource**\n\nName: web-1\nValue: 42",
    server="resources",
    input_schema={"type": "object"},
    tool_fingerprint="f",
    node="agent",
    path=(0,),
    output_key="outcome",
    session_state={"analysis": "add"},
    user_message="add a server web-1 with value 42",
)
REPLY = Replied(text="", tool_calls=(ToolCall("call-1", "resources_add", ARGUMENTS),), usage=StepUsage(3, 2))

HISTORY: tuple[events.LogEvent, ...] = (
    events.ConversationCreated("1f0c9a7e", "You manage resources."),
    events.MessageAdded("add a server web-1 with value 42", "c1"),
    events.RunStarted(ex.RUN_ID, 1, "c1", "tree", events.REPLAY_VERSION, False, {}),
    events.StepFinished.of("1/0:1", "model", "agent", REPLY),
    events.ApprovalRequested(ASKED),
    events.RunWaiting(ex.RUN_ID, [ex.APPROVAL_ID], ["c1"], {}),
)


def history() -> list[Event]:
    return [
        Event(ex.CONVERSATION_ID, seq, event.type, AT + seq, event.body)
        for seq, event in enumerate(map(encode, HISTORY), start=1)
    ]


CONFIG = AgentConfig(agent=LlmNode(name="agent", prompt="", model="offline:rules"), name="an agent")


POLICY = StoredPolicy("5feceb66ffc86f38", AT, {"rules": []})


DELIVERY = ChannelDelivery(
    id="msg_1",
    channel="ops",
    kind="run.failed",
    subject=f"{ex.CONVERSATION_ID}/1",
    at=AT,
    next=AT,
    ends=AT,
    state="given_up",
    attempts=2,
    settled=AT,
    why="it answered 503",
    stream=ex.CONVERSATION_ID,
    seq=1,
)


@attrs.define(eq=False)
class FakeAgent:
    """A scripted agent with one conversation that waits for an approval."""

    config: AgentConfig = CONFIG
    draining: trio.Event = attrs.field(factory=trio.Event)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = attrs.field(factory=list)
    raises: dict[str, Exception] = attrs.field(factory=dict)
    """By method."""
    result: Result | None = None
    gate: trio.Event | None = None
    """What commands wait for, if anything; as with the real one, only the waiting is cancelled."""
    finished: list[str] = attrs.field(factory=list)
    log: list[Event] = attrs.field(factory=history)
    deltas: list[AnyDelta] = attrs.field(factory=list)
    """Deltas to send after each event."""
    more: str | None = None
    """Where the next page of approvals begins."""
    broken: dict[str, str] = attrs.field(factory=dict)
    ready: bool = True
    halted: bool = False
    warnings: tuple[str, ...] = ()
    started: float = AT
    catalogue: Catalogue = attrs.field(factory=Catalogue)
    principals: list[Principal | None] = attrs.field(factory=list)
    """On whose behalf it was used."""
    principal: Principal | None = None
    _grown: trio.Event = attrs.field(factory=trio.Event)
    credential_is_live: Callable[[str], bool] = lambda _: True
    following: int = 0
    told: int = 0
    """The latest event that a follower went on from."""

    def id_of(self, *names: str) -> str:
        return f"id of {names}"

    def acting_as(self, principal: Principal | None) -> FakeAgent:
        self.principals.append(principal)
        return self

    @property
    def conversation(self) -> Conversation:
        return fold(ex.CONVERSATION_ID, self.log)

    def grow(self, new: events.LogEvent) -> None:
        self.publish(encode(new))

    def publish(self, new: NewEvent) -> None:
        self.log.append(Event(ex.CONVERSATION_ID, len(self.log) + 1, new.type, AT, new.body))
        grown, self._grown = self._grown, trio.Event()
        grown.set()

    @property
    def policy_revision(self) -> str:
        return POLICY.revision

    async def policies(self) -> Sequence[StoredPolicy]:
        await self._read("policies", (), {})
        return [POLICY]

    async def policy_uses(self) -> Mapping[str, PolicyUse]:
        await self._read("policy_uses", (), {})
        return {POLICY.revision: PolicyUse(2, AT, AT)}

    async def policy_report(self) -> RuleReport:
        await self._read("policy_report", (), {})
        return RuleReport(AT)

    async def recorded_calls(self, **options: Any) -> CallPage:
        await self._read("recorded_calls", (), options)
        return CallPage((), None, Damage())

    async def notifications(self) -> Sequence[ChannelDelivery]:
        await self._read("notifications", (), {})
        return [DELIVERY]

    async def retry_notification(self, id: str) -> ChannelDelivery:
        await self._read("retry_notification", (id,), {})
        return DELIVERY.again(AT)

    async def test_channel(self, channel: str) -> str:
        await self._read("test_channel", (channel,), {})
        return "msg_test_1"

    async def _command(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Turn:
        await self._read(name, args, options)
        if self.gate is not None and not name.startswith("post"):
            await self.gate.wait()
        return turn_of(self.conversation, self.result)

    async def _read(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.calls.append((name, args, options))
        if name in self.raises:
            raise self.raises[name]

    async def start_conversation(self, message: str | None = None, **options: Any) -> Turn:
        return await self._command("start_conversation", (message,), options)

    async def send(self, id: str, text: str, **options: Any) -> Turn:
        self._known(id)
        return await self._command("send", (id, text), options)

    async def post(self, id: str, text: str, **options: Any) -> Turn:
        self._known(id)
        return await self._command("post", (id, text), options)

    async def decide(self, approval: str, decision: Mapping[str, Any], **options: Any) -> Turn:
        return await self._command("decide", (approval, decision), options)

    async def post_decision(self, approval: str, decision: Mapping[str, Any], **options: Any) -> Turn:
        return await self._command("post_decision", (approval, decision), options)

    async def cancel(self, id: str, **options: Any) -> Turn:
        return await self._command("cancel", (id,), options)

    async def complete(self, id: str, **options: Any) -> Turn:
        return await self._command("complete", (id,), options)

    async def resume(self, id: str, **options: Any) -> Turn:
        return await self._command("resume", (id,), options)

    async def delete(self, id: str) -> None:
        self._known(id)
        await self._read("delete", (id,), {})

    async def get(self, id: str) -> Conversation:
        await self._read("get", (id,), {})
        self._known(id)
        return self.conversation

    async def log_end(self, id: str) -> LogEnd:
        """Not among the calls: a refusal looks for the session, too."""
        await trio.lowlevel.checkpoint()
        if "log_end" in self.raises:
            raise self.raises["log_end"]
        self._known(id)
        return LogEnd(self.conversation.head.session_id, len(self.log))

    async def inbox(self, id: str) -> tuple[Received, ...]:
        await self._read("inbox", (id,), {})
        return ()

    def _known(self, id: str) -> None:
        if id != ex.CONVERSATION_ID:
            raise AgentError("conversation_not_found", f"there is no conversation {id}")

    async def conversations(self, **options: Any) -> ConversationPage:
        await self._read("conversations", (), options)
        c = self.conversation
        item = ConversationItem(
            c.id,
            c.head,
            c.created,
            c.updated,
            c.last_seq,
            tuple(c.approvals.values()),
            c if options["full"] else None,
        )
        return ConversationPage((item,), {"waiting_approval": 1, "": 4}, "next", self.broken)

    async def approvals(self, **options: Any) -> ApprovalPage:
        await self._read("approvals", (), options)
        return ApprovalPage(tuple(self.conversation.approvals.values()), self.more, self.broken)

    async def approval(self, id: str) -> Approval:
        await self._read("approval", (id,), {})
        if id != ex.APPROVAL_ID:
            raise AgentError("approval_not_found", f"there is no approval {id}")
        return self.conversation.approvals[id]

    async def title(self, id: str) -> str:
        return self.conversation.head.title

    async def precedents(self, approval: Approval) -> tuple[Precedent, ...]:
        return ()

    def tools(self) -> tuple[ListedTool, ...]:
        tool = Tool("resources_add", "Add", {"type": "object"}, "resources", None, Hints(destructive=True))
        return (ListedTool(tool, "ask"),)

    async def accept_tool(self, name: str, hash: str) -> ListedTool:
        await self._read("accept_tool", (name, hash), {})
        return self.tools()[0]

    def halt_state(self) -> HaltState:
        return HaltState(self.halted, 0)

    async def halt(self, reason: str | None, **options: Any) -> HaltState:
        await self._read("halt", (reason,), options)
        return HaltState(True, 1, reason, None, AT)

    async def unhalt(self, **options: Any) -> HaltState:
        await self._read("unhalt", (), options)
        return HaltState(False, 0)

    async def fleet(self) -> FleetView:
        await self._read("fleet", (), {})
        process = Process("agent-1", 7, "0.1.0", AT)
        return FleetView(
            "PostgreSQL 15.8", 0.0008, "ANY 1 (a, b)", 0, 0, [FleetMember("a", process, True, 9.2, 12, 3)]
        )

    def health(self) -> Health:
        server = PartHealth("resources", "connected" if self.ready else "connecting", None)
        return Health(self.ready, (server,), (), PartHealth("journal", "ready"))

    async def readiness(self) -> Health:
        return self.health()

    @contextmanager
    def all_events(self, **options: Any) -> Iterator[AsyncIterator[Watched]]:
        self.calls.append(("all_events", (), options))
        yield self._watched()

    async def _watched(self) -> AsyncGenerator[Watched, None]:
        told = 0
        while True:
            while told < len(self.log):
                yield Announced(self.log[told], "waiting_approval")
                told += 1
            await self._grown.wait()

    async def events(
        self, id: str, after: int = 0, *, deltas: bool = False
    ) -> AsyncGenerator[Event | AnyDelta, None]:
        self.following += 1
        try:
            while True:
                while after < len(self.log):
                    yield self.log[after]
                    self.told = after = after + 1
                if deltas:
                    for delta in self.deltas:
                        yield delta
                if "events" in self.raises:
                    raise self.raises["events"]
                if self.log[-1].type == events.CONVERSATION_DELETED:
                    return
                await self._grown.wait()
        finally:
            self.following -= 1


@asynccontextmanager
async def served(
    agent: Any, authenticator: Authenticator | None = None
) -> AsyncIterator[tuple[HttpServer, httpx2.AsyncClient]]:
    async with (
        open_server(make_app(agent, authenticator=authenticator), bind("127.0.0.1", 0)) as server,
        http_client(
            base_url=server.url,
            verify=False,
            event_hooks={"response": [partial(hold_async, auth=authenticator is not None)]},
        ) as client,
    ):
        yield server, client


InProcess: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[InProcess]:
    """Run a command that ends by itself in this process, in `tmp_path` and without a terminal."""
    monkeypatch.chdir(tmp_path)
    for command in (serve_command, run_command, web_command):
        monkeypatch.setattr(command, "make_undumpable", lambda: None)
    handlers, level, raises = logging.root.handlers[:], logging.root.level, logging.raiseExceptions
    signals = {number: signal.getsignal(number) for number in stops()}
    with open(os.devnull) as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)

        def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
            words = [str(arg) for arg in args]
            return subprocess.CompletedProcess(words, main(words), *capfd.readouterr())

        yield run
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.raiseExceptions = raises
    for number, handler in signals.items():
        signal.signal(number, handler)


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
async def server_and_client(agent: FakeAgent) -> AsyncIterator[tuple[HttpServer, httpx2.AsyncClient]]:
    async with served(agent) as both:
        yield both


@pytest.fixture
def server(server_and_client: tuple[HttpServer, httpx2.AsyncClient]) -> HttpServer:
    return server_and_client[0]


@pytest.fixture
def client(server_and_client: tuple[HttpServer, httpx2.AsyncClient]) -> httpx2.AsyncClient:
    return server_and_client[1]


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Serve another agent than the fake one: ``async with serve(agent) as (server, client)``. An agent with
    `auth:` needs an authenticator."""
    return served


@pytest.fixture
async def raw(server: HttpServer) -> AsyncIterator[Callable[..., Awaitable[trio.SocketStream]]]:
    """Open a bare connection and send bytes; for clients that misbehave."""
    async with AsyncExitStack() as stack:

        async def connect(data: bytes = b"") -> trio.SocketStream:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            await stack.enter_async_context(stream)
            await stream.send_all(data)
            return stream

        yield connect
