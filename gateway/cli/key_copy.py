"""Copies API keys when a journal is copied: a data directory has them in a file, a database in notes."""

from __future__ import annotations

from pathlib import Path

from ..auth.key_file import KeyFile, StoredKey
from ..auth.key_notes import change_keys, read_keys
from .with_journal import with_journal


def copy_keys(source: Path | str, target: Path | str) -> int:
    """Return the number of keys. Raises `JournalError`, `KeyFileError` and `OSError`."""
    keys = (
        KeyFile.in_directory(source).read() if isinstance(source, Path) else with_journal(source, read_keys)
    )

    def add(stored: list[StoredKey]) -> None:
        known = {key.id for key in stored}
        stored += [key for key in keys if key.id not in known]

    if isinstance(target, str):
        with_journal(target, lambda journal: change_keys(journal, add))
    elif keys:
        with KeyFile.in_directory(target).changing() as stored:
            add(stored)
    return len(keys)
