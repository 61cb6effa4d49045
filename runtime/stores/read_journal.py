"""Opens the journal at an address for reading only: an agent may use it meanwhile, and nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ..journal.passage import JournalReader
from ..journal.sqlite.sqlite_reader import read_sqlite
from ..journal.store_address import is_postgres


@asynccontextmanager
async def read_journal(address: Path | str) -> AsyncIterator[JournalReader]:
    """The journal at a URL of PostgreSQL, or in a directory, for the length of the block.

    Raises:
        JournalError: it cannot be read, or another version of the program wrote it.
    """
    if isinstance(address, str) and is_postgres(address):
        from ..journal.postgres.postgres_reader import read_postgres

        async with read_postgres(address) as reader:
            yield reader
        return
    with read_sqlite(Path(address)) as reader:
        yield reader
