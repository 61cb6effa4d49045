"""One process per directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stopgo.runtime.journal.errors import JournalBusy


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep the directory for this process; the system lets go of it however the process ends.

    Raises:
        JournalBusy: somebody keeps it already.
    """
    with open(directory / "journal.lock", "a+", encoding="ascii") as file:
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
        yield
