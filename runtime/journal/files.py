"""The files of a journal: kept for one process, and still the ones that were opened.

A process can go on writing to a file that was removed, and a second one can lock what was put in the place of
its lock. Nobody would notice, and what is answered from then on would be lost, or done twice.
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

from .errors import JournalBusy, JournalError

MAX_HOLDER = 20
"""Characters of the number of a process."""
MAX_NOTICE = 300
"""Characters of a notice."""
NOTICE = "journal.notice"
"""The file of the notice. The lock holds only the number of the process, because scripts read it."""

logger = logging.getLogger(__name__)


def check_directory(directory: Path) -> None:
    """Look whether others may put files into the directory in the place of the journal's.

    Raises:
        JournalError: everybody may.
    """
    mode = os.stat(directory).st_mode
    if mode & stat.S_IWOTH:
        raise JournalError(
            f"everybody may write to {directory}: run `chmod o-w {directory}`, or name a directory below it, "
            "which is then created"
        )
    if mode & stat.S_IWGRP:
        logger.warning("the group of %s may write to it, and so decide and change what is stored", directory)


def _own_file(path: str, flags: int) -> int:
    # Every user who can open it can lock it. A link would lead to another file, which must not be emptied.
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise JournalError(f"{path} is a link; the journal only locks a file of its own") from error
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise JournalError(f"{path} has other names, or is no file; the journal only locks a file of its own")


@contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Keep the directory for this process; the system lets go of it however the process ends. Gives the file
    that is locked: whoever removes it lets others in.

    Raises:
        JournalBusy: somebody keeps it already.
        JournalError: the file that is to be locked is another program's, or a link.
    """
    path = directory / "journal.lock"
    with open(path, "a+", encoding="ascii", errors="replace", opener=_own_file) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            user = f"process {holder}" if holder else "another process"
            notice = _notice(directory, holder)
            raise JournalBusy(f"{user} is using the journal in {directory}{notice}") from None
        if _holder(file) is None:
            raise JournalError(f"{path} is the file of another program")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield path
        finally:
            # People end the process that it names; the number will be that of another process.
            file.truncate(0)
            (directory / NOTICE).unlink(missing_ok=True)


def _holder(file: TextIO) -> str | None:
    """The number of the process that holds the lock; None when the file says something else."""
    file.seek(0)
    text = file.read(MAX_HOLDER + 1).strip()
    return text if len(text) <= MAX_HOLDER and (text.isdecimal() or not text) else None


def announce(directory: Path, notice: str) -> None:
    """Leave a notice, such as the address of this process, for processes that find the directory locked.

    One printable line of ASCII, written by the process that holds the lock.
    """
    with open(directory / NOTICE, "w", encoding="ascii", errors="replace", opener=_own_file) as file:
        file.write(f"{os.getpid()}\n{notice}")


def _notice(directory: Path, holder: str | None) -> str:
    """The notice of the holder, in brackets; empty if there is none, or another process has left it."""
    try:
        with open(directory / NOTICE, encoding="ascii", errors="replace", opener=_own_file) as file:
            pid, _, notice = file.read(MAX_HOLDER + MAX_NOTICE).partition("\n")
    except (OSError, JournalError):
        return ""
    return f" ({notice})" if notice and notice.isprintable() and pid == holder else ""


LOOK_EVERY = 1.0
"""Seconds between two checks; a check before every write would slow each turn."""


class Presence:
    """Raises OSError when one of the files is not there."""

    def __init__(self, *files: Path) -> None:
        # Absolute, for a program may change its working directory.
        self._files = {file.absolute(): _identity(file) for file in files}
        self._looked = time.monotonic()

    def check(self) -> None:
        """Raises OSError when one of them was removed, or is another one now."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        for file, identity in self._files.items():
            try:
                same = _identity(file) == identity
            except OSError as error:
                raise OSError(f"{file} is not there any more: {error.strerror}") from error
            if not same:
                raise OSError(f"{file} is another file than the one that was opened")


def _identity(file: Path) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_dev, found.st_ino
