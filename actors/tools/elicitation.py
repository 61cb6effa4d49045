"""Questions of servers to people (MCP elicitation), and checks of questions and answers. Pure."""

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
"""Maximum length of a question as JSON, in characters. A longer question is declined."""


MAX_NAME = 100
"""Maximum length of a field name in a reason, in characters."""


def unaskable(elicitation: Elicitation) -> str | None:
    """Return the reason to decline a question without asking a person; None if a person may be asked."""
    given = {key: value for key, value in attrs.asdict(elicitation).items() if value is not None}
    if len(json.dumps(given)) > MAX_QUESTION:
        return f"the question is longer than {MAX_QUESTION} characters"
    if elicitation.url is not None and not _is_web_address(elicitation.url):
        # People open the address, so it must not be a script or a local file.
        return "the address to visit is not one of the web"
    return None if elicitation.schema is None else asks_for_secret(elicitation.schema)


def asks_for_secret(schema: Mapping[str, Any]) -> str | None:
    """Return the reason to decline a form that asks for a secret; None if it does not."""
    secret = secret_field(schema)
    if secret is None:
        return None
    return f"its form asks for a secret ({secret[:MAX_NAME]!r}), and what is typed into forms is stored"


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()


def completed(content: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with the defaults of missing fields (MCP SEP-1034)."""
    fields = schema.get("properties")
    given = dict(content)
    for name, field in fields.items() if isinstance(fields, Mapping) else ():
        if isinstance(field, Mapping) and "default" in field:
            given.setdefault(name, field["default"])
    return given


def required_fields(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields that an answer has to fill in: the required ones without a default."""
    fields, required = schema.get("properties"), schema.get("required")
    if not isinstance(fields, Mapping) or not isinstance(required, list):
        return ()
    optional = {name for name, field in fields.items() if isinstance(field, Mapping) and "default" in field}
    return tuple(name for name in fields if name in required and name not in optional)


def misformed(content: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the values that do not have the `format` of their field. JSON Schema does not validate formats,
    but forms need them for dates and addresses (MCP 2025-11-25, "Elicitation", names these four)."""
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
    # Python also parses other forms than RFC 3339, which servers would refuse.
    "date": _parses(date.fromisoformat, _DATE),
    "date-time": _parses(datetime.fromisoformat, rf"{_DATE}T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
    "email": lambda text: all(text.rpartition("@")[::2]),
    "uri": _parses(_uri),
}
