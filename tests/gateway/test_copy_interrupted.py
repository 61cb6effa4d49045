"""`stopgo journal copy` that a signal ends, and the files and rows that are left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
import trio

from stopgo.gateway.cli.main import main
from stopgo.runtime.journal.sqlite.files import UNFINISHED
from stopgo.runtime.stores.open_journal import open_journal
from tests.fleet.cluster import url_of
from tests.postgres_server import PostgresServer
from tests.waiting import until_true

pytestmark = pytest.mark.postgres

STOPGO = Path(sys.executable).with_name("stopgo")


@contextmanager
def copy_at_event(dsn: str, source: Path | str, target: Path | str) -> Iterator[subprocess.Popen[str]]:
    """A copy that waits for the table `event` of the database, until the block ends."""
    with psycopg.connect(dsn) as db, psycopg.connect(dsn) as other:
        db.execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
        command = [str(each) for each in (STOPGO, "journal", "copy", source, target)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
        ) as copy:

            def waits() -> bool:
                assert copy.poll() is None, copy.communicate()
                query = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'event'::regclass"
                return other.execute(query).fetchone() is not None

            until_true(waits)
            yield copy


def turns(address: Path | str) -> int:
    """The number of conversations."""

    async def count() -> int:
        async with open_journal(address) as journal:
            return len((await journal.list()).rows)

    return trio.run(count)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("to", ["directory", "database"])
def test_interrupted_copy_leaves_nothing_behind(
    postgres_server: PostgresServer, tmp_path: Path, to: str, number: signal.Signals
) -> None:
    """Of a process that had no time to clean up, the next that opens the directory removes the file."""
    (tmp_path / "agent.yaml").write_text("name: a\nllm: {model: offline:rules}\n")
    with postgres_server.empty_schema() as dsn:
        directory, url = tmp_path / "new" / "data", url_of(dsn)
        places: tuple[Path | str, Path | str] = (directory, url)
        source, target = places if to == "database" else places[::-1]
        assert main(["journal", "migrate", url]) == 0
        where = "--data-dir" if to == "database" else "--journal"
        assert main(["run", "hello", "--config", str(tmp_path / "agent.yaml"), where, str(source)]) == 0
        with copy_at_event(dsn, source, target) as copy:
            assert to == "database" or (directory / UNFINISHED).exists()
            copy.send_signal(number)
            copy.wait()
            _, errors = copy.communicate()
        if number == signal.SIGKILL:
            assert turns(target) == 0
            assert to == "database" or not (directory / UNFINISHED).exists()
        else:
            assert copy.returncode == 128 + number
            assert errors == "stopgo journal copy: interrupted; nothing is copied\n"
            assert to == "database" or not directory.parent.exists()
        assert main(["journal", "copy", str(source), str(target)]) == 0
        assert turns(target) == 1
