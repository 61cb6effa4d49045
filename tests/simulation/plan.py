"""The plan of a story: all that the seed decides before anything runs. Only ids are random besides."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, cast

import attrs

from stopgo.actors.log.writer.write_behind import MOMENT, ROUNDS
from stopgo.actors.tools.tool import Hints
from stopgo.config.checks.tree import tree_from_stored
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.config.sections.agent_config import AgentConfig, LimitsConfig, ToolsConfig
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.sections.notify import NotifyConfig
from stopgo.gateway.testing.killing_journal import EDGES, Kill
from tests.actors.notify.told_channels import NOTIFY

from .trees import grow, with_agents, with_rejections_contained

SERVERS: Mapping[str, Mapping[str, Hints]] = {
    "local": {
        "wipe": Hints(read_only=False, destructive=True),
        "peek": Hints(read_only=True),
        "bump": Hints(read_only=False, destructive=False, idempotent=True),
        "post": Hints(),
    },
    "web": {"drop": Hints(destructive=True, idempotent=True), "view": Hints(read_only=True)},
}
"""Tools of every effect class. `web` needs a bearer token."""

DENIED_ABOVE = 7
"""A `wipe` of a higher level must never be sent."""

FIRST_WITH_PEER = 1_000_000
"""From this seed on, there is another agent to delegate work to."""

FIRST_WITH_HALTS = 2_000_000
"""From this seed on, somebody halts the agent now and then, too."""
FIRST_WITH_MEMBERS = 3_000_000
"""From this seed on, the story is told on several members at a time (`fleet.py`), without halts."""


@attrs.frozen(kw_only=True)
class Life:
    """One process: killed at a write, shut down after a while, or left running until all is done."""

    kill: Kill | None = None
    drained_after: float | None = None
    version: int = 0
    """The version of the agent file."""
    peek_denied: bool = False
    wipe_changed: bool = False
    peek_destructive: bool = False
    """The tool server was upgraded: a tool that only read before is destructive now."""
    peer_denied: bool = False


@attrs.frozen(kw_only=True)
class Plan:
    seed: int
    trees: tuple[Mapping[str, Any], ...]
    """By version of the agent file."""
    approval: ApprovalConfig
    limits: LimitsConfig
    max_parallel: int
    max_concurrency: int
    lives: tuple[Life, ...]
    """The last one is left alone."""
    conversations: int
    commands: int
    """The actions of each user, before they only decide approvals."""
    rounds: int
    """The flusher's rounds: from none, which leaves hardly any pending writes, to very many."""
    moment: float
    """The flusher's moment in seconds, sometimes so long that much happens meanwhile."""
    saves_fail: bool
    """Saves fail now and then, with nothing written: the conversation crashes and restarts."""
    peer: RemoteAgentConfig | None
    """The other agent, if there is one."""
    notify: NotifyConfig | None = None
    """The channels that are told what happens."""
    halts: int = 0
    """How often the agent is halted in each life."""

    def rng(self, *about: object) -> Random:
        """A random choice that depends only on the seed and the name, in every process."""
        return Random("/".join(str(each) for each in (self.seed, *about)))

    def config(self, life: Life) -> AgentConfig:
        tree = self.trees[life.version]
        rules = self.approval.rules
        if life.peek_denied:
            rules = (Rule(then="deny", tool="peek"), *rules)
        if life.peer_denied:
            rules = (Rule(then="deny", server="a2a:peer"), *rules)
        peers = () if self.peer is None else (self.peer,)
        return AgentConfig(
            agent=tree_from_stored(tree),
            has_tree=True,
            prompt="Be careful.",
            mcp_servers=(
                McpServerConfig(name="local", command="in-process", max_concurrency=self.max_concurrency),
                McpServerConfig(name="web", url="http://in.process/mcp", max_concurrency=2),
            ),
            a2a=peers,
            remote_agents=peers,
            tools=ToolsConfig(max_parallel=self.max_parallel),
            approval=attrs.evolve(self.approval, rules=rules),
            limits=self.limits,
            shutdown_grace=5.0,
            notify=self.notify,
            stored_tree=tree,
        )


