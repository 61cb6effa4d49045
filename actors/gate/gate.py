"""The gate: decides whether a tool call runs, asks a human, or is denied. Pure.

The first match decides:

    ====  ======================================================  ==========================================
    step  condition                                               the call
    ====  ======================================================  ==========================================
    1     a rule matches: of the calling node, then of each node  runs, asks or is denied, as the rule says
          above it, then of the file's `approval`
    2     `readOnlyHint: true`                                    runs
    3     `destructiveHint: false`                                runs
    4     `destructiveHint: true`                                 asks
    5     neither hint                                            does what `unannotated` says
    ====  ======================================================  ==========================================

A tool with both `readOnlyHint: true` and `destructiveHint: true` counts as one with only the first, or, with
`contradictory_hints: ask`, as one with only the second.

Below a parallel node or a loop, a call that would ask by step 4 or 5 runs, unless `in_parallel` or `in_loop`
is `ask`. Below both kinds, one `ask` is enough. With `defaults: strict`, `ask` is the default of all these
settings.

A path in a rule may have several readings (`readings` in `conditions.py`), and a reading may be undecided:

    ===============  ===================================  ==================================================
    the rule says    it matches if, for every path,       an undecided rule
    ===============  ===================================  ==================================================
    `ask`, `deny`    some reading is met or is undecided   matches
    `run`            all readings are met                 does not match; a call that a later step would run
                                                          asks instead
    ===============  ===================================  ==================================================

So an argument that the gate cannot read never makes the verdict more permissive.

With `only_these_arguments: true`, a rule matches only if it names every leaf of the arguments, too: a call
with another leaf is one that the rule does not match, whatever the rule says. If it is undecided whether a
leaf is named, the rule is undecided.

A rule with `shadow: true` never decides. It is evaluated in its place, after the verdict is known. What it
would have decided, if it alone had counted, is in `Verdict.shadows`. Rules behind the one that decides are
not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from ...config.sections.agent_config import AgentConfig
from ...config.sections.approval import ApprovalConfig, Rule
from ...config.sections.nodes import Node, children_of
from ...config.text.wildcards import is_named
from ..approvals.requirement import Requirement, requirement_of
from ..tools.delegation import SERVER, is_remote
from ..tools.tool import EFFECTS, EffectClass, Tool
from .conditions import ConditionResult, Searches, evaluate, first_other_leaf, readings

Action: TypeAlias = Literal["run", "ask", "deny"]


@attrs.frozen
class ShadowVerdict:
    """The verdict that a shadow rule would have caused."""

    place: str
    """`Rule.place` of the rule."""
    action: Action


@attrs.frozen
class Verdict:
    action: Action
    rule: str
    """The rule, setting or hint that decided, in words. No two rules of a configuration have the same text.
    It contains no value of a condition."""
    undecided: bool = False
    """Whether the call asks only because a rule with `run` is undecided."""
    requires: Requirement | None = None
    """Who has to approve the call, if it asks."""
    place: str = attrs.field(default="", eq=False)
    """`Rule.place` of that rule; empty if a setting or a hint decided."""
    shadows: tuple[ShadowVerdict, ...] = attrs.field(default=(), eq=False)
    """Of the shadow rules that would have decided, in their order."""


# ----------------------------------------------------------------- policy scopes


@attrs.frozen(kw_only=True)
class PolicyScope:
    """The rules and filters that hold at a node."""

    node: str = ""
    """Name of the node; empty above the root."""
    in_parallel: bool = False
    in_loop: bool = False
    ends_on_reject: bool = False
    """Whether a rejection of a call ends a sequential node or a loop above."""
    policy: ApprovalConfig = attrs.field(factory=ApprovalConfig)
    """The rules of the nearest node first."""
    servers: tuple[str, ...] | None = None
    """Names of the servers whose tools the node may use; None: all."""
    tools: tuple[str, ...] | None = None
    """Patterns for the names of the tools that the node may use; None: all."""
    agents: tuple[str, ...] = ()
    """Names of the agents to which the node may delegate."""


def root_scope(config: AgentConfig) -> PolicyScope:
    """The policy scope above the root node: that of the agent file."""
    policy = config.approval
    return PolicyScope(
        policy=attrs.evolve(policy, rules=_placed(policy.rules, "approval")),
        agents=tuple(agent.name for agent in config.a2a),
    )


def descend(scope: PolicyScope, node: Node) -> PolicyScope:
    """The policy scope of a node's own calls. `scope` is the one above the node."""
    return attrs.evolve(
        scope,
        node=node.name,
        policy=_overridden(scope.policy, node),
        servers=scope.servers if node.mcp_servers is None else node.mcp_servers,
        tools=scope.tools if node.tools is None else node.tools,
        agents=scope.agents if node.remote_agents is None else node.remote_agents,
    )


