"""What servers ask people (MCP elicitation), and what may be answered. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

import attrs

from .secret_forms import secret_field
from .tool import Elicitation

MAX_QUESTION = 64 * 1024
"""Characters of a question, as JSON; a longer one is not put to anybody."""


MAX_NAME = 100
"""Characters that are told of the name of a field."""


def to_json(elicitation: attrs.AttrsInstance) -> dict[str, Any]:
    """The fields that are not null."""
    return {key: value for key, value in attrs.asdict(elicitation).items() if value is not None}


def unaskable(elicitation: Elicitation) -> str | None:
    """Why nobody is asked this, and the server is told that it was declined; None when somebody is."""
    if len(json.dumps(to_json(elicitation))) > MAX_QUESTION:
        return f"the question is longer than {MAX_QUESTION} characters"
    if elicitation.url is not None and not _is_web_address(elicitation.url):
        # People are going to follow it; a script, or a file of theirs, is no place to send them to.
        return "the address to visit is not one of the web"
    secret = None if elicitation.schema is None else secret_field(elicitation.schema)
    if secret is not None:
        return f"its form asks for a secret ({secret[:MAX_NAME]!r}), and what is typed into forms is stored"
    return None


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()


def completed(content: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with the defaults of the fields it does not mention (MCP SEP-1034)."""
    fields = schema.get("properties")
    given = dict(content)
    for name, field in fields.items() if isinstance(fields, Mapping) else ():
        if isinstance(field, Mapping) and "default" in field:
            given.setdefault(name, field["default"])
    return given


def misformed(content: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """What is not in the `format` its field asks for. JSON Schema only remarks on formats; a form has nothing
    else to tell a date or an address by (MCP 2025-11-25, "Elicitation", names these four)."""
    fields = schema.get("properties")
    wrong = []
    for name, field in fields.items() if isinstance(fields, Mapping) else ():
        format, value = field.get("format") if isinstance(field, Mapping) else None, content.get(name)
        if isinstance(value, str) and format in _FORMATS and not _FORMATS[format](value):
            wrong.append(f"{name}: {value[:100]!r} is not a {format}")
    return wrong


def _parses(parse: Callable[[str], object], form: str = ".*") -> Callable[[str], bool]:
    def parses(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return re.fullmatch(form, text, re.ASCII | re.DOTALL) is not None

    return parses


def _uri(text: str) -> None:
    if not urlsplit(text).scheme:
        raise ValueError("no scheme")


_DATE = r"\d{4}-\d\d-\d\d"
_FORMATS: Mapping[object, Callable[[str], bool]] = {
    # Of what Python reads, only what RFC 3339 has: servers check it, too.
    "date": _parses(date.fromisoformat, _DATE),
    "date-time": _parses(datetime.fromisoformat, rf"{_DATE}T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
    "email": lambda text: all(text.rpartition("@")[::2]),
    "uri": _parses(_uri),
}
