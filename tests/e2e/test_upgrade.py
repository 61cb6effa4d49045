"""Data directories that released versions wrote are opened by this one, and everything goes on as before.

The transcript beside each says what the version that wrote it made of it. Differences from that are listed in
its `changes.yaml`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.upgrade import UPGRADE, Difference, differences, stored_events, tell, uncovered

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

PLACES = sorted(UPGRADE.iterdir())


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_data_directory_of_a_released_version_still_works(serve: Serve, place: Path, tmp_path: Path) -> None:
    data_dir = shutil.copytree(place / "data", tmp_path / "data")
    before = stored_events(data_dir)
    told = tell(serve, place, data_dir)
    # Whatever the conversations have come to, no byte of the events that were there is another one.
    after = stored_events(data_dir)
    assert [key for key, event in before.items() if after.get(key) != event] == []

    expected = json.loads((place / "transcript.json").read_text(encoding="utf-8"))
    found = [each for part in expected for each in differences(expected[part], told[part])]
    wrong = uncovered(found, yaml.safe_load((place / "changes.yaml").read_text()))
    assert wrong == [], "\n".join(map(str, wrong))


OLD: dict[str, Any] = {"GET /x/1": {"a": [1, {"b": "c"}], "gone": {}}, "GET /x/2": [True]}
NEW: dict[str, Any] = {"GET /x/1": {"a": [2, {"b": "c"}, 3], "came": None}, "GET /x/2": [True]}
FOUND = [
    Difference("GET /x/1: a.0", "changed", 1, 2),
    Difference("GET /x/1: a.2", "added", new=3),
    Difference("GET /x/1: gone", "removed", old={}),
    Difference("GET /x/1: came", "added", new=None),
]


def test_differences_are_found_down_to_the_values() -> None:
    assert list(differences(OLD, NEW)) == FOUND
    assert list(differences(OLD, OLD)) == []


def test_each_difference_needs_a_row_and_each_row_a_difference() -> None:
    rows = [
        {"at": "GET /x/*: a.*", "kind": "added", "why": "an item more"},
        {"at": "GET /x/1: gone", "kind": "removed", "why": "nobody used it"},
        {"at": "GET /x/1: a.*", "kind": "changed", "why": "counted from 2"},
        {"at": "GET /x/*: came", "kind": "added", "why": "it is new"},
    ]
    assert uncovered(FOUND, rows) == []
    assert uncovered(FOUND, rows[1:]) == [FOUND[1]]
    assert uncovered(FOUND[1:], rows) == [f"covers nothing: {rows[2]}"]
