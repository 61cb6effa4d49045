"""The keys and ids of spans."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.log.events import Origin
from stopgo.actors.log.record import Run
from stopgo.gateway.telemetry.spans import (
    Place,
    RunTrace,
    is_of_attempt,
    node_of,
    nodes_around,
    parent_of,
    places_in_tree,
    without_attempt,
)

RUN = Run("run", 1, "", "tree", 1, "command", False)
NUMBER = st.integers(0, 20)
STEP = st.one_of(
    st.builds(".{}".format, NUMBER),
    st.builds("@{}.{}".format, NUMBER, NUMBER),
    st.builds("!{}.{}".format, NUMBER, NUMBER),
    st.builds("!{}@{}.{}".format, NUMBER, NUMBER, NUMBER),
)
"""From a node to one of its children, which may be that of an iteration or of a further attempt."""
BELOW = st.sampled_from([":3", ":3.0", ":1.2~0", ">", "~"])


@given(NUMBER, st.lists(STEP, max_size=6), st.sampled_from(["", "!2"]), BELOW)
def test_parents_lead_to_the_root(turn: int, steps: list[str], attempt: str, below: str) -> None:
    node = f"{turn}/{''.join(steps)}{attempt}"
    assert node_of(f"{node}{below}") == node
    way = [node]
    while (parent := parent_of(way[-1])) is not None:
        assert way[-1].startswith(parent)
        way.append(parent)
    assert without_attempt(way[-1]) == f"{turn}/"
    assert len(way) == len(steps) + 1 == len(places_in_tree(node)) + 1
    assert nodes_around([f"{node}{below}", node]) == set(way)


def test_an_attempt_contains_no_other() -> None:
    keys = ["1/.0", "1/.0:1", "1/.0.1", "1/.0@2.1", "1/.0!2", "1/.0!2.1", "1/.01", "1/"]
    assert [key for key in keys if is_of_attempt(key, "1/.0")] == keys[:4]
    assert [key for key in keys if is_of_attempt(key, "1/.0!2")] == ["1/.0!2", "1/.0!2.1"]


PLACE = st.builds(Place, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())


@given(PLACE)
def test_a_place_survives_its_traceparent(place: Place) -> None:
    assert Place.parse(place.traceparent) == place
    trace = RunTrace.of(attrs.evolve(RUN, origin=Origin((), place.traceparent)))
    assert (trace.id, trace.parent, trace.sampled) == (place.trace, place, place.sampled)
    assert trace.root.trace == place.trace


ZERO = [f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01"]
TOO_LONG = [f"00-{'1' * 32}-{'1' * 16}-011"]


@given(st.text() | st.sampled_from(["00-1", *ZERO, *TOO_LONG]))
def test_any_stored_text_gives_a_trace(stored: str) -> None:
    """Stored texts may come from other versions."""
    assert Place.parse(stored) is None
    trace = RunTrace.of(attrs.evolve(RUN, origin=Origin((), stored)))
    assert (trace.id, trace.parent, trace.sampled) == (RunTrace.of(RUN).id, None, True)
    assert 0 < trace.id < 2**128


@given(st.lists(st.tuples(st.text(), st.text()), unique=True))
def test_ids_are_those_of_the_run_and_the_key(pairs: list[tuple[str, str]]) -> None:
    def places() -> list[Place]:
        return [RunTrace.of(attrs.evolve(RUN, id=run)).place(key) for run, key in pairs]

    assert places() == places()
    assert all(0 < place.span < 2**64 for place in places())
    assert len({place.span for place in places()}) == len(pairs)
