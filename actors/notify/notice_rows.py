"""The rows of the outbox: which events of the log are worth telling, and what a row holds. Pure.

A row has ids only, so that deleting a conversation leaves nothing of it behind: its texts are read from the
journal when they are sent. `key` is random, because the number of a row is used again after a journal was
restored from a backup.

    ==========================  =============================
    event of the log            kind of the row
    ==========================  =============================
    `approval.*`, but a vote    the same
    `tool.unknown`              the same
    `run.auth_required`         the same
    `run.failed`                the same, or `run.limit_reached` if a limit is the reason
    ==========================  =============================
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence, Set
from typing import get_args

import attrs

from ...config.sections.notify import NoticeKind, NotifyConfig
from ...runtime.journal.protocol import Json, NewEvent
from ..gate.halt import Halt

_KINDS = frozenset(get_args(NoticeKind))
_LIMIT = "limit_reached"


@attrs.frozen(kw_only=True)
class Notice:
    """The body of a row."""

    key: str
    kind: NoticeKind
    stream: str = ""
    """The conversation."""
    seq: int = 0
    """The place of the event in the log of the conversation."""
    approval: str = ""
    number: int = 0
    """The number of the halt."""


def kind_of_event(event: NewEvent) -> str:
    if event.type == "run.failed" and event.body.get("code") == _LIMIT:
        return "run.limit_reached"
    return event.type


@attrs.frozen
class NoticeRows:
    """Makes the rows that some channel wants to hear of. Without channels it makes none."""

    wanted: Set[str] = frozenset()

    @classmethod
    def of(cls, config: NotifyConfig | None) -> NoticeRows:
        channels = () if config is None else config.channels
        wanted = {kind for kind in _KINDS if any(each.wants(kind) for each in channels)}
        if wanted & {"approval.expiring", "approval.escalated"}:  # made with the delivery of the request
            wanted.add("approval.requested")
        return cls(frozenset(wanted))

    def of_events(self, stream: str, after: int, events: Sequence[NewEvent]) -> Sequence[Json]:
        """The rows of the events that follow the event `after`."""
        if not self.wanted:
            return ()
        return [
            _row(kind, stream=stream, seq=seq, approval=str(event.body.get("id", "")))
            for seq, event in enumerate(events, after + 1)
            if (kind := kind_of_event(event)) in self.wanted
        ]

    def of_halt(self, halt: Halt) -> Sequence[Json]:
        kind = "agent.halted" if halt.stands else "agent.unhalted"
        return [_row(kind, number=halt.number)] if kind in self.wanted else ()

    def of_deletion(self, stream: str) -> Sequence[Json]:
        kind = "conversation.deleted"
        return [_row(kind, stream=stream)] if kind in self.wanted else ()


def _row(kind: str, **ids: str | int) -> Json:
    return {"key": secrets.token_hex(8), "kind": kind, **{name: id for name, id in ids.items() if id}}
