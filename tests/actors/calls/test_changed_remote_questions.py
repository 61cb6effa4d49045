"""A question of another agent is decided as it was shown: it is asked again if the agent changes it, and it
cannot be approved if a part of it is not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

import attrs
import pytest
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.tools.delegation import (
    CancelRemote,
    Delegate,
    Delegated,
    LookAt,
    RemoteAgentMessage,
    RemoteAgentStatus,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from stopgo.actors.tools.tool import ToolResult
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.runtime.context import Behaviour, Context
from tests.actors.world import World, answer, call, say, use

WHY = "it cannot be shown whole (arguments)"


@attrs.define(eq=False)
class Peer:
    """Another agent, whose task asks one question."""

    item: RemoteItem
    brought: list[Any] = attrs.field(factory=list)

    def open(self, config: RemoteAgentConfig, *, report: Any) -> Behaviour[RemoteAgentMessage]:
        async def handle(message: RemoteAgentMessage) -> Any:
            match message:
                case Delegate():
                    return self._delegate(message)
                case LookAt(shown=shown):
                    return None if shown == self.item.digest else "it has changed its question"
                case CancelRemote():
                    return None
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
            report(RemoteAgentStatus("reached"))
            await ctx.serve(handle, concurrency=4)

        return behaviour

    def _delegate(self, message: Delegate) -> Delegated:
        assert message.on_accepted is not None
        message.on_accepted(RemoteTask("task", "context"))
        for each in message.answers:
            self.brought.append((each.words.get("approved"), each.shown))
            return Delegated(ToolResult("done"))
        raise RemoteInputRequired([self.item], {})


def asks(path: str, **more: Any) -> RemoteItem:
    return RemoteItem(message="m", id="i", kind="tool", tool="rm", arguments={"path": path}, **more)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.settings["a2a"] = [{"name": "peer", "url": "http://127.0.0.1:3"}]
    world.plan("agent", use(call("a2a_peer", message="ask")), say("done"))
    return world


async def begun(agent: Agent) -> str:
    [first] = (await agent.start_conversation("go")).conversation.head.pending
    return first


@pytest.mark.parametrize("decides", [False, True], ids=["at a check", "at a decision"])
async def test_changed_question_is_asked_again(
    world: World, autojump_clock: MockClock, decides: bool
) -> None:
    peer = Peer(asks("/tmp"))
    world.open_remote_agent = peer.open
    async with world.agent() as agent:
        first = await begun(agent)
        peer.item = asks("/")
        if decides:
            with pytest.raises(AgentError) as refused:
                await agent.decide(first, {"approved": True})
            assert refused.value.code == "void"
        id = (await agent.approval(first)).conversation_id
        async for _ in agent.events(id):
            pending = (await agent.get(id)).head.pending
            if pending and pending != (first,):
                break
        [second] = pending
        again = await agent.approval(second)
        assert (again.replaces, again.tool_args) == (first, {"path": "/"})
        assert (await agent.approval(first)).state == "void"
        assert answer(await agent.decide(second, {"approved": True})).state == "finished"
    assert peer.brought == [(True, peer.item.digest)]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (asks("/", unshown=WHY), {"approved": True}),
        (asks("/", unshown=WHY), {"approved": True, "arguments": {"path": "/tmp"}}),
        (attrs.evolve(asks("/", unshown=WHY), kind=""), {"action": "approve"}),
        (attrs.evolve(asks("/", unshown=WHY), kind="outcome_unknown"), {"action": "retry"}),
    ],
)
async def test_question_that_is_not_shown_whole_cannot_be_approved(
    world: World, autojump_clock: MockClock, item: RemoteItem, words: dict[str, Any]
) -> None:
    peer = Peer(item)
    world.open_remote_agent = peer.open
    no = {"action": "failed"} if item.kind == "outcome_unknown" else {"approved": False}
    async with world.agent() as agent:
        first = await begun(agent)
        assert WHY in (await agent.approval(first)).description
        with pytest.raises(AgentError, match="cannot be approved: it cannot be shown whole") as refused:
            await agent.decide(first, words)
        assert refused.value.code == "may_not_approve"
        assert answer(await agent.decide(first, no)).state == "finished"
    assert [approved for approved, _ in peer.brought] == [no.get("approved")]
