"""The gate, policy scopes and effect classes, as tables. `test_oracle` compares verdicts with an oracle."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate.gate import (
    PolicyScope,
    Verdict,
    child_scope,
    descend,
    effect_class,
    judge,
    offered,
    policy_scopes,
    root_scope,
)
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.approval import ApprovalConfig, ApprovalOverride, Condition, Rule
from stopgo.config.sections.nodes import (
    CheckpointNode,
    LlmNode,
    LoopNode,
    Node,
    ParallelNode,
    RouterNode,
    SequentialNode,
)

ACTIONS = st.sampled_from(["run", "ask", "deny"])
HINT = st.sampled_from([None, True, False])
HINTS = st.builds(Hints, HINT, HINT, HINT, HINT)
GLOB = st.none() | st.sampled_from(["*", "a", "a*", "?", "b*", "[ab]", "["])
NAME = st.sampled_from(["a", "ab", "b", "bc"])
TOOL = st.builds(lambda name, server, hints: Tool(name, "", {}, server, hints=hints), NAME, NAME, HINTS)
CONDITION = st.builds(
    Condition, equals=st.none() | st.sampled_from(["x", 1, True]), exists=st.sampled_from([True, False])
)
RULE = st.builds(
    Rule,
    then=ACTIONS,
    server=GLOB,
    tool=GLOB,
    node=GLOB,
    effect=st.sampled_from([None, None, "read", "idempotent", "once"]),
    arguments=st.dictionaries(st.sampled_from(["x", "y.z"]), CONDITION, max_size=2),
)
RULES = st.lists(RULE, max_size=4).map(tuple)
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["x", "y", "z"]), st.sampled_from(["x", 1, True, None, {"z": 1}, ["x"]]), max_size=3
)


def tool(hints: Hints = Hints(), name: str = "t", server: str = "s") -> Tool:  # noqa: B008
    return Tool(name, "", {}, server, hints=hints)


def at(*rules: Rule, **settings: Any) -> PolicyScope:
    config = AgentConfig(agent=llm("n"), approval=ApprovalConfig(rules=rules, **settings))
    return descend(root_scope(config), config.agent)


def llm(name: str, **more: Any) -> LlmNode:
    return LlmNode(name=name, prompt="p", model="m", **more)


def override(*rules: Rule, **more: Any) -> ApprovalOverride:
    return ApprovalOverride(rules=rules or None, **more)


# -------------------------------------------------------------------------- hints


@pytest.mark.parametrize(
    ("hints", "unannotated", "action", "rule"),
    [
        (Hints(read_only=True), "ask", "run", "readOnlyHint: true"),
        # modelcontextprotocol/schema/2025-11-25/schema.ts, ToolAnnotations: `destructiveHint` "is meaningful
        # only when `readOnlyHint == false`"
        (Hints(read_only=True, destructive=True), "ask", "run", "readOnlyHint: true"),
        (Hints(True, True, contradiction_asks=True), "run", "ask", "destructiveHint: true"),
        (Hints(read_only=True, contradiction_asks=True), "ask", "run", "readOnlyHint: true"),
        (Hints(destructive=True), "run", "ask", "destructiveHint: true"),
        (Hints(read_only=False, destructive=True), "run", "ask", "destructiveHint: true"),
        (Hints(destructive=False), "ask", "run", "destructiveHint: false"),
        (Hints(), "run", "run", "approval.unannotated: run"),
        (Hints(), "ask", "ask", "approval.unannotated: ask"),
        (Hints(read_only=False), "ask", "ask", "approval.unannotated: ask"),
        (Hints(idempotent=True), "ask", "ask", "approval.unannotated: ask"),
    ],
)
def test_hints_decide_without_a_rule(hints: Hints, unannotated: str, action: Any, rule: str) -> None:
    assert judge(tool(hints), {}, at(unannotated=unannotated)) == Verdict(action, rule)


@pytest.mark.parametrize(
    ("own", "unannotated", "parallel", "loop"),
    [
        ({}, "ask", "ask", "ask"),
        ({"unannotated": "run"}, "run", "ask", "ask"),
        ({"in_parallel": "run"}, "ask", "run", "ask"),
        ({"in_loop": "run"}, "ask", "ask", "run"),
    ],
)
def test_strict_defaults_ask_and_single_keys_win(
    own: dict[str, Any], unannotated: str, parallel: str, loop: str
) -> None:
    wipe, odd = tool(Hints(destructive=True)), tool(Hints())
    for defaults, expected in (("strict", (unannotated, parallel, loop)), ("permissive", ("run",) * 3)):
        scope = at(defaults=defaults, **own)
        below = attrs.evolve(scope, in_parallel=True), attrs.evolve(scope, in_loop=True)
        assert (judge(odd, {}, scope).action, *(judge(wipe, {}, each).action for each in below)) == expected


@pytest.mark.parametrize(
    ("in_parallel", "in_loop", "below", "expected"),
    [
        ("run", "run", {"in_parallel"}, Verdict("run", "approval.in_parallel: run")),
        ("ask", "run", {"in_parallel"}, Verdict("ask", "destructiveHint: true")),
        ("run", "run", {"in_loop"}, Verdict("run", "approval.in_loop: run")),
        ("run", "ask", {"in_loop"}, Verdict("ask", "destructiveHint: true")),
        (
            "run",
            "run",
            {"in_parallel", "in_loop"},
            Verdict("run", "approval.in_parallel: run and approval.in_loop: run"),
        ),
        ("ask", "run", {"in_parallel", "in_loop"}, Verdict("ask", "destructiveHint: true")),
        ("run", "ask", {"in_parallel", "in_loop"}, Verdict("ask", "destructiveHint: true")),
        ("run", "run", {"ends_on_reject"}, Verdict("ask", "destructiveHint: true")),
    ],
)
def test_asking_calls_below_parallel_nodes_and_loops(
    in_parallel: Any, in_loop: Any, below: set[str], expected: Verdict
) -> None:
    policy = ApprovalConfig(in_parallel=in_parallel, in_loop=in_loop)
    flags: dict[str, Any] = dict.fromkeys(below, True)
    scope = PolicyScope(policy=policy, **flags)
    assert judge(tool(Hints(destructive=True)), {}, scope) == expected


# -------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("rule", "action"),
    [
        (Rule(then="deny"), "deny"),
        (Rule(then="deny", server="s", tool="t", node="n", effect="once"), "deny"),
        (Rule(then="deny", server="x"), None),
        (Rule(then="deny", tool="x"), None),
        (Rule(then="deny", tool="T"), None),
        (Rule(then="deny", tool="t*"), "deny"),
        (Rule(then="deny", server="?"), "deny"),
        (Rule(then="deny", node="x"), None),
        (Rule(then="deny", node="n*"), "deny"),
        (Rule(then="deny", effect="read"), None),
        (Rule(then="deny", arguments={"name": Condition(equals="prod")}), "deny"),
        (Rule(then="deny", arguments={"name": Condition(equals="test")}), None),
        (Rule(then="deny", arguments={"place.city": Condition(matches="^P")}), "deny"),
        (Rule(then="deny", arguments={"name": Condition(equals="prod"), "no": Condition(exists=True)}), None),
        (Rule(then="run"), "run"),
        (Rule(then="ask"), "ask"),
    ],
)
def test_matching_rule_decides(rule: Rule, action: str | None) -> None:
    arguments = {"name": "prod", "place": {"city": "Paris"}}
    verdict = judge(tool(Hints(destructive=True)), arguments, at(rule))
    assert verdict.action == (action or "ask")
    assert (verdict.rule == "destructiveHint: true") == (action is None)


@given(RULES, RULES)
def test_rule_texts_are_unique(above: tuple[Rule, ...], own: tuple[Rule, ...]) -> None:
    config = AgentConfig(agent=llm("n", approval=override(*own)), approval=ApprovalConfig(rules=above))
    scope = descend(root_scope(config), config.agent)
    # One that matches is looked for alone, for only the first is ever named.
    verdicts = [
        judge(tool(), {}, attrs.evolve(scope, policy=ApprovalConfig(rules=(attrs.evolve(rule, **EVERY),))))
        for rule in scope.policy.rules
    ]
    assert len({verdict.rule for verdict in verdicts}) == len(above) + len(own)


EVERY: dict[str, Any] = {"server": None, "tool": None, "node": None, "effect": None, "arguments": {}}


def test_verdict_names_the_rule_and_keys_but_no_values() -> None:
    rule = Rule(
        then="deny",
        name="no production",
        server="*",
        tool="t",
        effect="once",
        arguments={"name": Condition(equals="secret"), "a.b": Condition(exists=False)},
    )
    assert judge(tool(), {"name": "secret"}, at(Rule(then="run", tool="x"), rule)) == Verdict(
        "deny",
        'approval.rules[1] "no production" (server: *; tool: t; effect: once; arguments: name, a.b): deny',
    )
    assert judge(tool(), {}, at(Rule(then="ask"))).rule == "approval.rules[0] (any call): ask"


# ------------------------------------------------------------------------- places


def test_node_inherits_unset_policy() -> None:
    outer, inner, own = Rule(then="run", tool="o"), Rule(then="ask", tool="i"), Rule(then="deny", tool="w")
    leaf = llm("leaf", tools=("x*",), approval=override(own, on_expiry="fail"))
    middle = SequentialNode(
        name="middle",
        agents=(leaf,),
        mcp_servers=("files",),
        tools=("y",),
        approval=override(inner, unannotated="ask", expires_after=5.0),
    )
    config = AgentConfig(
        agent=middle, approval=ApprovalConfig(rules=(outer,), in_loop="ask", expires_after=60.0)
    )
    by_name = {node.name: scope for node, scope in policy_scopes(middle, root_scope(config))}
    assert by_name["leaf"] == PolicyScope(
        node="leaf",
        ends_on_reject=True,
        servers=("files",),
        tools=("x*",),
        policy=ApprovalConfig(
            rules=(
                attrs.evolve(own, place='node "leaf" approval.rules[0]'),
                attrs.evolve(inner, place='node "middle" approval.rules[0]'),
                attrs.evolve(outer, place="approval.rules[0]"),
            ),
            unannotated="ask",
            in_loop="ask",
            expires_after=5.0,
            on_expiry="fail",
        ),
    )
    assert by_name["middle"].tools == ("y",)
    assert not by_name["middle"].ends_on_reject


def test_an_empty_list_is_not_inherited() -> None:
    child = llm("a", mcp_servers=("s",))
    config = AgentConfig(agent=SequentialNode(name="r", agents=(child,), mcp_servers=(), tools=()))
    above = child_scope(root_scope(config), config.agent)
    assert (above.servers, above.tools) == ((), ())
    assert descend(above, llm("b")).servers == ()
    assert descend(above, child).servers == ("s",)


LEAF = llm("leaf")


@pytest.mark.parametrize(
    ("node", "flags"),
    [
        (SequentialNode(name="x", agents=(LEAF,)), {"ends_on_reject"}),
        (ParallelNode(name="x", agents=(LEAF,)), {"in_parallel"}),
        (LoopNode(name="x", agents=(LEAF,)), {"in_loop", "ends_on_reject"}),
        (RouterNode(name="x", agents=(LEAF,), model="m"), set()),
        (llm("x"), set()),
        (CheckpointNode(name="x", message="?"), set()),
    ],
)
def test_every_node_kind_passes_on_its_policy_scope(node: Node, flags: set[str]) -> None:
    below = child_scope(PolicyScope(), node)
    assert {flag for flag in ("ends_on_reject", "in_parallel", "in_loop") if getattr(below, flag)} == flags
    assert descend(PolicyScope(), node) == PolicyScope(node="x")
    kept = child_scope(PolicyScope(ends_on_reject=True, in_parallel=True, in_loop=True), node)
    assert kept.ends_on_reject
    assert kept.in_parallel
    assert kept.in_loop


@pytest.mark.parametrize(
    ("servers", "tools", "seen"),
    [
        (None, None, True),
        (("s",), None, True),
        (("other",), None, False),
        ((), None, False),
        (None, ("resources_*",), True),
        (None, ("x", "*_add"), True),
        (None, ("resources",), False),
        (None, (), False),
        (("s",), ("x",), False),
        (("s*",), None, False),
    ],
)
def test_offered_tools_by_filters(servers: Any, tools: Any, seen: bool) -> None:
    assert offered(tool(name="resources_add"), PolicyScope(servers=servers, tools=tools)) == seen


# ----------------------------------------------------------------- effect classes


@pytest.mark.parametrize(
    ("hints", "approved", "effect"),
    [
        (Hints(read_only=True), False, "read"),
        (Hints(read_only=True), True, "read"),
        (Hints(idempotent=True, destructive=False), False, "idempotent"),
        (Hints(idempotent=True, destructive=False), True, "once"),
        (Hints(idempotent=True, destructive=True), False, "once"),
        (Hints(read_only=True, destructive=True), False, "read"),
        (Hints(read_only=True, destructive=True), True, "read"),
        (Hints(True, True, contradiction_asks=True), False, "once"),
        (Hints(True, True, True, contradiction_asks=True), True, "once"),
        (Hints(destructive=True), True, "once"),
        (Hints(destructive=False), False, "once"),
        (Hints(), False, "once"),
    ],
)
def test_effect_classes(hints: Hints, approved: bool, effect: str) -> None:
    assert effect_class(tool(hints), approved=approved) == effect


PAY = {"amount": Condition(above=1000)}
NESTED = {"payment.amount": Condition(above=1000)}
SMALL = {"amount": Condition(below=1000)}
SLOW = {"n": Condition(matches="^(?:a|aa)+$")}
TRAP = {"n": "a" * 60 + "!"}


@pytest.mark.parametrize(
    ("rules", "arguments", "action"),
    [
        # every value that a path may mean
        ([("ask", NESTED)], {"payment": {"amount": 99_999}, "payment.amount": 1}, "ask"),
        ([("ask", NESTED)], {"payment": {"amount": 1}, "payment.amount": 99_999}, "ask"),
        ([("ask", NESTED)], {"payment": [{"amount": 99_999}]}, "ask"),
        ([("ask", NESTED)], {"payment": '{"amount": 99999}'}, "ask"),
        ([("ask", NESTED)], {"payment": None}, "run"),
        ([("run", {"a.b": Condition(equals=1)}), ("ask", {})], {"a": {"b": 1}, "a.b": 1}, "run"),
        ([("run", {"a.b": Condition(equals=1)}), ("ask", {})], {"a": {"b": 1}, "a.b": 2}, "ask"),
        # what cannot be read
        ([("ask", PAY)], {"amount": "5,000"}, "ask"),
        ([("deny", PAY)], {"amount": [1]}, "deny"),
        ([("run", SMALL)], {"amount": "5 USD"}, "ask"),
        ([("ask", PAY)], {"amount": None}, "run"),
        # what takes too long
        ([("deny", SLOW)], TRAP, "deny"),
        ([("ask", SLOW)], TRAP, "ask"),
        ([("run", SLOW)], TRAP, "ask"),
        # an undecided rule that runs calls holds back whatever decides next, but lets nothing through
        ([("run", SMALL), ("run", {})], {"amount": "5 USD"}, "ask"),
        ([("run", SMALL), ("deny", {})], {"amount": "5 USD"}, "deny"),
        ([("run", SMALL | {"n": Condition(equals="x")})], {"amount": "5 USD", "n": "y"}, "run"),
    ],
)
@pytest.mark.parametrize("below", [{}, {"in_parallel": True}, {"in_loop": True}])
@pytest.mark.parametrize("hints", [Hints(read_only=True), Hints(destructive=False), Hints()])
def test_a_call_that_cannot_be_judged_does_not_run(
    rules: list[tuple[Any, Any]], arguments: dict[str, Any], action: str, below: Any, hints: Hints
) -> None:
    scope = attrs.evolve(at(*(Rule(then=then, arguments=wanted) for then, wanted in rules)), **below)
    assert judge(tool(hints), arguments, scope).action == action
