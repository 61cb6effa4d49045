"""Approvals at a terminal: the prompt of each kind, the replies that are typed to it, edited arguments, the
fields of a form, and all that is known about a question. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ....actors.approvals.asked import Asked
from ....actors.approvals.checkpoint_approval import CheckpointQuestion
from ....actors.approvals.elicitation_approval import ElicitationQuestion
from ....actors.approvals.outcome_approval import OutcomeQuestion
from ....actors.approvals.proxy_approval import ProxyQuestion
from ....actors.approvals.tool_approval import ToolQuestion
from ....actors.tools.elicitation import required_fields
from ....runtime.json_text import load_edge

PROMPTS: Mapping[str, str] = {
    ToolQuestion.kind: "Run it? y: yes, n [reason]: no, e: edit the arguments, r [text]: answer, "
    "?: show all >",
    OutcomeQuestion.kind: "What is it? r: retry, d [result]: done, f [reason]: failed, ?: show all >",
    ElicitationQuestion.kind: "Answer it? a: accept, d: decline, c: cancel, ?: show all >",
    CheckpointQuestion.kind: "Go on? y: yes, n [reason]: no, ?: show all >",
    ProxyQuestion.kind: "Let it go on? y: yes, n [reason]: no, ?: show all >",
}
"""The prompt of each kind, with the words to type."""
_OUTCOMES = {"r": "retry", "d": "done", "f": "failed"}


@attrs.frozen
class TypedDecision:
    """A decision, for `Agent.decide`."""

    words: Mapping[str, Any]


@attrs.frozen
class Edit:
    """A request to edit the arguments before approving."""


@attrs.frozen
class Fill:
    """An accepted elicitation, whose form must be filled in."""

    form: Sequence[Field]


@attrs.frozen
class ShowAll:
    """A request to show all fields of the approval."""


@attrs.frozen
class NotUnderstood:
    pass


TypedReply: TypeAlias = TypedDecision | Edit | Fill | ShowAll | NotUnderstood


def understand(question: Asked[Any], line: str) -> TypedReply:
    """Interpret a typed line. Only an exact word decides."""
    word, _, rest = line.strip().partition(" ")
    word, rest = word.lower(), rest.strip()
    if word == "?" and not rest:
        return ShowAll()
    match question:
        case OutcomeQuestion():
            return _outcome(_OUTCOMES.get(word, word), rest)
        case ElicitationQuestion():
            return NotUnderstood() if rest else _answer(word, question)
        case ToolQuestion() if word in ("e", "edit") and not rest:
            return Edit()
        case ToolQuestion() if word in ("r", "respond") and rest:
            return TypedDecision({"action": "respond", "result": rest})
        case _:
            return _yes_or_no(word, rest)


def _yes_or_no(word: str, rest: str) -> TypedReply:
    if word in ("n", "no"):
        return TypedDecision({"approved": False, **({"reason": rest} if rest else {})})
    return TypedDecision({"approved": True}) if word in ("y", "yes") and not rest else NotUnderstood()


def _outcome(word: str, rest: str) -> TypedReply:
    match word:
        case "retry" if not rest:
            return TypedDecision({"action": "retry"})
        case "done":
            return TypedDecision({"action": "done", **({"result": rest} if rest else {})})
        case "failed":
            return TypedDecision({"action": "failed", **({"reason": rest} if rest else {})})
        case _:
            return NotUnderstood()


def _answer(word: str, question: ElicitationQuestion) -> TypedReply:
    match word:
        case "a" | "accept":
            return Fill(tuple(fields(question.input_schema or {})))
        case "d" | "decline":
            return TypedDecision({"action": "decline"})
        case "c" | "cancel":
            return TypedDecision({"action": "cancel"})
        case _:
            return NotUnderstood()


def all_of(asked: Asked[Any], expires: str | None) -> str:
    """Describe all fields for a person. `expires` is the displayed time of the expiry."""
    words = unshown = None
    match asked:
        case ElicitationQuestion():
            words = asked.message
        case ProxyQuestion():
            words, unshown = asked.remote_description, asked.unshown
    rows = [
        ("approval", asked.id),
        ("in place of", asked.replaces),
        ("node", asked.node),
        ("tool", asked.tool_name if asked.is_of_call else None),
        ("server", asked.server),
        ("why it asks", asked.rule),
        ("expires", expires),
        ("the user said", asked.user_message),
        ("the question", words),
        *(("state", f"{key}: {value}") for key, value in asked.session_state.items()),
    ]
    told = [f"{name}: {value}" for name, value in rows if value]
    if asked.is_of_call:
        told.append(f"arguments: {json.dumps(asked.tool_args, ensure_ascii=False, indent=2)}")
    if unshown is not None:
        told.append(f"not all is shown: {unshown}")
    return "\n".join(told)


def edited(line: str) -> Mapping[str, Any] | str:
    """Parse arguments from a line of JSON. Return the problem as a text if there is one."""
    try:
        arguments = load_edge(line)
    except ValueError as error:
        return f"that is not JSON: {error}"
    return arguments if isinstance(arguments, dict) else "the arguments are an object: {...}"


# ----------------------------------------------------------------- a server's form


@attrs.frozen
class Field:
    name: str
    prompt: str
    kind: str
    """A type of JSON Schema."""
    required: bool
    """Whether it is required and has no default."""

    def value(self, line: str) -> object:
        """Parse a value. It is checked against the schema later."""
        if self.kind == "string":
            return line
        if self.kind == "boolean" and line.lower() in _BOOLEANS:
            return _BOOLEANS[line.lower()]
        try:
            return load_edge(line)
        except ValueError:
            return line


_BOOLEANS = {"y": True, "yes": True, "n": False, "no": False}


def fields(schema: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the fields of a form in the order of its schema."""
    properties, required = schema.get("properties"), required_fields(schema)
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        about: Mapping[str, Any] = field if isinstance(field, Mapping) else {}
        kind, needed = about.get("type"), name in required
        prompt = _prompt_of(name, about, needed)
        yield Field(name, prompt, kind if isinstance(kind, str) else "string", needed)


def _prompt_of(name: str, about: Mapping[str, Any], needed: bool) -> str:
    notes = [str(about[key]) for key in ("type", "format") if key in about]
    if isinstance(about.get("enum"), list):
        notes = [" | ".join(map(str, about["enum"]))]
    if "default" in about:
        notes.append(f"default: {json.dumps(about['default'], ensure_ascii=False)}")
    elif not needed:
        notes.append("may be left out")
    what = about.get("title") or about.get("description")
    said = f", {what}" if isinstance(what, str) else ""
    return f"{name}{said} ({'; '.join(notes)}) >"
