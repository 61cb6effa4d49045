"""Whether a tool call runs, asks a human, or is denied. Pure.

Order, first match wins: the rules of the nodes above the call, the nearest first, then those of the file's
`approval`; `readOnlyHint: true` runs; `destructiveHint: true` asks; `destructiveHint: false` runs; a tool
that says nothing does what `unannotated` says. What would ask by these last two runs below a parallel node
or a loop, unless `in_parallel` or `in_loop` says otherwise; below both, each of them has to agree.

A rule's condition looks at every value that its path may mean (`readings`), and may be undecided:

* `ask` and `deny` match when, for every path, one reading holds or is undecided;
* `run` matches when, for every path, all readings hold. A `run` that is undecided (no path fails, and one
  reading cannot be decided) does not match, and the call asks if what decides next would run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from ...config.agent_config import AgentConfig
from ...config.approval import ApprovalConfig, Rule
from ...config.nodes import (
    CheckpointNode,
    LlmNode,
    LoopNode,
    Node,
    ParallelNode,
    RemoteAgentNode,
    RouterNode,
    SequentialNode,
    children_of,
)
from ...config.wildcards import is_named
from ..tools.delegation import SERVER, is_remote
from ..tools.tool import EFFECTS, EffectClass, Tool
from .conditions import Answer, Searches, answer, readings

Action: TypeAlias = Literal["run", "ask", "deny"]


@attrs.frozen
class Verdict:
    action: Action
    rule: str
    """What decided, in the words of the configuration or of the tool's annotations. No two rules of a
    configuration have the same; it holds no value that a condition compares with."""
    undecided: bool = False
    """Whether a call that would run asks, because a rule with `run` may or may not match."""


# ------------------------------------------------------------------------ places


@attrs.frozen(kw_only=True)
class Place:
    """Where in the tree a call is made, and what holds there."""

    node: str = ""
    """Name of the node; empty above the root."""
    in_parallel: bool = False
    in_loop: bool = False
    ends_on_reject: bool = False
    """A sequential node or a loop above it ends when a person rejects a call."""
    policy: ApprovalConfig = attrs.field(factory=ApprovalConfig)
    """The rules of the nearest node first."""
    servers: tuple[str, ...] | None = None
    """Names of the servers whose tools may be seen; None: all."""
    tools: tuple[str, ...] | None = None
    """Patterns of the names of the tools that may be seen; None: all."""
    agents: tuple[str, ...] = ()
    """Names of the agents that work may be delegated to."""


def root_place(config: AgentConfig) -> Place:
    """What holds above the root: where `descend` to it starts."""
    policy = config.approval
    return Place(
        policy=attrs.evolve(policy, rules=_placed(policy.rules, "approval")),
        agents=tuple(agent.name for agent in config.a2a),
    )


def descend(place: Place, node: Node) -> Place:
    """The place of a node's own calls, `place` being what holds above it: its name, filters and policy."""
    return attrs.evolve(
        place,
        node=node.name,
        policy=_overridden(place.policy, node),
        servers=place.servers if node.mcp_servers is None else node.mcp_servers,
        tools=place.tools if node.tools is None else node.tools,
        agents=place.agents if node.remote_agents is None else node.remote_agents,
    )


def children_place(place: Place, node: Node) -> Place:
    """What holds above a node's children, `place` being what holds above the node itself."""
    below = descend(place, node)
    match node:
        case SequentialNode():
            return attrs.evolve(below, ends_on_reject=True)
        case ParallelNode():
            return attrs.evolve(below, in_parallel=True)
        case LoopNode():
            return attrs.evolve(below, in_loop=True, ends_on_reject=True)
        case RouterNode() | LlmNode() | CheckpointNode() | RemoteAgentNode():
            return below
        case _:
            assert_never(node)


