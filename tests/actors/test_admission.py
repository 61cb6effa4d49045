"""A server that lists its tools to nobody unknown: they are there from the first token on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.models.messages import ModelReply, ModelRequest
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.server_status import ServerStatus
from stopgo.actors.tools.tool import (
    Authenticate,
    CallTool,
    ListTools,
    ServerMessage,
    Tool,
    ToolAuthRequired,
    ToolResult,
)
from stopgo.config.mcp import McpServerConfig
from stopgo.runtime.context import Behaviour, Context
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    World,
    answer,
    call,
    llm,
    say,
    sequential,
    use,
)

GOOD, BAD = "tok-good-1", "tok-bad-2"
WANTED = Wanted("locked", 401, "Bearer")


class Locked(World):
    """Its server `locked` connects with a good token only, and takes calls with one only."""

    shown: list[str]
    """Tokens it was shown for the connection."""
    lose: Callable[[], None]
    """Have it want another token for the connection."""

    def open_server(
        self, config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        if config.name != "locked":
            return super().open_server(config, report=report)
        tools = tuple(tool for tool, _ in self.tools.values() if tool.server == "locked")
        return lambda ctx: self._serve(ctx, tools, report)

    async def _serve(
        self, ctx: Context[ServerMessage], tools: tuple[Tool, ...], report: Callable[[ServerStatus], None]
    ) -> None:
        listed: tuple[Tool, ...] = ()

        def lose() -> None:
            report(ServerStatus("locked", "auth_required", "HTTP 401", listed, wanted=WANTED))

        self.lose = lose
        lose()

        async def handle(message: ServerMessage) -> Any:
            nonlocal listed
            match message:
                case Authenticate(bearer=bearer):
                    self.shown.append(bearer)
                    if bearer.startswith("tok-good"):
                        listed = tools
                        report(ServerStatus("locked", "connected", None, listed))
                    return None
                case ListTools():
                    return listed
                case CallTool():
                    return await self._call(message)

        await ctx.serve(handle, concurrency=16)

    async def _call(self, message: CallTool) -> ToolResult:
        if message.tool != "local" and not (message.bearer or "").startswith("tok-good"):
            raise ToolAuthRequired("HTTP 401", status=401)
        return await super()._call(message)


@pytest.fixture
def locked(tmp_path: Path) -> Locked:
    world = Locked(tmp_path)
    world.shown = []
    world.settings["mcp_servers"] = [
        {"name": "locked", "url": "http://127.0.0.1:1/mcp"},
        {"name": "open", "command": "none"},
    ]
    world.tool("look", READ_ONLY, server="locked")
    world.tool("wipe", DESTRUCTIVE, server="locked")
    world.tool("local", HARMLESS, server="open")
    return world


async def test_a_run_waits_for_the_token_that_a_required_server_wants(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.plan("agent", use(call("look")), say("done"))
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go")
        id, result = turn.conversation.id, answer(turn)
        assert (result.state, result.auth, result.code) == (
            "auth_required",
            WANTED.to_json(),
            "auth_required",
        )
        assert '"locked"' in result.response
        assert agent.health().ready
    async with locked.agent() as agent:  # a run that never had a token has lost none
        assert answer(await agent.resume(id, token=BAD)).auth == WANTED.to_json()
        assert locked.requests == []
        assert answer(await agent.resume(id, token=GOOD)).response == "done"
        assert answer(await agent.start_conversation("anonymously")).state == "auth_required"  # its call is
    assert [sorted(tool.name for tool in request.tools) for request in locked.requests] == [
        ["local", "look", "wipe"]
    ] * 3


async def test_only_nodes_with_a_required_server_wait_for_its_token(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.settings["agent"] = sequential("root", llm("first", mcp_servers=["open"]), llm("second"))
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go")
        assert answer(turn).state == "auth_required"
        assert [request.node for request in locked.requests] == ["first"]
        assert answer(await agent.resume(turn.conversation.id, token=GOOD)).response == "second done"


async def test_reconnected_server_gets_the_token_of_the_run(
    locked: Locked, autojump_clock: MockClock
) -> None:
    """Nobody is asked for a token that the run has."""
    locked.settings["agent"] = sequential("root", llm("first"), llm("second"))

    async def lose(_: ModelRequest) -> ModelReply:
        locked.lose()
        return say("lost")

    locked.plan("first", lose)
    async with locked.agent() as agent:
        assert answer(await agent.start_conversation("go", token=GOOD)).response == "second done"
    assert locked.shown == [GOOD, GOOD]


async def test_tools_appear_with_the_first_token(locked: Locked, autojump_clock: MockClock) -> None:
    locked.plan("agent", say("hello"), turn=1)
    locked.plan("agent", say("hello"), turn=2)
    locked.plan("agent", use(call("look")), say("done"), turn=3)
    locked.settings["mcp_servers"][0]["required"] = False
    async with locked.agent() as agent:
        health = agent.health()
        assert health.ready
        assert ("locked", "auth_required") in [(each.name, each.state) for each in health.servers]
        id = (await agent.start_conversation("one")).conversation.id
        await agent.send(id, "two", token=BAD)
        assert [each.tool.name for each in agent.tools()] == ["local"]
        assert locked.shown == [BAD]
        turn = await agent.send(id, "three", token=GOOD)
        assert answer(turn).response == "done"
        assert sorted(each.tool.name for each in agent.tools()) == ["local", "look", "wipe"]
        await agent.send(id, "four", token="tok-good-of-another")
    assert locked.shown == [BAD, GOOD]
    offered = [sorted(tool.name for tool in request.tools) for request in locked.requests]
    assert offered[:3] == [["local"], ["local"], ["local", "look", "wipe"]]
    assert locked.ledger == [("look", {})]


async def test_an_approved_call_waits_for_the_token_that_shows_its_tool(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.plan("agent", use(call("wipe"), call("local")), say("done"))
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go", token=GOOD)
        id, [question] = turn.conversation.id, turn.conversation.head.pending
    async with locked.agent() as agent:  # the token is gone, and so are the tools
        turn = await agent.decide(question, {"approved": True})
        result = answer(turn)
        assert (result.state, result.auth) == ("auth_required", WANTED.to_json())
        assert locked.ledger == [("local", {})]
        turn = await agent.resume(id, token=BAD)
        assert answer(turn).state == "auth_required"
        turn = await agent.resume(id, token=GOOD)
        assert answer(turn).response == "done"
    assert locked.ledger == [("local", {}), ("wipe", {})]
    assert len(locked.requests) == 2


async def test_a_refused_call_goes_on_after_a_restart_of_both(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.plan("agent", use(call("look")), say("done"))
    async with locked.agent() as agent:
        await agent.start_conversation("let it in", token=GOOD)
        turn = await agent.start_conversation("go", token=BAD)
        assert answer(turn).state == "auth_required"
    async with locked.agent() as agent:
        turn = await agent.resume(turn.conversation.id, token=GOOD)
    assert answer(turn).response == "done"
    assert locked.called("look") == 2


async def test_a_call_that_was_only_wanted_when_the_process_ended_is_still_made(
    locked: Locked, autojump_clock: MockClock
) -> None:
    """Nothing says whose tool it is, but that the run had a token."""
    locked.plan("agent", use(call("wipe"), call("look")), say("done"))
    locked.settings["tools"] = {"max_parallel": 1}
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go", token=GOOD)
        [question] = turn.conversation.head.pending
    async with locked.agent() as agent:
        turn = await agent.decide(question, {"approved": True}, token=GOOD)
    assert answer(turn).response == "done"
    assert sorted(name for name, _ in locked.ledger) == ["look", "wipe"]


async def test_a_model_is_not_asked_with_fewer_tools_than_before(
    locked: Locked, autojump_clock: MockClock
) -> None:
    """The process ends after a call, and with it the token."""
    locked.plan("agent", use(call("wipe")), say("done"), turn=1)
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go", token=GOOD)
        id, [question] = turn.conversation.id, turn.conversation.head.pending
    async with locked.agent() as agent:
        turn = await agent.decide(question, {"approved": False, "reason": "no"})
        assert answer(turn).state == "auth_required"
        assert len(locked.requests) == 1
        assert answer(await agent.resume(id, token=GOOD)).response.endswith("done")
    first, second = (sorted(tool.name for tool in request.tools) for request in locked.requests)
    assert first == second == ["local", "look", "wipe"]


async def test_a_node_that_does_not_see_a_locked_server_does_not_wait_for_its_token(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.plan("agent", use(call("local")), say("done"))
    locked.settings["agent"] = {"type": "llm", "name": "agent", "prompt": "Do.", "mcp_servers": ["open"]}
    locked.settings["approval"] = {"rules": [{"tool": "local", "then": "ask"}]}
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go", token=BAD)
        [question] = turn.conversation.head.pending
    async with locked.agent() as agent:
        assert answer(await agent.decide(question, {"approved": True})).response == "done"


async def test_unknown_tool_waits_for_no_token(locked: Locked, autojump_clock: MockClock) -> None:
    locked.plan("agent", use(call("nonsense")), say("done"))
    locked.settings["mcp_servers"][0]["required"] = False
    async with locked.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "done"
        assert answer(await agent.start_conversation("go", token=BAD)).response == "done"
        assert answer(await agent.start_conversation("go", token=GOOD)).response == "done"
