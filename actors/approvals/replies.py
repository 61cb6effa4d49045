"""Parsing of lines typed at an approval: replies, edited arguments and the fields of a form. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ...runtime.json_text import load_edge


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
