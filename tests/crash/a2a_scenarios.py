"""Turns that are started and answered by A2A: whatever is killed, tasks agree with the journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.task import (
    TERMINAL,
    Data,
    GetTask,
    Message,
    Part,
    Send,
    StatusUpdate,
    StreamItem,
    Subscribe,
    Task,
    Text,
)
from stopgo.actors.log.words.event_json import decode
from stopgo.gateway.a2a.message_delivery import Caller
from stopgo.gateway.a2a.task_log import TaskLog
from stopgo.gateway.a2a.task_server import TaskServer

from .client import Client
from .scenario_parts import ONE, call_of, ran_once
from .story import Scenario, Story
from .world import Outside, result_of


@attrs.define
class Peer:
    """An A2A client that repeats unanswered requests with the same key."""

    client: Client
    streams: bool
    heard: list[StreamItem] = attrs.field(factory=list)
    """In all lives."""
    said: dict[str, Send] = attrs.field(factory=dict)
    """By key."""

    @property
    def tasks(self) -> TaskServer:
        return TaskServer(self.client.agent)

    async def say(self, key: str, *parts: Part, task: str | None = None) -> Task:
        """The task when it has come to rest."""
        send = Send(message=Message(id=key, role="user", parts=parts, task=task), stream=self.streams)
        self.said[key] = send
        caller = Caller(session_id="s", key=key)
        if self.streams:
            id = await self._hear(self.tasks.stream(send, caller))
        else:
            answer = await self.tasks.send(send, caller)
            assert isinstance(answer, Task)
            id = answer.id
        self.client.conversation = id
        return await self._at_rest(id)

    async def _at_rest(self, id: str) -> Task:
        while (task := await self._get(id)).status.state in ("submitted", "working"):
            with suppress(A2AError):  # it may have ended meanwhile
                await self._hear(self.tasks.subscribe(Subscribe(id), hitl=False), subscribed=True)
        return task

    async def _get(self, id: str) -> Task:
        return await self.tasks.get(GetTask(id), hitl=False)

    async def _hear(self, stream: AsyncGenerator[StreamItem, None], *, subscribed: bool = False) -> str:
        """To its end; a subscription, which outlasts a question, until the task waits. The id of the task."""
        items: list[StreamItem] = []
        async with aclosing(stream):
            async for item in stream:
                items.append(item)
                self.heard.append(item)
                if subscribed and _rests(item):
                    break
        first = items[0]
        assert isinstance(first, Task)
        assert _rests(items[-1]), "the stream was cut"
        return first.id

    async def turn(self) -> None:
        """Say "go", approve what is asked, all at once, and tell of lost calls what the ledger knows."""
        for key, send in tuple(self.said.items()):  # in an earlier life
            task = await self.say(key, *send.message.parts, task=send.message.task)
        if not self.said:
            task = await self.say("go", Text("go"))
        while task.status.state == "input-required":
            assert task.status.message is not None
            data = task.status.message.parts[1]
            assert isinstance(data, Data)
            answers = [{"id": item["id"], **self._words(item)} for item in data.data["pending"]]
            key = "unknown" if "action" in answers[0] else "yes"
            task = await self.say(f"{key} {answers[0]['id']}", Data({"approvals": answers}), task=task.id)
        assert task.status.state == "completed"
        for key, send in self.said.items():
            again = await self.say(key, *send.message.parts, task=send.message.task)
            assert again == task, f"{key} came to something else"

    def _words(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        if item["kind"] == "tool":
            return {"approved": True}
        tool, label = item["tool"], item["arguments"]["name"]
        action = self.client.policy(self.client.world.times(label))
        return {"action": action, **({"result": result_of(tool, label)} if action == "done" else {})}


def _rests(item: StreamItem) -> bool:
    return isinstance(item, Task | StatusUpdate) and item.status.state in (*TERMINAL, "input-required")


_PEERS: WeakKeyDictionary[Client, Peer] = WeakKeyDictionary()


async def _talk(streams: bool, client: Client) -> None:
    peer = _PEERS.setdefault(client, Peer(client, streams))
    await peer.turn()


def _agrees(story: Story) -> None:
    """No client got an event that is not on record, and `get` agrees with the record."""
    peer = _PEERS[story.client]
    log = TaskLog(story.client.conversation)
    updates: list[StreamItem] = []
    for event in story.record.events:
        updates += log.apply(decode(event))
    for item in peer.heard:
        if not isinstance(item, Task):
            plain = attrs.evolve(item, final=False) if isinstance(item, StatusUpdate) else item
            assert plain in updates, f"{item} was told and is lost"
    [task] = filter(None, map(log.task, log.ids))
    run = story.record.conversation.head.run
    assert run is not None
    assert (task.id, task.status.state, run.state) == (log.context, "completed", "finished")
    [answer] = task.artifacts
    assert answer.parts == (Text(story.record.conversation.messages[-1].content),)
    assert [message.parts for message in task.history] == [(Text("go"),)]


def _one_ran(story: Story) -> None:
    ran_once(story)
    _agrees(story)


def _both_ran(story: Story) -> None:
    for label in "ab":
        assert story.world.times(label) == 1
        assert call_of(story, label).state == "finished"
    _agrees(story)


def _scenarios(name: str, calls: list[str], check: Any, *, compared: bool) -> list[Scenario]:
    outside = Outside({("go", "one"): [calls]})
    return [
        Scenario(f"{name}, {how}", ONE, outside, partial(_talk, streams), check, compared=compared)
        for how, streams in (("waited for", False), ("streamed", True))
    ]


BY_A2A = [
    *_scenarios("an approval by A2A", ["wipe a"], _one_ran, compared=True),
    # Between the decisions the run may come to rest, which the first one then has for a reply.
    *_scenarios("two approvals in one message", ["wipe a", "wipe b"], _both_ran, compared=False),
]
