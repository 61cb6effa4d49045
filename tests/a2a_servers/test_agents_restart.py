"""An agent that ours has delegated to is killed in the middle, and starts again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from trio.testing import MockClock

from stopgo.actors.common.errors import AgentError
from tests.a2a_servers.caller import Talk, calling
from tests.a2a_servers.peer_process import Peer, running
from tests.waiting import until

pytestmark = pytest.mark.agents

KEEPERS = [
    pytest.param(("--version", version, "--binding", binding, *more), id=" ".join([version, binding, *more]))
    for version, binding, *more in (
        ("1.0", "JSONRPC"),
        ("1.0", "HTTP+JSON"),
        ("1.0", "JSONRPC", "--no-streaming"),
        ("0.3", "JSONRPC"),
    )
]
"""They have their tasks again when they start."""
FORGETFUL = ["sdk", pytest.param("js", marks=pytest.mark.npm), "older"]


@asynccontextmanager
async def keeping(folder: Path, *options: str) -> AsyncIterator[Peer]:
    async with running("sdk", *options, "--store", str(folder / "tasks")) as peer:
        yield peer


@pytest.mark.parametrize("options", KEEPERS)
async def test_it_was_away_before_and_during_a_decision(options: Sequence[str], tmp_path: Path) -> None:
    async with keeping(tmp_path, *options) as peer, calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "ask twice")
        await peer.restart()
        await talk.decide()
        assert (await talk.asked()).description.endswith("> Really?")
        await peer.kill()
        await agent.post_decision(talk.result.approvals[0], {"approved": True})
        await peer.restart()
        assert await talk.ended() == ("finished", "done")
        assert talk.sent(peer) == ["ask twice", "approved", "approved"]


async def test_it_was_away_for_too_long(tmp_path: Path) -> None:
    """What it was not sent is asked anew, since nobody may take it for told."""
    async with keeping(tmp_path) as peer, calling(tmp_path, peer.url, reconnect_timeout=0.1) as agent:
        talk = await Talk.begin(agent, "ask")
        before = await talk.asked()
        await peer.kill()
        await talk.decide()
        again = await talk.asked()
        assert (again.item, again.replaces) == (before.item, before.id)
        assert "It did not take the last answer: it cannot be asked about the task" in again.description
        await peer.restart()
        await talk.decide()
        assert talk.told == ("finished", "done")
        assert talk.sent(peer) == ["ask", "approved"]


@pytest.mark.parametrize("options", KEEPERS)
async def test_it_works_no_more_and_does_not_know_it(options: Sequence[str], tmp_path: Path) -> None:
    """It is followed until somebody cancels it."""
    async with keeping(tmp_path, *options) as peer, calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "slow 600", wait=False)
        await talk.until("tool.accepted")
        await peer.restart()
        before = len(talk.at(peer))
        await until(lambda: len(talk.at(peer)) > before + 1)
        await talk.cancel()
        assert talk.result.state == "cancelled"
        assert talk.sent(peer) == ["slow 600"]


async def test_what_it_worked_on_when_it_was_killed_takes_too_long(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    async with keeping(tmp_path) as peer, calling(tmp_path, peer.url, timeout=600) as agent:
        talk = await Talk.begin(agent, "slow 600", wait=False)
        await talk.until("tool.accepted")
        await peer.restart()
        jumping_clock.jump(600.0)
        text = 'agent "peer" took longer than 600 s; its task was cancelled'
        assert await talk.ended() == ("failed", text)
        assert talk.sent(peer) == ["slow 600"]
        assert len(peer.calls("CancelTask")) == 1


@pytest.mark.parametrize("kind", FORGETFUL)
async def test_it_has_forgotten_what_it_asked(kind: str, tmp_path: Path) -> None:
    """The question is taken back: no answer to it can arrive any more."""
    async with running(kind) as peer, calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "ask")
        await peer.restart()
        with pytest.raises(AgentError, match="void"):
            await talk.decide()
        state, text = await talk.ended()
        assert (state, text[:23]) == ("failed", "The outcome is unknown:")
        assert talk.sent(peer) == ["ask"]
        assert (await Talk.begin(agent, "echo still")).told == ("finished", "echo: still")


@pytest.mark.parametrize("kind", FORGETFUL)
async def test_it_has_forgotten_what_it_worked_on(kind: str, tmp_path: Path) -> None:
    async with running(kind) as peer, calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "slow 600", wait=False)
        await until(lambda: bool(talk.sent(peer)))
        if kind != "older":  # of which nothing is known until it is done
            await talk.until("tool.accepted")
        await peer.restart()
        state, text = await talk.ended()
        assert (state, text[:23]) == ("failed", "The outcome is unknown:")
        assert talk.sent(peer) == ["slow 600"]
        assert (await Talk.begin(agent, "echo still")).told == ("finished", "echo: still")


async def test_it_is_away(tmp_path: Path) -> None:
    """Whoever calls it is told, and the agent starts and goes on without it."""
    async with running("sdk") as peer:
        await peer.kill()
        async with calling(tmp_path, peer.url) as agent:
            assert (agent.health().ready, agent.health().agents[0].state) == (True, "unknown")
            text = "sub-agent unavailable: peer (it cannot be reached: connection refused)"
            assert (await Talk.begin(agent, "echo a")).told == ("failed", text)
            assert agent.health().agents[0].state == "unreachable"
            await peer.restart()
            assert (await Talk.begin(agent, "echo a")).told == ("finished", "echo: a")
            assert agent.health().agents[0].state == "reached"
