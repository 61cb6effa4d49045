"""The base class of questions that are decided with yes or no; those about tool calls also with a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, assert_never

import attrs

from ..common.errors import AgentError
from .asked import Asked
from .decided import Decided
from .description import edits_text, shortened

_YES_ACTIONS = frozenset({"approve", "approved", "yes"})
_NO_ACTIONS = frozenset({"reject", "rejected", "no"})
_YES_ANSWERS = frozenset({"yes", "y", "true", "approve", "approved"})
_NO_ANSWERS = frozenset({"no", "n", "false", "reject", "rejected"})
_HINT = 'Send {"approved": true}, {"action": "approve"} or {"answer": "yes"}, or their opposites.'


@attrs.frozen(kw_only=True)
class Approved(Decided):
    marker: ClassVar = ("approved", True)
    arguments: Mapping[str, Any] | None = None
    """All arguments of the call, instead of the ones shown; None if they are unchanged."""

    @property
    def agrees(self) -> bool:
        return True


@attrs.frozen(kw_only=True)
class Rejected(Decided):
    marker: ClassVar = ("approved", False)

    @property
    def rejects(self) -> bool:
        return True


@attrs.frozen(kw_only=True)
class Respond(Decided):
    """The decision to give the model a text as the result, in place of the call, which is not sent."""

    marker: ClassVar = ("action", "respond")
    result: str


YesOrNoDecision: TypeAlias = Approved | Rejected | Respond


@attrs.frozen(kw_only=True)
class YesOrNo(Asked[YesOrNoDecision]):
    decisions: ClassVar[tuple[type[Any], ...]] = (Approved, Rejected)
    field_names: ClassVar[tuple[str, ...]] = ("approved", "action", "answer", "arguments")

    @classmethod
    def _parse(cls, words: Mapping[str, Any]) -> YesOrNoDecision:
        if not _says_yes(words):
            return Rejected()
        arguments = words.get("arguments")
        return Approved(arguments=None if arguments is None else cls._edited(arguments))

    @classmethod
    def _edited(cls, arguments: object) -> Mapping[str, Any]:
        raise AgentError("invalid_arguments", "this approval has no arguments to edit")

    @property
    def waits(self) -> str:
        return (
            f"This action requires approval:\n\n{self.description}\n\n"
            f"Please approve or reject using the approval UUID: {self.id}"
        )

    def _decision_text(self, decision: YesOrNoDecision) -> str:
        match decision:
            case Rejected():
                return "rejected"
            case Respond(result=result):
                return f"answered: {shortened(result)}"
            case Approved(arguments=None):
                return "approved"
            case Approved(arguments=edited):
                assert edited is not None
                return f"approved, edited: {edits_text(self.tool_args, edited)}"
            case _:
                assert_never(decision)

    def example(self) -> dict[str, Any]:
        return {"approved": True}


def _says_yes(words: Mapping[str, Any]) -> bool:
    """`answer` takes precedence over `action`, and `action` over `approved`. Raises `AgentError`
    ``decision_required``."""
    if "answer" in words:
        said = _word(words["answer"], _YES_ANSWERS, _NO_ANSWERS)
    elif "action" in words:
        said = _word(words["action"], _YES_ACTIONS, _NO_ACTIONS)
    else:
        said = words.get("approved")
    if not isinstance(said, bool):
        raise AgentError("decision_required", "the request does not say yes or no", hint=_HINT)
    return said


def _word(word: object, yes: frozenset[str], no: frozenset[str]) -> bool | None:
    said = word.strip().lower() if isinstance(word, str) else None
    return said in yes if said in yes | no else None
