"""The question about the outcome of a call that was sent and has no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeAlias, assert_never

import attrs

from .asked import Asked, Occasion, Settled
from .decided import Decided, Expired, named, text_of
from .description import describe_call
from .requirement import Requirement

_HINT = 'Send {"action": "retry"}, {"action": "done", "result"?: "..."} or {"action": "failed"}.'


@attrs.frozen(kw_only=True)
class Retry(Decided):
    """The decision to send the call again."""

    marker: ClassVar = ("action", "retry")

    @property
    def agrees(self) -> bool:
        return True


@attrs.frozen(kw_only=True)
class Done(Decided):
    marker: ClassVar = ("action", "done")
    result: str | None = None


@attrs.frozen(kw_only=True)
class Failed(Decided):
    marker: ClassVar = ("action", "failed")


OutcomeDecision: TypeAlias = Retry | Done | Failed


@attrs.frozen(kw_only=True)
class OutcomeQuestion(Asked[OutcomeDecision]):
    """The question about a call that was sent and has no result. It is decided with `retry`, `done` or
    `failed`."""

    kind: ClassVar = "outcome_unknown"
    decisions: ClassVar[tuple[type[OutcomeDecision], ...]] = (Retry, Done, Failed)
    field_names: ClassVar = ("action", "result")

    @classmethod
    def about(
        cls,
        occasion: Occasion,
        *,
        tool: str,
        server: str,
        facade: str | None,
        arguments: Mapping[str, Any],
        reason: str,
        requires: Requirement | None = None,
    ) -> Self:
        """Make the question for a call. `reason` is why its outcome is unknown."""
        asked = describe_call(tool, server, facade, arguments)
        return cls(
            **attrs.asdict(occasion, recurse=False),
            tool_name=tool,
            tool_args=arguments,
            description=f"**OUTCOME UNKNOWN**\n\n{asked}\n\nThe call was sent, but {reason}. It may or may"
            " not have happened. Look, then say: retry, done or failed.",
            server=server,
            rule="the outcome is unknown",
            requires=requires,
        )

    @classmethod
    def _parse(cls, words: Mapping[str, Any]) -> OutcomeDecision:
        decision = named(words, cls.decisions, "what became of the call", _HINT)
        if isinstance(decision, Done) and "result" in words:
            return Done(result=text_of(words, "result", limit=None))
        return decision

    def settled(self, decision: OutcomeDecision | Expired, *, lost: bool) -> Settled | None:
        match decision:
            case Retry() | Expired():  # this kind never expires
                return None
            case Done(result=result):
                text = "Done, as a human confirmed." if result is None else result
                return Settled("finished", text, is_error=False)
            case Failed(reason=None):
                return Settled("finished", "Failed, as a human found.")
            case Failed(reason=reason):
                return Settled("finished", f"Failed, as a human found: {reason}")
            case _:
                assert_never(decision)

    @property
    def line(self) -> str:
        return f"what came of {super().line}?"

    def _decision_text(self, decision: OutcomeDecision) -> str:
        return f"outcome: {decision.marker[1]}"

    def example(self) -> dict[str, Any]:
        return {"action": "done"}


def unknown_text(reason: str, sent: int) -> str:
    """Return the result of a call with an unknown outcome, for the model and for readers.

    `sent` is the number of its attempts whose outcome is unknown: calls that may be repeated have several.
    """
    times = "The call was not repeated" if sent == 1 else f"The call was sent {sent} times"
    return f"The outcome is unknown: {reason}. {times}."
