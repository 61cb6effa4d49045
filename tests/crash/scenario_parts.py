"""Parts that several scenarios share: trees, clients and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .client import Client
from .story import Story
from .world import label_of

YES = {"approved": True}
NO = {"approved": False, "reason": "not today"}


def llm(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "llm", "name": name, "prompt": f"You are {name}.", "model": "test:model", **more}


def group(kind: str, name: str, *agents: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "name": name, "agents": list(agents)}


ONE = llm("one")


def call_of(story: Story, label: str) -> Any:
    (call,) = [
        message.call
        for message in story.record.conversation.messages
        if message.call is not None and label_of(message.call.arguments) == label
    ]
    return call


async def just_start(client: Client) -> None:
    await client.start("go")


async def approve(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")


def ran_once(story: Story) -> None:
    assert story.world.times("a") == 1
    assert call_of(story, "a").state == "finished"


def nothing_ran(story: Story) -> None:
    assert story.world.ledger == []
