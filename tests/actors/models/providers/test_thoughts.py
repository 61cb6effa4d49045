from __future__ import annotations

from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.codecs.codec import joined

_texts = st.sampled_from(["", "a", "b"])
_entries = st.fixed_dictionaries(
    {"type": st.sampled_from(["t", "u"])},
    optional={
        "index": st.integers(0, 1),
        "text": _texts | st.none(),
        "data": _texts,
        "more": _texts | st.none(),
    },
)
_pieces = _texts | st.lists(_entries | st.just("odd"), max_size=3) | st.just({"odd": 1})


def one_after_the_other(before: Any, piece: Any) -> Any:
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if not isinstance(before, list) or not isinstance(piece, list):
        return piece
    return reduce(with_entry, piece, before)


def with_entry(entries: list[Any], entry: Any) -> list[Any]:
    last = entries[-1] if entries else None
    if not isinstance(last, dict) or not isinstance(entry, dict):
        return [*entries, entry]
    names = ("text", "data")
    alike = all(last.get(key) == entry.get(key) for key in ("type", "index"))
    if not alike or not all(isinstance(each.get(key, ""), str) for key in names for each in (last, entry)):
        return [*entries, entry]
    texts = {key: last.get(key, "") + entry[key] for key in names if key in entry}
    return [
        *entries[:-1],
        {**last, **{key: each for key, each in entry.items() if each is not None}, **texts},
    ]


@given(st.lists(_pieces, min_size=1, max_size=6))
def test_one_feed_equals_many(pieces: list[Any]) -> None:
    before = repr(pieces)
    assert joined(pieces) == reduce(one_after_the_other, pieces)
    assert repr(pieces) == before
