"""The fields of objects, as they are read in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.card_reader import read_card
from stopgo.actors.a2a.wire.fields import Fields


@pytest.mark.parametrize(
    ("value", "flag"), [(True, True), (False, False), ("true", True), ("false", False), (None, None)]
)
def test_flag_is_a_boolean_or_its_word(value: Any, flag: bool | None) -> None:
    assert Fields({"on": value}).flag("on") is flag
    assert Fields({}).flag("on") is None
    card = {"name": "a", "version": "1", "url": "http://a.example", "capabilities": {"streaming": value}}
    assert read_card(card).streaming is (flag or False)


@pytest.mark.parametrize("value", [0, 1, 1.0, "", "True", "yes", "1", [], [True], {}], ids=json.dumps)
def test_nothing_else_is_a_flag(value: Any) -> None:
    with pytest.raises(A2AError, match="must be true or false"):
        Fields({"on": value}).flag("on")
