"""The outcomes of steps. A replay takes them from the record instead of doing the work again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

import attrs

from ...common.errors import Fault
from ...models.messages.a2a_end import A2AEnd
from ...models.messages.messages import ToolCall, Verbatim
from ...models.messages.usage import StepUsage
from ...tools.verdict_facts import UnsentCall

StepKind: TypeAlias = Literal["model", "delegation", "node", "attempt", "route", "call"]


@attrs.frozen
class ModelHop:
    """The failure of a model after which the next model was asked."""

    model: str
    message: str
    status: int | None = None
    """The HTTP status of the failure."""


@attrs.frozen(kw_only=True)
class Replied:
    """The reply of a model."""

    kind: ClassVar[StepKind] = "model"
    text: str
    tool_calls: Sequence[ToolCall]
    model: str | None = None
    """The name of the model that replied. Early versions did not record it."""
    verbatim: Verbatim | None = None
    """The part of the reply that the provider wants back unchanged."""
    usage: StepUsage | None = None
    hops: Sequence[ModelHop] = ()
    a2a: A2AEnd | None = None
    """The end that a script gives the A2A task."""


@attrs.frozen
class Delegation:
    """The call that a node of `type: a2a` makes."""

    kind: ClassVar[StepKind] = "delegation"
    call: ToolCall


@attrs.frozen
class NodeEnd:
    text: str
    rejected: bool = False
    """A person rejected something in the node or below, or an approval there expired. Sequential nodes and
    loops above end, up to the first with `on_reject: continue`."""
    exited: bool = False
    """A model in the node or below called `exit_loop`; the nearest loop above ends."""
    writes: Mapping[str, str] = attrs.field(factory=dict)
    """The values that the node and the nodes below it put into the session state, by key."""

    @property
    def stops(self) -> bool:
        return self.rejected or self.exited


@attrs.frozen
class Ended:
    """The end of a node."""

    kind: ClassVar[StepKind] = "node"
    end: NodeEnd
    continued: Fault | None = None
    """The failure, if the run continues after it."""


@attrs.frozen
class Chosen:
    """The route that a router chose."""

    kind: ClassVar[StepKind] = "route"
    choice: int
    """The index of the child node."""


@attrs.frozen
class NotSent:
    """The end of a tool call that was not sent, or not sent again."""

    kind: ClassVar[StepKind] = "call"
    outcome: Literal["denied", "not_found", "invalid", "declined", "unknown", "exit_loop"]
    content: str
    """The result for the model."""
    repeats: str | None = None
    """The id of the approval in which a person rejected the same call, if it ends for that reason."""
    verdict: UnsentCall | None = None
    """The facts of the gate's verdict, if there was one. Early versions did not record them."""


@attrs.frozen(kw_only=True)
class StepFailed:
    """The failure of a model call, of a node, or of one attempt of a node."""

    error: Fault
    usage: StepUsage | None = None
    hops: Sequence[ModelHop] = ()


StepOutcome: TypeAlias = Replied | Delegation | Ended | Chosen | NotSent | StepFailed
