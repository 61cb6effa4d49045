"""Admission: a tool server refuses connections without a token, and the token of a run admits the agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import ModelReply, ModelRequest
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.tool import (
    Authenticate,
    CallTool,
    ListTools,
    ServerMessage,
    Tool,
    ToolAuthRequired,
    ToolResult,
)
from stopgo.config.sections.mcp import McpServerConfig
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
    """A world whose server `locked` accepts connections and calls only with a good token."""

    offered_tokens: list[str]
    """The tokens that were offered for the connection."""
    require_token: Callable[[], None]
    """End the connection; the server then requires a token again."""

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

        def require_token() -> None:
            report(ServerStatus("locked", "auth_required", "HTTP 401", listed, wanted=WANTED))

        self.require_token = require_token
        require_token()

        async def handle(message: ServerMessage) -> Any:
            nonlocal listed
            match message:
                case Authenticate(bearer=bearer):
                    self.offered_tokens.append(bearer)
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
    world.offered_tokens = []
    world.settings["mcp_servers"] = [
        {"name": "locked", "url": "http://127.0.0.1:1/mcp"},
        {"name": "open", "command": "none"},
    ]
    world.tool("look", READ_ONLY, server="locked")
    world.tool("wipe", DESTRUCTIVE, server="locked")
    world.tool("local", HARMLESS, server="open")
    return world


async def test_run_waits_for_the_token_of_a_required_server(
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
    async with locked.agent() as agent:  # the restart loses no token, because the run had none
        assert answer(await agent.resume(id, token=BAD)).auth == WANTED.to_json()
        assert locked.requests == []
        assert answer(await agent.resume(id, token=GOOD)).response == "done"
        turn = await agent.start_conversation("anonymously")
        assert answer(turn).state == "auth_required"  # the tools are listed, but the call needs a token
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
    """The run has a token, so it does not wait for one."""
    locked.settings["agent"] = sequential("root", llm("first"), llm("second"))

    async def require_token(_: ModelRequest) -> ModelReply:
        locked.require_token()
        return say("lost")

    locked.plan("first", require_token)
    async with locked.agent() as agent:
        assert answer(await agent.start_conversation("go", token=GOOD)).response == "second done"
    assert locked.offered_tokens == [GOOD, GOOD]


async def test_tools_are_listed_after_the_first_good_token(locked: Locked, autojump_clock: MockClock) -> None:
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
        assert locked.offered_tokens == [BAD]
        turn = await agent.send(id, "three", token=GOOD)
        assert answer(turn).response == "done"
        assert sorted(each.tool.name for each in agent.tools()) == ["local", "look", "wipe"]
        await agent.send(id, "four", token="tok-good-of-another")
    assert locked.offered_tokens == [BAD, GOOD]
    offered = [sorted(tool.name for tool in request.tools) for request in locked.requests]
    assert offered[:3] == [["local"], ["local"], ["local", "look", "wipe"]]
    assert locked.ledger == [("look", {})]


async def test_approved_call_waits_for_the_token_lost_in_a_restart(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.plan("agent", use(call("wipe"), call("local")), say("done"))
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go", token=GOOD)
        id, [question] = turn.conversation.id, turn.conversation.head.pending
    async with locked.agent() as agent:  # the restart loses the token and the tool list
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


async def test_call_with_a_refused_token_resumes_after_a_restart(
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


async def test_decision_with_a_token_sends_the_approved_call_after_a_restart(
    locked: Locked, autojump_clock: MockClock
) -> None:
    locked.plan("agent", use(call("wipe"), call("look")), say("done"))
    locked.settings["tools"] = {"max_parallel": 1}
    async with locked.agent() as agent:
        turn = await agent.start_conversation("go", token=GOOD)
        [question] = turn.conversation.head.pending
    async with locked.agent() as agent:
        turn = await agent.decide(question, {"approved": True}, token=GOOD)
    assert answer(turn).response == "done"
    assert sorted(name for name, _ in locked.ledger) == ["look", "wipe"]


async def test_model_call_waits_for_the_token_lost_in_a_restart(
    locked: Locked, autojump_clock: MockClock
) -> None:
    """Otherwise the model would be offered fewer tools than before."""
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


async def test_node_without_the_locked_server_waits_for_no_token(
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
