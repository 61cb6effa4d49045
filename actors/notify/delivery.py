"""One notification to one channel, and its course. Pure.

    ============  ==============================================================================
    state         meaning
    ============  ==============================================================================
    `pending`     it is sent when `next` has come, and repeated until the channel has taken it
    `arrived`     the channel has taken it
    `given_up`    it became too old, or had too many attempts, or the channel wants no more; `why`
    `overtaken`   something newer about the same has replaced it, or it is no longer true
    ============  ==============================================================================

Each attempt is stored before it is made, with the time of the next one, and its outcome after it. So a crash
in between repeats it: a notification arrives at least once, and its repeats have its id.

`approval.expiring` and `approval.escalated` are made with the request, for a later time. A reminder is made
when the one before it, or the request, has ended, and is stored with that end. So one at most waits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs

from ...config.sections.notify import ChannelConfig, NoticeKind
from ...runtime.journal.question import Question
from ...runtime.restart import Backoff
from .notice_rows import Notice

DeliveryState: TypeAlias = Literal["pending", "arrived", "given_up", "overtaken"]

LONGEST_AGE = 86_400.0
"""Seconds after which a notification is given up; that of an approval at its expiry, if that is earlier."""
MOST_ATTEMPTS = 400
"""A guard: the pauses reach the age first."""
MOST_REMINDERS = 50
"""Of one approval, to one channel."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
"""Seconds between two attempts."""
_PAUSES = Backoff(first=FIRST_PAUSE, limit=LONGEST_PAUSE, jitter=0.5)


@attrs.frozen(kw_only=True)
class ChannelDelivery:
    id: str
    channel: str
    kind: NoticeKind
    subject: str
    """What it is about; a newer one about the same replaces it."""
    at: float
    """The time of the event."""
    next: float
    """The time of the next attempt."""
    ends: float
    """The time at which it is given up."""
    state: DeliveryState = "pending"
    attempts: int = 0
    settled: float = 0.0
    """The time at which the state stopped being `pending`."""
    why: str = ""
    """The reason of the last failed attempt, or of the state. Nothing that the channel has sent."""
    stream: str = ""
    seq: int = 0
    approval: str = ""
    number: int = 0
    other: str = ""
    """Of `notification.given_up`: the channel that failed."""
    reminder: int = 0
    """Of `approval.reminded`: its number, from 1."""

    def tried(self, now: float) -> ChannelDelivery:
        """Before an attempt."""
        attempts = self.attempts + 1
        return attrs.evolve(self, attempts=attempts, next=now + pause(attempts))

    def failed(self, why: str, now: float) -> ChannelDelivery:
        """After an attempt without success."""
        if self.attempts >= MOST_ATTEMPTS:
            return self.ended("given_up", f"{self.attempts} attempts: {why}", now)
        return attrs.evolve(self, why=why)

    def ended(self, state: DeliveryState, why: str, now: float) -> ChannelDelivery:
        return attrs.evolve(self, state=state, why=why, settled=now)

    def again(self, now: float) -> ChannelDelivery:
        """Given up, and wanted after all: the same notification, with new attempts."""
        ends = now + LONGEST_AGE
        return attrs.evolve(self, state="pending", attempts=0, next=now, ends=ends, settled=0.0, why="")


def delivery_of(notice: Notice, channel: str, at: float, kind: NoticeKind | None = None) -> ChannelDelivery:
    """The delivery of a row to a channel; `kind` differs from that of the row for what time causes."""
    kind = kind or notice.kind
    subject = notice.approval or ("halt" if notice.number else "") or f"{notice.stream}/{notice.seq}"
    return ChannelDelivery(
        id=_id(notice.key, kind, channel),
        channel=channel,
        kind=kind,
        subject=subject,
        at=at,
        next=at,
        ends=at + LONGEST_AGE,
        stream=notice.stream,
        seq=notice.seq,
        approval=notice.approval,
        number=notice.number,
    )


def of_request(
    notice: Notice, at: float, channel: ChannelConfig, expires: float | None, escalates: float | None
) -> Sequence[ChannelDelivery]:
    """The deliveries of a request to a channel; `escalates` is the time at which it is escalated to it."""
    times: dict[NoticeKind, float | None] = {
        "approval.requested": at + channel.after,
        "approval.escalated": escalates,
        "approval.expiring": expires and expires - min(channel.before_expiry, (expires - at) / 2),
    }
    made = (
        _bounded(attrs.evolve(delivery_of(notice, channel.name, at, kind), next=next), expires)
        for kind, next in times.items()
        if next is not None and channel.wants(kind)
    )
    return [each for each in made if each.next < each.ends or each.next == at]


def first_kind(channel: ChannelConfig) -> NoticeKind | None:
    """The kind that tells a channel first of an approval, if its time comes later than the request."""
    if channel.wants("approval.requested"):
        return "approval.requested" if channel.after else None
    return None if channel.wants("approval.expiring") else "approval.escalated"


def next_reminder(
    last: ChannelDelivery, channel: ChannelConfig, question: Question | None, now: float
) -> ChannelDelivery | None:
    """The reminder that follows a delivery that has ended; None: there is none. Its id is a digest of that of
    the delivery, so it has that of the request, the channel and its number in it."""
    starts = "approval.requested" if channel.wants("approval.requested") else "approval.escalated"
    if channel.remind_every is None or not channel.wants("approval.reminded"):
        return None
    if last.kind not in (starts, "approval.reminded") or last.state not in ("arrived", "given_up"):
        return None
    if question is None or question.state != "pending" or last.reminder >= MOST_REMINDERS:
        return None
    made = ChannelDelivery(
        id=_id(last.id, "approval.reminded", channel.name),
        channel=last.channel,
        kind="approval.reminded",
        subject=last.subject,
        at=last.at,
        next=now + channel.remind_every,
        ends=math.inf,
        stream=last.stream,
        seq=last.seq,
        approval=last.approval,
        reminder=last.reminder + 1,
    )
    bounded = _bounded(made, question.expires)
    return bounded if bounded.next < bounded.ends else None


def _bounded(delivery: ChannelDelivery, expires: float | None) -> ChannelDelivery:
    return attrs.evolve(delivery, ends=min(delivery.next + LONGEST_AGE, expires or math.inf))


def about_given_up(lost: ChannelDelivery, channel: str, now: float) -> ChannelDelivery:
    """Tells another channel that a delivery was given up."""
    return ChannelDelivery(
        id=_id(lost.id, "notification.given_up", channel),
        channel=channel,
        kind="notification.given_up",
        subject=f"channel {lost.channel}",
        at=now,
        next=now,
        ends=now + LONGEST_AGE,
        other=lost.channel,
    )


def _id(*parts: str) -> str:
    """Unique by event and receiver, and without a dot, which a signature separates with."""
    return "msg_" + hashlib.sha256("/".join(parts).encode()).hexdigest()[:24]


def pause(failures: int) -> float:
    """Seconds after so many failures in a row: half of them fixed, half random."""
    return _PAUSES.delay(failures)
