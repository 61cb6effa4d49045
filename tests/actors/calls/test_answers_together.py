"""Questions of agents of other makes: their answers are brought together, when the last one is settled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

import attrs
import pytest
from trio.testing import MockClock

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


@attrs.define(eq=False)
class Peer:
    """Another agent, whose task asks two questions at once."""

    form: str
    brought: list[list[tuple[str | None, Any]]] = attrs.field(factory=list)

    def open(
        self, config: RemoteAgentConfig, *, report: Callable[[RemoteAgentStatus], None]
    ) -> Behaviour[RemoteAgentMessage]:
        async def handle(message: RemoteAgentMessage) -> Any:
            match message:
                case Delegate():
                    return self._delegate(message)
                case CancelRemote() | LookAt():
                    return None
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
            await ctx.serve(handle, concurrency=4)

        return behaviour

    def _delegate(self, message: Delegate) -> Delegated:
        assert message.on_accepted is not None
        message.on_accepted(RemoteTask("task", "context"))
        self.brought.append([(each.item.id, each.words.get("approved")) for each in message.answers])
        settled = {id for each in self.brought for id, _ in each}
        left = [RemoteItem(message="m", id=id, form=self.form) for id in ("a", "b") if id not in settled]
        if left:
            raise RemoteInputRequired(left, {})
        return Delegated(ToolResult("done"))


@pytest.mark.parametrize(
    ("form", "brought"),
    [("adk", [[], [("a", False), ("b", True)]]), ("", [[], [("a", False)], [("b", True)]])],
    ids=["together", "one by one"],
)
@pytest.mark.parametrize("restart", [False, True])
async def test_answers_are_brought(
    tmp_path: Path, autojump_clock: MockClock, form: str, brought: list[Any], restart: bool
) -> None:
    world, peer = World(tmp_path), Peer(form)
    world.open_remote_agent = peer.open
    world.settings["a2a"] = [{"name": "peer", "url": "http://127.0.0.1:3"}]
    world.plan("agent", use(call("a2a_peer", message="ask")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        first, second = turn.conversation.head.pending
        half = await agent.decide(first, {"approved": False})
        assert answer(half).state == "waiting"
        if not restart:
            assert answer(await agent.decide(second, {"approved": True})).state == "finished"
    if restart:
        async with world.agent() as agent:
            assert answer(await agent.decide(second, {"approved": True})).state == "finished"
    assert peer.brought == brought
