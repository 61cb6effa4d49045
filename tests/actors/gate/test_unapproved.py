"""Which tools are named that may do harm and run without approval."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate.gate import descend, judge, root_scope
from stopgo.actors.gate.unapproved import summary, unapproved_tools
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.approval import ApprovalConfig, ApprovalOverride, Condition, Rule
from stopgo.config.sections.nodes import LoopNode, Node, ParallelNode, SequentialNode

from .test_gate import ARGUMENTS, RULE, TOOL, llm, tool

WIPE, ODD = tool(Hints(destructive=True), "wipe"), tool(Hints(), "odd")
HARMLESS = tool(Hints(read_only=True), "look"), tool(Hints(destructive=False), "add")


def config(root: Node, **approval: Any) -> AgentConfig:
    return AgentConfig(agent=root, approval=ApprovalConfig(**approval))


def said(root: Node, *tools: Tool, **approval: Any) -> str | None:
    agent = config(root, **approval)
    return summary(agent, tuple(unapproved_tools(agent, tools)))


def test_one_line_names_each_tool_with_its_node_and_reason() -> None:
    tree = SequentialNode(name="s", agents=(llm("one"), ParallelNode(name="p", agents=(llm("two"),))))
    assert said(tree, WIPE, ODD, *HARMLESS) == (
        '2 tools may do harm and run without approval: "odd" of server "s" in node "one" and 1 more '
        '(approval.unannotated: run), "wipe" of server "s" in node "two" (approval.in_parallel: run); '
        "approval.defaults: strict stops them"
    )
    assert said(tree, *HARMLESS) is None
    assert said(tree, WIPE, ODD, defaults="strict") is None


def test_the_switch_is_named_only_for_what_it_stops() -> None:
    """A rule, a single key and a node's own setting win over it."""
    line = '1 tool may do harm and runs without approval: "odd" of server "s" in node "one" '
    unannotated = f"{line}(approval.unannotated: run)"
    assert said(llm("one"), ODD) == f"{unannotated}; approval.defaults: strict stops it"
    assert said(llm("one"), ODD, unannotated="run") == unannotated
    own = llm("one", approval=ApprovalOverride(unannotated="run"))
    assert said(own, ODD, defaults="strict") == unannotated
    rule = (Rule(then="run", tool="odd"),)
    assert said(llm("one"), ODD, rules=rule) == f"{line}(approval.rules[0] (tool: odd): run)"
    assert said(llm("one"), WIPE, rules=(Rule(then="run", shadow=True),)) is None
    both = said(llm("one"), ODD, tool(Hints(), "even"), rules=rule)
    assert both is not None
    assert both.endswith("; approval.defaults: strict stops 1 of them")


def test_many_tools_are_counted() -> None:
    line = said(llm("one"), *(tool(Hints(), f"t{number}") for number in range(20)))
    assert line is not None
    assert line.startswith("20 tools may do harm and run without approval: ")
    assert (line.count("of server"), " and 12 more; " in line) == (8, True)


def test_nothing_is_said_of_tools_that_ask_are_denied_or_are_not_offered() -> None:
    tree = ParallelNode(name="p", agents=(llm("one"), LoopNode(name="l", agents=(llm("two"),))))
    assert said(tree, WIPE, ODD, unannotated="ask", in_parallel="ask", in_loop="ask") is None
    assert said(tree, WIPE, ODD, rules=(Rule(then="deny"),)) is None
    assert said(llm("one", mcp_servers=()), ODD) is None
    assert said(llm("one", tools=("wipe",)), ODD) is None


def test_a_rule_on_arguments_is_mentioned() -> None:
    small = Rule(then="run", tool="wipe", arguments={"count": Condition(below=3)})
    line = said(llm("one"), WIPE, rules=(small,))
    assert line is not None
    assert '"wipe" of server "s" with some arguments in node "one" (approval.rules[0]' in line
    assert said(llm("one"), WIPE, rules=(Rule(then="ask"), small)) is None
    assert said(llm("one"), WIPE, rules=(attrs.evolve(small, then="deny"),)) is None
    assert said(llm("one"), WIPE, rules=(attrs.evolve(small, tool="other"),)) is None
    closed = Rule(then="run", tool="wipe", only_these_arguments=True)
    line = said(llm("one"), WIPE, rules=(closed,))
    assert line is not None
    assert "with some arguments" in line


def test_a_rule_on_arguments_is_not_mentioned_if_all_calls_run() -> None:
    small = Rule(then="run", tool="wipe", arguments={"count": Condition(below=3)})
    loop = LoopNode(name="l", agents=(llm("one"),))
    [all_run] = unapproved_tools(config(loop, rules=(small,)), [WIPE])
    assert (all_run.reason, all_run.by_rule, all_run.sometimes) == ("approval.in_loop: run", False, False)
    [some] = unapproved_tools(config(loop, rules=(small, attrs.evolve(small, then="ask"))), [WIPE])
    assert (some.reason, some.by_rule, some.sometimes) == ("approval.in_loop: run", False, True)
    [by_rule] = unapproved_tools(config(llm("one"), rules=(small,)), [WIPE])
    assert (by_rule.by_rule, by_rule.sometimes) == (True, True)


@given(st.lists(RULE, max_size=3).map(tuple), TOOL, ARGUMENTS)
def test_tool_that_is_not_named_never_runs_unapproved(
    rules: tuple[Rule, ...], tool: Tool, arguments: dict[str, Any]
) -> None:
    agent = config(llm("a"), rules=rules)
    scope = descend(root_scope(agent), agent.agent)
    if tool.hints.read_only or tool.hints.destructive is False or list(unapproved_tools(agent, [tool])):
        return
    assert judge(tool, arguments, scope).action != "run"