def child_scope(scope: PolicyScope, node: Node) -> PolicyScope:
    """The policy scope above a node's children. `scope` is the one above the node itself."""
    runs = node.KIND.runs
    return attrs.evolve(
        descend(scope, node),
        in_parallel=scope.in_parallel or "together" in runs,
        in_loop=scope.in_loop or "again" in runs,
        ends_on_reject=scope.ends_on_reject or "in order" in runs,
    )


def policy_scopes(node: Node, scope: PolicyScope) -> Iterator[tuple[Node, PolicyScope]]:
    """Every node of a tree with its policy scope, parents first. `scope` is the one above `node`."""
    yield node, descend(scope, node)
    for child in children_of(node):
        yield from policy_scopes(child, child_scope(scope, node))


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


def offered(tool: Tool, scope: PolicyScope) -> bool:
    """Whether a node with this policy scope may use the tool."""
    if is_remote(tool.server):
        seen = tool.server.removeprefix(SERVER) in scope.agents
    else:
        seen = scope.servers is None or tool.server in scope.servers
    return seen and (scope.tools is None or any(map(tool.is_called, scope.tools)))


def judge(tool: Tool, arguments: Mapping[str, Any], scope: PolicyScope) -> Verdict:
    """The verdict on a call. `offered` decides whether the node may use the tool at all."""
    return judge_by_rules(tool, arguments, scope)[0]


def judge_by_rules(
    tool: Tool, arguments: Mapping[str, Any], scope: PolicyScope, searches: Searches | None = None
) -> tuple[Verdict, tuple[tuple[Rule, Fit], ...]]:
    """As `judge`, with the rules that were evaluated, in order. If the last of them matches and is no shadow
    rule, it decided."""
    searches = searches or Searches()
    evaluated: list[tuple[Rule, Fit]] = []
    verdict: Verdict | None = None
    for rule in scope.policy.rules:
        if rule.shadow:
            continue
        evaluated.append((rule, fit(rule, tool, arguments, scope, searches)))
        if matches(*evaluated[-1]):
            verdict = Verdict(rule.then, rule_text(rule), requires=requirement_of(rule), place=rule.place)
            break
    verdict = verdict or by_hints(tool, scope)
    runs = verdict.action == "run"
    undecided = next((rule for rule, fits in evaluated if fits.result is ConditionResult.UNDECIDED), None)
    if undecided is not None and runs:
        verdict = Verdict("ask", f"{rule_text(undecided)}, undecided", undecided=True, place=undecided.place)
    if any(rule.shadow for rule in scope.policy.rules):
        evaluated = list(_with_shadow_rules(evaluated, tool, arguments, scope))
        verdict = attrs.evolve(verdict, shadows=tuple(_shadow_verdicts(evaluated, runs)))
    return verdict, tuple(evaluated)


def _with_shadow_rules(
    evaluated: Sequence[tuple[Rule, Fit]], tool: Tool, arguments: Mapping[str, Any], scope: PolicyScope
) -> Iterator[tuple[Rule, Fit]]:
    """The evaluated rules, with the shadow rules up to the one that decided. Their searches have a time of
    their own, because a search that takes too long would change what the other rules decide."""
    searches, others = Searches(), iter(evaluated)
    for rule in scope.policy.rules:
        if rule.shadow:
            yield rule, fit(rule, tool, arguments, scope, searches)
            continue
        other = next(others)
        yield other
        if matches(*other):
            return


def _shadow_verdicts(evaluated: Iterable[tuple[Rule, Fit]], runs: bool) -> Iterator[ShadowVerdict]:
    """`runs`: whether the call runs, but for rules that are undecided."""
    asks_before = False
    for rule, fits in evaluated:
        if not rule.shadow:
            asks_before |= fits.result is ConditionResult.UNDECIDED
        elif matches(rule, fits):
            if rule.then != "run" or not asks_before:
                yield ShadowVerdict(rule.place, rule.then)
        elif fits.result is ConditionResult.UNDECIDED and runs and not asks_before:
            yield ShadowVerdict(rule.place, "ask")


def depends_on_arguments(tool: Tool, scope: PolicyScope) -> bool:
    """Whether the verdict on a call of the tool may depend on its arguments."""
    deciding = (rule for rule in scope.policy.rules if not rule.shadow)
    return any(rule.reads_arguments and mismatch(rule, tool, scope) is None for rule in deciding)


