"""Parsing of query parameters. A wrong parameter is a 400 that names it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from .errors import RequestError
from .request import Query

W = TypeVar("W", bound=str)

MAX_LIMIT = 200
MAX_TEXT = 1000
MAX_SEQ = 2**53
"""Above it, JSON numbers are not exact."""


def known(query: Query, names: Sequence[str]) -> None:
    """Refuse unknown parameters, because a misspelled filter would silently return everything, and repeated
    ones, because one of the values would be ignored."""
    for name, values in query.lists():
        if len(values) > 1:
            raise invalid(name, f'query parameter "{name[:50]}" is given more than once')
        if name not in names:
            hint = f"Valid parameters: {', '.join(names)}." if names else "This route has no parameters."
            raise invalid(name, f'unknown query parameter "{name[:50]}"', hint)


def limit(query: Mapping[str, str]) -> int:
    return number(query, "limit", default=50, least=1, most=MAX_LIMIT)


def number(query: Mapping[str, str], name: str, *, default: int, least: int, most: int = MAX_SEQ) -> int:
    given = query.get(name)
    if given is None:
        return default
    return whole_number(given, name, least=least, most=most)


def whole_number(given: str, name: str, *, least: int, most: int = MAX_SEQ) -> int:
    # int() would also take " 5", "+5", "1_000" and digits of other scripts.
    if given.isascii() and given.isdigit() and len(given) <= 16 and least <= int(given) <= most:
        return int(given)
    upper = f"from {least} to {most}" if most < MAX_SEQ else f"not less than {least}"
    raise invalid(name, f"{name} must be a whole number {upper}")


def word(query: Mapping[str, str], name: str, words: Sequence[W]) -> W | None:
    given = query.get(name)
    if given is None:
        return None
    for known_word in words:
        if known_word == given:
            return known_word
    raise invalid(name, f"{name} must be one of {', '.join(words)}")


def flag(query: Mapping[str, str], name: str) -> bool:
    return word(query, name, ("true", "false")) == "true"


def several(query: Mapping[str, str], name: str, known: Sequence[str] | None = None) -> tuple[str, ...]:
    """The words of a comma-separated list, at most `MAX_LIMIT`; each has to be one of `known`, if given."""
    if name not in query:
        return ()
    words = tuple(query[name].split(","))
    if len(words) > MAX_LIMIT or "" in words:
        raise invalid(name, f"{name} must have 1 to {MAX_LIMIT} words, separated by commas")
    if known is not None and (strange := [each for each in words if each not in known]):
        raise invalid(name, f"{strange[0][:50]!r} is not a valid {name}", f"Valid: {', '.join(known)}.")
    return words


def text(query: Mapping[str, str], name: str) -> str | None:
    given = query.get(name)
    if given is not None and len(given) > MAX_TEXT:
        raise invalid(name, f"{name} must be at most {MAX_TEXT} characters")
    return given or None


def invalid(name: str, message: str, hint: str | None = None) -> RequestError:
    return RequestError(400, "invalid_request", message, hint=hint, details={"field": name})
