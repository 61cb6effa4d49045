"""Calls through `ToolCaller`, without a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import attrs
import mcp_types as types
import pytest
import trio
from mcp import MCPError
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp.caller import STATE_PAUSES, ToolCaller
from stopgo.actors.mcp.session import CurrentLink, Link
from stopgo.actors.mcp.transports.in_flight import InFlightCalls, note_withdrawal
from stopgo.actors.mcp.wire.requests import Outgoing, Requester
from stopgo.actors.mcp.wire.tool_calls import ToolCalls
from stopgo.actors.mcp.wire.wire import MAX_QUESTIONS, tool_from_wire
from stopgo.actors.tools.tool import (
    CallTool,
    ElicitationAnswer,
    Hints,
    Progress,
    Tool,
    ToolChanged,
    ToolInputRequired,
    ToolOutcomeUnknown,
    ToolUnavailable,
)
from stopgo.config.sections.mcp import McpServerConfig

ERA = "2026-07-28"
DECLARED = types.ServerCapabilities(tools=types.ToolsCapability())


def schema(header: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}


@attrs.define
class Strict:
    """Accepts a call only with the header of its latest list."""

    header: str
    tried: list[set[str]] = attrs.field(factory=list)

    async def list_tools(self, cursor: str | None = None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="move", input_schema=schema(self.header))])

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        self.tried.append({name.lower() for name in outgoing.headers})
        if f"mcp-param-{self.header.lower()}" not in self.tried[-1]:
            raise MCPError(types.HEADER_MISMATCH, "the header is missing")
        return DONE

    def listed(self) -> Tool:
        return tool_from_wire(types.Tool(name="move", input_schema=schema(self.header)), "web")


@attrs.define
class Stubborn:
    """Gives the answers of a list in order, the last one repeatedly."""

    says: list[dict[str, Any]]
    asked: list[Mapping[str, Any]] = attrs.field(factory=list)

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        self.asked.append(outgoing.params)
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]


@attrs.define
class Refusing(Stubborn):
    """Answers with the error that names URLs to visit (MCP 2025-11-25)."""

    data: object = None

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        raise MCPError(types.URL_ELICITATION_REQUIRED, "visit these first", self.data)


VISIT = {"mode": "url", "message": "m", "url": "https://example.org", "elicitationId": "e"}
DONE = {"content": [{"type": "text", "text": "moved"}]}


def again(state: str) -> dict[str, Any]:
    return {"resultType": "input_required", "requestState": state}


def calling(server: Strict | Requester) -> ToolCaller:
    link, line = Link(InFlightCalls(logging.getLogger("test")), version=ERA), CurrentLink()
    link.tool_calls = ToolCalls(server, ERA)
    if isinstance(server, Strict):
        link.client = cast(Any, SimpleNamespace(list_tools=server.list_tools, server_capabilities=DECLARED))
        line.tools = (server.listed(),)
    link.tool_calls.set_tools(line.tools)
    line.open(link)

    async def authenticate(bearer: str) -> None:
        raise AssertionError

    return ToolCaller(McpServerConfig(name="web", url="http://127.0.0.1:1/mcp"), line, authenticate)


async def test_call_with_outdated_headers_is_repeated() -> None:
    server = Strict("Region")
    caller = calling(server)
    server.header = "Area"
    assert (await caller.call(CallTool("move", {"region": "eu"}))).content == "moved"
    assert ["mcp-param-area" in each for each in server.tried] == [False, True]


async def test_call_is_retried_after_hints_became_stricter() -> None:
    server = Strict("Region")
    shown = attrs.evolve(server.listed(), hints=Hints(destructive=True))
    assert (await calling(server).call(CallTool("move", {"region": "eu"}, shown=shown))).content == "moved"


async def test_call_is_not_retried_after_tool_definition_changes() -> None:
    server = Strict("Region")
    caller, shown = calling(server), server.listed()
    server.header = "Area"
    with pytest.raises(ToolChanged, match="nothing was sent"):
        await caller.call(CallTool("move", {"region": "eu"}, shown=shown))
    assert len(server.tried) == 1


@pytest.mark.parametrize("known", ["stale", "listing"])
async def test_call_is_not_sent_to_a_tool_that_has_announced_a_change(known: str) -> None:
    """The owner of the connection lists the tools later, or is about to (MCP 2025-11-25, "List Changed
    Notification")."""
    server = Strict("Region")
    caller, shown = calling(server), server.listed()
    link = caller._current.link
    assert link is not None
    setattr(link, known, True)
    assert (await caller.call(CallTool("move", {"region": "eu"}, shown=shown))).content == "moved"
    server.header = "Area"
    with pytest.raises(ToolChanged, match="nothing was sent"):
        await caller.call(CallTool("move", {"region": "eu"}, shown=shown))
    assert len(server.tried) == 1


@attrs.define
class Silent(Strict):
    """It does not list its tools any more."""

    async def list_tools(self, cursor: str | None = None) -> types.ListToolsResult:
        raise MCPError(types.INTERNAL_ERROR, "not now")


async def test_call_is_not_sent_if_changed_tools_are_not_listed() -> None:
    server = Silent("Region")
    caller, shown = calling(server), server.listed()
    assert caller._current.link is not None
    caller._current.link.refresh()
    with pytest.raises(ToolUnavailable, match="nothing was sent"):
        await caller.call(CallTool("move", {"region": "eu"}, shown=shown))
    assert server.tried == []


@attrs.define
class Emptied(Strict):
    """Its list of tools has become empty."""

    async def list_tools(self, cursor: str | None = None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])


