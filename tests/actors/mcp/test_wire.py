from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import parse_server_result
from pydantic import ValidationError

from stopgo.actors.log.words.event_json import decode, encode
from stopgo.actors.log.words.events import ToolFinished
from stopgo.actors.mcp.wire.wire import (
    MAX_DEFINITION,
    MAX_PROBLEMS,
    error_result,
    repair_listing,
    result_from_wire,
    tool_from_wire,
)
from stopgo.actors.tools.tool import Hints
from stopgo.runtime.journal.protocol import Event

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def result(**fields: Any) -> dict[str, Any]:
    return {"content": [], **fields}


def test_hints_come_from_annotations() -> None:
    wire = types.Tool.model_validate(
        {
            "name": "wipe",
            "description": "Destroy",
            "inputSchema": {"type": "object", "properties": {"a": {"enum": [1, {"b": []}]}}},
            "annotations": {"title": "Wipe it", "destructiveHint": True, "openWorldHint": False},
        },
        by_name=False,
    )
    tool = tool_from_wire(wire, "files")
    assert (tool.name, tool.description, tool.server, tool.title) == ("wipe", "Destroy", "files", "Wipe it")
    assert tool.hints == Hints(read_only=None, destructive=True, idempotent=None, open_world=False)
    assert tool.input_schema == {"type": "object", "properties": {"a": {"enum": [1, {"b": []}]}}}


def test_tool_without_annotations_has_no_hints() -> None:
    wire = types.Tool(name="plain", input_schema={"type": "object"})
    tool = tool_from_wire(wire, "files")
    assert (tool.hints, tool.description, tool.title) == (Hints(), "", None)


