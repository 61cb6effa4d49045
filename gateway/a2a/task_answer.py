"""Decisions in a client's message to a task that waits for input. Pure.

The first rule that matches applies:

1. A response of the extension `HITL` decides the approvals that it names.
2. A data part decides the approval that it names: ``{"id", ...words}``, or a list of these under
   ``approvals``. A message that decides an open question twice, or in two ways, is refused.
3. A text decides if it has one word such as "yes", and nothing else but perhaps the id of the approval.
   Without an id, exactly one question must be pending. Case and punctuation do not count, except for question
   marks: "Approve?" is no consent. If the extension is active, texts decide nothing.
4. A data part ``{"decision_type": "approve"}``, or "reject", perhaps with `rejection_reason`, decides like
   that word. kagent's module for ADK, 0.10.4, sends it (kagent/adk/_remote_a2a_tool.py, `_handle_resume`).
5. Any other message decides nothing.
"""

from __future__ import annotations

import re
import unicodedata
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
_REASON = {"rejection_reason"}
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST = 500
"""Maximum characters of a text that may be a decision."""
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


def decision_in_words(
    message: Message, pending: Sequence[Asked[Any]], asked: Mapping[str, Asked[Any]]
) -> Decisions:
    """The decision that need not name its question (rules 3 and 4); empty: none. `asked`: all questions of
    the conversation."""
    said, reason = words_of(message), None
    match message.parts:
        case [Data(data={"decision_type": "approve" | "reject" as word, **more})] if more.keys() <= _REASON:
            said, reason = (word,), more.get("rejection_reason")
        case _:
            pass
    ids = [word for word in said if word in asked]
    rest = [word.lower() for word in said if word not in asked]
    if len(rest) != 1 or len(ids) > 1 or (not ids and len(pending) != 1):
        return {}
    question = asked[ids[0]] if ids else pending[0]
    words = _decision_of(rest[0], question)
    if words is None:
        return {}
    given = isinstance(reason, str) and reason and words == {"approved": False}
    return {question.id: {**words, "reason": reason} if given else words}


def named_alone(message: Message) -> str | None:
    """The id in a message that is nothing but a decision with an id (rules 2 and 3)."""
    said = words_of(message)
    words = said if len(said) == 2 else ()
    data = [part.data for part in message.parts if isinstance(part, Data)]
    named = [names for value in data for names, _ in _structured(value)]
    ids = {word for word in words if _ID.fullmatch(word)} | {id for names in named for id in names}
    return min(ids) if len(ids) == 1 else None


def _decision_of(word: str, question: Asked[Any]) -> Mapping[str, Any] | None:
    if isinstance(question.original, YesOrNo):
        return {"approved": word in _YES} if is_yes_or_no(word) else None
    return {"action": word} if word in actions_of(question) else None


def words_of(message: Message) -> Sequence[str]:
    """The words of a text without the punctuation around them; none if the message has other parts, or
    characters that are neither letters, digits nor punctuation."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    text = " ".join(texts)
    if len(texts) != len(message.parts) or len(text) > _LONGEST or not all(map(_counts, text)):
        return ()
    spaced = "".join(" " if _is_separator(each) else each for each in text)
    return [stripped for word in spaced.split() if (stripped := word.strip("-_"))]


def _counts(character: str) -> bool:
    kind = unicodedata.category(character)[0]
    return character not in "?\u00bf\uff1f\u061f" and (
        character.isspace() or character == "`" or kind in "LNPM"
    )


def _is_separator(character: str) -> bool:
    return character not in "-_" and (character == "`" or unicodedata.category(character)[0] in "PZC")


def form_of_words(pending: Sequence[Asked[Any]]) -> str:
    """Sentences that name the texts that decide the pending questions."""
    return "\n".join(f"Reply with {' or '.join(_forms(each, len(pending) == 1))}." for each in pending)


def _forms(question: Asked[Any], is_only_one: bool) -> Sequence[str]:
    if isinstance(question.original, YesOrNo):
        words: Sequence[str] = ("yes", "no") if is_only_one else ("approve", "reject")
    else:
        fills = "content" in question.original.example()  # then "accept" alone is not enough
        words = sorted(actions_of(question) - ({"accept"} if fills else set()))
    return [f'"{word}"' if is_only_one else f'"{word} {question.id}"' for word in words]


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
