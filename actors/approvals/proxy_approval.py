"""The question of another agent, in the task of a delegated call. The decision is sent to that agent.

Its decisions are those of the original question if the agent states the kind; otherwise yes or no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs

from ..common.errors import AgentError
from ..tools.delegation import RemoteItem, RemoteTask
from .asked import Asked, Occasion, Settled
from .decided import NOT_IN_TIME, Decided, Expired
from .description import describe, describe_proxy, quoted
from .elicitation_approval import Accept, CancelForm, Decline, ElicitationQuestion
from .outcome_approval import Done, Failed, OutcomeQuestion, Retry
from .tool_approval import ToolQuestion
from .yes_or_no import Approved, Rejected, Respond, YesOrNo

_NOT_SENT = attrs.fields_dict(Decided).keys() - {"reason", "decided_by"}
"""Fields of a decision that are not sent to another agent, which learns only who decided here."""
_COMMON = [field.name for field in attrs.fields(Asked)]


@attrs.frozen(kw_only=True)
class ProxyQuestion(YesOrNo):
    """The question of another agent. It is decided as `remote_kind`, and the decision is sent to that
    agent."""

    kind: ClassVar = "proxy"
    decisions: ClassVar[tuple[type[Any], ...]] = (
        Approved,
        Rejected,
        Retry,
        Done,
        Failed,
        Accept,
        Decline,
        CancelForm,
    )

    remote_task_id: str
    """The id of the task at the other agent."""
    remote_agent_name: str
    """The name of the other agent in the agent file."""
    remote_context: str = ""
    remote_message: str = ""
    """The id of the status message with the question."""
    remote_item: str | None = None
    """The id of the question at the other agent; None if the message as a whole is the question."""
    remote_kind: str = ""
    """The kind of the question; empty if the agent does not state it."""
    remote_form: str | None = None
    """The form of the question at an agent of another make; None for other agents, and for words."""
    remote_description: str = ""
    """The question, in the words of the agent that asks."""
    remote_digest: str | None = None
    """The digest of the question as it is shown here. A decision is sent only while the agent asks this."""
    unshown: str | None = None
    """The reason why it cannot be approved: a part of it is not shown."""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of edited arguments, or of the form."""
    agents: Sequence[str] = ()
    """The names of the agents on the path to the agent that asks."""
    mover: str | None = None
    """The command whose bearer token is forwarded to the agent; None if it needs none."""
    void_reason: str | None = None
    """The reason why the question was withdrawn."""

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
        """Make the question. `agent` is its name in the agent file, `refusal` the reason why it refused an
        earlier answer."""
        if item.kind == ElicitationQuestion.kind:
            on_expiry = "cancel"
        elif item.kind == OutcomeQuestion.kind:  # as at the other agent, which does not let it expire
            expires = None
        is_call = item.kind == ToolQuestion.kind and item.tool and not item.unshown
        question = describe(item.tool, item.arguments) if is_call else quoted(item.description)
        agents = (agent, *item.agents)
        return cls(
            **attrs.asdict(occasion, recurse=False),
            expires=expires,
            on_expiry="" if expires is None else on_expiry,
            tool_name=item.tool or f"a2a_{agent}",
            tool_args=item.arguments,
            description=describe_proxy(agents, question, refusal, item.unshown),
            server=server,
            rule=f'agent "{agent}" asks',
            replaces=replaces,
            remote_task_id=task.id,
            remote_agent_name=agent,
            remote_context=task.context,
            remote_message=item.message,
            remote_item=item.id,
            remote_kind=item.kind,
            remote_form=item.form or None,
            remote_description="" if is_call else item.description,
            remote_digest=item.digest,
            unshown=item.unshown or None,
            input_schema=item.schema,
            agents=agents,
            mover=mover,
        )

    @property
    def item(self) -> RemoteItem:
        """The reference to the question at the other agent."""
        return RemoteItem(
            message=self.remote_message,
            id=self.remote_item,
            kind=self.remote_kind,
            form=self.remote_form or "",
        )

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

    async def decision_in(self, words: Mapping[str, Any], *, pending: bool) -> Decided:
        decision = await super().decision_in(words, pending=pending)
        if isinstance(decision, Respond):
            text = "a question of another agent takes no text in place of the result"
            raise AgentError(
                "decision_required", text, hint=f"Answer it at {self.agents[-1]}, or say yes or no."
            )
        if pending and decision.agrees and self.unshown is not None:
            text = f"the question cannot be approved: {self.unshown}"
            raise AgentError("may_not_approve", text, hint=f"Reject it, or decide it at {self.agents[-1]}.")
        return decision

    def settled(self, decision: Decided, *, lost: bool) -> Settled | None:
        """Return None, because the other agent's task ends the call, unless the expiry fails the run."""
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
    """Return a decision as it is sent to another agent."""
    match decision:
        case Expired(on_expiry="cancel"):
            return {"action": "cancel"}
        case Expired():
            return {"approved": False, "reason": NOT_IN_TIME}
        case _:
            return {name: value for name, value in decision.to_json().items() if name not in _NOT_SENT}
