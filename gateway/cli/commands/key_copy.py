"""Copies a journal with the API keys: a data directory has them in a file, a database in notes.

=========  =========  ====================================================================================
source     target     the keys
=========  =========  ====================================================================================
directory  database   become notes
directory  directory  are added to the file, in place of those with the same id
database   directory  as above, and are not copied as notes
database   database   are copied as notes
=========  =========  ====================================================================================

The notes of a directory are those of an earlier copy: keys may have been revoked in the file since.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ....actors.common.stored_json import to_json
from ....runtime.journal import note
from ....runtime.stores.transfer import Copied, Tell, copy_journal
from ...auth.key_file import KeyFile
from ...auth.key_notes import NOTE, read_keys
from .with_journal import with_journal


def copy_with_keys(
    source: Path | str, target: Path | str, *, tell: Tell, last: Callable[[], None]
) -> tuple[Copied, int]:
    """Return what was copied, and the number of keys. `tell` and `last` are as in `copy_journal`.

    Raises:
        JournalError, KeyFileError, OSError, sqlite3.Error
    """
    keys = (
        KeyFile.in_directory(source).read() if isinstance(source, Path) else with_journal(source, read_keys)
    )
    texts = note.texts({key.id: to_json(key) for key in keys})

    def finish() -> None:
        last()
        if keys and isinstance(target, Path):
            with KeyFile.in_directory(target).changing() as stored:
                stored[:] = [*(key for key in stored if key.id not in {each.id for each in keys}), *keys]

    copied = copy_journal(
        source,
        target,
        without=() if isinstance(source, str) and isinstance(target, str) else (NOTE,),
        notes=[(NOTE, *each) for each in texts.items()]
        if isinstance(source, Path) and isinstance(target, str)
        else (),
        tell=tell,
        last=finish,
    )
    return copied, len(keys)