@attrs.frozen
class Fit:
    """The result of a rule's evaluation for a call."""

    result: ConditionResult
    key: str | None = None
    """The first key that fails, else the first that is undecided: for instance `server`, or ``arguments.``
    followed by the path of an argument."""
    value: Any = None
    """The reading of that path with this result; for `only_these_arguments`, the path of the other leaf."""


def matches(rule: Rule, fits: Fit) -> bool:
    """Whether a rule with this result decides the call."""
    return fits.result is ConditionResult.MET or (
        fits.result is ConditionResult.UNDECIDED and rule.then != "run"
    )


def fit(
    rule: Rule, tool: Tool, arguments: Mapping[str, Any], scope: PolicyScope, searches: Searches | None = None
) -> Fit:
    """Evaluate a rule for a call: the conditions of all its paths have to be met, and, if the rule is closed,
    there may be no other leaf."""
    if (key := mismatch(rule, tool, scope)) is not None:
        return Fit(ConditionResult.FAILS, key)
    of_readings = min if rule.then == "run" else max
    closed = rule.only_these_arguments
    found = Fit(ConditionResult.MET)
    if closed:
        result, other = first_other_leaf(arguments, rule.arguments)
        if other is not None:
            found = Fit(result, "only_these_arguments", other)
        if result is ConditionResult.FAILS:
            return found
    for path, condition in rule.arguments.items():
        results = [
            (evaluate(condition, value, searches, whole=closed), value) for value in readings(arguments, path)
        ]
        of_path, value = of_readings(results, key=lambda each: each[0])
        if of_path < found.result:
            found = Fit(of_path, f"arguments.{path}", value)
        if of_path is ConditionResult.FAILS:
            break
    return found


def mismatch(rule: Rule, tool: Tool, scope: PolicyScope) -> str | None:
    """The first key of a rule, other than its arguments, that does not fit this tool and node; None if all
    fit."""
    if rule.server is not None and not is_named(tool.server, rule.server):
        return "server"
    if rule.tool is not None and not tool.is_called(rule.tool):
        return "tool"
    if rule.node is not None and not is_named(scope.node, rule.node):
        return "node"
    if rule.effect is not None and rule.effect != effect_class(tool, approved=False):
        return "effect"
    return None


def by_hints(tool: Tool, scope: PolicyScope) -> Verdict:
    """The verdict on a call that no rule matches."""
    hints, policy = tool.hints.in_effect, scope.policy
    if hints.read_only:
        return Verdict("run", "readOnlyHint: true")
    if hints.destructive is False:
        return Verdict("run", "destructiveHint: false")
    if hints.destructive:
        verdict = Verdict("ask", "destructiveHint: true")
    else:
        action = policy.action("unannotated")
        verdict = Verdict(action, f"approval.unannotated: {action}")
    above = settings_above(scope)
    if verdict.action == "ask" and above and all(action == "run" for _, action in above):
        return Verdict("run", " and ".join(f"approval.{key}: run" for key, _ in above))
    return verdict


def settings_above(scope: PolicyScope) -> tuple[tuple[str, Literal["run", "ask"]], ...]:
    """The settings for calls below a parallel node or a loop that apply in this policy scope, by key."""
    settings: list[tuple[str, Literal["run", "ask"]]] = []
    if scope.in_parallel:
        settings.append(("in_parallel", scope.policy.action("in_parallel")))
    if scope.in_loop:
        settings.append(("in_loop", scope.policy.action("in_loop")))
    return tuple(settings)


def rule_text(rule: Rule) -> str:
    """A rule in words: its position, name, keys and action."""
    named = f' "{rule.name}"' if rule.name else ""
    keys = [
        f"{key}: {value}"
        for key, value in (
            ("server", rule.server),
            ("tool", rule.tool),
            ("node", rule.node),
            ("effect", rule.effect),
            ("arguments", ", ".join(rule.arguments)),
            ("only_these_arguments", "true" if rule.only_these_arguments else ""),
            ("shadow", "true" if rule.shadow else ""),
        )
        if value
    ]
    return f"{rule.place}{named} ({'; '.join(keys) or 'any call'}): {rule.then}".strip()


def effect_class(tool: Tool, *, approved: bool) -> EffectClass:
    """The effect class of a call. A human's approval makes `idempotent` stricter: they approved one call."""
    if approved and tool.hints.effect == "idempotent":
        return "once"
    return tool.hints.effect


def stricter(one: EffectClass, other: EffectClass) -> EffectClass:
    """The stricter of two effect classes."""
    return EFFECTS[max(EFFECTS.index(one), EFFECTS.index(other))]
