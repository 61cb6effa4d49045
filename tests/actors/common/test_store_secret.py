from __future__ import annotations

import base64
import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common.store_secret import StoreSecret
from stopgo.runtime.journal import cursor as cursors
from stopgo.runtime.journal.errors import BadCursor

SECRET, OTHER = StoreSecret(b"one"), StoreSecret(b"two")
numbers = st.integers(0, 2**63 - 1)
names = st.lists(st.text(max_size=4), max_size=3)


def test_name_of_a_principal_that_cannot_be_encoded() -> None:
    plain = cursors.write("streams", 7)
    assert SECRET.unseal("streams", "a\udc80", SECRET.seal("streams", "a\udc80", plain)) == plain


@given(numbers)
def test_cursor_is_read_as_it_was_sealed_by_its_reader_only(number: int) -> None:
    plain = cursors.write("streams", number)
    sealed = SECRET.seal("streams", "ann", plain)
    assert SECRET.unseal("streams", "ann", sealed) == plain
    for secret, listing, by in (
        (OTHER, "streams", "ann"),
        (SECRET, "questions", "ann"),
        (SECRET, "streams", "bob"),
    ):
        with pytest.raises(BadCursor):
            secret.unseal(listing, by, sealed)  # type: ignore[arg-type]


@given(numbers, st.integers(0, 23), st.integers(1, 255))
def test_changed_cursor_is_refused(number: int, place: int, change: int) -> None:
    sealed = bytearray(
        base64.urlsafe_b64decode(SECRET.seal("streams", "ann", cursors.write("streams", number)))
    )
    sealed[place] ^= change
    with pytest.raises(BadCursor):
        SECRET.unseal("streams", "ann", base64.urlsafe_b64encode(sealed).decode())


@given(st.text() | st.binary(max_size=40).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_any_other_text_is_refused(text: str) -> None:
    with contextlib.suppress(BadCursor):
        pytest.fail(SECRET.unseal("streams", "ann", text))


@given(numbers, numbers)
def test_cursors_of_neighbours_have_nothing_in_common(one: int, other: int) -> None:
    """Their lengths are equal, and no bits of the numbers remain."""
    sealed = [SECRET.seal("streams", "ann", cursors.write("streams", number)) for number in (one, other)]
    assert [len(each) for each in sealed] == [32, 32]
    assert (sealed[0][:16] == sealed[1][:16]) == (one == other)


@given(names, names)
def test_each_list_of_names_has_an_id_of_its_own(one: list[str], other: list[str]) -> None:
    assert (SECRET.id_of(*one) == SECRET.id_of(*other)) == (one == other)
    assert SECRET.id_of(*one) != OTHER.id_of(*one)
    assert uuid.UUID(SECRET.id_of(*one)).version == 4


def test_secret_is_in_no_text() -> None:
    assert "one" not in repr(SECRET)
