"""The checks at the end of each story of a fleet, against the database, the ledger and every member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg

from tests.waiting import until_true

from .cluster import Cluster
from .people import Person, Reader, request


def finish(people: Sequence[Person]) -> None:
    """Wait for the people. Raises what failed one of them."""
    for person in people:
        person.join()
        if person.failure is not None:
            raise AssertionError(f"{person.name_}: {person.failure}") from person.failure


def audit(cluster: Cluster, dsn: str, people: Sequence[Person], readers: Sequence[Reader] = ()) -> None:
    """Everything was answered once and done as often as it was said; all members agree."""
    events = _events(dsn)
    ledger = cluster.ledger()
    for person in people:
        _check_log(events[person.conversation], person)
        for number, sentence in enumerate(person.sentences):
            _check_calls(ledger, person, sentence)
            _check_answer(cluster, person, number, sentence)
        shown = [member.conversation(person.conversation)["messages"] for member in cluster.up]
        assert all(each == shown[0] for each in shown), "the members show different conversations"
    for reader in readers:
        _check_stream(reader, events[reader.conversation])


def _events(dsn: str) -> dict[str, list[tuple[int, str, str]]]:
    """Seq, type and body of all events, by conversation."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    with psycopg.connect(dsn) as db:
        rows: Any = db.execute(
            "SELECT name, seq, type, event.body FROM event JOIN stream ON stream.id = event.stream"
            " ORDER BY seq"
        )
        for name, *event in rows:
            found.setdefault(name, []).append(tuple(event))
        open_work: Any = db.execute("SELECT count(*) FROM inbox WHERE open = 1").fetchone()
        assert open_work == (0,), "commands were left in the inbox"
    return found


def _check_log(events: list[tuple[int, str, str]], person: Person) -> None:
    assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1)), "a seq is missing or repeated"
    types = Counter(type for _, type, _ in events)
    assert types["message.added"] >= len(person.sentences)
    assert types["run.started"] == types["run.finished"] == len(person.sentences), types


def _check_calls(ledger: Counter[tuple[str, str]], person: Person, sentence: str) -> None:
    tool, name = sentence.split()
    if "was not sent" in str(person.answers[sentence].get("response")):  # its member had lost its lease
        assert (tool, ledger[tool, name]) == ("wipe", 0)
    elif tool == "wipe":
        assert ledger[tool, name] >= 1, f"{sentence} was not done: {person.answers[sentence]}"
        assert ledger[tool, name] <= 1 + person.retries.get(sentence, 0), f"{sentence} was done too often"
        # What a person had sent again was not in the ledger then, and is done once by the second attempt.
        assert ledger[tool, name] == 1 or person.retries.get(sentence), f"{sentence} was done twice"
    elif tool == "bump":
        assert ledger[tool, name] >= 1, f"{sentence} was not done: {person.answers[sentence]}"


def _check_answer(cluster: Cluster, person: Person, number: int, sentence: str) -> None:
    """Its key still has the first answer, which is that the run waited or finished."""
    path = f"/conversations/{person.conversation}/messages"
    again = request(cluster, path, {"message": sentence}, f"{person.name_}-{number}")
    assert again["status"] == 200, again
    assert again["result"]["state"] in ("waiting", "finished")
    final = person.answers[sentence]
    assert final["state"] == "finished", final


def _check_stream(reader: Reader, events: list[tuple[int, str, str]]) -> None:
    until_true(lambda: len(reader.seen) >= len(events))
    reader.stopped = True
    assert reader.seen == [(seq, type) for seq, type, _ in events], "the stream has a gap or a repeat"
