"""Long bodies in parts: the same text as in one piece, and no part is much work."""

import gc
import json
import warnings
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import attrs
import httpx2
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.log.words import events
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.chunked_json import PART_ITEMS, PART_SIZE, KeptParts, Many, Parted, listed, parts
from stopgo.gateway.http.responses import STRETCH
from stopgo.gateway.rest import views
from stopgo.runtime.json_text import dump_wire

TEXTS = ["a", "é\ud800", "b" * PART_SIZE, "c", "d" * (PART_SIZE // 2), "e" * (PART_SIZE // 2 + 1)]


def view(text: str) -> Mapping[str, Any]:
    return {"text": text}


@attrs.define(slots=False, eq=False)
class Body(Parted):
    many: Sequence[Any]

    def to_json(self) -> dict[str, Any]:
        return {'a "key"': 1, "many": self.many, "last": [None]}


@pytest.mark.parametrize("count", [0, 1, PART_ITEMS, PART_ITEMS + 1, 3 * PART_ITEMS, 5 * PART_ITEMS + 3])
def test_the_parts_are_the_text(count: int) -> None:
    texts = [TEXTS[number % len(TEXTS)] for number in range(count)]
    whole = dump_wire({'a "key"': 1, "many": [view(text) for text in texts], "last": [None]})
    for body in (Body(listed(texts, view, len)), Body(Many(texts, view, len))):
        assert b"".join(parts(body)) == whole
        assert dump_wire(body) == whole


class Item:
    """A message: it is replaced when it changes."""

    def __init__(self, text: str) -> None:
        self.text = text


def of_items(items: Sequence[Item], kept: KeptParts, seen: list[Item] | None = None) -> Body:
    def item_view(item: Item) -> Mapping[str, Any]:
        if seen is not None:
            seen.append(item)
        return view(item.text)

    return Body(Many(items, item_view, lambda item: len(item.text), kept))


changes = st.tuples(
    st.sampled_from([0, 1, 2, PART_ITEMS, 2 * PART_ITEMS + 1]),
    st.none() | st.integers(0, 200),
    st.integers(0, 20),
)


@given(st.lists(changes, max_size=6))
def test_kept_parts_are_the_text(found: list[tuple[int, int | None, int]]) -> None:
    items: list[Item] = []
    kept = KeptParts(lambda grown: None)
    for added, changed, removed in found:
        items = items[: max(0, len(items) - removed)]
        items += [Item(TEXTS[number % len(TEXTS)]) for number in range(added)]
        if changed is not None and changed < len(items):
            items[changed] = Item("changed")
        for _ in range(2):
            body = of_items(tuple(items), kept)
            assert b"".join(parts(body)) == dump_wire(body)


def test_kept_parts_are_not_written_again() -> None:
    sizes: list[int] = []
    kept = KeptParts(lambda grown: sizes.append(grown.size))
    items = [Item("a") for _ in range(3 * PART_ITEMS)]
    list(parts(of_items(items, kept)))
    assert sizes == sorted(sizes)
    assert len(sizes) == 2
    seen: list[Item] = []
    items.append(Item("b"))
    assert b"".join(parts(of_items(items, kept, seen))) == dump_wire(of_items(items, kept))
    assert seen == items[2 * PART_ITEMS :]


def test_kept_parts_of_two_answers_at_the_same_time() -> None:
    """Other tasks run between two stretches of an answer."""
    kept = KeptParts(lambda grown: None)
    items = [Item(str(number)) for number in range(5 * PART_ITEMS)]
    other = [*items[: 2 * PART_ITEMS], *(Item("other") for _ in range(3 * PART_ITEMS))]
    both = [[], []]  # type: list[list[bytes]]
    for pair in zip_longest(parts(of_items(items, kept)), parts(of_items(other, kept)), fillvalue=b""):
        for found, part in zip(both, pair, strict=True):
            found.append(part)
    for many, found in zip((items, other), both, strict=True):
        assert b"".join(found) == dump_wire(of_items(many, kept))
        assert b"".join(parts(of_items(many, kept))) == dump_wire(of_items(many, kept))


def test_lists_within_lists() -> None:
    def outer(texts: list[str]) -> Body:
        return Body(listed(texts, view, len))

    lists = [["a"], ["b"] * 100, [], ["c" * PART_SIZE * 2], ["d"]]
    for many in (lists, lists * 30):
        made = list(parts(Body(Many(many, outer, len))))
        assert json.loads(b"".join(made))["many"] == [
            {'a "key"': 1, "many": [view(text) for text in texts], "last": [None]} for texts in many
        ]
        assert max(made, key=len) == dump_wire([view(lists[3][0])])[1:-1]


def test_what_is_short_stays_in_one_piece() -> None:
    body = Body(listed(["a"] * PART_ITEMS, view, len))
    assert not body.is_long
    assert list(parts(body)) == [dump_wire(body)]


@pytest.mark.parametrize("texts", [["a"] * (PART_ITEMS + 1), ["a", "b" * PART_SIZE]])
def test_what_is_long_is_not(texts: list[str]) -> None:
    body = Body(listed(texts, view, len))
    assert body.is_long
    assert len(list(parts(body))) > 1


def test_a_long_list_is_read_like_any_other() -> None:
    many = Many(["a", "b"], view, len)
    assert (len(many), list(many), many[1]) == (2, [view("a"), view("b")], view("b"))


def test_no_part_is_much_work() -> None:
    seen: list[str] = []

    def counted(text: str) -> Mapping[str, Any]:
        seen.append(text)
        return view(text)

    texts = ["a"] * 1000 + ["b" * (PART_SIZE - 10)] * 5 + ["c" * 3 * PART_SIZE] + ["d"] * 10
    made = 0
    for _ in parts(Body(Many(texts, counted, len))):
        new, made = seen[made:], len(seen)
        assert len(new) <= PART_ITEMS
        assert len(new) <= 1 or sum(map(len, new)) <= PART_SIZE
    assert seen == texts


async def test_others_have_their_turn_while_a_long_answer_is_made(
    agent: Any, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5000):
        agent.grow(events.MessageAdded(f"message {number}", f"c{number}"))
    conversation = agent.conversation
    seen, most = 0, 0
    message_view = views.message_view

    def counted(message: Any) -> Any:
        nonlocal seen
        seen += 1
        return message_view(message)

    async def tick() -> None:
        nonlocal most
        while True:
            before = seen
            await trio.lowlevel.checkpoint()
            most = max(most, seen - before)

    monkeypatch.setattr(views, "message_view", counted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        answer = await client.get(f"/conversations/{ex.CONVERSATION_ID}")
        nursery.cancel_scope.cancel()
    assert seen == len(conversation.messages)
    # Two stretches may pass between two turns of another task.
    shortest = len(dump_wire(message_view(conversation.messages[-1])))
    assert most <= 2 * (STRETCH // shortest + PART_ITEMS)
    assert most < seen / 4
    told = answer.json()["conversation"]
    assert [each["content"] for each in told["messages"]] == [each.content for each in conversation.messages]
    assert list(told)[-1] == "messages"
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    asked = await client.head(f"/conversations/{ex.CONVERSATION_ID}")
    assert asked.headers["Content-Length"] == answer.headers["Content-Length"]


async def test_client_disconnect_mid_answer_leaks_nothing(
    agent: Any, raw: Any, client: httpx2.AsyncClient
) -> None:
    for number in range(20):
        agent.grow(events.MessageAdded("x" * 2**20, f"c{number}"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stream = await raw(
            f"GET /conversations/{ex.CONVERSATION_ID} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        await stream.receive_some(1000)
        await stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.05)
        gc.collect()
    assert not caught
    assert (await client.get("/health")).status_code == 200
