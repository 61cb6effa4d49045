"""The answer of a client to a task that waits for input: which questions it decides, and how. Pure.

Rules:

1. A data part that names approvals decides these: ours (``{"id", ...words}``, or a list under ``approvals``),
   or that of the extension `HITL`.
2. With `HITL` active, nothing else decides.
3. Else the whole text may be one word that decides, where exactly one question is pending.
4. Any other message decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...actors.approvals.asked import Asked
from ...actors.approvals.yes_or_no import YesOrNo
from .task import Data, Message, Text

HITL = "https://kagent.dev/extensions/hitl/v1"
"""The extension of kagent for approvals (its docs/architecture/human-in-the-loop.md)."""

_YES = frozenset({"yes", "y", "true", "approve", "approved", "ok", "confirm"})
_NO = frozenset({"no", "n", "false", "reject", "rejected"})
_NAMES = ("id", "approval_id", "uuid")


def decisions_in(
    message: Message, pending: Sequence[Asked[Any]], *, hitl: bool
) -> Mapping[str, Mapping[str, Any]]:
    """The words of a decision by the id of its approval; empty when the message decides nothing.

    Whether there is such an approval, and whether the words are a decision about it, is for `Agent.decide`.
    """
    data = [part.data for part in message.parts if isinstance(part, Data)]
    found = dict(each for value in data for each in _structured(value))
    if found or hitl:
        return found
    text = " ".join(part.text for part in message.parts if isinstance(part, Text)).strip().lower()
    if len(pending) != 1 or len(data) or (words := _word(text, pending[0])) is None:
        return {}
    return {pending[0].id: words}


def _structured(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    match value:
        case {"tool_approval_response": {"approvals": list(approvals)}}:
            for each in approvals:
                yield from _of_extension(each)
        case {"approvals": list(approvals)}:
            for each in approvals:
                yield from _own(each)
        case {"approval": Mapping() as approval}:
            yield from _own(
                {**approval, **{name: each for name, each in value.items() if name != "approval"}}
            )
        case _:
            yield from _own(value)


def _of_extension(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    match value:
        case {"id": str(id), "approved": bool(approved)}:
            reason = value.get("rejection_reason")
            given = {"reason": reason} if isinstance(reason, str) and not approved else {}
            yield id, {"approved": approved, **given}


def _own(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, Mapping):
        return
    id = next((value[name] for name in _NAMES if isinstance(value.get(name), str)), None)
    words = {name: each for name, each in value.items() if name not in _NAMES}
    if isinstance(decision := words.pop("decision", None), str):
        words["action"] = decision
    if id is not None and words:
        yield id, words


def _word(text: str, asked: Asked[Any]) -> Mapping[str, Any] | None:
    if isinstance(asked, YesOrNo):
        return {"approved": text in _YES} if text in _YES | _NO else None
    actions = {value for _, value in (kind.said for kind in asked.decisions) if isinstance(value, str)}
    return {"action": text} if text in actions else None
