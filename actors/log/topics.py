"""The topics on which conversations publish to the event bus."""

from __future__ import annotations

import attrs

EXPIRIES = "expiries"
"""For new approvals with an expiry: the earliest of their expiry times, in UTC seconds."""

EVERYTHING = "everything"
"""Events and deltas of all conversations, each in a pair with the status of its conversation after the
commit."""


def topic(conversation: str) -> str:
    """The events and deltas of one conversation."""
    return f"conversation/{conversation}"


def reply_topic(conversation: str, key: str) -> str:
    """The reply to a command, once it is on disk; None if the conversation is deleted before."""
    return f"reply/{conversation}/{key}"


@attrs.frozen
class Idle:
    """Published when a conversation has read its inbox and has no active branch."""
