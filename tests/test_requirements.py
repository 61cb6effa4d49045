"""The page of requirements is complete, and the tests it names exist."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "requirements.md"
OPEN = "open"
TEST = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<name>\w+(?:::\w+)?)(?P<parameters>\[[^`]+\])?`")


@frozen
class Row:
    id: str
    requirement: str
    met_in: str
    proved_by: str


def numbered(prefix: str, last: int, digits: int = 3) -> list[str]:
    return [f"{prefix}-{number:0{digits}}" for number in range(1, last + 1)]


def sections(prefix: str, parts: dict[int, int]) -> list[str]:
    """Ids of numbered sections; a section with 0 parts stands for itself."""
    return [
        id
        for section, count in parts.items()
        for id in ([f"{prefix}{section}.{part}" for part in range(1, count + 1)] or [f"{prefix}{section}"])
    ]


SPECIFICATIONS = [
    *numbered("FR", 30),
    *numbered("NFR", 15),
    *numbered("TS", 28),
    "SPEC-6.4.1",
    "SPEC-6.4.6",
    "SPEC-6.8",
]
MULTI_SERVER = [
    *numbered("MOD", 6),
    *numbered("FR-NEW", 4),
    *numbered("FR-MOD", 3),
    *numbered("MULTI-NFR", 2),
    *numbered("UT-NEW", 10),
    *numbered("UT-MOD", 1),
    *numbered("E2E-MOD", 1),
    "E2E-EXIST",
    "MULTI-7",
]
BRIDGE_PARTS = {1: 0, 2: 0, 3: 0, 4: 4, 5: 4, 6: 7, 7: 3, 8: 3, 9: 3, 10: 3, 11: 5, 12: 0, 13: 3, 14: 3}
BRIDGE = [*sections("BRIDGE-", BRIDGE_PARTS), "BRIDGE-A", "BRIDGE-B"]
STORY = [
    *(f"STORY-AC{number}" for number in range(1, 7)),
    *sections("STORY-T", {1: 3, 2: 3, 3: 5, 4: 4, 5: 4, 6: 3, 7: 5, 8: 4}),
]
FLAG = numbered("FLAG", 21, digits=1)
EXPECTED = SPECIFICATIONS + MULTI_SERVER + BRIDGE + STORY + FLAG


def rows(page: str) -> Iterator[Row]:
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] != "id" and not set(cells[0]) <= set("-:"):
            yield Row(*cells)


@cache
def defined_tests(path: Path) -> dict[str, bool]:
    """The tests a file defines, methods as `Class::name`, each with whether it is parametrized."""
    found: dict[str, bool] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.ClassDef():
                    visit(node.body, f"{node.name}::")
                case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                    marks = "".join(ast.unparse(mark) for mark in node.decorator_list)
                    found[prefix + node.name] = "parametrize" in marks

    visit(ast.parse(path.read_text()).body, "")
    return found


def complaints(row: Row, root: Path = ROOT) -> list[str]:
    """What is wrong with one row, in sentences."""
    if OPEN in (row.met_in, row.proved_by):
        return [] if row.met_in == row.proved_by else [f"{row.id}: only half of the row is `{OPEN}`"]
    named = list(TEST.finditer(row.proved_by))
    found = [] if named else [f"{row.id}: names no test"]
    if TEST.sub("", row.proved_by).strip(" ,"):
        found.append(f"{row.id}: more than names of tests in `proved by`: {row.proved_by}")
    for match in named:
        path, name = root / match["path"], match["name"]
        if not path.is_file():
            found.append(f"{row.id}: no file {match['path']}")
        elif name not in defined_tests(path):
            found.append(f"{row.id}: no test {name} in {match['path']}")
        elif match["parameters"] and not defined_tests(path)[name]:
            found.append(f"{row.id}: {name} in {match['path']} takes no parameters")
    return found


def test_every_requirement_has_one_row_in_order() -> None:
    assert [row.id for row in rows(PAGE.read_text())] == EXPECTED
    assert len(set(EXPECTED)) == len(EXPECTED)


def test_every_row_is_open_or_names_tests_that_exist() -> None:
    assert [found for row in rows(PAGE.read_text()) for found in complaints(row)] == []


def test_every_row_names_parts_that_exist() -> None:
    parts = [(row.id, part) for row in rows(PAGE.read_text()) for part in re.findall("`([^`]+)`", row.met_in)]
    assert [(id, part) for id, part in parts if not (ROOT / part).exists()] == []
    assert [(id, part) for (id, part), count in Counter(parts).items() if count > 1] == []


def test_every_row_says_what_is_required() -> None:
    assert [row.id for row in rows(PAGE.read_text()) if not row.requirement or not row.met_in] == []


@pytest.mark.parametrize(
    ("met_in", "proved_by", "complaint"),
    [
        ("open", "open", None),
        ("config", "`tests/test_a.py::test_plain`", None),
        ("config", "`tests/test_a.py::test_plain`, `tests/test_a.py::TestB::test_method`", None),
        ("config", "`tests/test_a.py::test_many[one-2]`", None),
        ("config", "open", "only half"),
        ("config", "", "names no test"),
        ("config", "seen by eye", "names no test"),
        ("config", "`tests/test_a.py::test_plain` mostly", "more than names"),
        ("config", "`tests/test_b.py::test_plain`", "no file"),
        ("config", "`tests/test_a.py::test_gone`", "no test test_gone"),
        ("config", "`tests/test_a.py::helper`", "no test helper"),
        ("config", "`tests/test_a.py::test_plain[one]`", "takes no parameters"),
    ],
)
def test_a_row_that_does_not_hold_is_told(
    tmp_path: Path, met_in: str, proved_by: str, complaint: str | None
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text(
        "async def test_plain(): ...\n"
        "def helper(): ...\n"
        "@pytest.mark.parametrize('case', ['one-2'])\n"
        "def test_many(case): ...\n"
        "class TestB:\n"
        "    def test_method(self): ...\n"
    )
    found = complaints(Row("FR-001", "something", met_in, proved_by), tmp_path)
    if complaint is None:
        assert found == []
    else:
        assert complaint in found[0]