async def test_call_is_not_retried_after_its_tool_is_removed() -> None:
    server = Emptied("Region")
    caller, shown = calling(server), server.listed()
    server.header = "Area"
    with pytest.raises(ToolChanged, match="nothing was sent"):
        await caller.call(CallTool("move", {"region": "eu"}, shown=shown))
    assert len(server.tried) == 1


class Forgetful(Strict):
    async def list_tools(self, cursor: str | None = None) -> types.ListToolsResult:
        raise MCPError(types.INTERNAL_ERROR, "out of order")


async def test_header_mismatch_stands_if_listing_fails() -> None:
    caller = calling(server := Forgetful("Region"))
    server.header = "Area"
    result = await caller.call(CallTool("move", {"region": "eu"}))
    assert (result.is_error, result.content) == (True, "the header is missing")
    assert len(server.tried) == 1


async def test_call_is_repeated_with_the_servers_state(autojump_clock: MockClock) -> None:
    server = Stubborn([again("first"), again("second"), DONE])
    call = CallTool("move", {"region": "eu"}, answers={"a": ElicitationAnswer("decline")}, state="before")
    assert (await calling(server).call(call)).content == "moved"
    assert [asked["requestState"] for asked in server.asked] == ["before", "first", "second"]
    assert ["inputResponses" in asked for asked in server.asked] == [True, False, False]
    assert trio.current_time() == pytest.approx(sum(STATE_PAUSES[:2]))


async def test_call_is_not_repeated_forever(autojump_clock: MockClock) -> None:
    server = Stubborn([again("never")])
    result = await calling(server).call(CallTool("move", {"region": "eu"}))
    assert result.is_error
    assert "kept asking for another retry" in result.content
    assert len(server.asked) == len(STATE_PAUSES) + 1


def question(method: str) -> dict[str, Any]:
    form = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    sampled: dict[str, Any] = {"messages": [], "maxTokens": 1}
    return {"method": method, "params": form if method == "elicitation/create" else sampled}


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (["elicitation/create", "sampling/createMessage"], "asks for sampling/createMessage, which"),
        (["elicitation/create"] * (MAX_QUESTIONS + 1), f"asks {MAX_QUESTIONS + 1} questions at once"),
    ],
)
async def test_prerequisites_not_offered_are_an_error(methods: list[str], said: str) -> None:
    requests = {str(number): question(method) for number, method in enumerate(methods)}
    server = Stubborn([{"resultType": "input_required", "inputRequests": requests}])
    result = await calling(server).call(CallTool("move", {}))
    assert result.is_error
    assert said in result.content


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"elicitations": []},
        {"elicitations": [{"mode": "url"}]},
        {"elicitations": [VISIT] * (MAX_QUESTIONS + 1)},
    ],
)
async def test_invalid_or_too_many_urls_are_an_ordinary_error(data: Any) -> None:
    result = await calling(Refusing([], data=data)).call(CallTool("move", {}))
    assert (result.is_error, result.content) == (True, "visit these first")


async def test_urls_to_visit_are_prerequisites() -> None:
    with pytest.raises(ToolInputRequired) as caught:
        await calling(Refusing([], data={"elicitations": [VISIT]})).call(CallTool("move", {}))
    assert [each.url for each in caught.value.requests.values()] == ["https://example.org"]


class Noting(Stubborn):
    """Records the events of a call that came before its request."""

    noted: Noted

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        self.asked.append({"said": list(self.noted.said)})
        return self.says[0]


@attrs.define
class Noted:
    said: list[str] = attrs.field(factory=list)

    def sent(self) -> None:
        self.said.append("sent")

    def __call__(self, _: Progress) -> None:
        raise AssertionError


async def test_on_sent_is_called_when_the_call_is_sent(autojump_clock: MockClock) -> None:
    server, noted = Noting([DONE]), Noted()
    server.noted = noted
    caller = calling(server)
    link = caller._current.link
    assert link is not None
    caller._current.close(link)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caller.call, CallTool("move", {}, on_sent=noted.sent, on_progress=noted))
        await wait_all_tasks_blocked()
        assert noted.said == []
        caller._current.open(link)
    assert server.asked == [{"said": ["sent"]}]


async def test_withdrawn_call_is_not_sent() -> None:
    server, noted = Noting([DONE]), Noted()
    server.noted = noted
    caller = calling(server)
    with trio.CancelScope() as scope:
        scope.cancel()
        await caller.call(CallTool("move", {}, on_sent=noted.sent, on_progress=noted))
    assert (server.asked, noted.said) == ([], [])


class Congested(Stubborn):
    """Stops reading after all answers but the last."""

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        if len(self.says) > 1:
            return await super().request(outgoing)
        try:
            await trio.sleep_forever()
        finally:
            note_withdrawal()


async def test_call_unsent_at_timeout_is_unavailable(autojump_clock: MockClock) -> None:
    with pytest.raises(ToolUnavailable, match="read nothing for 60 s; nothing was sent"):
        await calling(Congested([DONE])).call(CallTool("move", {}))
    assert trio.current_time() == 60  # and is not made again


async def test_repeated_call_unsent_at_timeout_is_unknown(autojump_clock: MockClock) -> None:
    with pytest.raises(ToolOutcomeUnknown, match="timed out after 60 s"):
        await calling(Congested([again("half done"), DONE])).call(CallTool("move", {}))


class Broken(Strict):
    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        raise TypeError("no such thing: secret")


async def test_unexpected_exception_fails_one_call(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ToolOutcomeUnknown, match=r'^MCP server "web" failed: TypeError$'):
        await calling(Broken("Region")).call(CallTool("move", {}))
    assert "a call failed unexpectedly" in caplog.text
