"""The form of a server's question, field by field: what to ask, and what a typed line means. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

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
