"""A recorded conversation takes the same path when the recording is its model."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.common.errors import StartError
from stopgo.actors.log.fold import stored
from stopgo.actors.log.words.event_json import decode
from stopgo.actors.models.messages.messages import ModelFailed, Usage
from stopgo.actors.models.offline.script import ScriptModel
from stopgo.actors.models.offline.script_reader import load_script
from stopgo.actors.models.providers.model import Model
from stopgo.actors.workers.recorder import script_of
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Event, Journal
from tests.actors.world import DESTRUCTIVE, World, call, events, llm, say, sequential, use, wall
from tests.waiting import until

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@asynccontextmanager
async def life(world: World, journal: Journal, **options: Any) -> AsyncIterator[Agent]:
    async with open_agent(
        world.config(),
        journal=journal,
        wall=wall,
        open_server=world.open_server,
        **{"open_model": world.open_model, **options},
    ) as agent:
        yield agent


async def talk(agent: Agent) -> str:
    """Two turns, with a decision in each."""
    started = await agent.start_conversation("first")
    id = started.conversation.id
    for action in (True, False):
        pending = (await agent.get(id)).head.pending
        while pending:
            await agent.decide(pending[0], {"approved": action})
            pending = (await agent.get(id)).head.pending
        if action:
            await agent.send(id, "second")
    return id


def traffic(history: tuple[Event, ...]) -> list[str]:
    """The events without ids and times, and without the accidental order of branches."""
    return sorted(f"{event.type} {_without_ids(event.body)}" for event in history)


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = {"id", "run", "command", "session_id", "settles", "on", "duration", "average_duration"}
        return {key: _without_ids(each) for key, each in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        return [_without_ids(each) for each in value]
    return UUID.sub("ID", value) if isinstance(value, str) else value


async def test_replayed_recording_gives_the_same_events(tmp_path: Path, recordings: Path) -> None:
    world = World(tmp_path)
    world.tool("remove", DESTRUCTIVE, "removed")
    world.tool("look", work="nothing here, $${odd}")
    world.settings["approval"] = {"in_parallel": "ask"}
    world.settings["agent"] = sequential(
        "root",
        {
            "type": "loop",
            "name": "outer",
            "max_iterations": 2,
            "agents": [{"type": "loop", "name": "inner", "max_iterations": 2, "agents": [llm("looped")]}],
        },
        {
            "type": "parallel",
            "name": "both",
            "agents": [
                llm("left", retries=1, on_error="continue"),
                llm("right"),
            ],
        },
        llm("broken", on_error="continue"),
        llm("last"),
    )
    count = iter(range(100))

    async def counted(_: Any) -> Any:
        return say(f"loop {next(count)}")

    world.plans[("looped", None)] = [counted]
    world.plans[("left", 1)] = [ModelFailed("no ${chance}")]
    world.plans[("right", None)] = [
        use(call("look"), call("remove", name="${x} $${y}"), text="let me"),
        say("right is done", usage=Usage(10, 2, 4)),
    ]
    world.plans[("broken", None)] = [ModelFailed("overloaded (status 529)")]
    world.plans[("last", 2)] = [use(call("no_such_tool")), say("never mind")]

    first = MemoryJournal(wall)
    async with life(world, first, record=recordings) as agent:
        original = await talk(agent)
    recorded = await events(first, original)
    assert os.listdir(recordings) == [f"{original}.yaml"]

    def played(name: str, *, folder: Path) -> Model:
        return ScriptModel(load_script(recordings / f"{original}.yaml"))

    second = MemoryJournal(wall)
    async with life(world, second, open_model=played, record=tmp_path / "again") as agent:
        copy = await talk(agent)
    assert traffic(await events(second, copy)) == traffic(recorded)
    assert (tmp_path / "again" / f"{copy}.yaml").read_bytes() == (
        recordings / f"{original}.yaml"
    ).read_bytes()


async def test_waiting_run_is_recorded_up_to_the_wait(tmp_path: Path, recordings: Path) -> None:
    world = World(tmp_path)
    world.tool("remove", DESTRUCTIVE, "removed")
    world.plans[("agent", None)] = [use(call("remove")), say("gone")]
    async with life(world, MemoryJournal(wall), record=str(recordings)) as agent:
        turn = await agent.start_conversation("go", token="canary-token")
        file = recordings / f"{turn.conversation.id}.yaml"
        await until(file.exists)
        assert "gone" not in file.read_text()
        await agent.decide(turn.conversation.head.pending[0], {"approved": True}, token="canary-token")
    assert "gone" in file.read_text()
    assert "canary" not in file.read_text()


async def test_unwritable_folder_is_only_a_warning(
    tmp_path: Path, recordings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.plans[("agent", None)] = [say("fine")]
    async with life(world, MemoryJournal(wall), record=recordings) as agent:
        await trio.Path(recordings).rmdir()
        turn = await agent.start_conversation("go")
        assert turn.result is not None
        assert turn.result.response == "fine"
    assert "was not written" in caplog.text


def rights(folder: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())]


async def test_recordings_are_readable_by_their_owner_only(tmp_path: Path, recordings: Path) -> None:
    world = World(tmp_path)
    world.plans[("agent", None)] = [say("fine")]
    victim = tmp_path / "victim"
    before = os.umask(0o022)
    try:
        async with life(world, MemoryJournal(wall), record=recordings) as agent:
            victim.write_text("precious")
            turn = await agent.start_conversation("go")
            (recordings / f"{turn.conversation.id}.tmp").symlink_to(victim)
            await agent.send(turn.conversation.id, "again")
    finally:
        os.umask(before)
    assert rights(recordings) == [0o700, 0o600]
    assert victim.read_text() == "precious"


async def test_path_that_is_no_folder_fails_startup(tmp_path: Path, recordings: Path) -> None:
    await trio.Path(recordings).write_text("a file is in the way")
    with pytest.RaisesGroup(StartError, allow_unwrapped=True, flatten_subgroups=True):
        async with life(World(tmp_path), MemoryJournal(wall), record=recordings):
            pass


async def test_a_conversation_longer_than_a_page_is_recorded_to_its_end(
    world: World, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PAGE", 2)
    async with life(world, world.journal, record=recordings) as agent:
        id = (await agent.start_conversation("first")).conversation.id
        await agent.send(id, "second")
    history = await events(world.journal, id)
    assert (recordings / f"{id}.yaml").read_text() == script_of(decode(each).event for each in history)
