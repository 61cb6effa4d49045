"""What is stored of an event otherwise than it was written is damage, and none of it has a meaning."""

from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.log.event_json import decode, encode
from stopgo.actors.log.head import head_of_summary
from stopgo.runtime.journal.protocol import Event, Summary

STEP = {"key": "1/.0", "node": "n", "fingerprint": "f"}
END = {"text": "t", "rejected": True, "exited": False, "writes": {"a": "b"}}
ERROR = {"code": "c", "message": "m", "fatal": True}
RESULT = {"content": "c", "is_error": True, "parts": [{"type": "text"}], "structured": None}

ENDED = ("step.finished", {**STEP, "kind": "node", "end": END})
FAILED = ("step.finished", {**STEP, "kind": "attempt", "error": ERROR})
NOT_SENT = ("step.finished", {**STEP, "kind": "call", "outcome": "denied", "content": "no"})
FINISHED = ("tool.finished", {"key": "1/:1.0", "attempt": 1, "result": RESULT})
WAITING = ("run.waiting", {"run": "r", "on": ["a"], "settles": ["k"], "worked": {"run": 1.5}})
NO_OBJECTS: list[Any] = [None, "x", 1, []]
SOUND = [ENDED, FAILED, NOT_SENT, FINISHED, WAITING]


def stored(type: str, body: dict[str, Any]) -> Event:
    return Event("c", 1, type, 5.0, body)


@pytest.mark.parametrize(("type", "body"), SOUND)
def test_what_is_sound_is_stored_as_it_was(type: str, body: dict[str, Any]) -> None:
    event = decode(stored(type, body)).event
    assert event is not None
    assert encode(event).body == body


def renamed(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {each if each != name else f"{each}x": value for each, value in body.items()}


@pytest.mark.parametrize(
    ("type", "body"),
    [
        *((ENDED[0], {**ENDED[1], "end": renamed(END, name)}) for name in END),
        *((FAILED[0], {**FAILED[1], "error": renamed(ERROR, name)}) for name in ERROR),
        *((FINISHED[0], {**FINISHED[1], "result": renamed(RESULT, name)}) for name in RESULT),
        *((WAITING[0], renamed(WAITING[1], name)) for name in WAITING[1]),
        *((ENDED[0], {**ENDED[1], "end": other}) for other in NO_OBJECTS),
        *((ENDED[0], {**ENDED[1], "end": {**END, "writes": other}}) for other in (*NO_OBJECTS, {"a": 1})),
        *((WAITING[0], {**WAITING[1], "worked": other}) for other in (*NO_OBJECTS, {"a": "b"})),
        *((NOT_SENT[0], {**NOT_SENT[1], "outcome": other}) for other in NO_OBJECTS),
    ],
)
def test_what_is_not_is_damage(type: str, body: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode(stored(type, body))


RUN = {"id": "r", "turn": 1, "state": "waiting", "used": [0, 0, 0, 0, None, False]}


@pytest.mark.parametrize(
    "run", [*(renamed(RUN, name) for name in ("id", "turn", "state")), {**RUN, "state": "x"}]
)
def test_a_summary_tells_the_state_of_its_run(run: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        head_of_summary(Summary("active", "t", False, {"session_id": "s", "run": run, "used": []}))
