"""The recorded calls of a world, judged under other rules."""

from __future__ import annotations

from typing import Any

from stopgo.actors.gate.policies import stored_policies
from stopgo.actors.replay.judged_call import JudgedCall
from stopgo.actors.replay.recorded_call import RecordedCall, read_calls
from stopgo.actors.replay.replay_report import CallFilter, Replay, ReplayReport
from tests.actors.world import World

EVERYTHING = CallFilter()


async def replay_of(
    world: World, wanted: CallFilter = EVERYTHING, journal: Any = None, **settings: Any
) -> tuple[list[JudgedCall], ReplayReport]:
    """The calls of a world under the rules of its file with other settings."""
    before, world.settings = world.settings, {**world.settings, **settings}
    config = world.config()
    world.settings = before
    journal = journal or world.journal
    replay = Replay.of(config, wanted)
    for each in await stored_policies(journal):
        replay.learn(each.revision, each.content)
    found: list[JudgedCall] = []

    def take(call: RecordedCall) -> bool:
        found.extend(filter(None, [replay.take(call)]))
        return not replay.is_full

    replay.report.damage = await read_calls(journal, take, since=wanted.since)
    return found, replay.report