def places(node: Node, place: Place) -> Iterator[tuple[Node, Place]]:
    """Every node of a tree with its place, parents first; `place` is what holds above the first."""
    yield node, descend(place, node)
    for child in children_of(node):
        yield from places(child, children_place(place, node))


def _overridden(policy: ApprovalConfig, node: Node) -> ApprovalConfig:
    override = node.approval
    if override is None:
        return policy
    rules = _placed(override.rules or (), f'node "{node.name}" approval')
    said = attrs.asdict(override, recurse=False, filter=lambda _, value: value is not None)
    return attrs.evolve(policy, **{**said, "rules": (*rules, *policy.rules)})


def _placed(rules: tuple[Rule, ...], where: str) -> tuple[Rule, ...]:
    return tuple(attrs.evolve(rule, place=f"{where}.rules[{index}]") for index, rule in enumerate(rules))


# ------------------------------------------------------------------------- gate


def offered(tool: Tool, place: Place) -> bool:
    """Whether a node at this place may see, and so call, the tool."""
    if is_remote(tool.server):
        seen = tool.server.removeprefix(SERVER) in place.agents
    else:
        seen = place.servers is None or tool.server in place.servers
    return seen and (place.tools is None or any(map(tool.is_called, place.tools)))


def judge(tool: Tool, arguments: Mapping[str, Any], place: Place) -> Verdict:
    """What a call does. Whether the node may see the tool at all is for `offered` to say."""
    return judge_by_rules(tool, arguments, place)[0]


def judge_by_rules(
    tool: Tool, arguments: Mapping[str, Any], place: Place
) -> tuple[Verdict, tuple[tuple[Rule, Fit], ...]]:
    """The same, and the rules that were looked at, in order. If the last of them matches, it decided."""
    searches = Searches()
    looked_at: list[tuple[Rule, Fit]] = []
    verdict: Verdict | None = None
    for rule in place.policy.rules:
        looked_at.append((rule, fit(rule, tool, arguments, place, searches)))
        if matches(*looked_at[-1]):
            verdict = Verdict(rule.then, say(rule))
            break
    verdict = verdict or by_hints(tool, place)
    undecided = next((rule for rule, fits in looked_at if fits.answer is Answer.UNDECIDED), None)
    if undecided is not None and verdict.action == "run":
        verdict = Verdict("ask", f"{say(undecided)}, undecided", undecided=True)
    return verdict, tuple(looked_at)


@attrs.frozen
class Fit:
    """How a rule fits a call."""

    answer: Answer
    key: str | None = None
    """The first key that fails, else the first that is undecided: `server`, or the path of an argument after
    ``arguments.``."""
    value: Any = None
    """The reading of that path to which the condition has this answer."""


def matches(rule: Rule, fits: Fit) -> bool:
    """Whether a rule decides about a call that it fits like this."""
    return fits.answer is Answer.HOLDS or (fits.answer is Answer.UNDECIDED and rule.then != "run")


def fit(
    rule: Rule, tool: Tool, arguments: Mapping[str, Any], place: Place, searches: Searches | None = None
) -> Fit:
    """How a rule fits a call: each path is looked at by itself, and all of them have to hold."""
    if (key := misfit(rule, tool, place)) is not None:
        return Fit(Answer.FAILS, key)
    of_readings = min if rule.then == "run" else max
    found = Fit(Answer.HOLDS)
    for path, condition in rule.arguments.items():
        answers = [(answer(condition, value, searches), value) for value in readings(arguments, path)]
        of_path, value = of_readings(answers, key=lambda each: each[0])
        if of_path < found.answer:
            found = Fit(of_path, f"arguments.{path}", value)
        if of_path is Answer.FAILS:
            break
    return found


def misfit(rule: Rule, tool: Tool, place: Place) -> str | None:
    """The first key of a rule that is not about this tool at this place; None if the rule is about it."""
    if rule.server is not None and not is_named(tool.server, rule.server):
        return "server"
    if rule.tool is not None and not tool.is_called(rule.tool):
        return "tool"
    if rule.node is not None and not is_named(place.node, rule.node):
        return "node"
    if rule.effect is not None and rule.effect != effect_class(tool, approved=False):
        return "effect"
    return None


