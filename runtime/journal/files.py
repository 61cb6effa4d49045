"""The files of a journal: kept for one process, and still the ones that were opened.

A process can go on writing to a file that was removed, and a second one can lock what was put in the place of
its lock. Nobody would notice, and what is answered from then on would be lost, or done twice.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import JournalBusy


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Keep the directory for this process; the system lets go of it however the process ends. Gives the file
    that is locked: whoever removes it lets others in.

    Raises:
        JournalBusy: somebody keeps it already.
    """
    # Whoever could open it could lock it.
    path = directory / "journal.lock"
    with open(path, "a+", encoding="ascii", opener=_for_its_owner) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip()
            who = f"process {holder}" if holder else "another process"
            raise JournalBusy(f"{who} keeps the journal in {directory}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield path
        finally:
            # People end the process that it names; the number will be somebody else's.
            file.truncate(0)


LOOK_EVERY = 1.0
"""Seconds after which it is looked again: doing so for each write would cost a turn something."""


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
