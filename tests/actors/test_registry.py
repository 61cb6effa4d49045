"""The registry: one map from tool names to servers, never half changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stopgo.actors.registry import (
    DuplicateTool,
    NotFound,
    Register,
    RegistryMessage,
    Resolve,
    Resolved,
    Server,
    registry,
)
from stopgo.actors.slots import Slots
from stopgo.actors.tools import Tool
from stopgo.runtime.events import EventBus
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.supervisor import open_supervisor

Published = list[tuple[str, ...]]


@pytest.fixture
def published() -> Published:
    return []


@pytest.fixture
async def ref(published: Published) -> AsyncIterator[ActorRef[RegistryMessage]]:
    def publish(tools: tuple[Tool, ...]) -> None:
        published.append(tuple(tool.name for tool in tools))

    async with open_supervisor(EventBus()) as supervisor:
        yield await supervisor.start("registry", registry(publish))


def offer(server: str, *names: str) -> Register:
    nobody: Any = None
    return Register(
        Server(server, nobody, Slots(1), forwards_bearer=False),
        tuple(Tool(name, "", {}, server) for name in names),
    )


async def test_a_tool_resolves_to_its_server(ref: ActorRef[RegistryMessage], published: Published) -> None:
    await ref.ask(offer("one", "a", "b"))
    await ref.ask(offer("two", "c"))
    for name, server in (("a", "one"), ("b", "one"), ("c", "two")):
        found = await ref.ask(Resolve(name))
        assert isinstance(found, Resolved)
        assert (found.tool.name, found.server.name) == (name, server)
    assert published == [("a", "b"), ("a", "b", "c")]


async def test_a_duplicate_is_refused_in_these_words_and_nothing_of_it_is_kept(
    ref: ActorRef[RegistryMessage], published: Published
) -> None:
    await ref.ask(offer("server-a", "w", "X"))
    with pytest.raises(DuplicateTool) as caught:
        await ref.ask(offer("server-b", "new", "X"))
    assert str(caught.value) == 'duplicate tool name "X" found in MCP servers "server-a" and "server-b"'
    missing = await ref.ask(Resolve("new"))
    assert isinstance(missing, NotFound)
    found = await ref.ask(Resolve("X"))
    assert isinstance(found, Resolved)
    assert found.server.name == "server-a"
    assert published == [("w", "X")]
    await ref.ask(offer("server-b", "new"))  # it lives on
    assert published[-1] == ("w", "X", "new")


async def test_all_duplicates_of_a_server_are_named(ref: ActorRef[RegistryMessage]) -> None:
    await ref.ask(offer("a", "x", "y"))
    await ref.ask(offer("b", "z"))
    with pytest.raises(DuplicateTool) as caught:
        await ref.ask(offer("c", "z", "new", "x"))
    assert str(caught.value).splitlines() == [
        'duplicate tool name "z" found in MCP servers "b" and "c"',
        'duplicate tool name "x" found in MCP servers "a" and "c"',
    ]


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("resource_list", "resources_list"),
        ("list_resources", "resources_list"),
        ("Resources_Add", "resources_add"),
    ],
)
async def test_what_is_not_there_is_answered_with_the_nearest(
    ref: ActorRef[RegistryMessage], asked: str, nearest: str
) -> None:
    await ref.ask(offer("one", "resources_list", "resources_add", "resources_remove"))
    found = await ref.ask(Resolve(asked))
    assert isinstance(found, NotFound)
    assert nearest in found.nearest


async def test_nothing_is_near_to_something_else_entirely(ref: ActorRef[RegistryMessage]) -> None:
    await ref.ask(offer("one", "resources_list"))
    assert await ref.ask(Resolve("zzz")) == NotFound(())
    assert await ref.ask(Resolve("")) == NotFound(())
