"""The errors of a journal, and `Reading`, which turns failures to read a stream into one of them."""

from __future__ import annotations

import sqlite3
from types import TracebackType

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


class Reading:
    """Turns every failure inside the block into `StreamDamaged`, save for a `JournalError` and errors of
    SQLite that do not report damage."""

    __slots__ = ("stream", "what")

    def __init__(self, stream: object, what: str) -> None:
        self.stream = shown(stream)
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, JournalError) or not isinstance(error, Exception):
            return
        if isinstance(error, sqlite3.Error) and not _is_damage(error):
            return
        why = f"{type(error).__name__}: {error}"
        raise StreamDamaged(self.stream, f"{self.what} cannot be read ({why})") from error


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def shown(name: object) -> str:
    """The name of a stream for people, even when it is damaged itself."""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
