"""The review of tools and rules: errors at startup, and warnings then and later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.arguments.arguments import types_at
from stopgo.actors.gate.gate import judge, policy_scopes, root_scope
from stopgo.actors.gate.review import Finding, refuse, review
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.catalogue import catalogue
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule
from stopgo.config.sections.mcp import McpServerConfig, ToolFilter
from stopgo.config.sections.nodes import LlmNode
from stopgo.config.text.errors import ConfigError
from stopgo.config.text.values import Mark
from tests.actors.world import DESTRUCTIVE, HARMLESS, READ_ONLY, World, llm, sequential

Offers = Mapping[str, Sequence[Tool]]
NODE = LlmNode(name="n", prompt="p", model="m")
BOTH = Hints(read_only=True, destructive=True)


def server(name: str, **more: Any) -> McpServerConfig:
    return McpServerConfig(name=name, command="c", **more)


def tool(name: str, server: str = "a", hints: Hints = READ_ONLY, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties} if properties else {}
    return Tool(name, "", schema, server, hints=hints)


def found(
    servers: Sequence[McpServerConfig],
    offers: Offers,
    *rules: Rule,
    contradictory: Literal["ask", "read_only"] = "ask",
) -> list[Finding]:
    approval = ApprovalConfig(rules=rules, contradictory_hints=contradictory)
    config = AgentConfig(agent=NODE, mcp_servers=tuple(servers), approval=approval)
    return list(review(config, catalogue(config, offers).tools, offers))


# --------------------------------------------------------------- misspelt tools

A, B, OFF = server("a"), server("b"), server("off", enabled=False)
ONE = server("one", expose="server", facade="mcp_one")
PICKY = server("a", tools=ToolFilter(exclude=("wipe",)))
WIPE, LIST = tool("wipe"), tool("list", "b")
MISSED = 'approval.rules[0].tool: no tool is called "wiep" (did you mean "wipe"?)'


@pytest.mark.parametrize(
    ("servers", "offers", "rule", "text", "refused"),
    [
        ((A,), {"a": [WIPE]}, {"then": "deny"}, MISSED, True),
        ((A, B), {"a": [WIPE], "b": [LIST]}, {"then": "ask"}, MISSED, True),
        ((A, B), {"a": [WIPE]}, {"then": "deny", "server": "a"}, MISSED, True),
        ((A,), {"a": []}, {"then": "deny"}, 'approval.rules[0].tool: no tool is called "wiep"', True),
        ((A,), {"a": [WIPE]}, {"then": "run"}, MISSED, False),
        (
            (A,),
            {"a": [WIPE]},
            {"then": "deny", "tool": "wiep*"},
            'approval.rules[0].tool: no tool is called "wiep*" (did you mean "wipe"?)',
            False,
        ),
        (
            (A, B),
            {"a": [WIPE]},
            {"then": "deny"},
            'approval.rules[0].tool: no tool is called "wiep" so far; the tools of "b" are not known '
            '(did you mean "wipe"?)',
            False,
        ),
        (
            (A, OFF),
            {"a": [WIPE]},
            {"then": "deny"},
            'approval.rules[0].tool: no tool is called "wiep" so far; the tools of "off" are not known '
            '(did you mean "wipe"?)',
            False,
        ),
        (
            (PICKY,),
            {"a": [WIPE]},
            {"then": "deny", "tool": "wipe"},
            'approval.rules[0].tool: "wipe" is left out by tools.include, tools.exclude or on_duplicate',
            False,
        ),
        ((A, OFF), {"a": [WIPE]}, {"then": "deny", "server": "off"}, None, False),
        ((A,), {"a": [WIPE]}, {"then": "deny", "optional": True}, None, False),
        ((A, B), {"a": [WIPE], "b": []}, {"then": "deny", "tool": "wipe"}, None, False),
        ((A,), {"a": [WIPE]}, {"then": "deny", "tool": None, "effect": "once"}, None, False),
        ((ONE,), {"one": []}, {"then": "deny", "tool": "mcp_one"}, None, False),
        ((), {}, {"then": "deny"}, None, False),
    ],
)
def test_rule_about_a_known_tool_is_accepted(
    servers: Sequence[McpServerConfig], offers: Offers, rule: Any, text: str | None, refused: bool
) -> None:
    findings = found(servers, offers, Rule(**{"tool": "wiep", **rule}))
    assert [finding.text for finding in findings] == ([text] if text else [])
    assert [finding.problem is not None for finding in findings] == ([refused] if text else [])


async def test_misspelled_rule_fails_startup(world: World, autojump_clock: MockClock) -> None:
    world.tool("resources_remove", DESTRUCTIVE)
    deny: Any = {"tool": "resources_remov", "then": "deny"}
    world.settings["approval"] = {"rules": [deny, {"tool": "resources_remove", "then": "run"}]}
    own: Any = {"rules": [{"then": "ask", "tool": "zzz"}]}
    world.settings["agent"] = sequential("root", llm("a"), llm("b", approval=own))
    with pytest.raises(ConfigError) as caught:
        async with world.agent():
            pytest.fail("it started")
    assert world.running == []
    file = world.folder / "agent.yaml"
    lines = file.read_text().splitlines()
    places = [
        (number + 1, lines[number].index("tool: ") + 7)
        for word in ("zzz", "resources_remov")
        for number in [[line.rpartition(" ")[2] for line in lines].index(word)]
    ]
    assert [(problem.line, problem.column) for problem in caught.value.problems] == places
    assert str(caught.value) == (
        f"{file}:{places[0][0]}:{places[0][1]}: agent.agents[1].approval.rules[0].tool: "
        'no tool is called "zzz" (write optional: true if that is intended)\n'
        f"{file}:{places[1][0]}:{places[1][1]}: approval.rules[0].tool: "
        'no tool is called "resources_remov" (did you mean "resources_remove"?)'
    )
    deny["optional"] = own["rules"][0]["optional"] = True
    async with world.agent() as agent:
        assert not [line for line in agent.warnings if "is called" in line]


class Late(World):
    """Its server "late" has listed nothing when the agent starts."""

    here = False

    def relist(self, server: str) -> None:
        if server == "late" and not self.here:
            self._reports[server](ServerStatus(server, "disconnected", "no answer"))
        else:
            super().relist(server)

    def _listed(self, server: str) -> tuple[Tool, ...]:
        return () if server == "late" and not self.here else super()._listed(server)


@pytest.fixture
def late(tmp_path: Any) -> Late:
    return Late(tmp_path)


async def test_findings_after_startup_are_warnings(
    late: Late, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    late.tool("look", READ_ONLY)
    late.tool("wipe", HARMLESS, server="late")
    late.settings["approval"] = {
        "rules": [{"tool": name, "then": "deny"} for name in ("look", "wipe", "wiep")]
    }

    def missing(name: str, index: int, more: str = "") -> str:
        return f'approval.rules[{index}].tool: no tool is called "{name}"{more}'

    unknown = ' so far; the tools of "late" are not known'
    missed = missing("wiep", 2, ' (did you mean "wipe"?)')
    async with late.agent() as agent:
        assert list(agent.warnings) == [missing("wipe", 1, unknown), missing("wiep", 2, unknown)]
        late.here = True
        late.relist("late")
        await wait_all_tasks_blocked()
        assert list(agent.warnings) == [missed]
        late.lists("tools", tool("other", "tools"))
        await wait_all_tasks_blocked()
        assert list(agent.warnings) == [missing("look", 0), missed]
        late.relist("tools")
        await wait_all_tasks_blocked()
        assert list(agent.warnings) == [missed]
    logged = [record.getMessage() for record in caplog.records if "no tool" in record.getMessage()]
    assert logged == [missing("wipe", 1, unknown), missing("wiep", 2, unknown), missed, missing("look", 0)]


# ------------------------------------------------------------------------ hints


def contradictions(*tools: Tool, rules: Sequence[Rule] = ()) -> list[str]:
    offers = {name: [each for each in tools if each.server == name] for name in ("a", "b")}
    return [finding.text for finding in found((A, B), offers, *rules)]


def test_contradictory_hints_suggest_a_rule() -> None:
    [line, other] = contradictions(
        tool("*", hints=BOTH), tool("look: ${HOME}", hints=BOTH), WIPE, tool("peek", "b", BOTH)
    )
    assert line == (
        'MCP server "a": readOnlyHint and destructiveHint are both true for "*", "look: ${HOME}", and '
        "approval.contradictory_hints: ask makes such a tool ask; a rule lets it run: "
        "{server: a, tool: 'look: $${HOME}', then: run}"
    )
    assert other.endswith("{server: b, tool: peek, then: run}")
    [hostile] = contradictions(tool("*", hints=BOTH), tool("x" * 200, hints=BOTH))
    assert hostile.endswith("makes such a tool ask")


def test_suggested_rule_runs_the_tool_and_ends_the_warning() -> None:
    [line] = contradictions(tool("true", hints=BOTH))
    rule = Rule(**yaml.safe_load(line.partition("lets it run: ")[2]))
    config = AgentConfig(agent=NODE, approval=ApprovalConfig(rules=(rule,)))
    [(_, place)] = policy_scopes(NODE, root_scope(config))
    both = attrs.evolve(BOTH, contradiction_asks=True)
    assert judge(tool("true", hints=both), {}, place).action == "run"
    assert judge(tool("other", hints=both), {}, place).action == "ask"
    assert contradictions(tool("true", hints=BOTH), rules=(rule,)) == []
    closed = attrs.evolve(rule, only_these_arguments=True)
    assert contradictions(tool("true", hints=BOTH), rules=(closed,)) == [line]


def test_contradictory_hints_that_run_cause_no_warning() -> None:
    assert found((A,), {"a": [tool("look", hints=BOTH)]}, contradictory="read_only") == []


# ------------------------------------------------------------------------ names


def test_misleading_tool_name_is_a_warning() -> None:
    [line] = [each.text for each in found((A, B), {"a": [tool("mcp__b__wipe")], "b": []})]
    assert line == (
        'MCP server "a": "mcp__b__wipe" can be mistaken for tools of another server, so rules and node '
        'filters match only their prefixed names, such as "mcp__a__mcp__b__wipe"'
    )


def test_rule_ignores_misleading_names() -> None:
    offers = {"a": [tool("mcp__b__wipe")], "b": [LIST]}
    [_, finding] = found((A, B), offers, Rule(then="deny", tool="mcp__b__wipe"))
    assert finding.text.startswith('approval.rules[0].tool: no tool is called "mcp__b__wipe"')
    assert finding.problem is not None


@pytest.mark.parametrize(
    ("rule", "warned"),
    [
        ({"then": "run", "tool": "list"}, True),
        ({"then": "run", "tool": "l*"}, True),
        ({"then": "run", "tool": "list", "server": "b"}, False),
        ({"then": "run", "tool": "mcp__b__list"}, False),
        ({"then": "run", "effect": "read"}, False),
        ({"then": "deny", "tool": "list"}, False),
    ],
)
def test_run_rule_for_several_servers_is_a_warning(rule: Any, warned: bool) -> None:
    one, two = server("a"), server("b", expose="server")
    findings = found((one, two), {"a": [tool("list")], "b": [LIST]}, Rule(**rule))
    line = (
        'approval.rules[0]: this rule runs tools of several servers, "a", "b", and each server chooses the '
        "names of its tools (set server to choose one)"
    )
    assert [finding.text for finding in findings] == ([line] if warned else [])


# ---------------------------------------------------------------------- numbers

REFERENCE = {"$ref": "#/$defs/Amount"}
DEFS = {
    "Amount": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "Payment": {"type": "object", "properties": {"amount": REFERENCE, "note": {"type": "string"}}},
    "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "integer"}]},
}


@pytest.mark.parametrize(
    ("schema", "path", "warned"),
    [
        ({"amount": {"type": "number"}}, "amount", False),
        ({"amount": {"type": ["integer", "null"]}}, "amount", False),
        ({"amount": REFERENCE}, "amount", False),
        ({"payment": {"$ref": "#/$defs/Payment"}}, "payment.amount", False),
        ({"payment": {"$ref": "#/$defs/Payment"}}, "payment.note", True),
        ({"payment": {"$ref": "#/$defs/Payment"}}, "payment.other", True),
        ({"payment": {"$ref": "#/$defs/Payment"}, "payment.amount": {}}, "payment.amount", True),
        ({"lines": {"items": {"type": "integer"}}}, "lines.0", False),
        ({"lines": {"prefixItems": [{}], "items": {"type": "integer"}}}, "lines.0", True),
        ({"by": {"additionalProperties": {"type": "integer"}}}, "by.you", False),
        ({"amount": {"$ref": "#/$defs/Loop"}}, "amount", False),
        ({"amount": {}}, "amount", True),
        ({"amount": True}, "amount", True),
        ({"amount": {"type": "string"}}, "amount", True),
        ({"amount": {"type": ["number", "string"]}}, "amount", True),
        ({"amount": {"anyOf": [{"type": "number"}, {}]}}, "amount", True),
        ({"amount": {"$ref": "#/$defs/Nothing"}}, "amount", True),
        ({"other": {"type": "string"}}, "amount", False),
    ],
)
@pytest.mark.parametrize("condition", [Condition(above=1000), Condition(below=1)])
def test_numeric_condition_on_other_types_is_a_warning(
    schema: dict[str, Any], path: str, warned: bool, condition: Condition
) -> None:
    pay = attrs.evolve(tool("pay"), input_schema={"type": "object", "properties": schema, "$defs": DEFS})
    rule = Rule(then="ask", tool="pay", arguments={path: condition})
    texts = [finding.text for finding in found((A,), {"a": [pay]}, rule)]
    line = (
        f"approval.rules[0].arguments.{path}: above and below compare numbers, but the schema of "
        '"pay" allows other values'
    )
    assert (line in texts) == warned


CLOSED = {"properties": {"path": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("rule", "schema", "fails"),
    [
        ({"then": "deny", "tool": "read"}, CLOSED, True),
        ({"then": "ask", "tool": "r*"}, CLOSED, True),
        ({"then": "run", "tool": "read"}, CLOSED, False),
        ({"then": "deny", "tool": "read", "optional": True}, CLOSED, False),
        ({"then": "deny", "tool": "read", "shadow": True}, CLOSED, False),
        # Without `additionalProperties: false`, the tool may take it (JSON Schema 2020-12, 10.3.2.3).
        ({"then": "deny", "tool": "read"}, {"properties": CLOSED["properties"]}, False),
    ],
    ids=str,
)
def test_argument_that_no_matching_tool_has_is_an_error_for_closed_schemas(
    rule: dict[str, Any], schema: dict[str, Any], fails: bool
) -> None:
    read = attrs.evolve(tool("read"), input_schema={"type": "object", **schema})
    marked = Rule(**rule, arguments={"pahts": Condition(matches="^/etc")}, mark=Mark(7, 3))
    [finding] = found((A,), {"a": [read]}, marked)
    assert 'no tool that this rule matches takes "pahts" (did you mean "path"?)' in finding.text
    assert (finding.problem is not None) == fails
    if finding.problem is not None:
        assert (finding.problem.code, finding.problem.line) == ("unknown_argument", 7)
        assert finding.problem.key == "approval.rules[0].arguments.pahts"
    # Another server may have a tool that takes it.
    [finding] = found((A, B), {"a": [read]}, marked)
    assert finding.problem is None


def test_argument_that_must_be_missing_is_a_warning() -> None:
    read = attrs.evolve(tool("read"), input_schema={"type": "object", **CLOSED})
    rule = Rule(then="ask", tool="read", arguments={"dry_run": Condition(exists=False)})
    [finding] = found((A,), {"a": [read]}, rule)
    assert finding.problem is None


def test_schema_without_properties_may_take_other_values() -> None:
    rule = Rule(then="ask", arguments={"amount": Condition(above=1), "to": Condition(equals="x")})
    [finding] = found((A,), {"a": [tool("pay"), tool("look", text={"type": "string"})]}, rule)
    assert "arguments.amount: " in finding.text
    assert '"pay"' in finding.text
    assert '"look"' not in finding.text
    refuse([finding])


anything = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["string", "number", "#", "#/a", "a.b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "anyOf", "oneOf", "items", "$ref", "prefixItems", "a", "0"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["properties", "anyOf", "a"]), anything), st.sampled_from(["a", "a.0.b"])
)
def test_the_types_of_any_schema_can_be_looked_for(schema: dict[str, Any], path: str) -> None:
    types_at(schema, path)


def test_type_lookup_is_fast_for_any_schema() -> None:
    node: dict[str, Any] = {"type": "number"}
    for _ in range(12):
        # Each level can be reached in a hundred ways, all of them to the same schema.
        node = {"anyOf": [{"properties": {"a": node}} for _ in range(100)]}
    assert types_at(node, ".".join("a" * 12)) == frozenset({"number"})
