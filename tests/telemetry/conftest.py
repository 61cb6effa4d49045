"""Agents as processes that export their traces to a receiver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Servers
from tests.e2e.conftest import serve as serve
from tests.telemetry.receiver import Receiver, receiving


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def serve_module() -> Iterator[Servers]:
    """Start servers that the tests of a module share."""
    servers = Servers()
    yield servers
    servers.stop_all()
