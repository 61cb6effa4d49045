"""One process per directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stopgo.runtime.journal.errors import JournalBusy


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
