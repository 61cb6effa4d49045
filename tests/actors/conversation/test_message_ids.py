"""The client's message id reaches the script, and the script's end of the task is recorded."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.log.words.event_json import decode
from stopgo.actors.log.words.inbox import Create, Say, body_of
from stopgo.actors.models.offline.script import ScriptModel
from stopgo.actors.models.offline.script_reader import parse_script
from stopgo.actors.workers.recorder import script_of
from stopgo.runtime.journal.protocol import Event
from tests.actors.world import World, answer, call, events, say, use, wall

SCRIPT = r"""
replies:
  - when: {message_id: 'tck-reject-*'}
    text: No.
    a2a: {state: rejected}
  - when: {message_id: 'tck-stream-*', user: '(?P<what>\S+)$'}
    a2a: {artifact: {text: ['a ', '${what}']}}
  - text: Hello.
"""


async def talk(world: World) -> list[Event]:
    model = ScriptModel(parse_script(SCRIPT, "s.yaml"))
    async with open_agent(
        world.config(), journal=world.journal, wall=wall, open_model=lambda _, folder: model
    ) as agent:
        first = await agent.start_conversation("hi", message_id="tck-reject-1")
        id = first.conversation.id
        second = await agent.send(id, "give me cake", task=f"{id}~2", message_id="tck-stream-1")
        third = await agent.send(id, "bye")
    results = [(answer(turn).state, answer(turn).response) for turn in (first, second, third)]
    assert results == [("finished", "No."), ("finished", ""), ("finished", "Hello.")]
    return list(await events(world.journal, id))


async def test_script_matches_message_ids(tmp_path: Path, autojump_clock: MockClock) -> None:
    history = await talk(World(tmp_path))
    runs = [event.body for event in history if event.type == "run.started"]
    assert [run.get("message_id", "none") for run in runs] == ["tck-reject-1", "tck-stream-1", "none"]
    second = f"{history[0].stream}~2"
    assert [run.get("task", "none") for run in runs] == ["none", second, "none"]
    replies = [event.body for event in history if event.body.get("kind") == "model"]
    assert [reply.get("a2a", "none") for reply in replies] == [
        {"state": "rejected"},
        {"state": "completed", "artifact": {"chunks": ["a ", "cake"]}},
        "none",
    ]


async def test_conversation_with_message_ids_can_be_recorded(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    history = await talk(World(tmp_path))
    recorded = parse_script(script_of(decode(event).event for event in history), "recorded.yaml")
    assert [entry.text for entry in recorded.replies] == ["No.", "", "Hello."]


async def test_all_model_calls_of_a_turn_have_the_message_id(world: World, autojump_clock: MockClock) -> None:
    world.tool("list")
    world.plan("agent", use(call("list")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("hi", message_id="m-1")
    assert [request.message_id for request in world.requests] == ["m-1", "m-1"]


def test_a_command_without_an_id_is_stored_as_before() -> None:
    assert body_of(Create("hi", None, False)) == {"message": "hi", "session_id": None, "token": False}
    assert body_of(Say("hi", False)) == {"message": "hi", "token": False}
