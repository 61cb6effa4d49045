"""Forms of a conversation's messages that are kept in memory, so that a long history is not written anew in
each turn: parts of requests to models, parts of answers to clients.

A form is derived from the state in memory, and only saves time: it may be missing at any moment, and its user
compares it with the messages before each use. The forms of a conversation end with its activation, unless the
state is kept as well. All forms together have a bound; beyond it, the conversation whose forms have not been
used for longest loses them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

import attrs

T = TypeVar("T")

MOST_KEPT = 16 * 1024 * 1024
"""Bytes of all forms of a process."""
PER_ITEM = 120
"""Bytes that a kept message takes beside its text."""


@attrs.define(eq=False)
class AllKeptForms:
    """The forms of all active conversations of a process, within the bound."""

    most: int = MOST_KEPT
    size: int = 0
    """Bytes in use, estimated."""
    _of: dict[str, KeptForms] = attrs.field(factory=dict)
    """By conversation, the least recently used first."""

    def of(self, conversation: str) -> KeptForms:
        """Begin to keep the forms of a conversation."""
        if conversation in self._of:
            self._of[conversation].end()
        found = self._of[conversation] = KeptForms(self, conversation)
        return found

    def kept(self, conversation: str) -> KeptForms | None:
        """The forms of a conversation, if its last activation did not end them."""
        return self._of.get(conversation)


@attrs.define(eq=False)
class KeptForms:
    """The forms of one conversation, by key."""

    _all: AllKeptForms
    _conversation: str
    at_rest: bool = False
    """Whether no activation uses them: they end when they have no room."""
    _forms: dict[Hashable, tuple[object, int]] = attrs.field(factory=dict)
    """With their sizes."""

    def take(self, key: Hashable, kind: type[T]) -> T | None:
        """Remove a form, to use and change it. The user keeps it again when it is whole."""
        form, size = self._forms.pop(key, (None, 0))
        self._all.size -= size
        return form if isinstance(form, kind) else None

    def get(self, key: Hashable, kind: type[T]) -> T | None:
        """A form that may be used by several at the same time."""
        form, _ = self._forms.get(key, (None, 0))
        return form if isinstance(form, kind) else None

    def keep(self, key: Hashable, form: object, size: int) -> None:
        """Keep a form, with its present size. Forms that have no room are dropped."""
        every = self._all._of
        if every.get(self._conversation) is not self:  # ended, but somebody still has the state
            return
        every[self._conversation] = every.pop(self._conversation)
        self.take(key, object)
        if size > self._all.most:  # it would drop those of all others, and then itself
            if self.at_rest:
                self.end()
            return
        self._forms[key] = form, size
        self._all.size += size
        for each in tuple(every.values()) if self._all.size > self._all.most else ():
            each.end() if each.at_rest else each._clear()
            if self._all.size <= self._all.most:
                break

    def end(self) -> None:
        """Drop all forms, and keep no more."""
        self._clear()
        if self._all._of.get(self._conversation) is self:
            del self._all._of[self._conversation]

    def _clear(self) -> None:
        self._all.size -= sum(size for _, size in self._forms.values())
        self._forms.clear()
