"""The registry: one map from tool names to servers, never half changed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs
import pytest

from stopgo.actors.tools.catalogue import Catalogue, DuplicateTool
from stopgo.actors.tools.known import KnownTools
from stopgo.actors.tools.registry import (
    NotFound,
    Register,
    RegistryMessage,
    Resolve,
    Resolved,
    Server,
    Unusable,
    Update,
    registry,
)
from stopgo.actors.tools.slots import Slots
from stopgo.actors.tools.tool import Tool
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.sections.nodes import LlmNode
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.supervision import open_supervisor

SERVERS = ("a", "b", "c", "one", "two", "server-a", "server-b")
CONFIG = AgentConfig(
    agent=LlmNode(name="agent", prompt="", model="m:n"),
    mcp_servers=(
        *(McpServerConfig(name=name, command="none") for name in SERVERS),
        McpServerConfig(name="fs", command="none", expose="server"),
    ),
)


@attrs.define
class Published:
    names: list[tuple[str, ...]] = attrs.field(factory=list)
    refused: Mapping[str, str] = attrs.field(factory=dict)

    def publish(self, catalogue: Catalogue, refused: Mapping[str, str]) -> None:
        self.names.append(tuple(catalogue.entries))
        self.refused = refused


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
async def ref(published: Published) -> AsyncIterator[ActorRef[RegistryMessage]]:
    async with open_supervisor(EventBus()) as supervisor:
        yield await supervisor.start(
            "registry", registry(CONFIG, published.publish, KnownTools(MemoryJournal()))
        )


def tools(server: str, *names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name, "", {}, server) for name in names)


def offer(server: str, *names: str) -> Register:
    nobody: Any = None
    return Register(Server(server, nobody, Slots(1), forwards_bearer=False), tools(server, *names))


async def resolved(
    ref: ActorRef[RegistryMessage], name: str, arguments: Mapping[str, Any], server: str | None = None
) -> tuple[str, str, Mapping[str, Any]]:
    found = await ref.ask(Resolve(name, arguments, server))
    assert isinstance(found, Resolved)
    return found.server.name, found.tool.name, found.arguments


async def missing(ref: ActorRef[RegistryMessage], name: str, server: str | None = None) -> NotFound:
    found = await ref.ask(Resolve(name, {}, server))
    assert isinstance(found, NotFound)
    return found


async def test_a_tool_resolves_to_its_server(ref: ActorRef[RegistryMessage], published: Published) -> None:
    await ref.ask(offer("two", "c"))
    await ref.ask(offer("one", "a", "b"))
    for name, server in (("a", "one"), ("b", "one"), ("c", "two")):
        assert await resolved(ref, name, {"x": 1}) == (server, name, {"x": 1})
    assert published.names[1:] == [("a", "b", "c")]  # in the order of the file, whoever comes first


async def test_a_duplicate_is_refused_in_these_words_and_nothing_of_it_is_kept(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("server-a", "w", "X"))
    with pytest.raises(DuplicateTool) as caught:
        await ref.ask(offer("server-b", "new", "X"))
    assert str(caught.value) == 'duplicate tool name "X" found in MCP servers "server-a" and "server-b"'
    assert await missing(ref, "new") == NotFound("new")
    assert (await resolved(ref, "X", {}))[0] == "server-a"
    assert published.names == [("w", "X")]
    await ref.ask(offer("server-b", "new"))  # it lives on
    assert published.names[-1] == ("w", "X", "new")


async def test_all_duplicates_of_a_server_are_named(ref: ActorRef[RegistryMessage]) -> None:
    await ref.ask(offer("a", "x", "y"))
    await ref.ask(offer("b", "z"))
    with pytest.raises(DuplicateTool) as caught:
        await ref.ask(offer("c", "z", "new", "x"))
    assert sorted(str(caught.value).splitlines()) == [
        'duplicate tool name "x" found in MCP servers "a" and "c"',
        'duplicate tool name "z" found in MCP servers "b" and "c"',
    ]


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("resource_list", "resources_list"),
        ("list_resources", "resources_list"),
        ("Resources_Add", "resources_add"),
    ],
)
async def test_unknown_tool_is_answered_with_the_nearest(
    ref: ActorRef[RegistryMessage], asked: str, nearest: str
) -> None:
    await ref.ask(offer("one", "resources_list", "resources_add", "resources_remove"))
    found = await missing(ref, asked)
    assert nearest in found.nearest
    assert str(found).startswith(f"tool not found: {asked} (nearest: ")


async def test_nothing_is_near_to_something_else_entirely(ref: ActorRef[RegistryMessage]) -> None:
    await ref.ask(offer("one", "resources_list"))
    assert str(await missing(ref, "zzz")) == "tool not found: zzz"
    assert await missing(ref, "") == NotFound("")


# -------------------------------------------------------------------- live lists


async def test_a_server_may_list_other_tools_later(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("a", "x"))
    await ref.ask(offer("b", "y"))
    await ref.ask(Update("a", tools("a", "z", "x")))
    await ref.ask(Update("a", ()))
    assert published.names[-2:] == [("z", "x", "y"), ("y",)]
    assert await missing(ref, "x") == NotFound("x")


async def test_a_list_that_is_the_same_is_no_news(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("a", "x"))
    await ref.ask(Update("a", tools("a", "x")))
    assert len(published.names) == 1


async def test_colliding_list_is_refused_and_published(
    ref: ActorRef[RegistryMessage], published: Published, caplog: pytest.LogCaptureFixture
) -> None:
    await ref.ask(offer("a", "x"))
    await ref.ask(offer("b", "y"))
    with caplog.at_level(logging.WARNING):
        await ref.ask(Update("b", tools("b", "new", "x")))
    reason = 'duplicate tool name "x" found in MCP servers "a" and "b"'
    assert published.names[-1] == ("x", "y")
    assert published.refused == {"b": reason}
    assert reason in caplog.text
    assert (await resolved(ref, "y", {}))[0] == "b"


async def test_refused_list_is_used_when_it_no_longer_collides(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("a", "x"))
    await ref.ask(offer("b", "y"))
    await ref.ask(Update("b", tools("b", "x")))
    await ref.ask(Update("a", tools("a", "q")))
    assert published.names[-1] == ("q", "x")
    assert published.refused == {}
    assert (await resolved(ref, "x", {}))[0] == "b"


async def test_a_server_that_takes_its_change_back_is_as_before(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("a", "x"))
    await ref.ask(offer("b", "y"))
    await ref.ask(Update("b", tools("b", "x")))
    await ref.ask(Update("b", tools("b", "y")))
    assert (published.names[-1], published.refused) == (("x", "y"), {})


# ------------------------------------------------------- of one server, on record


async def test_recorded_call_is_resolved_only_at_its_server(ref: ActorRef[RegistryMessage]) -> None:
    await ref.ask(offer("a", "x"))
    await ref.ask(offer("b", "y"))
    assert await resolved(ref, "x", {}, "a") == ("a", "x", {})
    assert await resolved(ref, "mcp__a__x", {}, "a") == ("a", "x", {})
    assert await missing(ref, "x", "b") == NotFound("x")
    assert await missing(ref, "x", "gone") == NotFound("x")


# --------------------------------------------------------------- a server as one


async def test_a_call_of_a_server_as_one_is_one_of_its_tool(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("a", "read"))
    await ref.ask(offer("fs", "read", "write"))
    assert published.names[-1] == ("read", "mcp_fs")
    assert await resolved(ref, "read", {}) == ("a", "read", {})
    call = {"tool": "read", "arguments": {"path": "/x"}}
    assert await resolved(ref, "mcp_fs", call) == ("fs", "read", {"path": "/x"})
    assert await resolved(ref, "mcp_fs", {"tool": "write"}) == ("fs", "write", {})
    assert await resolved(ref, "write", {"path": "/y"}, "fs") == ("fs", "write", {"path": "/y"})
    assert await missing(ref, "write") == NotFound("write", ("mcp_fs",))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, '"mcp_fs" needs the name of a tool'),
        ({"tool": ""}, '"mcp_fs" needs the name of a tool'),
        ({"tool": 1}, '"mcp_fs" needs the name of a tool'),
        ({"tool": "read", "arguments": ["/x"]}, 'the arguments of "read" must be an object'),
        ({"tool": "read", "path": "/x"}, '"mcp_fs" does not know "path"'),
    ],
)
async def test_a_call_of_a_server_as_one_that_makes_no_sense(
    ref: ActorRef[RegistryMessage], arguments: Mapping[str, Any], problem: str
) -> None:
    await ref.ask(offer("fs", "read"))
    found = await ref.ask(Resolve("mcp_fs", arguments))
    assert isinstance(found, Unusable)
    assert found.problem == f'{problem}; it takes {{"tool": NAME, "arguments": {{...}}}}'


@pytest.mark.parametrize("inner", ["raed", "mcp_fs"])
async def test_a_server_as_one_has_only_its_own_tools(ref: ActorRef[RegistryMessage], inner: str) -> None:
    await ref.ask(offer("a", "other"))
    await ref.ask(offer("fs", "read"))
    found = await ref.ask(Resolve("mcp_fs", {"tool": inner, "arguments": {"tool": "read"}}))
    assert isinstance(found, NotFound)
    assert str(found).startswith(f"tool not found: {inner} of mcp_fs")
