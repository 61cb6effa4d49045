"""What a journal raises."""

from __future__ import annotations

import sqlite3

from ..errors import Fatal


class JournalError(Exception):
    """Base of what a journal raises."""


class Fenced(JournalError):
    """Somebody else claimed the stream, or it moved on without us. Stop writing."""


class UnknownStream(JournalError):
    """There is no such stream, or it was deleted."""


class NoteTooLong(JournalError):
    """A note, or its key, is longer than `LONGEST_NOTE`. Nothing was written."""


class QuestionTaken(JournalError):
    """A `CloseQuestion` came too late: the question is decided. Nothing was saved; read the inbox."""


class IntentExists(JournalError):
    """This attempt was begun before. Nothing was saved; the work must not be done."""


class BadCursor(JournalError):
    """The cursor was not made by this journal."""


class StreamDamaged(JournalError):
    """What is stored of a stream cannot be read, or makes no sense. Others are not affected."""

    def __init__(self, stream: str, why: str) -> None:
        super().__init__(f"{stream}: {why}")
        self.stream = stream
        self.why = why


class JournalBroken(JournalError, Fatal):
    """A commit failed with an I/O error. What is on disk is not known: the process must stop."""


class JournalBusy(JournalError):
    """Another process keeps this journal."""


class JournalTooNew(JournalError):
    """The files were written by a newer version; refused rather than damaged."""


def unreadable(error: sqlite3.Error) -> JournalError:
    failed = JournalError(f"the journal cannot be read: {error}")
    failed.__cause__ = error
    return failed
