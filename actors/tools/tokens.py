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
    _looks: dict[str, int] = attrs.field(factory=dict)

    def put(self, conversation: str, command: str, token: Token) -> None:
        self._held.setdefault(conversation, {})[command] = token
        self._looks.pop(conversation, None)

    def get(self, conversation: str, command: str) -> Token | None:
        return self._held.get(conversation, {}).get(command)

    @property
    def conversations(self) -> Collection[str]:
        """The conversations with tokens."""
        return tuple(self._held)

    def commands(self, conversation: str) -> Collection[str]:
        """The commands of a conversation that came with a token."""
        return tuple(self._held.get(conversation, ()))

    def holds(self, conversation: str) -> bool:
        """Whether there is a token for any command of the conversation."""
        return conversation in self._held

    def drop(self, conversation: str, commands: Iterable[str]) -> None:
        held = self._held.get(conversation, {})
        for command in commands:
            held.pop(command, None)
        if not held:
            self.forget(conversation)

    def forget(self, conversation: str) -> None:
        self._held.pop(conversation, None)
        self._looks.pop(conversation, None)

    def look(self, conversation: str, last_seq: int) -> None:
        """Note that a conversation was found at rest after this event. Its tokens are of no use before
        another event or token comes."""
        if self.holds(conversation):
            self._looks[conversation] = last_seq

    def last_look(self, conversation: str) -> int | None:
        """The event of the last `look`. None: a token has come since, or there was none."""
        return self._looks.get(conversation)