def by_hints(tool: Tool, place: Place) -> Verdict:
    """What a call does that no rule matches."""
    hints, policy = tool.hints, place.policy
    if hints.read_only:
        return Verdict("run", "readOnlyHint: true")
    if hints.destructive is False:
        return Verdict("run", "destructiveHint: false")
    if hints.destructive:
        verdict = Verdict("ask", "destructiveHint: true")
    else:
        verdict = Verdict(policy.unannotated, f"approval.unannotated: {policy.unannotated}")
    above = settings_above(place)
    if verdict.action == "ask" and above and all(action == "run" for _, action in above):
        return Verdict("run", " and ".join(f"approval.{key}: run" for key, _ in above))
    return verdict


def settings_above(place: Place) -> tuple[tuple[str, Literal["run", "ask"]], ...]:
    """What the kinds of nodes above a call say of one that would ask: settings of the policy, by key."""
    settings: list[tuple[str, Literal["run", "ask"]]] = []
    if place.in_parallel:
        settings.append(("in_parallel", place.policy.in_parallel))
    if place.in_loop:
        settings.append(("in_loop", place.policy.in_loop))
    return tuple(settings)


def say(rule: Rule) -> str:
    """A rule in words: where it stands, what it is called, what it looks at and what follows."""
    named = f' "{rule.name}"' if rule.name else ""
    looks = [
        f"{key}: {value}"
        for key, value in (
            ("server", rule.server),
            ("tool", rule.tool),
            ("node", rule.node),
            ("effect", rule.effect),
            ("arguments", ", ".join(rule.arguments)),
        )
        if value
    ]
    return f"{rule.place}{named} ({'; '.join(looks) or 'any call'}): {rule.then}".strip()


def effect_class(tool: Tool, *, approved: bool) -> EffectClass:
    """How often a call may be sent: `once` unless the tool says otherwise and no human approved it."""
    if approved and tool.hints.effect == "idempotent":
        return "once"
    return tool.hints.effect


def stricter(one: EffectClass, other: EffectClass) -> EffectClass:
    """Of two classes the one that allows less."""
    return EFFECTS[max(EFFECTS.index(one), EFFECTS.index(other))]


# -------------------------------------------------------------------- start-up


def unasked(config: AgentConfig, tools: Iterable[Tool]) -> Iterator[str]:
    """Say which tools that may do harm would run without asking anyone, and where."""
    tools = tuple(tools)
    for node, place in places(config.agent, root_place(config)):
        if not isinstance(node, LlmNode | RemoteAgentNode):
            continue
        for tool in tools:
            harmless = tool.hints.read_only or tool.hints.destructive is False
            if harmless or not offered(tool, place):
                continue
            verdict, sometimes = _laxest(tool, place)
            if verdict.action == "run":
                kind = "destructive" if tool.hints.destructive else "unannotated"
                runs = "runs with some arguments" if sometimes else "runs"
                yield (
                    f'{kind} tool "{tool.name}" of server "{tool.server}" {runs} without approval'
                    f' in node "{node.name}" ({verdict.rule})'
                )


def _laxest(tool: Tool, place: Place) -> tuple[Verdict, bool]:
    """What a call with the luckiest arguments does, and whether it depends on them."""
    lucky: Verdict | None = None
    stricter = False
    last = by_hints(tool, place)
    for rule in place.policy.rules:
        if misfit(rule, tool, place) is not None:
            continue
        if not rule.arguments:
            last = Verdict(rule.then, say(rule))
            break
        if rule.then != "run":
            stricter = True
        elif lucky is None:
            lucky = Verdict("run", say(rule))
    if last.action == "run" or lucky is None:
        return last, stricter
    return lucky, True
