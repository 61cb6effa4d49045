"""Faults that need real connections: refused, dropped, stale, and closed after a cancellation."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.conversation.result import Result
from tests.providers.servers.http import Drop, Pause
from tests.providers.servers.model_server import Broken, Fault, ModelServer, Place, Raw, Slow, open_servers
from tests.providers.story import Story
from tests.providers.test_faults import ADDED, ROWS, SENTENCE

QUICK = {"openai"}
SLOW = {"openai", "responses", "azure", "azure_responses"}
"""Their newest models reason for long."""


def kinds() -> list[object]:
    return [
        pytest.param(kind, id=kind, marks=() if kind in QUICK else pytest.mark.providers) for kind in ROWS
    ]


@asynccontextmanager
async def story_of(folder: Path, kind: str, *, stream: bool) -> AsyncIterator[tuple[Story, ModelServer]]:
    async with open_servers(kind) as servers:
        yield Story(folder, servers=servers, llm={"stream": stream}), servers[kind]


async def one_turn(story: Story) -> Result:
    async with story.agent() as agent:
        turn = await agent.start_conversation(SENTENCE)
    assert turn.result is not None
    return turn.result


def ledger(story: Story) -> list[tuple[str, dict[str, object]]]:
    return sorted(((tool, dict(arguments)) for tool, arguments in story.ledger), key=str)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("at", ["head", "first", "text", "call", "stop"])
@pytest.mark.parametrize("kind", kinds())
async def test_dropped_connection_is_retried(
    kind: str, at: Place, stream: bool, tmp_path: Path, patient_clock: MockClock
) -> None:
    async with story_of(tmp_path, kind, stream=stream) as (story, server):
        server.plan = [Broken(at), Broken(at)]

        result = await one_turn(story)

    assert (result.state, ledger(story)) == ("finished", ADDED), result.response
    assert (len(server.requests), server.refusals) == (4, [])


@pytest.mark.parametrize(
    "fault",
    [
        Slow(2, 20),
        Slow(10_000),
        Broken("first", then=(Pause(10_000),)),
        Broken("call", then=(Pause(10_000),)),
    ],
    ids=["drip", "no answer", "no body", "silent"],
)
@pytest.mark.parametrize("kind", kinds())
async def test_silent_server_fails_at_the_deadline(
    kind: str, fault: Fault, tmp_path: Path, patient_clock: MockClock
) -> None:
    async with story_of(tmp_path, kind, stream=True) as (story, server):
        server.always = fault
        begun = trio.current_time()

        result = await one_turn(story)

        assert (result.state, result.code, story.ledger) == ("failed", "model_error", [])
        limit = 600 if kind in SLOW else 60
        assert f"did not answer within {limit} s" in result.response
        assert limit - 1 <= trio.current_time() - begun <= limit + 1
        # The connection of a cancelled call is closed.
        assert (len(server.requests), server.left) == (1, 1)


@pytest.mark.parametrize("kind", kinds())
async def test_refused_connection_is_a_failure(kind: str, tmp_path: Path, patient_clock: MockClock) -> None:
    async with story_of(tmp_path, kind, stream=True) as (story, server):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and never listens
            server.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            result = await one_turn(story)

    assert (result.state, result.code, story.ledger) == ("failed", "model_error", [])
    assert "unexpectedly" not in result.response
    assert server.requests == []


@pytest.mark.parametrize("kind", kinds())
async def test_stale_connection_is_replaced(kind: str, tmp_path: Path, patient_clock: MockClock) -> None:
    """Answered, kept alive, and gone when it is used again."""
    async with story_of(tmp_path, kind, stream=False) as (story, server):
        async with story.agent() as agent:
            first = await agent.start_conversation("list resources")
            server.plan = [Raw((Drop(),))]
            second = await agent.send(first.conversation.id, "list resources")

    assert second.result is not None
    assert second.result.state == "finished"
    assert story.called("resources_list") == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", kinds())
async def test_cancelling_closes_the_connection(
    kind: str, stream: bool, tmp_path: Path, patient_clock: MockClock
) -> None:
    async with story_of(tmp_path, kind, stream=stream) as (story, server):
        server.always = Broken("call", then=(Pause(10_000),))
        async with story.agent() as agent:
            turn = await agent.post_conversation(SENTENCE)
            await server.asked.wait()
            await wait_all_tasks_blocked(0.05)
            assert server.left == 0
            await agent.cancel(turn.conversation.id)
            await server.someone_left.wait()

        assert (server.left, len(server.requests), story.ledger) == (1, 1, [])
