"""The topics of the event bus that conversations publish on."""

from __future__ import annotations

EXPIRIES = "expiries"
"""The topic that the time is published at which the next of some new questions expires, in UTC seconds."""

EVERYTHING = "everything"
"""The topic that events and deltas of all conversations are published on, each in a pair with the status of
its conversation after the commit."""


def topic(conversation: str) -> str:
    """The topic of the bus that this conversation's events are published on."""
    return f"conversation/{conversation}"


def reply_topic(conversation: str, key: str) -> str:
    """The topic that the reply to a command is published on once it is on disk; None: it was deleted."""
    return f"reply/{conversation}/{key}"
