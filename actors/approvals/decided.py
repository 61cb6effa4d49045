"""The base class of all decisions, and parsing of requests. Pure.

A decision is stored as ``{"approved": bool, ...}`` or ``{"action": word, ...}``, with the fields of its class
and the optional fields of all classes: ``"reason"``, ``"decided_by"``, ``"claimed_by"``, ``"principal"``,
``"hash"``, ``"token"``, ``"halts"`` and ``"traceparent"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import attrs

from ...config.described.wording import nearest
from ...runtime import json_text
from ...runtime.json_text import MAX_DEPTH, depth
from ..common.errors import AgentError, check_fields
from ..common.stored_json import from_json

COMMON = ("reason", "decided_by", "hash")
"""The optional fields of all decisions in a request."""

MAX_TEXT = 4000
"""Maximum length of `reason`, `decided_by` and `hash`, in characters."""

CANCELLED = "Operation cancelled by user"
"""The answer of a run after a rejection."""

NOTHING_DONE = "Nothing was done."
NOT_IN_TIME = "Nobody approved the operation in time."
EXPIRED = f"{NOT_IN_TIME} {NOTHING_DONE}"


@attrs.frozen(kw_only=True)
class Decided:
    """The decision of a person, or `Expired`."""

    marker: ClassVar[tuple[str, str | bool]]
    """The key and value that identify the class in the stored form."""
    reason: str | None = None
    decided_by: str | None = None
    """The principal that decided; without authentication, the name that the client gave."""
    claimed_by: str | None = None
    """With authentication: the name that the client gave."""
    principal: str | None = None
    """The id of the principal that decided; None without authentication."""
    hash: str | None = None
    """The `Asked.hash` of what the principal was shown."""
    token: bool = False
    """Whether it came with a bearer token. The token itself is never stored."""
    halts: int = 0
    """The number of halts of the agent before it. A later halt makes it lapse, if it agrees."""
    traceparent: str | None = None
    """The trace of the request that made it (W3C Trace Context)."""

    def made_by(self, principal: str) -> Self:
        """The decision as one of an authenticated principal."""
        return attrs.evolve(self, decided_by=principal, claimed_by=self.decided_by, principal=principal)

    @property
    def rejects(self) -> bool:
        """Whether it rejects a call or a checkpoint. The answer of the run then begins with `CANCELLED`."""
        return False

    @property
    def agrees(self) -> bool:
        """Whether it lets the call or the run go on, as opposed to ending it."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        fields = attrs.asdict(self, recurse=False)
        common = {name: fields.pop(name) for name in attrs.fields_dict(Decided)}
        key, value = self.marker
        given = {
            name: each for name, each in {**fields, **common}.items() if each not in (None, False)
        }  # nor 0
        return {key: value, **given}


@attrs.frozen(kw_only=True)
class Expired(Decided):
    """The outcome when there was no decision in time. It is stored as its own event type."""

    on_expiry: str
    """The outcome: `reject`, `fail`, or `cancel` for an elicitation."""

    @property
    def rejects(self) -> bool:
        return self.on_expiry == "reject"

    @property
    def fails(self) -> bool:
        """Whether the run fails."""
        return self.on_expiry == "fail"


D = TypeVar("D", bound=Decided)


def read(stored: Mapping[str, Any], known: Iterable[type[D]]) -> D:
    """Rebuild a decision of the `known` classes from its stored form.

    Raises TypeError or ValueError for any other value, because a damaged decision must not count as a yes.
    """
    if not isinstance(stored, Mapping):
        raise TypeError("the decision is not an object")
    for kind in known:
        key, value = kind.marker
        if type(stored.get(key)) is type(value) and stored[key] == value:
            return from_json(stored, kind)
    raise ValueError("the decision has no known `approved` or `action`")


# ----------------------------------------------------------------- parsing requests


def named(words: Mapping[str, Any], known: Iterable[type[D]], what: str, hint: str) -> D:
    """Return the decision that `action` names. Raises `AgentError` ``decision_required``."""
    for kind in known:
        if kind.marker == ("action", action_in(words)):
            return kind()
    raise AgentError("decision_required", f"the request does not say {what}", hint=hint)


def action_in(words: Mapping[str, Any]) -> str | None:
    """Return the word of `action`, in lower case; None if it is no string."""
    action = words.get("action")
    return action.strip().lower() if isinstance(action, str) else None


def object_of(value: object, name: str, hint: str) -> Mapping[str, Any]:
    """Return the value as plain JSON, which embedding programs may not pass.

    Raises `AgentError` ``invalid_arguments``.
    """
    if not isinstance(value, Mapping):
        raise AgentError("invalid_arguments", f"{name} must be an object", hint=hint)
    try:
        plain: Mapping[str, Any] = json_text.load(json_text.dump(value))
        if depth(plain) > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentError("invalid_arguments", f"{name} must be JSON: {error}", hint=hint) from error
    return plain


def text_of(words: Mapping[str, Any], name: str, *, limit: int | None) -> str:
    """Return a field that must be a string. Raises `AgentError` ``invalid_request``."""
    value = words[name]
    if not isinstance(value, str):
        raise AgentError("invalid_request", f"{name} must be a string", details={"field": name})
    if limit is not None and len(value) > limit:
        text = f"{name} is longer than {limit} characters"
        raise AgentError("invalid_request", text, details={"field": name})
    return value


def unfit(what: str, mistakes: list[str], hint: str) -> AgentError:
    """Make the error for a decision that does not match the schema shown."""
    text = f"{what}: {mistakes[0]}"
    return AgentError("invalid_arguments", text, hint=hint, details={"errors": mistakes})


def suggesting(error: AgentError, words: Mapping[str, Any], fields: Iterable[str]) -> AgentError:
    """Return the error; if it says that there is no decision, with the valid name of a misspelled field."""
    known = (*fields, *COMMON)
    for name in words if error.code == "decision_required" else ():
        if name not in known and (near := nearest(name, known)) is not None:
            hint = f"{near[0].upper()}{near[1:]} {error.hint or ''}".strip()
            return AgentError(error.code, error.message, hint=hint, details={"field": name[:200]})
    return error


def with_common(decision: D, words: Mapping[str, Any], fields: Iterable[str]) -> D:
    """Return the decision with the fields in `COMMON`. `fields` are the other fields that its kind allows.

    Raises `AgentError` ``invalid_request``, and ``unknown_field`` for any other field, because a misspelled
    `arguments` must not run the call with the old arguments.
    """
    known = (*fields, *COMMON)
    names = [name for name in COMMON if words.get(name) is not None]
    common: dict[str, Any] = {name: text_of(words, name, limit=MAX_TEXT) for name in names}
    check_fields(words, known, "this decision")
    return attrs.evolve(decision, **common)
