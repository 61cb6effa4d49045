"""A question that another agent asks in the task that it has for a call. The decision is sent to that agent.

Its decisions are those of the original question, if the agent tells the kind of that; otherwise yes or no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs
from attrs.validators import deep_iterable, instance_of, optional

from ..tools.delegation import RemoteItem, RemoteTask
from .asked import Asked, Occasion, Settled
from .decided import NOT_IN_TIME, OBJECT, TEXT, Decided, Expired
from .description import describe, describe_proxy, quoted
from .elicitation_approval import Accept, Cancel, Decline, ElicitationQuestion
from .outcome_approval import Done, Failed, OutcomeQuestion, Retry
from .tool_approval import ToolQuestion
from .yes_or_no import Approved, Rejected, YesOrNo

_COMMON = [field.name for field in attrs.fields(Asked)]


def _names(agents: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(agents, list | tuple):
        raise TypeError("the agents are no list")
    return tuple(agents)


@attrs.frozen(kw_only=True)
class ProxyQuestion(YesOrNo):
    """A question of another agent, to which the decision is sent. Its words are those of `remote_kind`."""

    kind: ClassVar = "proxy"
    decisions: ClassVar[tuple[type[Any], ...]] = (
        Approved,
        Rejected,
        Retry,
        Done,
        Failed,
        Accept,
        Decline,
        Cancel,
    )
    prompt: ClassVar = "Let it go on? y: yes, n [reason]: no, ?: show all >"

    remote_task_id: str = attrs.field(validator=TEXT)
    """The task of the other agent."""
    remote_agent_name: str = attrs.field(validator=TEXT)
    """The other agent's name in the agent file."""
    remote_context: str = attrs.field(default="", validator=TEXT)
    remote_message: str = attrs.field(default="", validator=TEXT)
    """The id of the status message that asked."""
    remote_item: str | None = attrs.field(default=None, validator=optional(TEXT))
    """The agent's id of the question; None: the message as a whole asks."""
    remote_kind: str = attrs.field(default="", validator=TEXT)
    """The kind of the question there; empty: the agent does not say."""
    remote_description: str = attrs.field(default="", validator=TEXT)
    """The question, as the agent that asks puts it."""
    input_schema: Mapping[str, Any] | None = attrs.field(default=None, validator=optional(OBJECT))
    """JSON Schema of edited arguments, or of the answer."""
    agents: Sequence[str] = attrs.field(
        default=(), converter=_names, validator=deep_iterable(instance_of(str))
    )
    """Names of the agents on the way to the one that asks."""
    mover: str | None = attrs.field(default=None, validator=optional(TEXT))
    """The command whose bearer token the agent is passed; None: it needs none."""
    void_reason: str | None = attrs.field(default=None, validator=optional(TEXT))
    """Why it was taken back."""

    @classmethod
    def about(
        cls,
        occasion: Occasion,
        *,
        agent: str,
        server: str,
        task: RemoteTask,
        item: RemoteItem,
        refusal: str | None,
        replaces: str | None,
        mover: str | None,
        expires: float | None,
        on_expiry: str,
    ) -> Self:
        """`agent` is its name here, `refusal` why it did not take the answer to the question before."""
        if item.kind == ElicitationQuestion.kind:
            on_expiry = "cancel"
        elif item.kind == OutcomeQuestion.kind:  # as there: silence is no answer
            expires = None
        is_call = item.kind == ToolQuestion.kind and item.tool
        question = describe(item.tool, item.arguments) if is_call else quoted(item.description)
        agents = (agent, *item.agents)
        return cls(
            **attrs.asdict(occasion, recurse=False),
            expires=expires,
            on_expiry="" if expires is None else on_expiry,
            tool_name=item.tool or f"a2a_{agent}",
            tool_args=item.arguments,
            description=describe_proxy(agents, question, refusal),
            server=server,
            rule=f'agent "{agent}" asks',
            replaces=replaces,
            remote_task_id=task.id,
            remote_agent_name=agent,
            remote_context=task.context,
            remote_message=item.message,
            remote_item=item.id,
            remote_kind=item.kind,
            remote_description="" if is_call else item.description,
            input_schema=item.schema,
            agents=agents,
            mover=mover,
        )

    @property
    def item(self) -> RemoteItem:
        """The question, as the agent knows it."""
        return RemoteItem(message=self.remote_message, id=self.remote_item, kind=self.remote_kind)

    @property
    def task(self) -> RemoteTask:
        return RemoteTask(self.remote_task_id, self.remote_context)

    @property
    def original(self) -> Asked[Any]:
        common = {name: getattr(self, name) for name in _COMMON}
        match self.remote_kind:
            case ToolQuestion.kind:
                schema = self.input_schema or {}
                return ToolQuestion(**{**common, "input_schema": schema, "tool_fingerprint": ""})
            case OutcomeQuestion.kind:
                return OutcomeQuestion(**common)
            case ElicitationQuestion.kind:
                form = {"in_flight": False, "message": self.description, "input_schema": self.input_schema}
                return ElicitationQuestion(**{**common, **form})
            case _:
                return self

    def settled(self, decision: Decided, *, lost: bool) -> Settled | None:
        """The agent is told of any decision, and its task ends the call; but a run that fails has no
        further exchange."""
        if isinstance(decision, Expired) and decision.fails:
            return Settled("expired", NOT_IN_TIME)
        return None

    @property
    def waits(self) -> str:
        original = self.original
        return super().waits if original is self else original.waits

    @property
    def line(self) -> str:
        return f"{self.remote_agent_name}: {super().line}"


def words_of(decision: Decided) -> Mapping[str, Any]:
    """A decision in the words in which another agent is told of it."""
    match decision:
        case Expired(on_expiry="cancel"):
            return {"action": "cancel"}
        case Expired():
            return {"approved": False, "reason": NOT_IN_TIME}
        case _:
            return {name: value for name, value in decision.to_json().items() if name != "token"}
