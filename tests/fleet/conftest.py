from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.postgres_server import PostgresServer, running_postgres

from .cluster import Cluster, cluster, url_of


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@attrs.frozen
class Site:
    """A fleet of three members, and its database."""

    cluster: Cluster
    dsn: str
    server: PostgresServer


@pytest.fixture
def site(server: PostgresServer, tmp_path: Path) -> Iterator[Site]:
    with server.empty_schema() as dsn, cluster(tmp_path, *3 * [url_of(dsn)], delay=0.1) as made:
        yield Site(made, dsn, server)
