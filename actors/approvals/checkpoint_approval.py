"""The question of a checkpoint, a node of type `approval`: may the run continue?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self, assert_never

import attrs

from .asked import Occasion
from .decided import EXPIRED, Expired
from .description import describe_checkpoint, shortened
from .requirement import Requirement
from .yes_or_no import Approved, Rejected, YesOrNo


@attrs.frozen(kw_only=True)
class CheckpointQuestion(YesOrNo):
    """The question of a node of type `approval`: may the run continue? It is decided with yes or no."""

    kind: ClassVar = "checkpoint"
    is_of_call: ClassVar = False

    @classmethod
    def about(
        cls,
        occasion: Occasion,
        *,
        message: str,
        values: Mapping[str, str],
        expires: float | None,
        on_expiry: str,
        requires: Requirement | None = None,
    ) -> Self:
        """Make the question. `message` is that of the file, `values` has those of its placeholders."""
        return cls(
            **attrs.asdict(occasion, recurse=False),
            expires=expires,
            on_expiry="" if expires is None else on_expiry,
            tool_name=occasion.node,
            tool_args={},
            description=describe_checkpoint(message, values),
            rule="an approval node",
            requires=requires,
        )

    @property
    def line(self) -> str:
        return shortened(self.description.partition("\n\n")[0])


def verdict_text(decision: Approved | Rejected | Expired) -> str:
    """Return the output of a checkpoint for its decision."""
    match decision:
        case Expired():
            return EXPIRED
        case Approved():
            said = "Approved."
        case Rejected():
            said = "Rejected."
        case _:
            assert_never(decision)
    return said if decision.reason is None else f"{said} Reason: {decision.reason}"