def plan(seed: int) -> Plan:
    rng = Random(seed)
    story = Plan(
        seed=seed,
        trees=tuple(
            with_rejections_contained(Random(f"{seed}/contained/{version}"), grow(rng, version))
            for version in range(2)
        ),
        approval=_approval(rng),
        limits=_limits(rng),
        max_parallel=rng.choice([1, 2, 5]),
        max_concurrency=rng.choice([1, 16]),
        lives=_harmful_at(Random(f"{seed}/harmful").choice([1, 2, 9]), _lives(rng)),
        conversations=rng.choice([1, 1, 2, 3]),
        commands=rng.randint(1, 8),
        rounds=rng.choice([0, 1, ROUNDS, ROUNDS, 300]),
        saves_fail=rng.random() < 0.2,
        moment=rng.choice([0.0, 0.0, MOMENT, 1.0, 30.0]),
        peer=None,
        notify=NOTIFY if Random(f"{seed}/notify").random() < 0.25 else None,
    )
    if seed >= FIRST_WITH_HALTS:
        story = attrs.evolve(story, halts=Random(f"{seed}/halts").choice([1, 2, 5]))
    return story if seed < FIRST_WITH_PEER else _with_peer(story, Random(f"{seed}/peer"))


def _with_peer(plan: Plan, rng: Random) -> Plan:
    peer = RemoteAgentConfig(
        name="peer",
        url="http://peer.test",
        destructive_hint=rng.random() < 0.3,
        forward_bearer=rng.random() < 0.6,
        max_concurrency=rng.choice([1, 4]),
    )
    denied_at = rng.choice([1, 2, 9, 9, 9])
    return attrs.evolve(
        plan,
        peer=peer,
        trees=tuple(with_agents(rng, dict(tree), peer.name) for tree in plan.trees),
        lives=tuple(attrs.evolve(life, peer_denied=n >= denied_at) for n, life in enumerate(plan.lives)),
    )


def _approval(rng: Random) -> ApprovalConfig:
    def either() -> Any:
        return rng.choice(["run", "ask"])

    rules = [Rule(then="deny", tool="wipe", arguments={"level": Condition(above=DENIED_ABOVE)})]
    if rng.random() < 0.4:
        rules.append(Rule(then="ask", tool="wipe", arguments={"level": Condition(above=4)}))
    if rng.random() < 0.2:
        rules.append(Rule(then="ask", effect="read"))
    return ApprovalConfig(
        rules=tuple(rules),
        unannotated=either(),
        in_parallel=either(),
        in_loop=either(),
        expires_after=rng.choice([None, None, 5.0, 300.0]),
        on_expiry=cast(Any, rng.choice(["reject", "reject", "fail"])),
    )


def _limits(rng: Random) -> LimitsConfig:
    if rng.random() < 0.8:
        return LimitsConfig(max_turns=60)
    return LimitsConfig(
        max_turns=rng.choice([5, 20]), max_tool_calls=rng.choice([None, 4]), timeout=rng.choice([None, 10.0])
    )


def _harmful_at(number: int, lives: tuple[Life, ...]) -> tuple[Life, ...]:
    return tuple(attrs.evolve(life, peek_destructive=n >= number) for n, life in enumerate(lives))


def _lives(rng: Random) -> tuple[Life, ...]:
    lives = []
    upgraded_at, denied_at, changed_at = (rng.choice([1, 1, 2, 9]) for _ in range(3))
    count = rng.choice([0, 1, 1, 2, 3])
    for number in range(count + 1):
        life = Life(
            version=int(number >= upgraded_at),
            peek_denied=number >= denied_at,
            wipe_changed=number >= changed_at,
        )
        if number == count:
            pass
        elif rng.random() < 0.75:
            life = attrs.evolve(life, kill=Kill(rng.randint(1, 50), rng.choice(EDGES)))
        else:
            life = attrs.evolve(life, drained_after=rng.choice([0.1, 1.0, 10.0, 60.0]))
        lives.append(life)
    return tuple(lives)
