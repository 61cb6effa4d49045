"""Compares values with the conditions of rules and routes. Pure, and defined for all JSON values.

A condition is met, fails, or is undecided. It is undecided if

* the search for its pattern takes too long; or the text is longer than `MAX_TEXT` (cutting it would let
  padding hide a match); or a number can be written in two ways, and the pattern matches only one of them
  (``5000.0``, ``5000``);
* the value has a type that the condition cannot compare: a list or an object, ``"5,000"`` for a number,
  ``"yes"`` for a boolean, null for a pattern;
* its path leads through a value without names: a list or a text instead of an object;
* its path leads to more than `MOST_READINGS` values.

For `above` and `below`, null counts as missing. For `equals` and `one_of`, null equals nothing.

A rule with `only_these_arguments` (a closed rule) names every leaf of the arguments by a path. A leaf is a
value that is no list and no object, or an empty one. In a list, the paths so give the length.

* A leaf whose path is not among those of the rule: fails.
* A leaf with such a path, and with a name on its way that has a dot, or that is a number in an object:
  undecided, since the path may mean another value (`a.b` in ``{"a.b": 1}``, `a.0` in ``{"a": {"0": 1}}``).
* Otherwise: met. Names are compared exactly, so no spelling of a name stands for another.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from itertools import islice
from typing import Any, Final

import attrs
import regex

from ...config.sections.approval import Condition
from ...config.text.expressions import end_of_text

PATIENCE = 0.1
"""Time limit of one search, in seconds. A model writes the text, and could make a search slow on purpose."""
PATIENCE_IN_ALL = 0.2
"""Time limit of all searches for one call, in seconds of CPU."""
MAX_TEXT = 64 * 1024
"""Maximum size, in bytes, of a text that is searched for a pattern or read as a number."""
MOST_READINGS = 16
"""Maximum number of readings of one path. Each may take a slow search, and a model chooses their number."""


class ConditionResult(IntEnum):
    """The result of a condition. Ordered, so that `min` is "and" and `max` is "or"."""

    FAILS = 0
    UNDECIDED = 1
    MET = 2


class MissingValue:
    """Stands for a missing value. Null is not missing."""


class Blocked:
    """Stands for a value that cannot be reached: its path leads through a value without names."""


MISSING: Final = MissingValue()
BLOCKED: Final = Blocked()

_INDEX = re.compile("[0-9]{1,9}")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def readings(values: Any, path: str) -> tuple[Any, ...]:
    """All values that a dotted path may mean, the one under the whole path first; `(MISSING,)` if none.

    Names may contain dots: ``a.b`` means both the value of the name "a.b" and the value of "b" in "a". A
    number is an index into a list, from 0. After `MOST_READINGS` values, the rest is one `BLOCKED`.
    """
    found = tuple(islice(_found(values, path), MOST_READINGS + 1)) or (MISSING,)
    return found if len(found) <= MOST_READINGS else (*found[:MOST_READINGS], BLOCKED)


def _found(values: Any, path: str) -> Iterator[Any]:
    match values:
        case Mapping():
            if path in values:
                yield values[path]
            for dot in re.finditer(r"\.", path):
                if path[: dot.start()] in values:
                    yield from _found(values[path[: dot.start()]], path[dot.end() :])
        case list() | tuple():
            yield from _in_list(values, path)
        case None:
            return
        case _:
            yield BLOCKED


def _in_list(values: Sequence[Any], path: str) -> Iterator[Any]:
    head, dot, rest = path.partition(".")
    if not _INDEX.fullmatch(head):
        yield BLOCKED
    elif int(head) < len(values):
        item = values[int(head)]
        yield from _found(item, rest) if dot else (item,)


@attrs.define
class Searches:
    """Searches for patterns, with the time that is left for one call."""

    left: float = PATIENCE_IN_ALL
    exceeded: bool = False
    """Whether a search was given up, because of its time or of the length of its text."""
    ran_out: bool = False
    """Whether a search was given up because of its time: another one may have another result."""

    def find(self, pattern: str, text: str, *, whole: bool = False) -> ConditionResult:
        """Whether a pattern matches anywhere in a text, or the whole text; undecided if the time is up
        first."""
        began = time.thread_time()
        limit = min(PATIENCE, self.left)
        if limit <= 0:
            self.ran_out = True
            return self.given_up()
        try:
            search = regex.fullmatch if whole else regex.search
            return _either(search(end_of_text(pattern), text, timeout=limit) is not None)
        except TimeoutError:
            self.ran_out = True
            return self.given_up()
        finally:
            self.left -= time.thread_time() - began

    def given_up(self) -> ConditionResult:
        self.exceeded = True
        return ConditionResult.UNDECIDED


def first_other_leaf(
    arguments: Mapping[str, Any], paths: Collection[str]
) -> tuple[ConditionResult, str | None]:
    """Whether these paths name all leaves of the arguments, and the path of the first leaf for which that
    fails, else of the first for which it is undecided."""
    inner = {path[: dot.start()] for path in paths for dot in re.finditer(r"\.", path)}
    unclear: str | None = None
    for path, is_clear in _leaves(arguments, inner):
        if path not in paths:
            return ConditionResult.FAILS, path
        if not is_clear and unclear is None:
            unclear = path
    return (ConditionResult.MET if unclear is None else ConditionResult.UNDECIDED), unclear


def _leaves(
    values: Any, inner: Collection[str], above: str = "", is_clear: bool = True
) -> Iterator[tuple[str, bool]]:
    """The path of each leaf, and whether it can mean nothing else. Of a list or an object in which no path
    leads anywhere, it is the first name only: `inner` are the paths of the others, and bound the work."""
    is_object = isinstance(values, Mapping)
    pairs = values.items() if is_object else ((str(index), value) for index, value in enumerate(values))
    for name, value in pairs:
        path = f"{above}{name}"
        may_be_index = bool(above) and is_object and _INDEX.fullmatch(name) is not None
        clear = is_clear and not may_be_index and "." not in name
        if not value or not isinstance(value, Mapping | list | tuple):
            yield path, clear
        elif path in inner:
            yield from _leaves(value, inner, f"{path}.", clear)
        else:
            yield f"{path}.{next(iter(value)) if isinstance(value, Mapping) else 0}", clear


def evaluate(
    condition: Condition, value: Any, searches: Searches | None = None, *, whole: bool = False
) -> ConditionResult:
    """Whether all parts of the condition are met. A missing value satisfies only `exists: false`. `whole`:
    whether a pattern has to match the whole value."""
    if value is BLOCKED:
        return ConditionResult.UNDECIDED
    if value is MISSING:
        return _either(condition == Condition(exists=False))
    worst = ConditionResult.MET
    # Patterns come last, so that a value that fails another part costs no search.
    for part in _parts(condition, value, searches or Searches(), whole):
        worst = min(worst, part)
        if worst is ConditionResult.FAILS:
            break
    return worst


def _parts(condition: Condition, value: Any, searches: Searches, whole: bool) -> Iterator[ConditionResult]:
    if condition.exists is not None:
        yield _either(condition.exists)
    if condition.equals is not None:
        yield _equal(condition.equals, value)
    if condition.one_of is not None:
        yield max(_equal(each, value) for each in condition.one_of)
    if condition.above is not None:
        yield _compared(value, condition.above, 1)
    if condition.below is not None:
        yield _compared(value, condition.below, -1)
    if condition.matches is not None:
        yield _search(condition.matches, value, searches, whole)


def _either(met: bool) -> ConditionResult:
    return ConditionResult.MET if met else ConditionResult.FAILS


def _equal(expected: Any, value: Any) -> ConditionResult:
    """Whether two values are equal. A text equals the value that it spells, because models and the session
    state write numbers as text."""
    if value is None:
        return ConditionResult.FAILS
    match expected:
        case bool():
            text = _text(value)
            return (
                _either(text == json.dumps(expected))
                if text in ("true", "false")
                else ConditionResult.UNDECIDED
            )
        case int() | float():
            number = _number(value)
            return ConditionResult.UNDECIDED if number is None else _either(number == _number(expected))
        case _:
            text = _text(value)
            if text is None:
                return ConditionResult.UNDECIDED
            number = None if isinstance(value, str) else _number(value)
            return _either(text == expected or (number is not None and number == _number(expected)))


def _compared(value: Any, limit: float, sign: int) -> ConditionResult:
    """Whether a number is above a limit, or below it when the sign is negative."""
    if value is None:
        return ConditionResult.FAILS
    number, bound = _number(value), _number(limit)
    if number is None or bound is None:
        return ConditionResult.UNDECIDED
    return _either((number > bound) if sign > 0 else (number < bound))


def _search(pattern: str, value: Any, searches: Searches, whole: bool) -> ConditionResult:
    text = _text(value)
    if text is None:
        return ConditionResult.UNDECIDED
    if _is_long(text):
        return searches.given_up()
    found = searches.find(pattern, text, whole=whole)
    if isinstance(value, float) and value.is_integer():
        other = searches.find(pattern, str(int(value)), whole=whole)
        return found if found is other else ConditionResult.UNDECIDED
    return found


def _is_long(text: str) -> bool:
    return len(text) > MAX_TEXT or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT


def _text(value: Any) -> str | None:
    """A text, number or boolean as text; None for other values, and for numbers that are too long."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value) if isinstance(value, bool | int | float) else None
    except ValueError:  # more digits than Python writes
        return None


def _number(value: Any) -> Decimal | None:
    """The exact value of a number, or of a text that spells one; None if it is not a finite number."""
    text = _text(value)
    if text is None or isinstance(value, bool) or _is_long(text):
        return None
    return Decimal(text.strip()) if _NUMBER.fullmatch(text.strip()) else None
