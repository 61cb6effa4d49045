"""The bearer tokens of users. They are never stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs


@attrs.frozen
class Token:
    """The bearer token of a command."""

    value: str = attrs.field(repr=False)
    servers: Collection[str] | None = None
    """The tool servers and agents that may get it; None: all that get bearer tokens."""

    def for_server(self, name: str) -> str | None:
        """The token if this server may get it. Its calls are made without one otherwise."""
        return self.value if self.servers is None or name in self.servers else None


@attrs.define(eq=False)
class Tokens:
    """Bearer tokens in memory, by conversation and by the command that they came with."""

    _held: dict[str, dict[str, Token]] = attrs.field(factory=dict, repr=False)

    def put(self, conversation: str, command: str, token: Token) -> None:
        self._held.setdefault(conversation, {})[command] = token

    def get(self, conversation: str, command: str) -> Token | None:
        return self._held.get(conversation, {}).get(command)

    def drop(self, conversation: str, commands: Iterable[str]) -> None:
        held = self._held.get(conversation, {})
        for command in commands:
            held.pop(command, None)
        if not held:
            self.forget(conversation)

    def forget(self, conversation: str) -> None:
        self._held.pop(conversation, None)
