"""The bearer tokens of users. They are never stored."""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.define(eq=False)
class Tokens:
    """Bearer tokens in memory, by conversation and by the command that they came with."""

    _held: dict[str, dict[str, str]] = attrs.field(factory=dict, repr=False)

    def put(self, conversation: str, command: str, token: str) -> None:
        self._held.setdefault(conversation, {})[command] = token

    def get(self, conversation: str, command: str) -> str | None:
        return self._held.get(conversation, {}).get(command)

    def drop(self, conversation: str, commands: Iterable[str]) -> None:
        held = self._held.get(conversation, {})
        for command in commands:
            held.pop(command, None)
        if not held:
            self.forget(conversation)

    def forget(self, conversation: str) -> None:
        self._held.pop(conversation, None)
