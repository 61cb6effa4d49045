"""Decisions in a client's message to a task that waits for input. Pure.

The first rule that matches applies:

1. A response of the extension `HITL` decides the approvals that it names.
2. A data part decides the approval that it names: ``{"id", ...words}``, or a list of these under
   ``approvals``. A message that decides an open question twice, or in two ways, is refused.
3. If exactly one question is pending and the extension is not active, a text of one word such as "yes" may
   decide it.
4. Any other message decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from ...actors.a2a.wire.a2a_errors import invalid
from ...actors.a2a.wire.task import Data, Message, Text
from ...actors.approvals.asked import Asked
from ...actors.approvals.yes_or_no import YesOrNo
from .hitl import actions_of, decisions_of, response_in

Decisions = Mapping[str, Mapping[str, Any]]
"""The words of a decision by the id of its approval."""

_YES = frozenset({"yes", "y", "true", "approve", "approved", "ok", "confirm"})
_NO = frozenset({"no", "n", "false", "reject", "rejected"})
_NAMES = ("id", "approval_id", "uuid")
_OTHER_FIELDS = frozenset({"approved", "action", "answer"})
"""Fields that contradict `decision`, which is a synonym of `action`."""


def named_decisions(message: Message, pending: Sequence[Asked[Any]]) -> Decisions:
    """The decisions that name their approval (rules 1 and 2).

    `Agent.decide` checks whether the approval exists and whether the words are valid for it.
    Raises `A2AError` INVALID_PARAMS.
    """
    response = response_in(message)
    if response is not None:
        return decisions_of(response, pending)
    ids = {asked.id for asked in pending}
    found: dict[str, Mapping[str, Any]] = {}
    for value in (part.data for part in message.parts if isinstance(part, Data)):
        for names, words in _structured(value):
            id = next(iter(names & ids), None) or min(names)
            contradicts = (
                len(names) > 1 or id in found or ("decision" in words and words.keys() & _OTHER_FIELDS)
            )
            if id in ids and contradicts:
                raise invalid("message.parts", f"must decide {id} once, in one field")
            found[id] = {"action" if name == "decision" else name: each for name, each in words.items()}
    return found


def decision_in_words(message: Message, asked: Asked[Any]) -> Mapping[str, Any] | None:
    """The decision about the only pending question in a message's text (rule 3)."""
    text = word_of(message)
    if text is None:
        return None
    if isinstance(asked.original, YesOrNo):
        return {"approved": text in _YES} if is_yes_or_no(text) else None
    return {"action": text} if text in actions_of(asked) else None


def word_of(message: Message) -> str | None:
    """The text of a message in lower case; None if the message has other parts."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return " ".join(texts).strip().lower() if len(texts) == len(message.parts) else None


def is_yes_or_no(word: str) -> bool:
    return word in _YES or word in _NO


def _structured(value: Any) -> Iterator[tuple[Set[str], Mapping[str, Any]]]:
    """Possible decisions: the ids that each names, and its words."""
    match value:
        case {"approvals": list(approvals)}:
            for each in approvals:
                yield from _one(each)
        case {"approval": Mapping() as approval}:
            words = {name: each for name, each in value.items() if name != "approval"}
            yield from _one({**approval, **words})
        case _:
            yield from _one(value)


def _one(value: Any) -> Iterator[tuple[Set[str], Mapping[str, Any]]]:
    if not isinstance(value, Mapping):
        return
    names = {value[name] for name in _NAMES if isinstance(value.get(name), str)}
    words = {name: each for name, each in value.items() if name not in _NAMES}
    if names and words:
        yield names, words
