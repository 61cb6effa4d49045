"""Read fields of JSON objects from clients and other agents. Pure."""

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
_NOT_STANDARD = str.maketrans("-_", "+/")


class Fields:
    """One object of a request or an answer, read field by field.

    All versions are read by the rules of ProtoJSON, which accept everything that older clients send: a name
    may be in snake_case, null means absent, a whole number may be a text (which also allows the parameters of
    a query), and unknown fields are ignored. The parser of the body checks syntax and depth.

    Raises:
        A2AError: INVALID_PARAMS, with the full name of the field and its mistake; nothing else is raised.
    """

    def __init__(self, value: object, path: str = "") -> None:
        """`path`: the name of the object; empty for the parameters."""
        if not isinstance(value, Mapping):
            raise invalid(path or "params", "must be an object")
        self.json: Mapping[str, Any] = value
        self._path = path

    def refusal(self, name: str, mistake: str) -> A2AError:
        return invalid(self._name(name), mistake)

    def value(self, name: str) -> Any:
        """JSON of any shape, or None."""
        found = self.json.get(name)
        return self.json.get(_snake(name)) if found is None else found

    def has(self, name: str) -> bool:
        """Whether the field is present, even if null."""
        return name in self.json or _snake(name) in self.json

    def words(self, name: str) -> str | None:
        """A text that may be empty."""
        found = self.value(name)
        if found is None or isinstance(found, str):
            return found
        raise self.refusal(name, "must be a string")

    def text(self, name: str) -> str | None:
        """A text that is not empty. An empty text counts as absent, because ProtoJSON does not distinguish
        them."""
        return self.words(name) or None

    def needed(self, name: str) -> str:
        found = self.text(name)
        if found is None:
            raise self.refusal(name, "is required")
        return found

    def whole(self, name: str, *, least: int = 0, most: int = _INT32) -> int | None:
        found = self.value(name)
        match found:
            case None:
                return None
            case bool():
                pass
            case int() if least <= found <= most:
                return found
            case float() if found.is_integer() and least <= found <= most:
                return int(found)
            case str() if found.isascii() and found.isdigit() and len(found) <= 10:
                if least <= int(found) <= most:
                    return int(found)
        upper = f"from {least} to {most}" if most < _INT32 else f"not less than {least}"
        raise self.refusal(name, f"must be a whole number {upper}")

    def flag(self, name: str) -> bool | None:
        """A boolean. In the parameters of a query it is a word."""
        found = self.value(name)
        match found:
            case None | bool():
                return found
            case "true" | "false":
                return bool(found == "true")
        raise self.refusal(name, "must be true or false")

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.value(name)
        if found is None:
            return ()
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(found)
        raise self.refusal(name, "must be a list of strings")

    def struct(self, name: str) -> Mapping[str, Any] | None:
        """An object of any shape."""
        found = self.value(name)
        if found is None or isinstance(found, Mapping):
            return found
        raise self.refusal(name, "must be an object")

    def child(self, name: str) -> Fields | None:
        found = self.value(name)
        return None if found is None else Fields(found, self._name(name))

    def group(self, name: str) -> Fields:
        """An object of options; empty if absent."""
        return self.child(name) or Fields({})

    def needed_child(self, name: str) -> Fields:
        found = self.child(name)
        if found is None:
            raise self.refusal(name, "is required")
        return found

    def children(self, name: str) -> list[Fields]:
        found = self.value(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self.refusal(name, "must be a list")
        return [Fields(each, f"{self._name(name)}[{index}]") for index, each in enumerate(found)]

    def word(self, name: str, words: Mapping[str, W]) -> W | None:
        """The value that a word stands for."""
        found = self.text(name)
        if found is None:
            return None
        if found not in words:
            raise self.refusal(name, f"must be one of {', '.join(words)}")
        return words[found]

    def time(self, name: str) -> float | None:
        """UTC seconds."""
        found = self.text(name)
        if found is None:
            return None
        try:
            return read_time(found)
        except ValueError:
            raise self.refusal(name, "must be a timestamp (RFC 3339)") from None

    def base64(self, name: str) -> str | None:
        """Bytes in standard base64 with padding. ProtoJSON also allows the URL-safe alphabet and no
        padding."""
        found = self.words(name)
        if found is None:
            return None
        standard = found.translate(_NOT_STANDARD)
        standard += "=" * (-len(standard) % 4)
        try:
            base64.b64decode(standard, validate=True)
        except ValueError:
            raise self.refusal(name, "must be base64") from None
        return standard

    def _name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


@cache
def _snake(name: str) -> str:
    """The name in snake_case. The cache is bounded, because the codecs use few names."""
    return _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)
