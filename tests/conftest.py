"""What all tests share."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from trio.testing import MockClock

from tests.authority import Authority
from tests.canary import KEY, TOKEN
from tests.real_clock import install_guard

if TYPE_CHECKING:
    from tests.postgres_server import Database, PostgresServer

pytest_plugins = ["tests.repetition", "tests.tiers.selection"]

# Wall time says nothing on a busy machine.
settings.register_profile("stopgo", deadline=None, print_blob=True)
settings.load_profile("stopgo")


install_guard()


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Trust one authority in all processes: loading those of the system takes each client 15 ms or more."""
    os.environ["SSL_CERT_FILE"] = str(Authority(tmp_path_factory.mktemp("authority")).file)
    os.environ.pop("SSL_CERT_DIR", None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    from tests.postgres_server import running_postgres  # few tests need what it imports

    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A journal on PostgreSQL whose clock is set by hand. It is waited for as long as it takes: on a busy
    machine, one that is alive may be silent for seconds. Tests about silence set limits of their own."""
    for limit in ("SILENCE", "LONGEST"):
        monkeypatch.setattr(f"stopgo.runtime.journal.postgres.pool.{limit}", math.inf)
    with postgres_server.new_database() as database:
        yield database


@pytest.fixture
def jumping_clock() -> MockClock:
    """A clock that runs at the normal rate, and with which a test can jump over a timeout."""
    return MockClock(rate=1.0)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT does what it does at a terminal: in what a shell runs in the background it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


_shown: list[str] = []
"""Tests that passed, and whose output shows a secret."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.passed and any(secret in text for _, text in report.sections for secret in (KEY, TOKEN)):
        _shown.append(f"the output of {report.nodeid}")


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever the tests had said and written: the secrets they use are nowhere in it (NFR-005)."""
    yield
    files = [path for path in tmp_path_factory.getbasetemp().rglob("*") if path.is_file()]
    written: list[str] = []
    for path in files:
        with suppress(FileNotFoundError):  # a process that ends meanwhile takes its journal's WAL with it
            data = path.read_bytes()
            written += [str(path) for secret in (KEY, TOKEN) if secret.encode() in data]
    assert _shown + written == []
