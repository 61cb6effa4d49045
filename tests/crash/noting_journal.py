"""A journal that notes which commands it accepted, so that a test can ask for the answer to each of them."""

from __future__ import annotations

from typing import Any

import attrs

from stopgo.runtime.journal.protocol import (
    Accepted,
    DeliveryOutcome,
    Journal,
    Json,
    NewCommand,
    Repeated,
)
from stopgo.runtime.journal.question import Won
from stopgo.runtime.journal.vote import Voted


@attrs.frozen
class NotingJournal:
    _journal: Journal
    _commands: set[tuple[str, str]]
    """Stream and key of each."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def deliver(self, command: NewCommand) -> DeliveryOutcome:
        outcome = await self._journal.deliver(command)
        if (
            isinstance(outcome, Accepted | Repeated) and command.kind != "expire"
        ):  # the agent's own: no sender waits for it
            self._commands.add((command.stream, command.key))
        return outcome

    async def decide(self, question: str, decision: Json, key: str, *args: Any, **kwargs: Any) -> Any:
        outcome = await self._journal.decide(question, decision, key, *args, **kwargs)
        if isinstance(outcome, Won | Voted):
            self._commands.add((outcome.question.stream, key))
        return outcome
