"""Whether values are what the conditions of a rule or a route ask for. Pure, and defined for any JSON.

Raises `Undecided` when a regular expression takes too long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import regex

from ...config.approval import Condition

PATIENCE = 0.1
"""Seconds that one regular expression gets. The text comes from models, who may know how to make it slow."""


class Undecided(Exception):
    """A regular expression took too long; nobody knows whether the condition holds."""


class Missing:
    """Stands for a value that is not there; null is a value."""


MISSING: Final = Missing()

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def all_hold(conditions: Mapping[str, Condition], values: Mapping[str, Any]) -> bool:
    """Whether every condition holds for the value its path leads to."""
    return first_failing(conditions, values) is None


def first_failing(conditions: Mapping[str, Condition], values: Mapping[str, Any]) -> str | None:
    """The first path whose condition does not hold; None when all hold."""
    return next(
        (path for path, condition in conditions.items() if not holds(condition, look_up(values, path))), None
    )


def look_up(values: Any, path: str) -> Any:
    """The value a dotted path leads to, or `MISSING`. Names may hold dots; numbers count in lists from 0."""
    match values:
        case Mapping() if path in values:
            return values[path]
        case str() | bytes():
            return MISSING
        case Mapping() | Sequence():
            head, dot, rest = path.partition(".")
            inner = _item(values, head)
            return look_up(inner, rest) if dot and inner is not MISSING else inner
        case _:
            return MISSING


def _item(values: Mapping[str, Any] | Sequence[Any], name: str) -> Any:
    if isinstance(values, Mapping):
        return values.get(name, MISSING)
    index = int(name) if re.fullmatch("[0-9]{1,9}", name) else len(values)
    return values[index] if index < len(values) else MISSING


def holds(condition: Condition, value: Any) -> bool:
    """Whether all that the condition says is so. What is missing satisfies only `exists: false`."""
    if value is MISSING or condition.exists is False:
        return value is MISSING and condition.exists is False and _says_only_exists(condition)
    number = _number(value)
    return (
        (condition.equals is None or _same(condition.equals, value))
        and (condition.one_of is None or any(_same(each, value) for each in condition.one_of))
        and (condition.matches is None or _found(condition.matches, value))
        and (condition.above is None or (number is not None and number > condition.above))
        and (condition.below is None or (number is not None and number < condition.below))
    )


def _says_only_exists(condition: Condition) -> bool:
    return condition == Condition(exists=False)


def _same(expected: Any, value: Any) -> bool:
    """Equal, or one is the text of the other: models and session state write numbers as text."""
    if _text(expected) == _text(value):  # first, for a text says a long number more exactly than a float
        return True
    if isinstance(expected, str) and isinstance(value, str):
        return False
    numbers = _number(expected), _number(value)
    return None not in numbers and numbers[0] == numbers[1]


def _found(pattern: str, value: Any) -> bool:
    text = _text(value)
    if text is None:
        return False
    try:
        return regex.search(pattern, text, timeout=PATIENCE) is not None
    except TimeoutError:
        raise Undecided(pattern) from None


def _text(value: Any) -> str | None:
    """A scalar as text; None for what is none."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _number(value: Any) -> float | None:
    """A number, or the number a text says; None for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return None
