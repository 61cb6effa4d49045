"""The topics of the event bus on which conversations publish."""

from __future__ import annotations

from typing import Literal, NamedTuple

import attrs

from ....runtime.journal.protocol import Event
from ..fold.head import Status
from ..words.deltas import AnyDelta

EXPIRIES = "expiries"
"""The seconds until the first of the approvals that a commit added expires."""

EVERYTHING = "everything"
"""The events and deltas of all conversations, as `Published`; changes of `HaltState`; and `Missed`."""

NOTICES = "notices"
"""Without meaning: a commit has written rows to the outbox."""

DELTAS = "deltas"
"""The deltas of the conversations that are loaded in this process, for other members."""

EVERY_DELTA = "every delta"
"""Without items: subscribed to as long as a watcher of all conversations wants deltas."""


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


class ConversationTopic(NamedTuple):
    """The topic for the events and deltas of one conversation, and for `Idle` and `Changed`."""

    conversation: str


class ReplyTopic(NamedTuple):
    """The topic for the reply to a command. The reply is published after its commit; it is None if the
    conversation was deleted first, `Changed` if another member may have answered, and `Unanswered` if no
    member can answer now."""

    conversation: str
    key: str


@attrs.frozen
class Missed:
    """Events of other members may not have been published, of conversations that `Relay` does not know."""


@attrs.frozen
class Changed:
    """Another member may have changed a conversation: the journal has the news."""


@attrs.frozen
class Unanswered:
    """No member can answer a command now. It is stored, and will be carried out."""

    lost: Literal["member", "journal"]
    """The silent side: the member that owns the conversation, or, for this member, the journal."""


@attrs.frozen
class Idle:
    """A conversation has read its inbox and has no active branch."""
