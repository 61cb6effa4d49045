"""Parts that the scenarios with another agent share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from stopgo.config.sections.a2a import RemoteAgentConfig

from .client import Client, Script
from .remote_agent import TOOL, Job, RemoteWork
from .scenario_parts import NO, ONE, YES, call_of
from .story import Scenario, Story
from .world import Outside

PEER = RemoteAgentConfig(name="peer", url="http://peer.test")
CAREFUL = attrs.evolve(PEER, destructive_hint=True)
PRIVATE = attrs.evolve(PEER, forward_bearer=False)

CALLS_A = {("go", "one"): [[f"{TOOL} a"]]}
DELEGATES = {"type": "a2a", "name": "far", "agent": "peer", "prompt": "a"}


Check: TypeAlias = Callable[[Story], None]


def delegated(
    name: str,
    job: Job,
    script: Script,
    check: Check,
    *,
    tree: Mapping[str, Any] = ONE,
    agents: Sequence[RemoteAgentConfig] = (PEER,),
    **more: Any,
) -> Scenario:
    """A model, or a node in its place, has the agent do "a"."""
    outside = Outside(CALLS_A, jobs={"a": job})
    return Scenario(name, tree, outside, script, check, agents=agents, **more)


def proxies(story: Story) -> dict[str, list[str]]:
    """The states of what the agent asked, by label."""
    found: dict[str, list[str]] = {}
    for each in story.record.questions:
        if each.kind == "proxy":
            found.setdefault(each.body["tool_args"]["name"], []).append(each.state)
    return found


def work_of(story: Story, text: str = "a") -> RemoteWork:
    """The one task that the agent had with this text."""
    [work] = [task for task in story.world.remote.tasks.values() if task.text == text]
    return work


def done(story: Story, *wiped: str) -> None:
    """The agent did its work once, and exactly what was agreed to."""
    assert work_of(story).state == "completed"
    assert [entry.label for entry in story.world.ledger if entry.tool == "wipe"] == list(wiped)
    assert call_of(story, "a").state == "finished"


ASKS = Job([["q"]])


async def say_yes(client: Client) -> None:
    await client.start("go")
    await client.tell("a.q", YES, "yes")


async def say_no(client: Client) -> None:
    await client.start("go")
    await client.tell("a.q", NO, "no")


def approved(story: Story) -> None:
    done(story, "a.q")
    assert proxies(story) == {"a.q": ["decided"]}


def rejected(story: Story) -> None:
    done(story)
    assert work_of(story).rejected
    assert proxies(story) == {"a.q": ["decided"]}
