"""JSON Schema, applied to values with a bounded amount of work. Pure.

Whoever wrote a schema may have written one that takes for ever: nested alternatives, huge lists, patterns. So
every step is counted; what takes more steps than it was given is left, to be done where it can be ended.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from typing import Any

import attrs
import regex

MAX_MISTAKES = 20
"""Mistakes that are told."""
MAX_MISTAKE = 500
"""Characters of one of them: it may quote what was sent."""


class Uncheckable(Exception):
    """The schema cannot be applied; the text says why."""


class TooMuchWork(Exception):
    """It takes more work than was given for it."""


@attrs.define
class Work:
    """What one check may take."""

    steps: float = 10_000
    """A microsecond or two each."""
    seconds: float | None = 0.05
    """For each regular expression; None: as long as it takes."""

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWork


_work: ContextVar[Work] = ContextVar("work")


class Checker:
    """A schema, made ready to be applied: JSON Schema 2020-12, or the draft that it names."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `Uncheckable`: it is no valid schema."""
        self.schema = schema
        self._validator: Any = None
        """None: the schema takes more work than is given here before it is even applied."""
        with suppress(TooMuchWork):
            self._validator = self._compile(Work())

    def mistakes(self, value: Any, work: Work) -> list[str]:
        """What is wrong with the value, and where; empty when it fits.

        Raises:
            Uncheckable: it needs what cannot be had, or is nested too deep.
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
        import referencing.jsonschema  # here: the first tool call needs it, start-up does not

        with _limited(work):
            if work.seconds is not None and _has_unbounded_patterns(self.schema):
                raise TooMuchWork
            draft = _counting(_draft(self.schema))
            for error in draft(draft.META_SCHEMA).iter_errors(dict(self.schema)):
                raise Uncheckable(f"it is no valid JSON Schema: {_mistake(error)}")
            # A registry of nothing: a reference must not make us fetch anything.
            nothing = referencing.jsonschema.EMPTY_REGISTRY
            return draft(dict(self.schema), registry=nothing)


class _limited:
    """The block may take so much work; what a schema makes the library stumble over is `Uncheckable`."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __enter__(self) -> None:
        self._token = _work.set(self._work)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _work.reset(self._token)
        if isinstance(error, RecursionError):
            raise Uncheckable("it refers to itself, or the arguments are nested, without end") from error
        # References that lead nowhere, ids that are no addresses, numbers that no float can hold, types that
        # an old draft lets anybody define: there are more ways than the library has errors for.
        if isinstance(error, Exception) and not isinstance(error, Uncheckable | TooMuchWork):
            # On further lines some quote the value, which is nobody's business in the log.
            said = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
            raise Uncheckable(f"it cannot be applied: {_cut(said)}") from error


def _draft(schema: Mapping[str, Any]) -> Any:
    from jsonschema import validators

    latest = validators.Draft202012Validator
    named = isinstance(schema.get("$schema"), str)
    return validators.validator_for(schema, default=latest) if named else latest


@functools.cache
def _counting(draft: Any) -> Any:
    """The same validator; but each keyword it applies is counted as work before."""
    from jsonschema import validators

    extend: Any = validators.extend  # without types
    rules = {**draft.VALIDATORS, "pattern": _pattern}
    counting = extend(draft, {name: _counted(name, rule) for name, rule in rules.items()})
    # Its own goes back to the draft's rules, which nobody counts, wherever a schema names its draft.
    counting.evolve = attrs.evolve
    return counting


Rule = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


def _counted(keyword: str, rule: Rule) -> Rule:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        size = _size(instance)
        steps = 1 + (size + _size(value)) // 4
        if keyword == "uniqueItems":
            steps += size * size  # each with each
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
    try:
        found = regex.search(pattern, instance, timeout=_work.get().seconds)
    except TimeoutError:
        raise TooMuchWork from None
    if found is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _has_unbounded_patterns(schema: Any) -> bool:
    """Whether it has patterns that are none of `_pattern`'s: those of names."""
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
    if error.context:  # of alternatives: why none of them fits
        text = f"{_cut(text, MAX_MISTAKE // 2)} ({'; '.join(map(_message, error.context[:5]))})"
    return _cut(text)


def _message(error: Any) -> str:
    """What the library says, but `true` and `null` as JSON has them and not as Python does."""
    message, value = str(error.message), error.instance
    if isinstance(value, bool | dict | list) or value is None:
        rest = message.removeprefix(repr(value))
        if rest != message:
            return json.dumps(value, ensure_ascii=False) + rest
    return message


def _cut(text: str, limit: int = MAX_MISTAKE) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
