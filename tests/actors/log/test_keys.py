"""The grammar of keys: it reads each key that it builds, and each stored one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.log.words import keys
from tests.actors.log.rebuilt_keys import keys_of, rebuilt

UPGRADE = Path(__file__).parents[3] / "testdata" / "upgrade"

NUMBER = st.integers(0, 20)
LATER = st.integers(2, 9)
Below = Callable[[str], str]
CHILD: st.SearchStrategy[Below] = st.one_of(
    st.builds(lambda n: lambda node: keys.child(node, n), NUMBER),
    st.builds(lambda i, n: lambda node: keys.child(keys.iteration(node, i), n), NUMBER, NUMBER),
    st.builds(lambda a, n: lambda node: keys.child(keys.attempt(node, a), n), LATER, NUMBER),
    st.builds(
        lambda a, i, n: lambda node: keys.child(keys.iteration(keys.attempt(node, a), i), n),
        LATER,
        NUMBER,
        NUMBER,
    ),
)
"""From a node to one of its children, which may be that of an iteration or of a later attempt."""
STEP: st.SearchStrategy[Below] = st.one_of(
    st.just(keys.failure),
    st.just(keys.choice),
    st.builds(lambda n: lambda node: keys.reply(node, n), NUMBER),
    st.builds(lambda n: lambda node: keys.permission(node, n), NUMBER),
    st.builds(lambda n, i: lambda node: keys.call(keys.reply(node, n), i), NUMBER, NUMBER),
)
QUESTION: st.SearchStrategy[Below] = st.one_of(
    st.just(lambda call: call),
    st.builds(lambda n: lambda call: keys.permission(call, n), NUMBER),
    st.builds(lambda n: lambda call: keys.outcome(call, n), NUMBER),
    st.builds(lambda a, n: lambda call: keys.elicitation(call, a, n), NUMBER, NUMBER),
)
STEPS = st.lists(CHILD, max_size=6)
ATTEMPT = st.sampled_from([1, 2])


def below(node: str, *steps: Below) -> str:
    return reduce(lambda key, step: step(key), steps, node)


@given(NUMBER, STEPS, ATTEMPT, STEP)
def test_nodes_around_lead_to_the_root(turn: int, steps: list[Below], attempt: int, step: Below) -> None:
    node = keys.attempt(below(keys.root(turn), *steps), attempt)
    key = step(node)
    assert keys.node_of(key) == node
    way = [node]
    while (parent := keys.around(way[-1])) is not None:
        assert keys.is_within_attempt(way[-1], parent)
        way.append(parent)
    assert keys.without_attempt(way[-1]) == keys.root(turn)
    assert len(way) == len(steps) + 1 == len(keys.places(key)) + 1
    down = [each for each, _ in keys.descent(key)]
    assert down == [keys.without_attempt(each) for each in reversed(way)]


@given(NUMBER, STEPS, STEP, NUMBER, NUMBER, QUESTION, st.text())
def test_every_key_is_built_again(
    turn: int, steps: list[Below], step: Below, reply: int, index: int, question: Below, name: str
) -> None:
    node = below(keys.root(turn), *steps)
    call = keys.call(keys.reply(node, reply), index)
    assert keys.reply_of(call) == keys.reply(node, reply)
    for key in (node, step(node), question(call)):
        assert rebuilt(key) == key
    if name:
        asked = keys.delegated(call, name, index)
        assert rebuilt(asked, name) == asked
        assert keys.is_asked_during(asked, call)


def test_first_attempt_of_what_has_none() -> None:
    firsts = {"1/.0!2": "1/.0", "1/!2": "1/", "1/.0": "1/.0", "1/.0!2.1": "1/.0!2.1", "1/.0!2:3": "1/.0!2:3"}
    assert {key: keys.without_attempt(key) for key in firsts} == firsts


def test_attempt_contains_no_other() -> None:
    found = ["1/.0", "1/.0:1", "1/.0.1", "1/.0@2.1", "1/.0!2", "1/.0!2.1", "1/.01", "1/"]
    assert [key for key in found if keys.is_within_attempt(key, "1/.0")] == found[:4]
    assert [key for key in found if keys.is_within_attempt(key, "1/.0!2")] == ["1/.0!2", "1/.0!2.1"]
    assert [key for key in found if keys.is_within(key, "1/.0")] == found[:6]


def test_examples_are_keys_and_each_has_a_form_of_its_own() -> None:
    for each in keys.FORMS:
        assert keys.parse(each.example).turn == 1
    assert len({each.form for each in keys.FORMS}) == len({each.example for each in keys.FORMS})
    assert keys.delegated("1/.0:3.0", "test", 0) == keys.FORMS[-1].example


@pytest.mark.parametrize(
    "text",
    ["", "1", "/", "1/.", "1/0", "x/", "1/.0:", "1/.0:1.", "1/.0~", "1/.0:1.0^1", "1/.0:1.0~0~1", "1/\n"],
)
def test_other_texts_are_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        keys.parse(text)


@pytest.mark.parametrize("version", sorted(each.name for each in UPGRADE.iterdir()))
def test_stored_keys_are_built_again(version: str) -> None:
    """Those of earlier versions."""
    journal = f"file:{UPGRADE}/{version}/data/journal.db?mode=ro&immutable=1"
    with closing(sqlite3.connect(journal, uri=True)) as db:
        stored = db.execute("SELECT type, body FROM event").fetchall()
    found = [pair for type, body in stored for pair in keys_of(type, json.loads(body))]
    assert len(found) > 20
    assert [key for key, again in found if again != key] == []
