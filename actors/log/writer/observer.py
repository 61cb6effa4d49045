"""Observers: receive what the actors do, for metrics and traces.

The methods are called in the task that acts, so they must not wait. Nothing depends on them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs

from ....config.sections.nodes import Node
from ...models.messages.messages import ModelReply, ModelRequest
from ...models.messages.usage import NOTHING, Spent
from ..words import events as e

if TYPE_CHECKING:
    from ..fold.state import Conversation


logger = logging.getLogger(__name__)

T = TypeVar("T")

CANCELLED = "cancelled"
MODEL_ERROR = "model_error"


@attrs.frozen
class ModelCall:
    """A call of one model, with its retries. Times are in UTC seconds since the epoch."""

    model: str
    """The name of the model in the agent file."""
    request: ModelRequest
    started: float
    ended: float = 0.0
    reply: ModelReply | None = None
    """None: the call failed or was cancelled."""
    error: str | None = None
    """Why there is no reply: `CANCELLED`, `MODEL_ERROR`, or the HTTP status of the provider's answer."""
    spent: Spent = NOTHING
    """The tokens and the cost of the call; also a failed call may cost."""


class Observer:
    """Does nothing; subclasses override the methods that they need."""

    def happened(self, conversation: Conversation, at: float, event: e.LogEvent) -> None:
        """The log of a conversation has a further event, of the time `at` (UTC seconds).

        `conversation` does not contain the event yet, except in its head. The event may not be on disk yet:
        if the process crashes before, the event is lost, and the work that it stands for is done again.
        """

    def node_started(self, conversation: Conversation, key: str, node: Node, at: float) -> None:
        """The execution `key` of a node begins, or continues after the run was not in memory."""

    def model_called(self, conversation: Conversation, call: ModelCall) -> None:
        """A model was asked, and has answered or failed."""

    def committed(self, operations: int, seconds: float) -> None:
        """The journal has committed a batch of operations, which took this long."""

    def notified(self, channel: str, outcome: str) -> None:
        """A notification has `arrived` at a channel, has `failed` to, or was `given_up`."""

    def traceparent(self, conversation: Conversation, call: str, attempt: int) -> str | None:
        """Return the `traceparent` (W3C Trace Context) to send with an attempt of a tool call; None: that of
        the run's origin."""
        return None


@attrs.frozen(eq=False)
class Observers(Observer):
    """Passes everything on to several observers. The failure of one is logged, and concerns nothing else."""

    all: Sequence[Observer]

    def happened(self, conversation: Conversation, at: float, event: e.LogEvent) -> None:
        self._each(lambda observer: observer.happened(conversation, at, event))

    def node_started(self, conversation: Conversation, key: str, node: Node, at: float) -> None:
        self._each(lambda observer: observer.node_started(conversation, key, node, at))

    def model_called(self, conversation: Conversation, call: ModelCall) -> None:
        self._each(lambda observer: observer.model_called(conversation, call))

    def committed(self, operations: int, seconds: float) -> None:
        self._each(lambda observer: observer.committed(operations, seconds))

    def notified(self, channel: str, outcome: str) -> None:
        self._each(lambda observer: observer.notified(channel, outcome))

    def traceparent(self, conversation: Conversation, call: str, attempt: int) -> str | None:
        found = self._each(lambda observer: observer.traceparent(conversation, call, attempt))
        return next((each for each in found if each is not None), None)

    def _each(self, report: Callable[[Observer], T]) -> list[T]:
        returned = []
        for observer in self.all:
            try:
                returned.append(report(observer))
            except Exception:
                logger.exception("an observer failed: its metrics or traces miss something")
        return returned
