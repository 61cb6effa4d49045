"""Secrets that are written in the agent file itself, and not as `${VAR}`. Pure.

Only in places that take a secret: headers and variables whose name says so, addresses, options of commands,
and the keys in `_SECRET_KEYS`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..sections.secrets import SHORTEST, secrets_in, secrets_of_argument
from ..text.values import KeyPath, Scalar, Sequence, Table, Value

_SECRET_KEYS = frozenset({"api_key", "client_secret", "secret"})
_ADDRESSES = frozenset({"url", "base_url", "webhook"})
_NAMED = frozenset({"headers", "env"})
_OTHERS = frozenset({"approval", "prompt", "message", "routes", "options"})
"""Keys below which the file has no secret for the agent to use, but names and texts of other things."""


def literal_secrets(written: Value, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths of values that contain a secret; `written` is the value at `path`."""
    match written:
        case Table(entries=entries):
            for key, value in entries.items():
                if key not in _OTHERS:
                    yield from literal_secrets(value, (*path, key))
        case Sequence(items=items):
            before = ""
            for index, item in enumerate(items):
                text = item.value if isinstance(item, Scalar) and isinstance(item.value, str) else ""
                given = _in_item(path[-1], before, text)
                if any(map(_is_literal, given)):
                    yield (*path, index)
                elif not text:
                    yield from literal_secrets(item, (*path, index))
                before = text
        case Scalar(value=str(text)) if any(map(_is_literal, _in_value(path, text))):
            yield path
        case _:
            pass


def _in_item(key: str | int, before: str, text: str) -> Iterator[str]:
    if key == "args":
        yield from (secret for _, secret in secrets_of_argument(before, text))
    elif key == "secrets":
        yield text
    elif key == "env":
        name, _, value = text.partition("=")
        yield from secrets_in(name, value)


def _in_value(path: KeyPath, text: str) -> Iterator[str]:
    if path[-1] in _SECRET_KEYS:
        yield text
    elif path[-1] in _ADDRESSES:
        yield from secrets_in("", text)
    elif len(path) > 1 and path[-2] in _NAMED:
        yield from secrets_in(str(path[-1]), text)


def _is_literal(secret: str) -> bool:
    return "${" not in secret and len(secret.strip()) >= SHORTEST
