"""Checks that the keys of a section fit together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from ..text.values import Mark, Table
from .shape import exactly_one_of, keys_of, needed_by_words, needs_a_key, written_as
from .wording import one_of


@attrs.frozen
class Misfit:
    code: str
    message: str
    mark: Mark | None
    key: str | None = None
    """The key with the problem; None for the whole section."""


def misfits(cls: type, value: Table, given: Mapping[str, object]) -> Iterator[Misfit]:
    """Keys of a section that do not fit together; `given` are the values that were read."""
    groups = exactly_one_of(cls)
    written = [[written_as(cls, name, value) for name in group] for group in groups]
    named = [names[0] for group in written if (names := list(filter(None, group)))]
    if groups and not named:
        choice = one_of(tuple(name for group in groups for name in group))
        yield Misfit("missing_key", f"{choice} is required", value.mark)
        return
    if len(named) > 1:
        message = f"{' and '.join(named)} exclude each other; give one of them"
        yield Misfit("conflicting_keys", message, value.mark)
        return
    if needs_a_key(cls) and not value.entries:
        message = f"the mapping is empty; it needs {one_of(tuple(keys_of(cls)))}"
        yield Misfit("empty_mapping", message, value.mark)
        return
    for key in keys_of(cls).values():
        if key.name not in value.entries:
            continue
        mark = value.key_marks.get(key.name)
        if key.about.needs and written_as(cls, key.about.needs, value) is None:
            message = f"{key.name} belongs to {key.about.needs}, which is not given"
            yield Misfit("conflicting_keys", message, mark, key.name)
        if key.alias_of in value.entries:
            relation = "opposites" if key.is_opposite else "the same"
            message = f"{key.name} and {key.alias_of} are {relation}; give one of them"
            yield Misfit("conflicting_keys", message, mark, key.name)
    for name, word, needed in needed_by_words(cls):
        at = written_as(cls, name, value)
        if at is not None and given.get(name) == word and written_as(cls, needed, value) is None:
            message = f"{word} belongs to {needed}, which is not given"
            yield Misfit("conflicting_keys", message, value.key_marks.get(at), at)
