"""Whether a journal's files are still the ones that were opened.

A process can go on writing to a file that was removed, and a second one can lock what was put in the place of
its lock. Nobody would notice, and what is answered from then on would be lost, or done twice.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

LOOK_EVERY = 1.0
"""Seconds after which it is looked again, for those who write: that costs a turn nothing."""


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
