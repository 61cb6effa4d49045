from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Server, Servers

from .watched_server import write_agent


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Start servers. At the end of the test, those still running have to stop gracefully."""
    servers = Servers()
    yield servers
    servers.stop_all()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests that abuse it. It has to stop gracefully and to log no traceback."""
    servers = Servers()
    folder = tmp_path_factory.mktemp("shared")
    yield servers(folder / "data", config=write_agent(folder))
    servers.stop_all()
