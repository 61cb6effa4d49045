from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.codecs.codec import CallIds, own_names, wire_name
from stopgo.actors.models.messages.messages import ModelTool

EVERY_PROVIDER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
MISTRAL = re.compile(r"[A-Za-z0-9]{9}")
LOOSE = re.compile(r"[A-Za-z0-9_-]{1,40}")


@pytest.mark.parametrize("name", ["resources_add", "a", "_x", "List-All", "a" * 64])
def test_a_good_name_stays(name: str) -> None:
    assert wire_name(name) == name
    assert own_names([ModelTool(name, "", {})]) == {}


@given(st.lists(st.text(max_size=100), unique=True))
def test_wire_names_are_valid_and_reversible(names: list[str]) -> None:
    tools = [ModelTool(name, "", {}) for name in names]
    told = [wire_name(name) for name in names]
    back = own_names(tools)
    assert all(EVERY_PROVIDER.fullmatch(name) for name in told)
    assert [back.get(name, name) for name in told] == names


def test_names_that_differ_in_replaced_characters_stay_unique() -> None:
    assert wire_name("files.read") != wire_name("files/read")
    assert wire_name("files.read").startswith("files_read_")


@given(st.lists(st.text(max_size=50), max_size=30), st.sampled_from([MISTRAL, LOOSE]))
def test_ids_are_valid_and_differ(ids: list[str], valid: re.Pattern[str]) -> None:
    given_ids = CallIds(valid)
    told = [given_ids.give(id) for id in ids]
    assert all(valid.fullmatch(id) for id in told)
    assert len(set(told)) == len(told)


@given(st.lists(st.text(max_size=20), max_size=10), st.lists(st.text(max_size=20), max_size=10))
def test_ids_stay_when_the_history_grows(before: list[str], later: list[str]) -> None:
    short, long = CallIds(MISTRAL), CallIds(MISTRAL)
    assert [short.give(id) for id in before] == [long.give(id) for id in before + later][: len(before)]


def test_a_good_id_stays() -> None:
    ids = CallIds(LOOSE)
    assert [ids.give("toolu_01"), ids.give("toolu_02")] == ["toolu_01", "toolu_02"]
    assert ids.give("toolu_01") != "toolu_01"
