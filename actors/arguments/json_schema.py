"""Validation with JSON Schema in a bounded number of steps. Pure.

A schema comes from a server and can take very long: nested alternatives, huge lists, patterns. So each step
is counted. A validation that exceeds its steps is given up here and repeated in a process
(`schema_check.py`).
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from typing import Any

import attrs
import regex

from ...config.text.expressions import end_of_text
from .schema_repair import repaired

MAX_MISTAKES = 20
"""Maximum number of reported mistakes."""
MAX_MISTAKE = 500
"""Maximum length of a mistake, in characters, because it may quote the value."""


class Uncheckable(Exception):
    """The schema cannot be applied. The text says why."""


class TooMuchWork(Exception):
    """The validation exceeds its steps or its time."""


@attrs.define
class Work:
    """The limits of one validation."""

    steps: float = 10_000
    """The remaining steps. A step takes one or two microseconds."""
    seconds: float | None = 0.05
    """The remaining time of regular expressions, of CPU; None for no limit."""

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWork

    def search(self, pattern: str, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text. Raises `TooMuchWork`."""
        if self.seconds is None:
            return regex.search(pattern, text) is not None
        if self.seconds <= 0:
            raise TooMuchWork
        began = time.thread_time()
        try:
            return regex.search(pattern, text, timeout=self.seconds) is not None
        except TimeoutError:
            raise TooMuchWork from None
        finally:
            self.seconds -= time.thread_time() - began


_work: ContextVar[Work] = ContextVar("work")


class Checker:
    """A compiled schema. One of an older draft, or with mistakes, is repaired first (`schema_repair.py`)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `Uncheckable` if the schema cannot be repaired."""
        valid = repaired(schema, end_of_text)
        self.schema = valid.schema
        self.lost = valid.lost
        """Rules that are not checked, because they are invalid, by their place."""
        self._validator: Any = None
        """None if compiling the schema exceeds the limits here."""
        with suppress(TooMuchWork):
            self._validator = self._compile(Work())

    def mistakes(self, value: Any, work: Work) -> list[str]:
        """Return the mistakes of a value, each with its position; empty if it is valid.

        Raises:
            Uncheckable: the schema has external references, or is nested too deep.
            TooMuchWork
        """
        if self._validator is None and work.seconds is not None:
            raise TooMuchWork
        validator = self._validator or self._compile(work)
        with _limited(work):
            value = dict(value) if isinstance(value, Mapping) else value
            found = islice(validator.iter_errors(value), MAX_MISTAKES)
            return [_mistake(error) for error in found]

    def _compile(self, work: Work) -> Any:
        import referencing.jsonschema  # imported here, because start-up does not need it
        from jsonschema import validators

        with _limited(work):
            if work.seconds is not None and _has_unbounded_patterns(self.schema):
                raise TooMuchWork
            draft = _counting(validators.Draft202012Validator)
            for error in draft(draft.META_SCHEMA).iter_errors(dict(self.schema)):
                raise Uncheckable(f"it is not a valid JSON Schema: {_mistake(error)}")
            # An empty registry, so that `$ref` never triggers a fetch.
            empty = referencing.jsonschema.EMPTY_REGISTRY
            return draft(dict(self.schema), registry=empty)


PANIC_MODULE = "pyo3_runtime"
"""The module of the exception for a panic in Rust, which cannot be imported and is no `Exception`. `rpds`,
which holds the references, panics if Python's recursion ends inside one of its comparisons."""


class _limited:
    """Limits the work of the block, and turns errors of the library into `Uncheckable`."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __enter__(self) -> None:
        self._token = _work.set(self._work)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _work.reset(self._token)
        if isinstance(error, RecursionError) or type(error).__module__ == PANIC_MODULE:
            raise Uncheckable("the schema or the value is nested too deep, or refers to itself") from error
        # Any exception, because the library has no error class for some bad schemas: broken references,
        # invalid ids, numbers that no float can hold, custom types of old drafts.
        if isinstance(error, Exception) and not isinstance(error, Uncheckable | TooMuchWork):
            # The first line only, because further lines may quote the value, which must not be logged.
            said = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
            raise Uncheckable(f"it cannot be applied: {_cut(said)}") from error


@functools.cache
def _counting(draft: Any) -> Any:
    """Return the validator with steps counted for each keyword."""
    from jsonschema import validators

    extend: Any = validators.extend  # without types
    rules = {**draft.VALIDATORS, "pattern": _pattern}
    counting = extend(draft, {name: _counted(name, rule) for name, rule in rules.items()})
    # The `evolve` of the library would switch to uncounted rules where a subschema names its draft.
    counting.evolve = attrs.evolve
    return counting


Rule = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


def _counted(keyword: str, rule: Rule) -> Rule:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        size = _size(instance)
        steps = 1 + (size + _size(value)) // 4
        if keyword == "uniqueItems":
            steps += size * size  # compares all pairs
        elif keyword == "enum":
            steps += size * len(value)
        _work.get().spend(steps)
        return rule(validator, value, instance, schema)

    return counted


def _size(value: object) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(instance, str):
        return
    if not _work.get().search(end_of_text(pattern), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _has_unbounded_patterns(schema: Any) -> bool:
    """Return whether it has patterns for property names, which `_pattern` does not limit."""
    todo = [schema]
    while todo:
        match todo.pop():
            case Mapping() as each:
                if each.get("patternProperties"):
                    return True
                todo.extend(each.values())
            case str():
                pass
            case Sequence() as each:
                todo.extend(each)
    return False


def _mistake(error: Any) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    text = f"{where}: {_message(error)}" if where else _message(error)
    if error.context:  # for alternatives: the reasons why none matches
        text = f"{_cut(text, MAX_MISTAKE // 2)} ({'; '.join(map(_message, error.context[:5]))})"
    return _cut(text)


def _message(error: Any) -> str:
    """Return the message of the library, with values written as in JSON instead of Python."""
    message, value = str(error.message), error.instance
    if isinstance(value, bool | dict | list) or value is None:
        rest = message.removeprefix(repr(value))
        if rest != message:
            return json.dumps(value, ensure_ascii=False) + rest
    return message


def _cut(text: str, limit: int = MAX_MISTAKE) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
