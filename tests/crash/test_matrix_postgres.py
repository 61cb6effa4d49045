"""The crash matrix on PostgreSQL: each process is a member, and the next one takes over from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import pytest

from stopgo.runtime.journal.postgres.journal import open_postgres
from stopgo.runtime.journal.postgres.pool import Pool
from stopgo.runtime.journal.protocol import Journal
from tests.postgres_server import Database

from .matrix import each, kill_once
from .scenarios import MAIN
from .story import OpenJournal, Scenario
from .world import World

pytestmark = pytest.mark.postgres


def on_postgres(database: Database) -> Callable[[], OpenJournal]:
    """A database without streams for each story. The world's clock is that of the database."""

    def empty() -> OpenJournal:
        database.clear()
        return open_journal

    @asynccontextmanager
    async def open_journal(world: World) -> AsyncIterator[Journal]:
        run: Any = Pool.run

        async def at_the_time(pool: Pool, operation: Any) -> Any:
            database.set_clock(world.wall())
            return await run(pool, operation)

        with patch.object(Pool, "run", at_the_time):
            async with open_postgres(database.dsn) as journal:
                yield journal

    return empty


@each(MAIN)
def test_killed_once(scenario: Scenario, database: Database) -> None:
    kill_once(scenario, on_postgres(database))
