"""The reference says what the code says: every key, route, field, event, error, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import attrs
import pytest

import stopgo
from stopgo.actors.common.errors import ErrorCode
from stopgo.actors.log.words import events, keys
from stopgo.actors.models.offline.script import ScriptEntry, When
from stopgo.gateway.contract.declaration import SHAPES
from stopgo.gateway.contract.operation import Operation
from stopgo.gateway.contract.operations import OPERATIONS
from stopgo.gateway.http.errors import STATUS
from tests import python_reference, reference_tables

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


def sections(page: str) -> dict[str, list[tuple[str, ...]]]:
    """The rows of the tables of a page, without their heads, by heading."""
    found: dict[str, list[tuple[str, ...]]] = {}
    heading = ""
    for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `"):
            cells = line.split("|")[1:-1]
            found.setdefault(heading, []).append(tuple(cell.strip() for cell in cells))
    return found


def first_words(rows: list[tuple[str, ...]]) -> list[str]:
    return [row[0].strip("`") for row in rows]


# ------------------------------------------------------------------------ Python


def test_every_name_of_the_interface_is_described() -> None:
    described = [name for names in python_reference.GROUPS.values() for name in names]
    assert sorted(described) == sorted(stopgo._HOME_OF)
    headings = re.findall(r"^### (\w+)\n\n(.*)$", python_reference.page(), re.MULTILINE)
    assert [name for name, _ in headings] == described
    assert [name for name, text in headings if not text.strip()] == [], "these have no docstring"


# ------------------------------------------------------------------------- HTTP


@pytest.mark.parametrize("page", reference_tables.PAGES)
def test_generated_tables_are_current(page: str) -> None:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    assert reference_tables.generated(text) == text, f"{page} differs from the code: run `make reference`"


def test_page_reads_keys_by_the_same_grammar() -> None:
    page = (Path(stopgo.__file__).parent / "gateway" / "web" / "page" / "keys.js").read_text(encoding="utf-8")
    assert f"const STEP = /^{keys.STEP}$/;" in page


def test_every_shape_and_route_is_described() -> None:
    text = "".join((REFERENCE / page).read_text(encoding="utf-8") for page in reference_tables.PAGES)
    assert sorted(reference_tables.PART.findall(text)) == sorted(reference_tables.PARTS)
    assert {*reference_tables.BODIES, *reference_tables.FRAMES} == set(SHAPES)


# ----------------------------------------------------------------------- events


def test_every_event_is_described() -> None:
    types = [*events.TYPES, events.CONVERSATION_DELETED]
    assert sorted(first_words(sections("events.md")["Types"])) == sorted(types)


# ----------------------------------------------------------------------- errors


def codes_in(folder: str, pattern: str) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for path in (ROOT / folder).rglob("*.py"):
        found |= {match.groups() for match in re.finditer(pattern, path.read_text(encoding="utf-8"))}
    return found


def test_every_error_of_a_request_is_described() -> None:
    refused = codes_in(
        "gateway", r'(?:RequestError|bare_error|STOPPED = |NOT_STORED = )\(\s*(\d+),\s*"(\w+)"'
    )
    framework = codes_in("gateway", r'status, code, message = (\d+), "(\w+)"')
    expected = {(code, str(status)) for code, status in STATUS.items()}
    expected |= {(code, status) for status, code in refused | framework}
    assert set(get_args(ErrorCode)) <= {code for code, _ in expected}
    described = [(row[0].strip("`"), row[1]) for row in sections("errors.md")["Requests"]]
    assert sorted(described) == sorted(expected)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_every_error_of_a_route_is_described_under_its_status(operation: Operation) -> None:
    statuses = {row[0].strip("`"): row[1] for row in sections("errors.md")["Requests"]}
    for answer in operation.responses:
        named = [word for word in re.findall(r"`(\w+)`", answer.description) if word in statuses]
        assert {statuses[word] for word in named} <= {str(answer.status)}
        assert named or answer.status < 400 or operation.id == "getReadiness"


def test_every_way_a_run_can_fail_is_described() -> None:
    codes = codes_in("actors", r'(?:\bFailure|NodeFailed|\b_error)\(\s*"(\w+)"')
    assert sorted(first_words(sections("errors.md")["Runs"])) == sorted(code for (code,) in codes)


@pytest.mark.parametrize(
    ("table", "answers"), [("Requests", "Errors of requests"), ("Runs", "Runs that fail")]
)
def test_troubleshooting_covers_every_error(table: str, answers: str) -> None:
    rows = sections("../guides/troubleshoot.md")[answers]
    assert first_words(rows) == sorted(first_words(sections("errors.md")[table]))


# ----------------------------------------------------------------------- models


def test_every_key_of_a_script_is_described() -> None:
    described = sections("models.md")
    assert first_words(described["Replies"]) == [field.name for field in attrs.fields(ScriptEntry)]
    assert sorted(first_words(described["Conditions"])) == sorted(field.name for field in attrs.fields(When))
