"""A reader of the fields of JSON objects that clients and other agents send. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from .a2a_errors import A2AError, invalid
from .timestamp import read_time

W = TypeVar("W")

_INT32 = 2**31 - 1
_CAPITAL = re.compile(r"[A-Z]")
_TO_STANDARD = str.maketrans("-_", "+/")
"""From the URL-safe alphabet of base64 to the standard one."""


class Fields:
    """One object of a request or an answer, read field by field.

    All versions are read by the rules of ProtoJSON, which accept everything that older clients send: a name
    may be in snake_case, null means absent, a whole number may be a string (as in the parameters of a query),
    and unknown fields are ignored. The parser of the body checks syntax and depth.

    For an absent field, a method returns None or an empty collection, unless the field is required. All
    methods raise only `A2AError` INVALID_PARAMS, with the full name of the field and the reason.
    """

    def __init__(self, value: object, path: str = "") -> None:
        """
        Args:
            path: the full name of the object in errors; empty for the parameters.
        """
        if not isinstance(value, Mapping):
            raise invalid(path or "params", "must be an object")
        self.json: Mapping[str, Any] = value
        self._path = path

    def error(self, name: str, mistake: str) -> A2AError:
        """Make the error for a field; the caller raises it."""
        return invalid(self._full_name(name), mistake)

    def value(self, name: str) -> Any:
        """Read JSON of any shape."""
        found = self.json.get(name)
        return self.json.get(_snake(name)) if found is None else found

    def has(self, name: str) -> bool:
        """Whether the field is present, even if it is null."""
        return name in self.json or _snake(name) in self.json

    def string(self, name: str) -> str | None:
        """Read a string, which may be empty."""
        found = self.value(name)
        if found is None or isinstance(found, str):
            return found
        raise self.error(name, "must be a string")

    def text(self, name: str) -> str | None:
        """Read a string that is not empty. An empty one counts as absent, because ProtoJSON does not
        distinguish them."""
        return self.string(name) or None

    def required(self, name: str) -> str:
        """As `text`; the field must be present."""
        found = self.text(name)
        if found is None:
            raise self.error(name, "is required")
        return found

    def integer(self, name: str, *, minimum: int = 0, maximum: int = _INT32) -> int | None:
        """Read a whole number, which may be written as `3`, `3.0` or `"3"`."""
        found = self.value(name)
        match found:
            case None:
                return None
            case bool():
                pass
            case int() if minimum <= found <= maximum:
                return found
            case float() if found.is_integer() and minimum <= found <= maximum:
                return int(found)
            case str() if found.isascii() and found.isdigit() and len(found) <= 10:
                if minimum <= int(found) <= maximum:
                    return int(found)
        span = f"from {minimum} to {maximum}" if maximum < _INT32 else f"not less than {minimum}"
        raise self.error(name, f"must be a whole number {span}")

    def flag(self, name: str) -> bool | None:
        """Read a boolean, or one of the strings `true` and `false`, as in the parameters of a query."""
        found = self.value(name)
        match found:
            case None | bool():
                return found
            case "true" | "false":
                return bool(found == "true")
        raise self.error(name, "must be true or false")

    def strings(self, name: str) -> tuple[str, ...]:
        found = self.value(name)
        if found is None:
            return ()
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(found)
        raise self.error(name, "must be a list of strings")

    def struct(self, name: str) -> Mapping[str, Any] | None:
        """Read an object of any shape."""
        found = self.value(name)
        if found is None or isinstance(found, Mapping):
            return found
        raise self.error(name, "must be an object")

    def child(self, name: str) -> Fields | None:
        """Read an object, as a reader of its fields."""
        found = self.value(name)
        return None if found is None else Fields(found, self._full_name(name))

    def child_or_empty(self, name: str) -> Fields:
        """As `child`; an absent object counts as empty."""
        return self.child(name) or Fields({})

    def required_child(self, name: str) -> Fields:
        """As `child`; the field must be present."""
        found = self.child(name)
        if found is None:
            raise self.error(name, "is required")
        return found

    def children(self, name: str) -> list[Fields]:
        """Read a list of objects."""
        found = self.value(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self.error(name, "must be a list")
        return [Fields(each, f"{self._full_name(name)}[{index}]") for index, each in enumerate(found)]

    def choice(self, name: str, choices: Mapping[str, W]) -> W | None:
        """Read one of the strings in `choices`; return its value there."""
        found = self.text(name)
        if found is None:
            return None
        if found not in choices:
            raise self.error(name, f"must be one of {', '.join(choices)}")
        return choices[found]

    def time(self, name: str) -> float | None:
        """Read a timestamp; return UTC seconds since the epoch."""
        found = self.text(name)
        if found is None:
            return None
        try:
            return read_time(found)
        except ValueError:
            raise self.error(name, "must be a timestamp (RFC 3339)") from None

    def base64(self, name: str) -> str | None:
        """Read bytes; return them in standard base64 with padding. ProtoJSON also allows the URL-safe
        alphabet, and no padding."""
        found = self.string(name)
        if found is None:
            return None
        standard = found.translate(_TO_STANDARD)
        standard += "=" * (-len(standard) % 4)
        try:
            base64.b64decode(standard, validate=True)
        except ValueError:
            raise self.error(name, "must be base64") from None
        return standard

    def _full_name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


@cache
def _snake(name: str) -> str:
    """Return the name in snake_case. The cache stays small, because only the codecs choose names."""
    return _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)
