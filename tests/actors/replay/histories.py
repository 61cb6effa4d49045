"""Random histories, lived through under a policy A and again under a policy B: a replay of the first under A
says what happened, and each of its verdicts under B that is exact is that of the second life.

    python -m tests.actors.replay.histories            10,000 histories, in two processes (`make replays`)
    python -m tests.actors.replay.histories 200        the first 200
    python -m tests.actors.replay.histories 7-7        this one

The model and the servers are functions of what they see: a model's next calls depend on the results that it
got. In the second life, people decide about the same call what they had decided in the first. So the second
life differs only by what its policy changes. No rule has a pattern: its search would take real time.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.models.messages.messages import ModelReply, ModelRequest, ToolCall
from stopgo.actors.replay.recorded_call import RecordedCall, read_calls
from stopgo.actors.tools.tool import Hints
from stopgo.runtime import json_text
from tests.actors.replay.judging import replay_of
from tests.actors.world import World, llm, parallel, results_in, say, sequential, use

USUAL = 10_000
TOOLS = ("get", "put", "drop", "send")
NAMES: Sequence[Any] = ("lamp", "shelf", 7, 70, "70", ["x"], None)
SCHEMA = {"type": "object"}
CONVERSATIONS = ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002")
TURNS = 2


@attrs.frozen
class History:
    """What one seed stands for."""

    seed: int
    tree: Mapping[str, Any]
    first: Mapping[str, Any]
    """The settings of policy A."""
    second: Mapping[str, Any]
    hints: Sequence[Mapping[str, Hints]]
    """The hints of the tools before each turn."""
    halted: int
    """The number of a turn that begins during a halt; -1: none."""


def history_of(seed: int) -> History:
    dice = random.Random(seed)
    nodes = [llm(name, **_override(dice)) for name in ("one", "two", "three")]
    tree = dice.choice(
        [
            nodes[0],
            sequential("top", *nodes[:2]),
            parallel("top", *nodes[:2]),
            sequential("top", parallel("both", *nodes[:2]), nodes[2]),
            {"type": "loop", "name": "top", "agents": [nodes[0]], "max_iterations": 2},
        ]
    )
    first = _approval(dice)
    hints = [{tool: _hints(dice) for tool in TOOLS}]
    for _ in range(TURNS * len(CONVERSATIONS) - 1):
        changed = {tool: _hints(dice) for tool in TOOLS if dice.random() < 0.2}
        hints.append({**hints[-1], **changed})
    halted = dice.randrange(TURNS * len(CONVERSATIONS)) if dice.random() < 0.2 else -1
    return History(seed, tree, first, _changed(dice, first), hints, halted)


def _hints(dice: random.Random) -> Hints:
    return Hints(*(dice.choice([None, None, True, False]) for _ in range(3)))


def _rule(dice: random.Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"then": dice.choice(["run", "run", "ask", "ask", "deny"]), "optional": True}
    rule["tool"] = dice.choice(["*", "p*", *TOOLS])
    if dice.random() < 0.2:
        rule["effect"] = dice.choice(["read", "idempotent", "once"])
    if dice.random() < 0.2:
        rule["node"] = dice.choice(["one", "two", "t*"])
    if dice.random() < 0.6:
        rule["arguments"] = {
            "name": dice.choice([{"above": 10}, {"equals": True}, {"exists": True}, {"one_of": ["lamp", 7]}])
        }
    return rule


def _approval(dice: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"on_weaker_hints": "trust"}
    if rules := [_rule(dice) for _ in range(dice.randrange(4))]:
        found["rules"] = rules
    for name in ("unannotated", "in_parallel", "in_loop"):
        if dice.random() < 0.4:
            found[name] = dice.choice(["run", "ask"])
    if dice.random() < 0.3:
        found["contradictory_hints"] = dice.choice(["ask", "read_only"])
    return found


def _changed(dice: random.Random, first: Mapping[str, Any]) -> dict[str, Any]:
    """A policy that differs in a rule or a setting, or altogether."""
    rules = list(first.get("rules", ()))
    match dice.randrange(4):
        case 0:
            rules.insert(dice.randrange(len(rules) + 1), _rule(dice))
        case 1 if rules:
            rules.pop(dice.randrange(len(rules)))
        case 2:
            return {**first, "unannotated": dice.choice(["run", "ask"])}
        case _:
            return _approval(dice)
    kept = {name: value for name, value in first.items() if name != "rules"}
    return {**kept, "rules": rules} if rules else kept


def _override(dice: random.Random) -> dict[str, Any]:
    return {"approval": {"rules": [_rule(dice)]}} if dice.random() < 0.2 else {}


# --------------------------------------------------------------------- living


def world_of(history: History, folder: Path, approval: Mapping[str, Any]) -> World:
    world = World(folder)
    world.settings |= {"agent": history.tree, "approval": approval}
    for node in ("one", "two", "three"):
        world.plan(node, *[partial(_reply, history.seed)] * 2, say("done"))
    _list(world, history.hints[0])
    return world


def _list(world: World, hints: Mapping[str, Hints]) -> None:
    for tool, each in hints.items():
        world.tool(tool, each, schema=SCHEMA)


async def _reply(seed: int, request: ModelRequest) -> ModelReply:
    """Some calls, by the results so far. How a denial is worded makes no difference."""
    await trio.lowlevel.checkpoint()
    seen = ["denied" if each.content.startswith("Denied") else each.content for each in results_in(request)]
    dice = random.Random(repr((seed, request.node, request.turn, request.call, request.iteration, seen)))
    return use(
        *(
            ToolCall("", dice.choice([*TOOLS, "gone"]), {"name": dice.choice(NAMES)})
            for _ in range(dice.choice([1, 1, 2]))
        )
    )


Decisions: TypeAlias = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""By conversation, key and arguments of the call."""


