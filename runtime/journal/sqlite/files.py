"""The files of a journal: locking them for one process, and noticing when they are removed.

A process can keep writing to a removed file, and a second process can lock a new file that replaces the lock.
Neither gets an error from the system. From then on, acknowledged data would be lost, or work done twice.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..errors import JournalBusy, JournalError

MAX_PID = 20
"""Maximum length of a process id, in characters."""
MAX_NOTICE = 300
"""Maximum length of a notice, in characters."""
LOCK = "journal.lock"
UNFINISHED = "journal.db.copying"
"""The file to which a copy of a journal is written."""
NOTICE = "journal.notice"
"""The file of the notice. It is not in the lock file, which holds only the process id, for scripts."""

logger = logging.getLogger(__name__)


def make_directory(directory: Path) -> None:
    """Create the directory, accessible only to its owner, if it does not exist."""
    if directory.is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    # Sync the parent; otherwise a power failure could lose the entry of the new directory.
    parent = os.open(directory.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def check_directory(directory: Path) -> None:
    """Check that other users cannot replace the files in the directory.

    Raises:
        JournalError: the directory is writable by everyone.
    """
    mode = os.stat(directory).st_mode
    if mode & stat.S_IWOTH:
        raise JournalError(
            f"{directory} is writable by everyone: run `chmod o-w {directory}`, or use a directory inside "
            "it, which will be created"
        )
    if mode & stat.S_IWGRP:
        logger.warning(
            "%s is writable by its group, whose members can change stored data and decisions", directory
        )


def _own_file(path: str, flags: int) -> int:
    # Mode 0600, because any user who can open the file can lock it. No link, because its target would be
    # truncated.
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise JournalError(f"{path} is a link; the journal needs a file of its own: remove it") from error
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise JournalError(
        f"{path} is not a regular file with one name; the journal needs a file of its own: remove it"
    )


@contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Lock the directory for this process, and yield the path of the lock file.

    The system releases the lock when the process ends, in whatever way. Removing the file lets other
    processes in.

    Raises:
        JournalBusy: another process has locked it.
        JournalError: the lock file belongs to another program, or is a link.
    """
    path = directory / LOCK
    with open(path, "a+", encoding="ascii", errors="replace", opener=_own_file) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _lock_owner(file)
            user = f"process {owner}" if owner else "another process"
            notice = _notice(directory, owner)
            raise JournalBusy(f"{user} is using the journal in {directory}{notice}") from None
        if _lock_owner(file) is None:
            raise JournalError(f"{path} belongs to another program: move it away, or use another directory")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield path
        finally:
            # Otherwise a person could later kill the process that has been given the same id.
            file.truncate(0)
            (directory / NOTICE).unlink(missing_ok=True)


def remove_unfinished(directory: Path) -> None:
    """Remove the copy of a process that was killed before it was complete. The directory is locked."""
    for each in directory.glob(f"{UNFINISHED}*"):
        each.unlink()


def _lock_owner(file: TextIO) -> str | None:
    """Return the id of the process that owns the lock, or None if the file holds anything else."""
    file.seek(0)
    text = file.read(MAX_PID + 1).strip()
    return text if len(text) <= MAX_PID and (text.isdecimal() or not text) else None


def announce(directory: Path, notice: str) -> None:
    """Write a notice, such as the address of this process, to show to processes that find the directory
    locked.

    It is one line of printable ASCII, written by the process that owns the lock.
    """
    with open(directory / NOTICE, "w", encoding="ascii", errors="replace", opener=_own_file) as file:
        file.write(f"{os.getpid()}\n{notice}")


def _notice(directory: Path, owner: str | None) -> str:
    """Return the owner's notice in brackets; empty if there is none or another process wrote it."""
    try:
        with open(directory / NOTICE, encoding="ascii", errors="replace", opener=_own_file) as file:
            pid, _, notice = file.read(MAX_PID + MAX_NOTICE).partition("\n")
    except (OSError, JournalError):
        return ""
    return f" ({notice})" if notice and notice.isprintable() and pid == owner else ""


CHECK_EVERY = 1.0
"""Seconds between two checks. Each check calls `stat` for every file."""


class Presence:
    """Detects the removal or replacement of the files that were opened."""

    def __init__(self, *files: Path) -> None:
        # Absolute, because the program may change its working directory.
        self._files = {file.absolute(): _identity(file) for file in files}
        self._checked = time.monotonic()

    def check(self) -> None:
        """Raise OSError if a file was removed or replaced. Checks at most once per `CHECK_EVERY`."""
        now = time.monotonic()
        if now - self._checked < CHECK_EVERY:
            return
        self._checked = now
        for file, identity in self._files.items():
            try:
                same = _identity(file) == identity
            except OSError as error:
                raise OSError(f"{file} was removed while the journal was open: {error.strerror}") from error
            if not same:
                raise OSError(f"{file} was replaced while the journal was open")


def _identity(file: Path) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_dev, found.st_ino
