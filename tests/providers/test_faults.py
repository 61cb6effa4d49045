"""A provider's bad day: every fault ends in a retry, a fallback or a clear error, in time; nothing is run."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.conversation.result import Result
from tests.actors.world import events
from tests.canary import KEY
from tests.providers.fault_rows import BROKEN_ARGUMENTS, COMMON, GEMINI, Row
from tests.providers.servers.model_server import ModelServer
from tests.providers.servers.transport import ServersTransport, servers_without_sockets
from tests.providers.story import Story

SENTENCE = "add one-1 with value 1; add two-2 with value 2"
ADDED = [
    ("resources_add", {"name": "one-1", "value": 1}),
    ("resources_add", {"name": "two-2", "value": 2}),
]
SPARE = {"google": "openai"}
"""The fallback of a provider; Gemini for all others."""
QUICK = {
    "status 529",
    "status 400",
    "retry-after 5",
    "retry-after 1 hour",
    "HTML with 502",
    "drop: call",
    "early end: call",
    "error event: call",
    "hang: call",
    "200 with garbage 1",
    "max_tokens with calls",
    "malformed arguments 0",
    "RetryInfo",
    "SAFETY with a call",
}
"""Rows that are also tried by default."""
ROWS = {
    "anthropic": (*COMMON, *BROKEN_ARGUMENTS),
    **dict.fromkeys(("bedrock", "bedrock_invoke", "bedrock_converse"), (*COMMON, *BROKEN_ARGUMENTS)),
    "vertex_claude": (*COMMON, *BROKEN_ARGUMENTS),
    **dict.fromkeys(("google", "vertex"), (*COMMON, *GEMINI)),
    "openai": (*COMMON, *BROKEN_ARGUMENTS),
    "azure": (*COMMON, *BROKEN_ARGUMENTS),
    # A refusal, and the text before a filter, are the text of the reply.
    **dict.fromkeys(
        ("responses", "azure_responses"),
        (
            *(row for row in COMMON if row.name not in ("content filter", "refusal")),
            *BROKEN_ARGUMENTS,
        ),
    ),
    "mistral": (*COMMON, *BROKEN_ARGUMENTS),
    "openrouter": (*COMMON, *BROKEN_ARGUMENTS),
    "ollama": (*COMMON, *BROKEN_ARGUMENTS),
    "openai_compatible": (*COMMON, *BROKEN_ARGUMENTS),
    # It has no mark for a filter or a refusal.
    "ollama_native": tuple(row for row in COMMON if row.name not in ("content filter", "refusal")),
}
ALIKE = {
    *("mistral", "openrouter", "ollama", "openai_compatible", "azure", "azure_responses"),
    *("vertex", "vertex_claude", "bedrock", "bedrock_invoke"),
}
"""Spoken to by the same code as another: a part of the rows is enough."""


def table(*, without: tuple[str, ...] = ()) -> Iterator[object]:
    for provider, rows in ROWS.items():
        for row in rows:
            if row.name.startswith(without):
                continue
            quick = row.name in QUICK
            if provider in ALIKE and not quick and not row.name.startswith(("status", "error event")):
                continue
            for stream in row.streams:
                marks = () if quick and provider not in ALIKE else (pytest.mark.providers,)
                how = "stream" if stream else "whole"
                yield pytest.param(provider, row, stream, id=f"{provider}-{how}-{row.name}", marks=marks)


@attrs.define
class Day:
    """The outcome of one turn."""

    result: Result
    ledger: list[tuple[str, dict[str, object]]]
    seconds: float
    transport: ServersTransport
    steps: list[dict[str, Any]]
    """The recorded model calls."""

    @property
    def main(self) -> ModelServer:
        return self.transport.servers["main"]


async def a_day(folder: Path, transport: ServersTransport, stream: bool) -> Day:
    fallbacks = [name for name in transport.servers if name != "main"]
    llm = {"stream": stream, "timeout": 60, "fallbacks": fallbacks}
    story = Story(folder, servers=transport.servers, llm=llm, transport=transport)
    async with story.agent() as agent:
        begun = trio.current_time()
        turn = await agent.start_conversation(SENTENCE)
        seconds = trio.current_time() - begun
    assert turn.result is not None
    ledger = sorted(((tool, dict(arguments)) for tool, arguments in story.ledger), key=str)
    log = await events(story.journal, turn.conversation.id)
    steps = [dict(event.body) for event in log if event.body.get("kind") == "model"]
    return Day(turn.result, ledger, seconds, transport, steps)


def judge(day: Day, caplog: pytest.LogCaptureFixture) -> None:
    """Check the rules that hold for every outcome."""
    said = day.result.response
    assert "unexpectedly" not in said
    assert len(said) < 1000
    assert "<h1>" not in said
    assert KEY not in said
    assert KEY not in caplog.text
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert [server.refusals for server in day.transport.servers.values() if server.refusals] == []
    assert day.transport.at_once == 0
    if day.result.state == "finished":
        assert day.result.code is None
    else:
        assert (day.result.state, day.result.code) in {("failed", "model_error"), ("failed", "limit_reached")}


@pytest.mark.parametrize(("provider", "row", "stream"), list(table()))
async def test_provider_servers_alone(
    provider: str,
    row: Row,
    stream: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
    no_threads: None,
) -> None:
    transport = servers_without_sockets(main=provider)
    transport.servers["main"].plan = [row.fault]

    day = await a_day(tmp_path, transport, stream)

    judge(day, caplog)
    assert day.seconds <= row.at_most
    outcome = row.outcome
    if outcome == "retried or failed":
        outcome = "failed" if day.result.state == "failed" else "retried"
    match outcome:
        case "retried":
            assert day.result.state == "finished", day.result.response
            assert day.ledger == ADDED
            assert len(day.main.requests) == 3
            assert day.seconds >= row.at_least
        case "failed" | "too much":
            assert day.result.state == "failed", day.result.response
            assert re.search(row.words, day.result.response, re.DOTALL)
            assert day.ledger == []
            assert day.seconds >= row.at_least
        case _:
            assert all(call in ADDED for call in day.ledger)
            assert len(day.ledger) <= len(ADDED)


# A row with the same failure as another one is only tried alone.
ALIKE_ROWS = ("200 with garbage 1", "stream of garbage 1", "endless", "malformed", "status 400 with odd body")


@pytest.mark.parametrize(("provider", "row", "stream"), list(table(without=ALIKE_ROWS)))
async def test_with_a_fallback(
    provider: str,
    row: Row,
    stream: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
    no_threads: None,
) -> None:
    transport = servers_without_sockets(main=provider, spare=SPARE.get(provider, "google"))
    transport.servers["main"].always = row.fault

    day = await a_day(tmp_path, transport, stream)

    judge(day, caplog)
    # A busy provider is retried until the deadline at each of the run's two calls.
    assert day.seconds <= 2 * 61
    if row.outcome == "harmless":
        assert all(call in ADDED for call in day.ledger)
    elif row.outcome == "too much":
        assert (day.result.state, day.ledger) == ("failed", [])
    else:
        assert day.result.state == "finished", day.result.response
        assert "Added" in day.result.response
        assert day.ledger == ADDED
        assert [step["model"] for step in day.steps] == ["spare", "spare"]
        assert [[hop["model"] for hop in step["hops"]] for step in day.steps] == [["main"], ["main"]]