@pytest.mark.parametrize(
    ("notes", "hints", "fingerprint"),
    [
        ({"readOnlyHint": True}, Hints(True), "5990513f6f2a4688"),
        ({"destructiveHint": True}, Hints(None, True), "a883100889354b7a"),
        ({"readOnlyHint": False, "destructiveHint": True}, Hints(False, True), "12d863846b9a53b1"),
        ({"readOnlyHint": True, "destructiveHint": False}, Hints(True, False), None),
        (
            {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": True},
            Hints(True, True, True),
            None,
        ),
    ],
)
def test_hints_are_kept_as_listed(notes: dict[str, bool], hints: Hints, fingerprint: str | None) -> None:
    """Approvals are stored with fingerprints, so these must stay the same."""
    data = {"name": "drop", "inputSchema": {"type": "object"}, "annotations": notes}
    tool = tool_from_wire(types.Tool.model_validate(data, by_name=False), "s")
    assert tool.hints == hints
    assert fingerprint in (None, tool.fingerprint)


def test_every_block_has_a_line() -> None:
    answer = result_from_wire(
        result(
            content=[
                {"type": "text", "text": "first"},
                {"type": "image", "data": "QUJDRA==", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
                {"type": "resource_link", "uri": "file:///b", "name": "b"},
                {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
                {"type": "text", "text": ""},
                {
                    "type": "resource",
                    "resource": {"uri": "file:///c", "blob": "QUI=", "mimeType": "application/zip"},
                },
                {"type": "resource_link", "uri": "file:///d", "name": "d", "mimeType": "text/plain"},
                {"type": "text", "text": "last"},
            ],
            structuredContent={"a": 1},
        )
    )
    assert answer.content.splitlines() == [
        "first",
        "[image: image/png, 4 bytes]",
        "inside",
        "[resource: b, file:///b]",
        "[audio: audio/wav, 3 bytes]",
        "[resource: file:///c, application/zip, 2 bytes]",
        "[resource: d, file:///d, text/plain]",
        "last",
        '{"a": 1}',
    ]
    assert len(answer.parts) == 9
    assert answer.parts[1] == {"type": "image", "data": "QUJDRA==", "mimeType": "image/png"}
    assert not answer.is_error


def test_empty_result_is_named() -> None:
    assert result_from_wire(result()).content == "(empty result)"
    assert result_from_wire(result(content=[{"type": "text", "text": ""}])).content == "(empty result)"


def test_structured_content_without_text_is_json() -> None:
    answer = result_from_wire(result(structuredContent={"größe": 3}))
    assert (answer.content, answer.structured) == ('{"größe": 3}', {"größe": 3})
    image = {"type": "image", "data": "QUJDRA==", "mimeType": "image/png"}
    answer = result_from_wire(result(content=[image], structuredContent={"a": 1}))
    assert answer.content == '[image: image/png, 4 bytes]\n{"a": 1}'


def test_errors_are_results() -> None:
    assert result_from_wire(result(isError=True, content=[{"type": "text", "text": "no"}])).is_error
    assert not result_from_wire(result(isError=None)).is_error
    assert error_result("no").is_error
    assert error_result("no").parts == ({"type": "text", "text": "no"},)


_texts = st.text(max_size=20)
_known_blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _texts),
    st.builds(
        lambda kind, data: {"type": kind, "data": base64.b64encode(data).decode(), "mimeType": "a/b"},
        st.sampled_from(["image", "audio"]),
        st.binary(max_size=20),
    ),
    st.builds(lambda name: {"type": "resource_link", "uri": "file:///x", "name": name}, _texts),
    st.builds(lambda text: {"type": "resource", "resource": {"uri": "file:///x", "text": text}}, _texts),
    st.just({"type": "resource", "resource": {"uri": "file:///x", "blob": "QUI="}}),
)
_odd_blocks = json_values.filter(lambda each: not isinstance(each, dict) or "type" not in each)


@given(blocks=st.lists(_known_blocks | _odd_blocks, max_size=6), structured=st.none() | json_values)
def test_any_result_has_text_and_all_parts(blocks: list[Any], structured: Any) -> None:
    answer = result_from_wire({"content": copy.deepcopy(blocks), "structuredContent": structured})
    assert answer.content
    assert len(answer.parts) == len(blocks)
    assert answer.structured == structured
    for block, part in zip(blocks, answer.parts, strict=True):
        if isinstance(block, dict) and "type" in block:
            assert part == block
        else:
            assert part["type"] == "text"
            assert block == (part["text"] if isinstance(block, str) else json.loads(part["text"]))
        if part["type"] == "text":
            assert part["text"] in answer.content
    finished = encode(ToolFinished("1/:1.0", 1, answer))
    read = decode(Event("c", 1, finished.type, 0.0, json.loads(json.dumps(finished.body))))
    assert read.event == ToolFinished("1/:1.0", 1, answer)


TEXT = {"type": "text", "text": "paid"}


@pytest.mark.parametrize(
    ("wire", "content"),
    [
        ({}, "(empty result)"),
        ({"content": None, "_meta": {"a": 1}}, "(empty result)"),
        ({"toolResult": "paid"}, '{"toolResult": "paid"}'),  # of 2024-10-07
        ({"content": "paid"}, "paid"),
        ({"content": TEXT}, "paid"),
        ({"content": 5}, "5"),
        ({"content": [[TEXT]]}, json.dumps([TEXT])),
        ({"content": [{"text": "paid"}]}, '{"text": "paid"}'),
        *(
            (
                {"content": [TEXT, block]},
                f'paid\n[Note: the server sent a block of the type "{kind}" without a valid "{member}": '
                f"{readable}]",
            )
            for kind, member, block, readable in [
                ("text", "text", {"type": "text"}, '{"type": "text"}'),
                ("text", "text", {"type": "text", "text": None}, '{"type": "text", "text": null}'),
                ("text", "text", {"type": "text", "text": 4711}, '{"type": "text", "text": 4711}'),
                (
                    "image",
                    "mimeType",
                    {"type": "image", "data": "aGk="},
                    '{"type": "image", "data": "2 bytes"}',
                ),
                (
                    "audio",
                    "data",
                    {"type": "audio", "mimeType": "a/b"},
                    '{"type": "audio", "mimeType": "a/b"}',
                ),
                (
                    "resource_link",
                    "name",
                    {"type": "resource_link", "uri": "file:///b"},
                    '{"type": "resource_link", "uri": "file:///b"}',
                ),
                (
                    "resource",
                    "resource",
                    {"type": "resource", "resource": []},
                    '{"type": "resource", "resource": []}',
                ),
                (
                    "resource",
                    "uri",
                    {"type": "resource", "resource": {"blob": "aGk="}},
                    '{"type": "resource", "resource": {"blob": "2 bytes"}}',
                ),
            ]
        ),
    ],
)
def test_malformed_result_keeps_all_that_can_be_read(wire: dict[str, Any], content: str) -> None:
    """A call that is reported as failed is made again. Members: MCP 2025-11-25, "Tool Result"."""
    answer = result_from_wire(wire)
    assert (answer.content, answer.is_error) == (content, False)
    types.CallToolResult.model_validate({"content": [*answer.parts]}, by_name=False)


@pytest.mark.parametrize(
    ("value", "failed"),
    [
        *[(True, True), ("true", True), ("True ", True), ("1", True), (1, True), (1.0, True)],
        *[(False, False), (None, False), ("false", False), ("", False), ("no", False), ("perhaps", False)],
        *[(0, False), (2, False), ([], False), ({"a": True}, False)],
    ],
)
def test_error_is_what_the_server_calls_an_error(value: object, failed: bool) -> None:
    assert result_from_wire(result(isError=value)).is_error is failed


ORDERS = {"orders": [{"id": "A-17"}]}


@pytest.mark.parametrize(
    ("texts", "data", "appended"),
    [
        (["1 order"], ORDERS, True),
        (['{ "orders": [\n {"id":"A-17"} ] }'], ORDERS, False),
        (["1 order", json.dumps(ORDERS)], ORDERS, False),
        (['{"orders": []}'], ORDERS, True),
        # Of values that are no objects, FastMCP makes these (python-sdk, func_metadata.py).
        (["5"], {"result": 5}, False),
        (["five"], {"result": "five"}, False),
        (["a", '{"b": 1}'], {"result": ["a", {"b": 1}]}, False),
        (["a"], {"result": ["a", "b"]}, True),
        (["5"], {"result": 5, "more": 6}, True),
        (["five"], "five", False),
        (["{" * 100_000], ORDERS, True),
    ],
)
def test_structured_content_is_appended_unless_a_text_is_the_same(
    texts: list[str], data: Any, appended: bool
) -> None:
    blocks = [{"type": "text", "text": text} for text in texts]
    content = result_from_wire(result(content=blocks, structuredContent=data)).content
    assert content.splitlines() == "\n".join([*texts, *[json.dumps(data)] * appended]).splitlines()


@pytest.mark.parametrize(
    ("setting", "text", "failed", "content"),
    [
        ("append", "1 order", False, f"1 order\n{json.dumps(ORDERS)}"),
        ("only", "1 order", False, json.dumps(ORDERS)),
        ("only", "no such order", True, f"no such order\n{json.dumps(ORDERS)}"),
        ("off", "1 order", False, "1 order"),
        ("off", "", False, json.dumps(ORDERS)),
    ],
)
def test_setting_says_how_structured_content_is_shown(
    setting: Any, text: str, failed: bool, content: str
) -> None:
    wire = result(content=[{"type": "text", "text": text}], structuredContent=ORDERS, isError=failed)
    answer = result_from_wire(wire, setting)
    assert (answer.content, answer.structured, len(answer.parts)) == (content, ORDERS, 1)


@given(st.lists(_known_blocks, max_size=3), st.data())
def test_blocks_are_kept_if_the_sdk_accepts_them(blocks: list[Any], data: st.DataObject) -> None:
    for block in map(copy.deepcopy, blocks):
        holder = block["resource"] if block["type"] == "resource" and data.draw(st.booleans()) else block
        name = data.draw(st.sampled_from(sorted(holder.keys() - {"type"})))
        if data.draw(st.booleans()):
            del holder[name]
        elif data.draw(st.booleans()):
            holder[name] = data.draw(json_values)
        [part] = result_from_wire({"content": [block]}).parts
        try:
            judged = types.CallToolResult.model_validate({"content": [block]}, by_name=False)
        except ValidationError:
            assert part["type"] == "text"
            assert part["text"].startswith("[Note: ")
        else:
            [valid] = judged.content
            assert part == valid.model_dump(mode="json", by_alias=True, exclude_none=True)


def fine(_tool: Mapping[str, Any]) -> str | None:
    return None


def test_schema_without_a_type_gets_object() -> None:
    page: dict[str, Any] = {
        "tools": [
            {"name": "a", "inputSchema": {"properties": {}}},
            {"name": "b"},
            {"name": "c", "inputSchema": {"type": "string"}},
        ]
    }
    assert repair_listing(page, fine) == []
    assert [tool["inputSchema"] for tool in page["tools"]] == [
        {"type": "object", "properties": {}},
        {"type": "object"},
        {"type": "string"},
    ]


def problem_of(tool: Mapping[str, Any]) -> str | None:
    """As the SDK judges a tool."""
    try:
        parse_server_result("tools/list", "2025-06-18", {"tools": [tool]})
    except ValidationError as error:
        return str(error)
    return None


X = {"x": {"type": "string"}}


@pytest.mark.parametrize(
    ("tool", "schema"),
    [
        # php.net, json_encode: an empty array is a list
        ({"inputSchema": {"type": "object", "properties": []}}, {"type": "object"}),
        ({"inputSchema": [], "annotations": [], "_meta": []}, {"type": "object"}),
        ({"inputSchema": {"type": None, "properties": X}}, {"type": "object", "properties": X}),
        ({"inputSchema": {"type": "OBJECT", "properties": X}}, {"type": "object", "properties": X}),
        ({"inputSchema": {"type": ["object", "null"], "properties": X}}, {"type": "object", "properties": X}),
        ({"inputSchema": {"type": "dict"}}, {"type": "object"}),
        ({"inputSchema": True}, {"type": "object"}),
        ({"inputSchema": {"properties": X, "required": "x"}}, {"type": "object", "properties": X}),
    ],
)
def test_tool_with_an_odd_schema_is_kept(tool: dict[str, Any], schema: dict[str, Any]) -> None:
    page: dict[str, Any] = {"tools": [{"name": "a", "description": "d", **tool}]}
    assert repair_listing(page, problem_of) == []
    assert page["tools"] == [{"name": "a", "description": "d", "inputSchema": schema}]


@pytest.mark.parametrize(
    "tool", [{"inputSchema": {"type": "array"}}, {"inputSchema": "{}"}, {"annotations": "none"}]
)
def test_tool_whose_meaning_is_unknown_is_left_out(tool: dict[str, Any]) -> None:
    page: dict[str, Any] = {"tools": [{"name": "a", **tool}]}
    (said,) = repair_listing(page, problem_of)
    assert said.startswith("tool 0 (a): ")
    assert page["tools"] == []


@given(st.lists(st.dictionaries(st.sampled_from(["name", "inputSchema"]), json_values) | json_values))
def test_malformed_tools_are_dropped_and_named(tools: list[Any]) -> None:
    def problem_with(tool: Mapping[str, Any]) -> str | None:
        return None if isinstance(tool.get("name"), str) else "no name"

    page = {"tools": copy.deepcopy(tools), "nextCursor": "more"}
    problems = repair_listing(page, problem_with)
    names = [tool["name"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    assert [tool["name"] for tool in page["tools"]] == names
    dropped = len(tools) - len(names)
    assert len(problems) == min(dropped, MAX_PROBLEMS + 1)
    assert page["nextCursor"] == "more"


def test_malformed_output_schema_is_removed() -> None:
    def problem_with(tool: Mapping[str, Any]) -> str | None:
        return None if isinstance(tool.get("outputSchema", {}), dict) else "outputSchema: not an object"

    schema = {"type": "object"}
    page: dict[str, Any] = {
        "tools": [{"name": "good", "outputSchema": schema}, {"name": "odd", "outputSchema": "text"}]
    }
    assert repair_listing(page, problem_with) == []
    assert [tool.get("outputSchema") for tool in page["tools"]] == [schema, None]


def test_too_long_definition_is_dropped() -> None:
    long = {"name": "n" * 1000, "inputSchema": {}, "description": "x" * MAX_DEFINITION}
    page: dict[str, Any] = {"tools": [long, {"name": "good"}, *[1] * 1000]}
    problems = repair_listing(page, fine)
    assert [tool["name"] for tool in page["tools"]] == ["good"]
    assert problems[0].startswith(f"tool 0 ({'n' * 100}): its definition has ")
    assert (len(problems), problems[-1]) == (MAX_PROBLEMS + 1, f"{1001 - MAX_PROBLEMS} others")


def test_invalid_page_is_left_to_the_sdk() -> None:
    page = {"tools": "none"}
    assert repair_listing(page, fine) == []
    assert page == {"tools": "none"}
