"""The topics of the event bus on which conversations publish."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from ...runtime.journal.protocol import Event
from .deltas import AnyDelta
from .head import Status

EXPIRIES = "expiries"
"""The earliest expiry time of the approvals that a commit added, in UTC seconds since the epoch."""

EVERYTHING = "everything"
"""The events and deltas of all conversations, as `Published`, and changes of `HaltState`."""


class Published(NamedTuple):
    """An item of the topic `EVERYTHING`."""

    item: Event | AnyDelta
    status: Status
    """The status of the conversation after the commit."""
    owner: str = ""
    """The owner of the conversation."""

    @property
    def conversation(self) -> str:
        return self.item.stream if isinstance(self.item, Event) else self.item.conversation


def topic(conversation: str) -> str:
    """Return the topic for the events and deltas of one conversation, and for `Idle`."""
    return f"conversation/{conversation}"


def reply_topic(conversation: str, key: str) -> str:
    """Return the topic for the reply to a command. The reply is published after its commit; it is None if the
    conversation was deleted first."""
    return f"reply/{conversation}/{key}"


@attrs.frozen
class Idle:
    """A conversation has read its inbox and has no active branch."""
