"""Questions to people, and the results of their decisions. Bodies and decisions are JSON objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

QuestionState: TypeAlias = Literal["pending", "decided", "expired", "void"]

MOST_DUE = 100
"""Maximum number of questions in a `DuePage`."""


@attrs.frozen
class NewQuestion:
    """A question to a person, to be opened by a save. Its id is unique across all streams."""

    id: str
    kind: str
    body: Mapping[str, Any]
    expires: float | None = None


@attrs.frozen
class CloseQuestion:
    """Closes a pending question without a decision.

    `patch` is merged into the question's body, for example the id of the question that replaces it.
    """

    id: str
    state: Literal["expired", "void"]
    patch: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class CastVote:
    """A stored vote on a question. `vote.py` has the rules."""

    voter: str
    credential: str
    """The credential of the voter; the vote lapses with it."""
    subject: str
    """The hash of the subject. All votes on a question have the same subject."""
    at: float
    decision: Mapping[str, Any]


@attrs.frozen
class Question:
    id: str
    stream: str
    kind: str
    """The kind of the question's subject, for example ``tool``."""
    state: QuestionState
    """``void`` means withdrawn before a decision."""
    body: Mapping[str, Any]
    decision: Mapping[str, Any] | None
    """The accepted decision as stored; None if there is none."""
    created: float
    expires: float | None
    settled: float | None
    """The time at which the state stopped being ``pending``."""
    votes: tuple[CastVote, ...] = ()
    """The votes so far, oldest first, if several voters have to agree."""


@attrs.frozen
class Due:
    """A question that has expired, with the fields that are needed to notify its stream."""

    id: str
    stream: str
    expires: float
    number: int
    """Orders questions that expire at the same time."""


@attrs.frozen
class DuePage:
    questions: tuple[Due, ...]
    """At most `MOST_DUE`."""
    next_in: float
    """Seconds until the next pending question expires, apart from those that have; infinite without one."""


@attrs.frozen
class Won:
    """The decision was accepted. Its command is in the stream's inbox."""

    question: Question


@attrs.frozen
class Already:
    """The question is no longer pending, or it is past `expires`. Nothing was written."""

    question: Question


@attrs.frozen
class Unknown:
    """The question does not exist."""


MOST_BYTES = 4 * 1024 * 1024
"""Bytes of the questions on one page, as stored. The first one is on its page whatever its size."""


def fitting(sized: Sequence[tuple[int, int]], limit: int) -> list[int]:
    """The numbers of the questions on a page, of those with these numbers and sizes in bytes."""
    found: list[int] = []
    left = MOST_BYTES
    for number, size in sized[:limit]:
        left -= size
        if found and left < 0:
            break
        found.append(number)
    return found


@attrs.frozen
class QuestionPage:
    questions: tuple[Question, ...]
    next_cursor: str | None
    damaged: Mapping[str, str] = attrs.field(factory=dict)
    """Streams whose questions are missing here because they are damaged, with the reasons."""
