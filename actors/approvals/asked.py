"""The base class of all kinds of approval. Pure, except for `Asked.checked`."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Self

import attrs

from ...runtime.journal.question import NewQuestion
from ..common.errors import AgentError
from ..common.stored_json import from_json, to_json, write_whole
from .decided import D, Decided, Expired, suggesting, with_common
from .description import call_text, shortened
from .requirement import Requirement


@attrs.frozen(kw_only=True)
class Occasion:
    """The position of a question in its run."""

    id: str
    """The id of the approval."""
    question: str
    """The key of the question in the run."""
    key: str
    """The key of the call or the node that it is about."""
    node: str
    path: Sequence[int] = ()
    """The path of the node: indices from the root."""
    output_key: str = ""
    session_state: Mapping[str, str] = attrs.field(factory=dict)
    user_message: str = ""
    requester: str | None = None
    """The id of the principal that sent the message of the run; None without authentication, and for a
    program."""


@attrs.frozen
class Settled:
    """The outcome that a decision gives to its call, without sending it."""

    state: Literal["rejected", "expired", "finished", "answered"]
    text: str
    """The result for the model and for readers of the conversation."""
    is_error: bool = True


@attrs.frozen(kw_only=True)
class Asked(Occasion, ABC, Generic[D]):
    """A question to people. `D` is the union of its decisions, besides `Expired`."""

    kind: ClassVar[str]
    decisions: ClassVar[tuple[type[Any], ...]]
    """The classes in `D`."""
    field_names: ClassVar[tuple[str, ...]]
    """The fields of a decision in a request, besides `COMMON`."""
    is_of_call: ClassVar[bool] = True
    """Whether it is about a tool call."""

    expires: float | None = None
    """The expiry, in UTC seconds since the epoch."""
    on_expiry: str = ""
    """The outcome of an expiry (see `Expired`); empty if the question does not expire."""
    tool_name: str
    tool_args: Mapping[str, Any]
    description: str
    """The text for people, in Markdown."""
    server: str | None = None
    rule: str = ""
    """Why the call asks: the rule that matched."""
    requires: Requirement | None = None
    """Who has to approve; None: one principal that may decide."""
    replaces: str | None = None
    """The id of the approval that this one replaces."""
    superseded_by: str | None = None
    """The id of the approval that replaces this one."""
    in_flight: bool | None = None
    """Only for an elicitation: whether its call is in flight, so that the answer is lost if the process
    ends."""

    @property
    def original(self) -> Asked[Any]:
        """The question that decisions are parsed for: itself, or the question of another agent that it
        proxies."""
        return self

    def with_arguments(self, arguments: Mapping[str, Any]) -> Self:
        """The question as it is shown after a vote for edited arguments."""
        return attrs.evolve(self, tool_args=arguments)

    @property
    def shown_definition(self) -> str:
        """What people are shown beside the arguments, or a digest of it."""
        return self.description

    @property
    def hash(self) -> str:
        """The subject of votes: a digest of everything that the decision is about."""
        subject = json.dumps([self.shown_definition, self.tool_args], sort_keys=True)
        return hashlib.sha256(subject.encode()).hexdigest()

    # ------------------------------------------------------------------ stored form

    def to_json(self) -> dict[str, Any]:
        """Return the stored form: the fields that have a value."""
        body = {"kind": self.kind, **to_json(self), "on_expiry": self.on_expiry or None}
        return {name: value for name, value in body.items() if value is not None}

    def to_row(self) -> NewQuestion:
        """Return the row of the question in the journal."""
        return NewQuestion(self.id, self.kind, self.to_json(), self.expires)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Rebuild a question from its stored form. Raises LookupError, TypeError or ValueError."""
        return from_json({name: value for name, value in body.items() if value is not None}, cls)

    @classmethod
    def check_kind(cls, decision: Decided) -> None:
        """Raise ValueError if the decision does not belong to this kind of question."""
        if not isinstance(decision, cls.decisions):
            raise ValueError(f"{type(decision).__name__} does not decide {cls.kind} approvals")

    # --------------------------------------------------------- parsing decisions

    @classmethod
    def parse(cls, words: Mapping[str, Any]) -> D:
        """Parse the decision in a request.

        Raises `AgentError`: ``decision_required`` if no known decision is named, ``invalid_arguments`` or
        ``invalid_request`` for wrong types, ``unknown_field`` for any other field.
        """
        if not isinstance(words, Mapping):  # a program may pass anything
            raise AgentError("invalid_request", "a decision is a mapping", hint='Send {"approved": True}.')
        try:
            decision = cls._parse(words)
        except AgentError as error:
            raise suggesting(error, words, cls.field_names) from None
        return with_common(decision, words, cls.field_names)

    @classmethod
    @abstractmethod
    def _parse(cls, words: Mapping[str, Any]) -> D: ...

    async def decision_in(self, words: Mapping[str, Any], *, pending: bool) -> Decided:
        """Return the decision in a request, as `parse` and `checked` of the original question do."""
        original = self.original
        decision: Decided = await original.checked(original.parse(words), pending=pending)
        return decision

    async def checked(self, decision: D, *, pending: bool) -> D:
        """Return the decision to store. While the question is `pending`, check it against the schema shown.

        Raises `AgentError` ``invalid_arguments``.
        """
        return decision

    # ---------------------------------------------------------------- outcomes

    def shown_call(self) -> Mapping[str, Any] | None:
        """Return changes to the displayed call while it waits for the decision, or None."""
        return None

    def settled(self, decision: D | Expired, *, lost: bool) -> Settled | None:
        """Return the outcome of a call that the decision ends without sending it, or None. `lost` states that
        an earlier attempt of the call has an unknown outcome."""
        return None

    # -------------------------------------------------------------------------- texts

    @property
    def waits(self) -> str:
        """The answer of the run while the question is pending."""
        return f"{self.description}\n\nPlease answer using the approval UUID: {self.id}"

    @property
    def line(self) -> str:
        """The subject in one line."""
        return call_text(self.tool_name, self.tool_args)

    def decision_line(self, decision: D) -> str:
        """Describe a decision in one line: what was decided, by whom, and why."""
        said = self._decision_text(decision)
        said = said if decision.decided_by is None else f"{said}, by {shortened(decision.decided_by)}"
        return said if decision.reason is None else f"{said} ({shortened(decision.reason)})"

    @abstractmethod
    def _decision_text(self, decision: D) -> str: ...

    @abstractmethod
    def example(self) -> dict[str, Any]:
        """Return a decision for a person to edit. Its placeholders are not valid values."""


write_whole(Asked)
