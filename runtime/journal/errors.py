"""The errors of a journal, and `Reading`, which turns failed reads of a stream into `StreamDamaged`."""

from __future__ import annotations

import sqlite3
from types import TracebackType

from ..errors import EndsActor, Fatal


class JournalError(Exception):
    """Base class of the errors that a journal raises."""


class Fenced(JournalError, EndsActor):
    """The writer must stop: the stream was claimed by another, the lease of its member has run out, or its
    last seq is not the expected one."""


class JournalUnavailable(JournalError, EndsActor):
    """The store cannot be reached now. Whether a write was made is unknown, but it can be repeated."""


class UnknownStream(JournalError, EndsActor):
    """The stream does not exist, or was deleted, perhaps by another member."""


class NeedsNewer(JournalError):
    """The stream demands a newer version than that of each living member. Nothing was written."""


class UnknownCommand(JournalError):
    """The stream has no command with this key, or its refusal is too long ago."""


class NoteTooLong(JournalError):
    """A note or its key is longer than `LONGEST_NOTE`. Nothing was written."""


class QuestionTaken(JournalError):
    """A `CloseQuestion` came too late: the question is decided, and the decision is in the inbox. Nothing was
    saved."""


class IntentExists(JournalError):
    """This attempt has already begun, so its work must not be done again. Nothing was saved."""


class BadCursor(JournalError):
    """The cursor was not made by this journal."""


class StreamDamaged(JournalError):
    """The rows of a stream cannot be read or are inconsistent. Other streams are not affected."""

    def __init__(self, stream: str, why: str) -> None:
        super().__init__(f"{stream}: {why}")
        self.stream = stream
        self.why = why


class JournalBroken(JournalError, Fatal):
    """A commit failed, so the state on disk is unknown and the process must stop."""


class JournalBusy(JournalError):
    """Another process has this journal open."""


class JournalTooNew(JournalError):
    """A newer version wrote the files. They are not opened, because this version could damage them."""


def needs_newer(stream: str, demands: int) -> NeedsNewer:
    return NeedsNewer(f"stream {stream!r} demands version {demands}, which no living node has")


def unreadable(error: sqlite3.Error) -> JournalError:
    failed = JournalError(f"the journal cannot be read: {error}")
    failed.__cause__ = error
    return failed


class Reading:
    """A context manager that turns errors into `StreamDamaged`, except for a `JournalError` and for errors of
    SQLite that do not report damage."""

    __slots__ = ("part", "stream")

    def __init__(self, stream: object, part: str) -> None:
        self.stream = shown(stream)
        self.part = part

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
        raise StreamDamaged(self.stream, f"{self.part} cannot be read ({why})") from error


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def shown(name: object) -> str:
    """Return the name of a stream as readable text, even if the name itself is damaged."""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