async def live(history: History, world: World, decided: Decisions) -> None:
    """All turns of a life. `decided` are the decisions of an earlier one."""
    async with world.agent() as agent:
        for number in range(TURNS * len(CONVERSATIONS)):
            _list(world, history.hints[number])
            world.relist("tools")
            await trio.sleep(1)
            if history.halted == number:
                await agent.halt("drill")
            id = CONVERSATIONS[number // TURNS]
            if number % TURNS:
                await agent.send(id, "again")
            else:
                await agent.start_conversation("go", id=id)
            if history.halted == number:
                await agent.unhalt()
            await _decide(history.seed, agent, id, decided)


async def _decide(seed: int, agent: Agent, conversation: str, decided: Decisions) -> None:
    while approvals := (await agent.approvals()).approvals:
        asked = approvals[0]
        about = asked.asked
        dice = random.Random(repr((seed, about.tool_name, json_text.canonical(about.tool_args))))
        decision: dict[str, Any] = {"approved": dice.random() < 0.7}
        if decision["approved"] and dice.random() < 0.2:
            decision["arguments"] = {"name": dice.choice(NAMES)}
        before = decided.get((conversation, about.key, json_text.canonical(about.tool_args)))
        try:
            await agent.decide(asked.id, before or decision)
        except AgentError as error:
            if error.code != "denied_by_policy":
                raise
            await agent.decide(asked.id, {"approved": False})


# ------------------------------------------------------------------ comparing


def check(seed: int) -> Counter[str]:
    """The number of verdicts of each class. Raises AssertionError."""
    with tempfile.TemporaryDirectory() as name:
        return trio.run(_check, seed, Path(name), clock=MockClock(autojump_threshold=0))


async def _check(seed: int, folder: Path) -> Counter[str]:
    history = history_of(seed)
    first, second = folder / "first", folder / "second"
    first.mkdir()
    second.mkdir()
    lived = world_of(history, first, history.first)
    await live(history, lived, {})
    again, report = await replay_of(lived)
    assert not report.damage.events, (seed, report.damage)
    for each in again:
        assert each.was == each.now, (seed, each)
        assert each.change == "same", (seed, each)
    other = world_of(history, second, history.second)
    await live(history, other, _decisions(await _calls(lived)))
    really = await _calls(other)
    found, _ = await replay_of(lived, approval=history.second)
    for each in found:
        if each.sure == "exact":
            call = really.get((each.call.stream, each.call.key))
            assert call is not None, (seed, each)
            assert call.facts is not None
            assert (call.facts.action, call.tool, call.arguments) == (
                each.now,
                each.call.tool,
                each.call.arguments,
            ), (seed, each, call)
    counts = Counter[str](each.sure for each in found)
    counts["changed"] = sum(each.change != "same" for each in found)
    return counts


def _decisions(calls: Mapping[tuple[str, str], RecordedCall]) -> Decisions:
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for (conversation, key), call in calls.items():
        decision: dict[str, Any] = {"approved": call.answer != "rejected"}
        if call.edited is not None:
            decision["arguments"] = call.edited
        if call.answer in ("approved", "edited", "rejected"):
            found[conversation, key, json_text.canonical(call.arguments)] = decision
    return found


async def _calls(world: World) -> Mapping[tuple[str, str], RecordedCall]:
    found: dict[tuple[str, str], RecordedCall] = {}

    def take(call: RecordedCall) -> bool:
        found[call.stream, call.key] = call
        return True

    await read_calls(world.journal, take)
    return found


def main(seeds: Sequence[int]) -> int:
    total: Counter[str] = Counter()
    failed: list[int] = []
    with ProcessPoolExecutor(int(os.environ.get("AT_ONCE", "2"))) as pool:
        for seed, result in zip(seeds, pool.map(_outcome, seeds, chunksize=20), strict=True):
            if isinstance(result, str):
                failed.append(seed)
                print(f"history {seed}: {result}", flush=True)
            else:
                total.update(result)
    calls = sum(total[each] for each in ("exact", "bounded", "unknown"))
    shares = ", ".join(
        f"{each} {total[each] / max(calls, 1):.1%}" for each in ("exact", "bounded", "unknown", "changed")
    )
    print(f"{len(seeds)} histories, {calls} verdicts: {shares}; {len(failed)} histories went wrong")
    return 1 if failed else 0


def _outcome(seed: int) -> Counter[str] | str:
    logging.disable(logging.WARNING)
    try:
        return check(seed)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:2000]}"


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else str(USUAL)
    start, _, end = given.rpartition("-")
    sys.exit(main(range(int(start), int(end) + 1) if start else range(int(end))))
