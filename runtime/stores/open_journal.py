"""Opens the journal at an address: a PostgreSQL database for several processes, or a directory for one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from ..clock import WallClock, system_clock
from ..journal.errors import JournalError
from ..journal.protocol import Journal, OnCommit, ignore_commit
from ..journal.sqlite.sqlite_journal import open_sqlite
from ..journal.store_address import LEASE, is_postgres


def open_journal(
    address: Path | str,
    *,
    lease: float = LEASE,
    version: int = 0,
    about: str = "",
    wall: WallClock = system_clock,
    on_commit: OnCommit = ignore_commit,
) -> AbstractAsyncContextManager[Journal]:
    """Open the journal at a URL of PostgreSQL, or in a directory, for the length of the block.

    `lease`, `version` and `about` are as in `open_postgres`; a directory has one process, which needs no
    lease and tells no other about itself. `wall` is not for PostgreSQL, which has a clock of its own.
    `on_commit` is called after each commit.

    Raises:
        JournalError: it cannot be opened; or, for PostgreSQL, psycopg is not installed. In the block, as
            `open_postgres` and `open_sqlite`.
    """
    if isinstance(address, str) and is_postgres(address):
        try:
            from ..journal.postgres.journal import open_postgres
        except ModuleNotFoundError as error:
            raise JournalError(
                "a journal on PostgreSQL needs psycopg: pip install 'agent-stop-and-go[postgres]'"
            ) from error
        return open_postgres(address, lease=lease, version=version, about=about, on_commit=on_commit)
    if "://" in str(address):
        raise JournalError(f"{address} is neither a postgresql:// URL nor a directory")
    return open_sqlite(address, wall=wall, on_commit=on_commit, version=version)
