"""The base class of all kinds of approval. A kind overrides the parts in which it differs. Pure, but for
`Asked.checked`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, Self

import attrs
from attrs.validators import deep_iterable, instance_of, optional

from .decided import OBJECT, TEXT, D, Decided, Expired, with_common
from .description import call_text, shortened
from .replies import Reply, ShowAll


def _tuple(path: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(path, list | tuple):
        raise TypeError("the path is no list")
    return tuple(path)


@attrs.frozen(kw_only=True)
class Occasion:
    """Where in its run a question comes up."""

    id: str = attrs.field(validator=TEXT)
    """The id of the approval."""
    question: str = attrs.field(validator=TEXT)
    """Its key in the run."""
    key: str = attrs.field(validator=TEXT)
    """Of the call or the node that it is about."""
    node: str = attrs.field(validator=TEXT)
    path: Sequence[int] = attrs.field(default=(), converter=_tuple, validator=deep_iterable(instance_of(int)))
    """Of the node: indices from the root."""
    output_key: str = attrs.field(default="", validator=TEXT)
    session_state: Mapping[str, str] = attrs.field(factory=dict, validator=OBJECT)
    user_message: str = attrs.field(default="", validator=TEXT)


@attrs.frozen
class Settled:
    """How a decision ends the call that it is about."""

    state: Literal["rejected", "expired", "finished"]
    text: str
    """For the model and for readers of the conversation."""
    is_error: bool = True


@attrs.frozen(kw_only=True)
class Asked(Occasion, ABC, Generic[D]):
    """A question to people. `D` are the decisions that it has, besides `Expired`."""

    kind: ClassVar[str]
    decisions: ClassVar[tuple[type[Any], ...]]
    """The classes of `D`."""
    field_names: ClassVar[tuple[str, ...]]
    """The fields of a decision in words, besides `COMMON`."""
    prompt: ClassVar[str]
    """Shown at the command line, with the words that may be typed."""
    is_of_call: ClassVar[bool] = True
    """Whether it is about a tool call."""

    expires: float | None = attrs.field(default=None, validator=optional(instance_of((int, float))))
    """UTC seconds."""
    on_expiry: str = attrs.field(default="", validator=TEXT)
    """The consequence (`Expired`); empty if it does not expire."""
    tool_name: str = attrs.field(validator=TEXT)
    tool_args: Mapping[str, Any] = attrs.field(validator=OBJECT)
    description: str = attrs.field(validator=TEXT)
    """For people, in Markdown."""
    server: str | None = attrs.field(default=None, validator=optional(TEXT))
    rule: str = attrs.field(default="", validator=TEXT)
    """Why it asks."""
    replaces: str | None = attrs.field(default=None, validator=optional(TEXT))
    """The approval in whose place it stands."""
    superseded_by: str | None = attrs.field(default=None, validator=optional(TEXT))
    """The approval that stands in its place."""
    in_flight: bool | None = attrs.field(default=None, validator=optional(instance_of(bool)))
    """Of a server's question: the call waits for the answer where it is, and is lost with this process."""

    @property
    def original(self) -> Asked[Any]:
        """The question whose words and decisions count: itself, unless it stands for one of another agent."""
        return self

    # ------------------------------------------------------------------ stored form

    def to_json(self) -> dict[str, Any]:
        """Its stored form."""
        body = {"kind": self.kind, **attrs.asdict(self, recurse=False)}
        body = {name: list(value) if isinstance(value, tuple) else value for name, value in body.items()}
        if not self.on_expiry:
            del body["on_expiry"]
        return {name: value for name, value in body.items() if value is not None}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """What `to_json` made. Raises TypeError when it is something else."""
        names = [name for name in attrs.fields_dict(cls) if body.get(name) is not None]
        return cls(**{name: body[name] for name in names})

    @classmethod
    def check_kind(cls, decision: Decided) -> None:
        """Raises ValueError when the decision is not one about a question of this kind."""
        if not isinstance(decision, cls.decisions):
            raise ValueError(f"the decision is not one about {cls.kind} approvals")

    # --------------------------------------------------------- from words to a decision

    @classmethod
    def parse(cls, words: Mapping[str, Any]) -> D:
        """The decision that these words make.

        Raises `AgentError`: ``decision_required`` for anything that is not a known word,
        ``invalid_arguments`` and ``invalid_request`` for wrong types and for fields that no decision has.
        """
        return with_common(cls._parse(words), words, cls.field_names)

    @classmethod
    @abstractmethod
    def _parse(cls, words: Mapping[str, Any]) -> D: ...

    async def checked(self, decision: D, *, pending: bool) -> D:
        """The decision as it is kept, held to the schema that was shown while the question is `pending`.

        Raises `AgentError` ``invalid_arguments``.
        """
        return decision

    # ---------------------------------------------------------------- what it comes to

    def shown_call(self) -> Mapping[str, Any] | None:
        """The changes in how a call is shown while it waits for the decision; None: none."""
        return None

    def settled(self, decision: D | Expired, *, lost: bool) -> Settled | None:
        """How the decision ends the call; None: it does not. `lost`: an earlier attempt of the call has no
        known outcome."""
        return None

    # -------------------------------------------------------------------------- texts

    @property
    def waits(self) -> str:
        """The answer of the conversation while it waits."""
        return f"{self.description}\n\nPlease answer using the approval UUID: {self.id}"

    @property
    def line(self) -> str:
        """The subject, in a line."""
        return call_text(self.tool_name, self.tool_args)

    def decision_line(self, decision: D) -> str:
        """A decision, in a line."""
        said = self._told(decision)
        return said if decision.reason is None else f"{said} ({shortened(decision.reason)})"

    @abstractmethod
    def _told(self, decision: D) -> str: ...

    def all_of(self, expires: str | None) -> str:
        """Everything a person may want to know of it. `expires` is when it does."""
        rows = [
            ("approval", self.id),
            ("in place of", self.replaces),
            ("node", self.node),
            ("tool", self.tool_name if self.is_of_call else None),
            ("server", self.server),
            ("why it asks", self.rule),
            ("expires", expires),
            ("the user said", self.user_message),
            *(("state", f"{key}: {value}") for key, value in self.session_state.items()),
        ]
        told = [f"{name}: {value}" for name, value in rows if value]
        if self.is_of_call:
            told.append(f"arguments: {json.dumps(self.tool_args, ensure_ascii=False, indent=2)}")
        return "\n".join(told)

    # ---------------------------------------------------------------- the command line

    def understand(self, line: str) -> Reply:
        """The reply that a typed line means. Only a clear word decides."""
        word, _, rest = line.strip().partition(" ")
        word, rest = word.lower(), rest.strip()
        return ShowAll() if word == "?" and not rest else self._understand(word, rest)

    @abstractmethod
    def _understand(self, word: str, rest: str) -> Reply: ...

    @abstractmethod
    def example(self) -> dict[str, Any]:
        """The words of a decision, for a person to change: what stands for a value is none."""
