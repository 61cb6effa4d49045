"""The table of dialects in `runtime/json_text.py`, row by row."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.runtime.json_text import (
    MAX_DEPTH,
    dump,
    dump_wire,
    load,
    load_edge,
    load_mcp,
    load_provider,
    same,
)
from tests.test_direction import PRODUCT, ROOT

LOADERS: list[Callable[[Any], Any]] = [load, load_edge, load_provider, load_mcp]
REFUSED = "refused"
INF = float("inf")

any_text = st.text(st.characters(exclude_categories=[]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def json_values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars | text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=10,
    )


def nested(depth: int, inner: object = 0) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


def outcome(loader: Callable[[Any], Any], raw: str | bytes) -> object:
    try:
        return loader(raw)
    except ValueError:
        return REFUSED


# ----------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "own", "edge", "provider", "mcp"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}, REFUSED, {"a": 2}, {"a": 2}),
        ('[{"a": 1, "\\u0061": 2}]', [{"a": 2}], REFUSED, [{"a": 2}], [{"a": 2}]),
        ("[Infinity, 1]", [INF, 1], REFUSED, REFUSED, [None, 1]),
        ("[-1e999, 1]", [-INF, 1], REFUSED, REFUSED, [None, 1]),
        ('"x\\ud83d"', "x\ud83d", REFUSED, "x\ufffd", "x\ufffd"),
        ('"\\uDFFFx"', "\udfffx", REFUSED, "\ufffdx", "\ufffdx"),
        ('"\\ud83d\\ude00"', "😀", "😀", "😀", "😀"),
        ("[1] \r\n", [1], [1], [1], [1]),
        ("1" * 308, *[int("1" * 308)] * 4),
        ("9" * 309, 10**309 - 1, REFUSED, 10**309 - 1, 10**309 - 1),
        ("9" * 5000, REFUSED, REFUSED, REFUSED, None),
        (json.dumps(nested(MAX_DEPTH)), *[nested(MAX_DEPTH)] * 4),
        (json.dumps([[]] * 2 * MAX_DEPTH), *[[[]] * 2 * MAX_DEPTH] * 4),
        (json.dumps(nested(MAX_DEPTH + 1)), nested(MAX_DEPTH + 1), REFUSED, REFUSED, nested(MAX_DEPTH + 1)),
        ("[" * 100_000, REFUSED, REFUSED, REFUSED, REFUSED),
        *[(text, *[REFUSED] * 4) for text in ("", "{", "{} {}", '"a"b', "{'a': 1}", "nul")],
    ],
    ids=lambda value: str(value)[:20],
)
def test_each_dialect_reads_the_text(text: str, own: Any, edge: Any, provider: Any, mcp: Any) -> None:
    assert [outcome(loader, text) for loader in LOADERS] == [own, edge, provider, mcp]


@pytest.mark.parametrize(
    ("raw", "edge", "tolerant"),
    [(b'"\xff"', REFUSED, "\ufffd"), (b"\xef\xbb\xbf1", REFUSED, 1), ('"é"'.encode(), "é", "é")],
)
def test_each_dialect_reads_the_bytes(raw: bytes, edge: Any, tolerant: Any) -> None:
    assert [outcome(loader, raw) for loader in LOADERS[1:]] == [edge, tolerant, tolerant]


def test_typed_surrogate_is_refused_at_the_edge() -> None:
    assert outcome(load_edge, '"\udcff"') == REFUSED  # as in an argument of a command that is not UTF-8


@given(json_values(st.text()), st.booleans())
def test_every_dialect_reads_every_value(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert all(loader(text) == value for loader in LOADERS)


@given(st.binary(max_size=60))
def test_other_bytes_raise_only_value_errors(data: bytes) -> None:
    for loader in LOADERS[1:]:
        outcome(loader, data)


# ----------------------------------------------------------------- writing


@given(json_values(any_text))
def test_own_text_reads_back_equal_and_fits_utf_8(value: object) -> None:
    text = dump(value)
    assert load(text) == value
    assert json.loads(text.encode()) == value


@given(json_values(st.text()))
def test_wire_text_is_one_line_and_reads_back_equal(value: object) -> None:
    sent = dump_wire(value)
    assert json.loads(sent) == value
    assert b"\n" not in sent


class Shape:
    def to_json(self) -> dict[str, Any]:
        return {"b": MappingProxyType({"c": 1})}


@pytest.mark.parametrize(
    ("value", "own", "wire"),
    [
        ({"a": ["é", 1]}, '{"a":["é",1]}', '{"a":["é",1]}'),
        (MappingProxyType({"a": MappingProxyType({})}), '{"a":{}}', '{"a":{}}'),
        ([10**40, -(2**70)], f"[{10**40},{-(2**70)}]", f"[{10**40},{-(2**70)}]"),
        ({"\udfff": "é\ud800"}, '{"\\udfff":"\\u00e9\\ud800"}', '{"\ufffd":"é\ufffd"}'),
        (nested(500), json.dumps(nested(500)), json.dumps(nested(500))),
        ([INF, None, "NaN"], REFUSED, '[null,null,"NaN"]'),
        ([INF, 2**70, "Infinity"], REFUSED, f'[null,{2**70},"Infinity"]'),
        ([Shape()], REFUSED, '[{"b":{"c":1}}]'),
        ([Shape(), "\ud800"], REFUSED, '[{"b":{"c":1}},"\ufffd"]'),
        ({1, 2}, REFUSED, REFUSED),
        (object(), REFUSED, REFUSED),
    ],
    ids=lambda value: str(value)[:20],
)
def test_each_dialect_writes_the_value(value: object, own: str, wire: str) -> None:
    found = []
    for writer in (dump, dump_wire):
        try:
            written: str | bytes = writer(value)
            found.append(written if isinstance(written, str) else written.decode())
        except (TypeError, ValueError):
            found.append(REFUSED)
    assert found == [own, wire]


def test_own_text_of_a_date_is_refused() -> None:
    with pytest.raises(TypeError, match="JSON"):
        dump({"value": date(2026, 1, 1)})


# ----------------------------------------------------------------- comparing


@given(json_values(any_text), json_values(any_text))
def test_same_means_equal_as_json(one: object, other: object) -> None:
    texts = dump(one), dump(other)
    canonical = [json.dumps(each, sort_keys=True) for each in (one, other)]
    assert same(*texts) == (canonical[0] == canonical[1])
    assert same(texts[0], texts[0])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}', True),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":1}', '{"a":1.0}', False),
    ],
)
def test_order_of_names_does_not_matter_types_do(one: str, other: str, expected: bool) -> None:
    assert same(one, other) is expected


# ----------------------------------------------------------------- one module

READERS = {"load", "loads", "JSONDecoder"}
BEGINNINGS_OF_MESSAGES = ROOT / "actors" / "mcp" / "wire" / "message_bound.py"


def reads_json(path: Path) -> bool:
    if "json" not in (text := path.read_text()):
        return False  # parsing every file would take a second
    nodes = list(ast.walk(ast.parse(text)))
    imported = {  # from libraries: the `from_json` of pydantic reads text, that of `stored_json` does not
        name.name
        for node in nodes
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for name in node.names
    }
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "json"
    }
    return bool({"orjson", "from_json"} & imported or READERS & used)


def test_no_other_module_reads_json() -> None:
    assert {path for path in PRODUCT if reads_json(path)} == {
        ROOT / "runtime" / "json_text.py",
        BEGINNINGS_OF_MESSAGES,
    }
