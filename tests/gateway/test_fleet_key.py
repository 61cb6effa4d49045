"""What members prove to each other with the key of the fleet."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.fleet.fleet_key import MOST_SEEN, NOTE, VALID, FleetKey, is_proof, rotate
from stopgo.runtime.journal.followed_notes import FollowedNotes
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal

URL = "http://agent-1:8080/fleet/deltas?node=b"


@attrs.define
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def pair(clock: Clock) -> tuple[FleetKey, FleetKey]:
    return FleetKey(clock, b"k" * 64), FleetKey(clock, b"k" * 64)


def test_request_and_answer_prove_the_key() -> None:
    one, other = pair(Clock())
    headers, expected = one.sign("PUT", URL, b"{}")
    proof = other.proof_for(headers["Authorization"], "PUT", URL, b"{}")
    assert proof is not None
    assert is_proof(proof, expected)
    for wrong in ("", "x", "é", headers["Authorization"].split()[-1]):
        assert not is_proof(wrong, expected)


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("GET", URL, b"{}"),
        ("PUT", URL.replace("agent-1", "agent-2"), b"{}"),  # a machine that got the address of a dead member
        ("PUT", URL.replace("node=b", "node=c"), b"{}"),
        ("PUT", URL, b'{"all": true}'),
    ],
)
def test_signature_is_of_no_use_for_another_request(method: str, url: str, body: bytes) -> None:
    one, other = pair(Clock())
    headers, _ = one.sign("PUT", URL, b"{}")
    assert other.proof_for(headers["Authorization"], method, url, body) is None
    assert other.proof_for(headers["Authorization"], "PUT", URL, b"{}") is not None


@pytest.mark.parametrize(("later", "is_taken"), [(VALID - 1, True), (VALID + 1, False), (-VALID - 1, False)])
def test_signature_is_taken_once_and_for_a_while(later: float, is_taken: bool) -> None:
    clock = Clock()
    one, other = pair(clock)
    headers, _ = one.sign("GET", URL)
    clock.now += later
    taken = [other.proof_for(headers["Authorization"], "GET", URL) is not None for _ in range(2)]
    assert taken == [is_taken, False]


def test_number_of_remembered_signatures_is_bounded() -> None:
    clock = Clock()
    one, other = pair(clock)
    other._seen = {str(number): clock.now for number in range(MOST_SEEN)}
    headers, _ = one.sign("GET", URL)
    assert other.proof_for(headers["Authorization"], "GET", URL) is None
    clock.now += 2 * VALID + 1
    headers, _ = one.sign("GET", URL)
    assert other.proof_for(headers["Authorization"], "GET", URL) is not None
    assert len(other._seen) == 1


@given(
    st.text()
    | st.lists(st.text(max_size=8), min_size=3, max_size=3).map(" ".join).map("Stopgo-Fleet {}".format)
)
def test_other_texts_prove_nothing(text: str) -> None:
    assert pair(Clock())[0].proof_for(text, "GET", URL) is None


async def test_key_is_made_once_and_followed() -> None:
    journal = MemoryJournal(lambda: 0.0)
    notes = FollowedNotes(journal)
    one, other = await FleetKey.open(notes), await FleetKey.open(FollowedNotes(journal))
    assert one._key == other._key
    before, changed = one._key, one.changed
    await rotate(journal)
    assert not changed.is_set()
    await notes.poll()
    assert changed.is_set()
    assert not one.changed.is_set()
    assert one._key != before
    headers, _ = one.sign("GET", URL)
    assert other.proof_for(headers["Authorization"], "GET", URL) is None


async def test_damaged_key_is_believed_by_nobody() -> None:
    journal = MemoryJournal(lambda: 0.0)
    notes = FollowedNotes(journal)
    key = await FleetKey.open(notes)
    for damaged in ({}, {"key": ""}, {"key": 3}):
        await journal.write_notes(NOTE, {NOTE: damaged})
        await notes.poll()
        for guess in (b"", b"3"):
            headers, _ = FleetKey(notes.wall, guess).sign("GET", URL)
            assert key.proof_for(headers["Authorization"], "GET", URL) is None
