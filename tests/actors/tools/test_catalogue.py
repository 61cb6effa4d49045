"""Names, filters and duplicates: what models can call, made of what servers list."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stopgo.actors.tools.catalogue import Catalogue, DuplicateTool, catalogue
from stopgo.actors.tools.names import plain_name, prefixed_name
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.mcp import McpServerConfig, ToolFilter
from stopgo.config.sections.nodes import LlmNode
from stopgo.config.text.wildcards import is_named

ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def server(name: str, **more: Any) -> McpServerConfig:
    return McpServerConfig(name=name, command="none", **more)


def made(*offers: tuple[McpServerConfig | str, tuple[str, ...]], **settings: Any) -> Catalogue:
    """What is made of servers and the names of their tools, in the order of the file."""
    servers = [(each if isinstance(each, McpServerConfig) else server(each), names) for each, names in offers]
    config = AgentConfig(
        agent=LlmNode(name="agent", prompt="", model="m:n"),
        mcp_servers=tuple(each for each, _ in servers),
        **settings,
    )
    listed = {
        each.name: [Tool(name, f"{name} of {each.name}", {}, each.name) for name in names]
        for each, names in servers
    }
    return catalogue(config, listed)


def names(of: Catalogue) -> list[tuple[str, str]]:
    """What models can call, each with what it is on its server."""
    return [(name, entry.own_name if isinstance(entry, Tool) else "") for name, entry in of.entries.items()]


def test_servers_and_tools_are_in_the_order_of_the_file() -> None:
    assert [name for name, _ in names(made(("b", ("z", "a")), ("a", ("m",))))] == ["z", "a", "m"]


def test_a_server_that_lists_nothing_yet_is_left_out() -> None:
    config = AgentConfig(
        agent=LlmNode(name="x", prompt="", model="m:n"), mcp_servers=(server("a"), server("b"))
    )
    assert list(catalogue(config, {"b": [Tool("x", "", {}, "b")]}).entries) == ["x"]


# ----------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("filter", "left"),
    [
        (ToolFilter(), ["read_a", "read_b", "write"]),
        (ToolFilter(include=("read_*",)), ["read_a", "read_b"]),
        (ToolFilter(include=("write", "*_a")), ["read_a", "write"]),
        (ToolFilter(exclude=("read_?",)), ["write"]),
        (ToolFilter(include=("read_*",), exclude=("*_b",)), ["read_a"]),
        (ToolFilter(include=()), []),
        (ToolFilter(include=("Read_*",)), []),
    ],
)
def test_a_server_offers_what_its_filter_admits(filter: ToolFilter, left: list[str]) -> None:
    made_of = made((server("a", tools=filter), ("read_a", "read_b", "write")), tool_names="prefixed")
    assert [own for _, own in names(made_of)] == left
    assert [tool.own_name for tool in made_of.tools] == left


def test_excluded_tool_is_excluded_under_equal_names() -> None:
    for patterns in (("drop_all",), ("drop_*",)):
        filtered = server("a", tools=ToolFilter(exclude=patterns))
        assert names(made((filtered, ("drop_all", "drop.all", "drop all", "look")))) == [("look", "look")]


def test_excluded_tool_is_no_duplicate() -> None:
    filtered = server("a", tools=ToolFilter(exclude=("x",)))
    assert names(made((filtered, ("x", "y")), ("b", ("x",)))) == [("y", "y"), ("x", "x")]


# ------------------------------------------------------------------------- names


def test_prefixed_names_say_whose_tool_it_is() -> None:
    made_of = made(("a-1", ("x", "y.z")), ("b", ("x",)), tool_names="prefixed")
    assert names(made_of) == [("mcp__a-1__x", "x"), ("mcp__a-1__y_z", "y.z"), ("mcp__b__x", "x")]


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("resources_add", "resources_add"),
        ("trigger-it", "trigger-it"),
        ("a.b/c d", "a_b_c_d"),
        ("naïve", "na_ve"),
        ("3d", "_3d"),
        ("-x", "_-x"),
        ("", "_"),
        ("x" * 64, "x" * 64),
    ],
)
def test_a_plain_name_is_one_that_every_provider_takes(own: str, name: str) -> None:
    assert plain_name(own) == name
    assert list(made(("a", (own,))).entries) == [name]


def test_a_name_that_is_cut_has_a_suffix_that_tells_it_from_others() -> None:
    one, other = plain_name("x" * 65), plain_name("x" * 66)
    assert len(one) == len(other) == 64
    assert one != other
    assert one.startswith("x" * 55 + "_")
    assert prefixed_name("Better Auth", "sign.in") == "mcp__Better_Auth__sign_in"
    assert prefixed_name("a", "x" * 60) != prefixed_name("a", "x" * 59 + "y")
    assert len(prefixed_name("s" * 100, "x")) == 64
    # The same on every start, and on every machine.
    assert (
        prefixed_name("server", "t" * 64)
        == "mcp__server__tttttttttttttttttttttttttttttttttttttttttt_f0bce70a"
    )


def test_equal_converted_names_become_unique() -> None:
    made_of = made(("a", ("x.y", "x_y", "x/y")))
    found = {own: name for name, own in names(made_of)}
    assert found["x_y"] == "x_y"
    assert re.fullmatch("x_y_[0-9a-f]{8}", found["x.y"])
    assert re.fullmatch("x_y_[0-9a-f]{8}", found["x/y"])
    assert len(made_of.entries) == 3


def test_equal_prefixed_names_become_unique() -> None:
    made_of = made(("a", ("b__c",)), ("a__b", ("c",)), tool_names="prefixed")
    assert len(made_of.entries) == 2
    assert all(name.startswith("mcp__a__b__c_") for name in made_of.entries)


own_names = st.text(st.sampled_from("ab._-/é3 \ud800") | st.characters(), max_size=70)


@example({name: ["c", "b__c"] for name in ("a", "a__b")}, "plain", "prefix")
@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(["a", "a__b", "s" * 70]), st.lists(own_names, unique=True, max_size=6)),
    st.sampled_from(["plain", "prefixed"]),
    st.sampled_from(["priority", "prefix"]),
)
def test_every_name_is_one_that_every_provider_takes_and_leads_to_one_tool(
    offers: dict[str, list[str]], tool_names: str, on_duplicate: str
) -> None:
    servers = [(name, tuple(listed)) for name, listed in offers.items()]
    try:
        made_of = made(*servers, tool_names=tool_names, on_duplicate=on_duplicate)
    except DuplicateTool:
        prefixed = [prefixed_name(name, own) for name, listed in servers for own in listed]
        assert on_duplicate == "prefix"
        assert len(set(prefixed)) < len(prefixed)
        return
    assert all(ALLOWED.fullmatch(name) for name in made_of.entries)
    assert len(made_of.entries) == len(made_of.tools)
    if on_duplicate == "prefix":
        assert len(made_of.tools) == sum(map(len, offers.values()))
    for tool in made_of.tools:
        assert made_of.entries[tool.name] is tool
        assert made_of.of_server(tool.server, tool.name) is tool


# -------------------------------------------------------------------- duplicates


def test_a_duplicate_is_an_error_in_these_words() -> None:
    with pytest.raises(DuplicateTool) as caught:
        made(("server-a", ("X",)), ("server-b", ("X",)))
    assert str(caught.value) == 'duplicate tool name "X" found in MCP servers "server-a" and "server-b"'


def test_the_lower_priority_goes_first_then_the_order_of_the_file() -> None:
    one, two, three = server("one", priority=2), server("two", priority=1), server("three", priority=2)
    made_of = made((one, ("x", "y")), (two, ("x",)), (three, ("y", "z")), on_duplicate="priority")
    assert [(tool.name, tool.server) for tool in made_of.tools] == [
        ("y", "one"),
        ("x", "two"),
        ("z", "three"),
    ]
    assert made_of.of_server("one", "x") is None


def test_server_without_priority_comes_last() -> None:
    made_of = made(("one", ("x",)), (server("two", priority=1), ("x",)), on_duplicate="priority")
    assert [tool.server for tool in made_of.tools] == ["two"]


def test_with_prefix_only_duplicates_get_longer_names() -> None:
    made_of = made(("a", ("x", "y")), ("b", ("x",)), on_duplicate="prefix")
    assert names(made_of) == [("mcp__a__x", "x"), ("y", "y"), ("mcp__b__x", "x")]


def test_prefixed_names_are_no_duplicates() -> None:
    assert len(made(("a", ("x",)), ("b", ("x",)), tool_names="prefixed").entries) == 2


def test_with_prefix_a_name_that_is_taken_all_the_same_is_an_error() -> None:
    with pytest.raises(DuplicateTool, match='"mcp__a__b__c" found in MCP servers "a" and "a__b"'):
        made(("a", ("b__c",)), ("a__b", ("c",)), ("d", ("b__c", "c")), on_duplicate="prefix")


# --------------------------------------------------------------- a server as one


def test_tools_of_a_server_that_is_one_tool_are_no_duplicates() -> None:
    one = server("fs", expose="server")
    made_of = made(("a", ("read",)), (one, ("read", "write")), (server("fs2", expose="server"), ("read",)))
    assert list(made_of.entries) == ["read", "mcp_fs", "mcp_fs2"]
    assert [(tool.server, tool.name, tool.facade) for tool in made_of.tools] == [
        ("a", "read", None),
        ("fs", "read", "mcp_fs"),
        ("fs", "write", "mcp_fs"),
        ("fs2", "read", "mcp_fs2"),
    ]


def test_a_long_name_of_a_server_that_is_one_tool_is_cut() -> None:
    """Every provider takes it, and it tells servers apart."""
    names = ["s" * 70 + end for end in "ab"]
    made_of = made(*((server(name, expose="server"), ("read",)) for name in names))
    assert len(made_of.entries) == 2
    assert all(ALLOWED.fullmatch(name) for name in made_of.entries)
    assert [tool.facade for tool in made_of.tools] == list(made_of.entries)


def test_a_server_as_one_that_has_no_tool_is_none() -> None:
    assert made((server("fs", expose="server"), ())).entries == {}


# ------------------------------------------------------- names of other servers


@pytest.mark.parametrize("on_duplicate", ["error", "priority", "prefix"])
@pytest.mark.parametrize("tool_names", ["plain", "prefixed"])
@pytest.mark.parametrize("expose", ["tools", "server"])
@pytest.mark.parametrize("own", ["mcp__good__wipe", "mcp..good__wipe", "mcp_fs", "mcp.fs"])
def test_server_cannot_use_the_tool_name_of_another_server(
    own: str, expose: str, tool_names: str, on_duplicate: str
) -> None:
    """Every name that a rule may mean says whose tool it is, under whatever name models see it."""
    evil = server("evil", expose=expose, priority=1)
    offers: Any = ((server("fs", expose="server"), ("read",)), ("good", ("wipe",)), (evil, (own,)))
    made_of = made(*offers, tool_names=tool_names, on_duplicate=on_duplicate)
    assert len(made_of.entries) == 3
    [tool] = [tool for tool in made_of.tools if tool.server == "evil"]
    assert tool.misleading
    assert tool.name == prefixed_name("evil", own)
    for pattern in ("mcp__good__*", "mcp_fs", own):
        assert not any(is_named(name, pattern) for name in tool.names_for(pattern))
    assert made_of.of_server("evil", own) is tool


def test_a_pattern_for_prefixed_names_means_a_tool_whatever_it_is_called_now() -> None:
    for others in ((), ("x",)):
        [tool, *_] = made(("a", ("x",)), ("b", others), on_duplicate="prefix").tools
        assert "mcp__a__x" in tool.names_for("mcp__a__*")
        assert "mcp__a__x" in tool.names_for("mcp__a__x")
    [tool] = made(("a", ("x",))).tools
    assert tool.names_for("mcp_*") == tool.names_for("*a*") == ("x",)


# ------------------------------------------------------------------ fingerprints


def test_name_for_models_is_not_part_of_the_fingerprint() -> None:
    (plain,), (prefixed,) = (made(("a", ("x",)), tool_names=way).tools for way in ("plain", "prefixed"))
    assert plain.name != prefixed.name
    assert plain.fingerprint == prefixed.fingerprint
    assert attrs.evolve(plain, own_name="y").fingerprint != plain.fingerprint


def test_in_which_order_a_server_writes_its_schema_is_no_change_of_the_tool() -> None:
    [tool] = made(("a", ("x",))).tools
    kinds = {"n": {"type": "string"}, "m": {"type": "integer"}}
    one = attrs.evolve(tool, input_schema={"type": "object", "properties": kinds})
    other = attrs.evolve(tool, input_schema={"properties": dict(reversed(kinds.items())), "type": "object"})
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"description": "something else"},
        {"input_schema": {"type": "object", "properties": {"n": {"type": "string"}}}},
        {"server": "b"},
        *({"listed_hints": Hints(**{name: True})} for name in ("read_only", "destructive", "idempotent")),
    ],
)
def test_whatever_a_human_is_shown_is_a_change_of_the_tool(change: dict[str, Any]) -> None:
    [tool] = made(("a", ("x",))).tools
    assert attrs.evolve(tool, **change).fingerprint != tool.fingerprint
