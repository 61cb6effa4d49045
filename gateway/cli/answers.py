"""The answers that a person types at a question, and the fields of a server's form. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs


@attrs.frozen
class Field:
    name: str
    prompt: str
    kind: str
    """`string`, or another type of JSON Schema."""
    required: bool
    """And there is no default."""

    def value(self, line: str) -> object:
        """What the line says; the schema decides later whether it fits."""
        if self.kind == "string":
            return line
        if self.kind == "boolean" and line.lower() in _BOOLEANS:
            return _BOOLEANS[line.lower()]
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return line


_BOOLEANS = {"y": True, "yes": True, "n": False, "no": False}


def fields(schema: Mapping[str, Any]) -> Iterator[Field]:
    """The fields of a form, in the order of its schema."""
    properties, required = schema.get("properties"), schema.get("required")
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        about: Mapping[str, Any] = field if isinstance(field, Mapping) else {}
        kind = about.get("type")
        needed = isinstance(required, list) and name in required and "default" not in about
        yield Field(name, _prompt(name, about, needed), kind if isinstance(kind, str) else "string", needed)


def _prompt(name: str, about: Mapping[str, Any], needed: bool) -> str:
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


# ----------------------------------------------------------------- replies to a question


@attrs.frozen
class Decide:
    """An answer, in the words of `Agent.decide`."""

    words: Mapping[str, Any]


@attrs.frozen
class Edit:
    """The arguments are to be changed first."""


@attrs.frozen
class Fill:
    """A server's question is accepted; its form, if it has one, is to be filled in first."""


@attrs.frozen
class ShowAll:
    """Everything there is to know of the question."""


@attrs.frozen
class NotUnderstood:
    pass


Reply: TypeAlias = Decide | Edit | Fill | ShowAll | NotUnderstood

_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})
_OUTCOMES = {"r": "retry", "d": "done", "f": "failed"}
_ANSWERS = {"a": "accept", "d": "decline", "c": "cancel"}

_PROMPTS = {
    "tool": "Run it? y: yes, n [reason]: no, e: edit the arguments, ?: show all >",
    "checkpoint": "Go on? y: yes, n [reason]: no, ?: show all >",
    "elicitation": "Answer it? a: accept, d: decline, c: cancel, ?: show all >",
    "outcome_unknown": "What is it? retry: call again, done [result], failed [reason], ?: show all >",
}


def prompt(kind: str) -> str:
    """What may be answered to a question of this kind."""
    return _PROMPTS[kind]


def understand(kind: str, line: str) -> Reply:
    """What a line means as a reply to a question of this kind. Nothing but a clear word decides."""
    word, _, rest = line.strip().partition(" ")
    word, rest = word.lower(), rest.strip()
    if word == "?" and not rest:
        return ShowAll()
    if kind == "elicitation":
        action = _ANSWERS.get(word, word)
        if rest or action not in _ANSWERS.values():
            return NotUnderstood()
        return Fill() if action == "accept" else Decide({"action": action})
    if kind == "outcome_unknown":
        return _outcome(_OUTCOMES.get(word, word), rest)
    if word in _NO:
        return Decide({"approved": False, **({"reason": rest} if rest else {})})
    if rest:
        return NotUnderstood()
    if word in _YES:
        return Decide({"approved": True})
    return Edit() if word in ("e", "edit") and kind == "tool" else NotUnderstood()


def _outcome(action: str, rest: str) -> Reply:
    match action:
        case "retry" if not rest:
            return Decide({"action": "retry"})
        case "done":
            return Decide({"action": "done", **({"result": rest} if rest else {})})
        case "failed":
            return Decide({"action": "failed", **({"reason": rest} if rest else {})})
        case _:
            return NotUnderstood()


def edited(line: str) -> Mapping[str, Any] | str:
    """The arguments in a line of JSON, or what is wrong with it."""
    try:
        arguments = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"that is not JSON: {error}"
    return arguments if isinstance(arguments, dict) else "the arguments are an object: {...}"


def all_of(question: Mapping[str, Any], expires: str | None) -> str:
    """Everything a person may want to know of a question; `question` is its body."""
    rows = [
        ("approval", question["id"]),
        ("in place of", question.get("replaces")),
        ("node", question["node"]),
        ("tool", None if question["kind"] == "checkpoint" else question["tool_name"]),
        ("server", question.get("server")),
        ("why it asks", question["rule"]),
        ("expires", expires),
        ("the user said", question["user_message"]),
        *(("state", f"{key}: {value}") for key, value in question["session_state"].items()),
    ]
    told = [f"{name}: {value}" for name, value in rows if value]
    if question["kind"] != "checkpoint":
        told.append(f"arguments: {json.dumps(question['tool_args'], ensure_ascii=False, indent=2)}")
    return "\n".join(told)
