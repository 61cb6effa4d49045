from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Serve, Servers

from .browser import Browser, running_browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Whatever a test does: no page may reach elsewhere, open a dialog, or log an error."""
    yield chromium
    assert chromium.close_all() == []


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers of one test's own; at its end they must stop in good order."""
    servers = Servers()
    yield servers
    servers.stop_all()


@pytest.fixture(scope="module")
def serve_once() -> Iterator[Serve]:
    """Start servers that the tests of a file share."""
    servers = Servers()
    yield servers
    servers.stop_all()
