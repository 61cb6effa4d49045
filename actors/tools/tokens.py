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

    _tokens: dict[str, dict[str, Token]] = attrs.field(factory=dict, repr=False)
    _rested_at: dict[str, int] = attrs.field(factory=dict)

    def put(self, conversation: str, command: str, token: Token) -> None:
        self._tokens.setdefault(conversation, {})[command] = token
        self._rested_at.pop(conversation, None)

    def get(self, conversation: str, command: str) -> Token | None:
        return self._tokens.get(conversation, {}).get(command)

    @property
    def conversations(self) -> Collection[str]:
        """The conversations with tokens."""
        return tuple(self._tokens)

    def commands(self, conversation: str) -> Collection[str]:
        """The commands of a conversation that came with a token."""
        return tuple(self._tokens.get(conversation, ()))

    def has_any(self, conversation: str) -> bool:
        """Whether there is a token for any command of the conversation."""
        return conversation in self._tokens

    def drop(self, conversation: str, commands: Iterable[str]) -> None:
        kept = self._tokens.get(conversation, {})
        for command in commands:
            kept.pop(command, None)
        if not kept:
            self.forget(conversation)

    def forget(self, conversation: str) -> None:
        self._tokens.pop(conversation, None)
        self._rested_at.pop(conversation, None)

    def note_rest(self, conversation: str, last_seq: int) -> None:
        """Note that a conversation was found at rest after this event. Its tokens are of no use before
        another event or token comes."""
        if self.has_any(conversation):
            self._rested_at[conversation] = last_seq

    def rested_at(self, conversation: str) -> int | None:
        """The event of the last `note_rest`. None: a token has come since, or there was none."""
        return self._rested_at.get(conversation)
