"""What a person types at a question, and what it means. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs


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
