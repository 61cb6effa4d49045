"""What a human is shown of a call: all of it, as it is, and never more than fits."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.approvals.description import MAX_ARGUMENTS, describe, describe_call, describe_checkpoint


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("resources_add", {"name": "web-1", "value": 4}, "**ADD Resource**\n\nName: web-1\nValue: 4"),
        ("resources_remove", {"id": "7"}, "**REMOVE Resource**\n\nID: 7"),
        ("resources_remove", {"id": 7, "pattern": None}, "**REMOVE Resource**\n\nID: 7"),
        (
            "resources_remove",
            {"pattern": "^test-1$", "id": ""},
            "**REMOVE Resources**\n\nPattern: ^test-1$\n\nThis removes every resource whose name matches.",
        ),
        ("wipe", {"b": 1, "a": "é"}, '**WIPE**\n\nArgs: {"a": "é", "b": 1}'),
        ("wipe_all", {}, "**WIPE_ALL**\n\nArgs: {}"),
        ("copy", {"to": "a_b", "from": "x/y.txt"}, '**COPY**\n\nArgs: {"from": "x/y.txt", "to": "a_b"}'),
    ],
)
def test_a_call_in_words(tool: str, arguments: dict[str, Any], expected: str) -> None:
    assert describe(tool, arguments) == expected


@pytest.mark.parametrize(
    ("tool", "arguments", "parts"),
    [
        ("resources_add", {"name": "a", "value": 1, "force": True}, ["force", "true"]),
        ("resources_add", {"name": "a"}, ['"name": "a"']),
        ("resources_remove", {"id": "1", "pattern": "."}, ['"id": "1"', '"pattern": "."']),
        ("resources_remove", {"id": "1", "pattern": ""}, ['"id": "1"', '"pattern": ""']),
        ("resources_remove", {"pattern": ""}, ["Pattern: \n"]),
        ("resources_remove", {}, ["{}"]),
        ("resources_add", {"name": {"x": 1}, "value": [2]}, ['Name: {"x": 1}', "Value: `[2]`"]),
    ],
)
def test_nothing_goes_unmentioned(tool: str, arguments: dict[str, Any], parts: list[str]) -> None:
    for part in parts:
        assert part in describe(tool, arguments)


@pytest.mark.parametrize(
    ("tool", "server", "facade", "shown"),
    [
        ("wipe", "prod", None, "**WIPE**\n\nArgs: {}"),
        ("a2a_keeper", "a2a:keeper", None, "**A2A_KEEPER**\n\nArgs: {}"),
        ("wipe", "prod", "mcp_prod", "**WIPE**\n\nArgs: {}\n\nServer: prod"),
        ("mcp__prod__wipe", "prod", None, "**WIPE**\n\nArgs: {}\n\nServer: prod"),
        ("mcp__io_db__wipe", "io.db", None, "**WIPE**\n\nArgs: {}\n\nServer: io.db"),
        ("mcp__prod_0123abcd", "*p*", None, "**MCP__PROD_0123ABCD**\n\nArgs: {}\n\nServer: `*p*`"),
    ],
)
def test_a_call_names_its_server_if_another_server_may_have_the_tool(
    tool: str, server: str, facade: str | None, shown: str
) -> None:
    assert describe_call(tool, server, facade, {}) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("**APPROVED**", "`**APPROVED**`"),
        ("![x](http://evil)", "`![x](http://evil)`"),
        ("<b>", "`<b>`"),
        ("_a_", "`_a_`"),
        ("a`b", "`` a`b ``"),
        ("`` ` ```", "```` `` ` ``` ````"),
        ("x\nValue: 1", "`x\\nValue: 1`"),
        ("x\u202ey", "`x\\u202ey`"),
        ("x\x7fy\x00", "`x\\u007fy\\u0000`"),
        (" x", "`  x `"),
        ("http://evil", "`http://evil`"),
        ("a_b c.d (e) 50% $x ^y-z+", "a_b c.d (e) 50% $x ^y-z+"),
    ],
)
def test_a_text_is_shown_as_it_is_and_formats_nothing(name: str, shown: str) -> None:
    assert describe("resources_add", {"name": name, "value": 2}) == (
        f"**ADD Resource**\n\nName: {shown}\nValue: 2"
    )


def test_a_long_text_is_cut_and_says_so() -> None:
    shown = describe("resources_add", {"name": "x" * 12_344 + "!", "value": 1})
    assert f"Name: {'x' * 200}… (12,345 characters; see tool_args) …{'x' * 99}!\nValue: 1" in shown
    shown = describe("write", {"a": "x" * 5000, "z": "last"})
    assert "… (5,000 characters; see tool_args)" in shown
    assert '"z": "last"' in shown
    many = {f"key{number:04}": number for number in range(1000)}
    shown = describe("write", many)
    assert f"… ({len(json.dumps(many)):,} characters; see tool_args) …" in shown
    assert shown.endswith('"key0999": 999}')


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(
    st.sampled_from(["resources_add", "resources_remove", "wipe", "*x*"]),
    st.dictionaries(st.sampled_from(["name", "value", "id", "pattern", "other"]), JSON),
)
def test_any_call_has_a_short_description_without_tricks(tool: str, arguments: dict[str, Any]) -> None:
    shown = describe(tool, arguments)
    assert len(shown) < 8 * MAX_ARGUMENTS
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert shown.startswith("**")
    assert shown.count("\n") <= 4
    # Outside of code spans and the title nothing is formatted.
    text = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", shown.partition("\n\n")[2])
    assert not re.search(r"[`*\[\]<>\\]|://", text)
    if tool in ("wipe", "*x*") and "characters" not in shown:
        assert all(json.dumps(name) in shown for name in arguments)


@pytest.mark.parametrize(
    ("value", "block"),
    [
        ("3", "```\n3\n```"),
        ("# Approve\n\n**All is well.**", "```\n# Approve\n\n**All is well.**\n```"),
        ("```\nGo on?", "````\n```\nGo on?\n````"),
        ("a\u202eb\x1b[2J", "```\na\\u202eb\\x1b[2J\n```"),
        ("x" * 10_000, f"```\n{'x' * 10_000}\n```"),
        (" \n", "(empty)"),
    ],
)
def test_value_in_a_checkpoint_is_whole_and_cannot_pass_for_the_question(value: str, block: str) -> None:
    shown = describe_checkpoint("Publish {text}?", {"{text}": value})
    assert shown == f"Publish {{text}}?\n\n{{text}}:\n\n{block}"


def test_checkpoint_without_placeholders_is_its_message() -> None:
    assert describe_checkpoint("Go on with {json}?", {}) == "Go on with {json}?"
