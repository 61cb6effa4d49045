"""The keys and ids of spans."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.log.fold.record import Run
from stopgo.actors.log.words.events import Origin, RunStarted
from stopgo.gateway.telemetry.spans import Place, RunTrace, nodes_around

STARTED = RunStarted("run", 1, "command", "tree", 1, token=False)


def run_of(**changed: Any) -> Run:
    return Run(attrs.evolve(STARTED, **changed), 0.0, "", "command", token=False)


def test_nodes_around_are_those_of_every_key() -> None:
    around = {"1/", "1/@2.0", "1/@2.0!2.1"}
    assert nodes_around(["1/@2.0!2.1:3.0~0", "1/@2.0!2.1>", "1/@2.0!"]) == around | {"1/@2.0!2"}


PLACE = st.builds(Place, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())


@given(PLACE)
def test_a_place_survives_its_traceparent(place: Place) -> None:
    assert Place.parse(place.traceparent) == place
    trace = RunTrace.of(run_of(origin=Origin((), place.traceparent)))
    assert (trace.id, trace.parent, trace.sampled) == (place.trace, place, place.sampled)
    assert trace.root.trace == place.trace


ZERO = [f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01"]
TOO_LONG = [f"00-{'1' * 32}-{'1' * 16}-011"]


@given(st.text() | st.sampled_from(["00-1", *ZERO, *TOO_LONG]))
def test_any_stored_text_gives_a_trace(stored: str) -> None:
    """Stored texts may come from other versions."""
    assert Place.parse(stored) is None
    trace = RunTrace.of(run_of(origin=Origin((), stored)))
    assert (trace.id, trace.parent, trace.sampled) == (RunTrace.of(run_of()).id, None, True)
    assert 0 < trace.id < 2**128


@given(st.lists(st.tuples(st.text(), st.text()), unique=True))
def test_ids_are_those_of_the_run_and_the_key(pairs: list[tuple[str, str]]) -> None:
    def places() -> list[Place]:
        return [RunTrace.of(run_of(run=run)).place(key) for run, key in pairs]

    assert places() == places()
    assert all(0 < place.span < 2**64 for place in places())
    assert len({place.span for place in places()}) == len(pairs)
