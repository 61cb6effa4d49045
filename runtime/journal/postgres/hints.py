"""Hints between members: `NOTIFY` after the commits, many in one transaction.

A `NOTIFY` inside the transaction of a save would make all commits of the database wait for each other.
"""

from __future__ import annotations

import logging

import attrs
import psycopg
import trio
from psycopg import sql

from ... import json_text
from ...event_bus import EventBus
from ..errors import JournalError, JournalUnavailable
from ..ownership import HINTS_LOST, Hint
from .pool import Pool, connected
from .tables import Connection

TOPIC = "hints"
_MOST = 1000
"""Maximum number of streams whose changes wait to be sent; further changes are not sent."""
_LONGEST = 7000
"""Maximum size of the payload of a notification, in bytes. PostgreSQL allows 8000."""
GATHER = 0.01
"""Seconds after a notification in which further changes gather for the next one."""
RETRY = 1.0
"""Seconds until the connection that listens is made again, and until a failed notification is followed by one
that says so."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class HintChannel:
    bus: EventBus
    _pool: Pool
    _dsn: str
    _channel: str
    _changed: dict[tuple[str, str], int | None] = attrs.field(factory=dict)
    """The streams that have changed, by member, with the last seq before the change."""
    _lost: bool = False
    """Whether changes of this member were not sent."""
    _wake: trio.Event = attrs.field(factory=trio.Event)
    _sent: trio.Event = attrs.field(factory=trio.Event)
    """Set while there is nothing to send."""

    def __attrs_post_init__(self) -> None:
        self._sent.set()

    def changed(self, member: str, stream: str, after: int | None = None) -> None:
        place = (member, stream)
        if place not in self._changed and len(self._changed) >= _MOST:
            self._lost = True
        elif self._changed.get(place) is None:
            self._changed[place] = after
        self._wake.set()
        if self._sent.is_set():
            self._sent = trio.Event()

    async def sent(self) -> None:
        """Wait until all changes are sent, or it is sent that some were not."""
        await self._sent.wait()

    async def send(self) -> None:
        """Send hints as changes are made. While one notification is sent, further changes gather."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            changed, self._changed = self._changed, {}
            hints = [Hint(stream, member, after) for (member, stream), after in changed.items()]
            texts = payloads([*hints, HINTS_LOST] if self._lost else hints)
            self._lost, pause = False, GATHER

            def notify(db: Connection, texts: list[str] = texts) -> None:
                db.execute(
                    "SELECT pg_notify(%s, text) FROM unnest(%s::text[]) AS text", (self._channel, texts)
                )

            try:
                await self._pool.run(notify)
            except JournalError as error:
                logger.debug("hints are lost: %s", error)
                self._lost, pause = True, RETRY
                self._wake.set()  # the next change, which would tell it too, may come much later
            if not self._wake.is_set():
                self._sent.set()
            await trio.sleep(pause)

    async def listen(self) -> None:
        """Publish the hints of all members on the bus."""
        while True:
            try:
                db = await connected(self._dsn, self._subscribe)
            except (JournalUnavailable, psycopg.Error) as error:
                logger.debug("the journal cannot be listened to: %s", error)
                await trio.sleep(RETRY)
                continue
            try:
                self.bus.publish(TOPIC, HINTS_LOST)  # those sent before it listened
                while True:
                    for each in db.notifies(timeout=0):
                        for hint in parsed(each.payload):
                            self.bus.publish(TOPIC, hint)
                    await trio.lowlevel.wait_readable(db.fileno())
            except psycopg.Error as error:
                logger.debug("the journal cannot be listened to: %s", error)
            finally:
                db.close()

    def _subscribe(self, db: Connection) -> None:
        db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))


def payloads(hints: list[Hint]) -> list[str]:
    """Texts of at most `_LONGEST` bytes that hold the hints. A hint that is longer is left out."""
    texts: list[str] = []
    size = _LONGEST
    for hint in hints:
        text = json_text.dump([hint.stream, hint.member, hint.after])
        length = len(text.encode())
        if length >= _LONGEST:
            continue
        if size + length >= _LONGEST:
            texts.append(text)
            size = length
        else:
            texts[-1] += f"\n{text}"
            size += length + 1
    return texts


def parsed(payload: str) -> list[Hint]:
    """The hints of a payload; none if another program sent it."""
    try:
        return [Hint(*json_text.load(line)) for line in payload.split("\n")]
    except (ValueError, TypeError):
        return []
