"""A fleet under load while something fails. Each story ends with the audit of everything that was said."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.postgres_server import PostgresServer, running_postgres
from tests.postgres_wire import Fault, wire_to
from tests.waiting import until_true

from .audit import audit, finish
from .cluster import Cluster, cluster, url_of
from .conftest import Site
from .people import Person, Reader

pytestmark = pytest.mark.fleet

_NUMBERS = count(1)


def person(cluster: Cluster, sentences: int) -> Person:
    number = next(_NUMBERS)
    kinds = ["wipe", "bump", "wipe"]
    said = [f"{kinds[each % 3]} {number}-{each}" for each in range(sentences)]
    return Person(cluster, f"p{number}", said)


@contextmanager
def load(cluster: Cluster, dsn: str, people: int = 6, sentences: int = 6) -> Iterator[list[Person]]:
    """People who have conversations during the block and afterwards, then the audit."""
    crowd = [person(cluster, sentences) for _ in range(people)]
    for each in crowd:
        each.start()
    until_true(lambda: all(each.answers or each.failure for each in crowd))
    assert [each.failure for each in crowd if each.failure] == []
    readers = [Reader(cluster, each.conversation) for each in crowd[:3]]
    for reader in readers:
        reader.start()
    yield crowd
    finish(crowd)
    audit(cluster, dsn, crowd, readers)


def living(dsn: str, members: int) -> None:
    """Wait until so many members have a lease, by the clock of the database."""
    question = "SELECT count(*) FROM node WHERE until > journal_now()"

    def has_as_many() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(dsn) as db:  # it may be starting
            return db.execute(question).fetchone() == (members,)
        return False

    until_true(has_as_many)


def kill_and_start(site: Site, position: int) -> None:
    site.cluster.kill(position)
    living(site.dsn, 2)
    site.cluster.start(position)


def stop_and_start(site: Site, position: int) -> None:
    site.cluster.stop(position)
    site.cluster.start(position)


def suspend(site: Site, position: int) -> None:
    site.cluster.signal(position, signal.SIGSTOP)
    living(site.dsn, 2)
    site.cluster.signal(position, signal.SIGCONT)
    living(site.dsn, 3)


@pytest.mark.parametrize("fault", [kill_and_start, stop_and_start, suspend])
def test_each_member_in_turn(site: Site, fault: Callable[[Site, int], None]) -> None:
    """kill -9, a rolling restart, and SIGSTOP with a takeover before SIGCONT."""
    with load(site.cluster, site.dsn, sentences=12):
        for position in range(3):
            fault(site, position)


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGKILL])
def test_database_is_restarted(site: Site, number: signal.Signals) -> None:
    """Immediately, and after kill -9."""
    with load(site.cluster, site.dsn):
        for _ in range(2):
            site.server.stop(number)
            site.server.start()
            living(site.dsn, 3)


@pytest.mark.parametrize("fault", ["silence", "requests lost", "answers lost", "cut"])
def test_one_member_is_cut_off_from_the_database(server: PostgresServer, tmp_path: Path, fault: str) -> None:
    """Others take over; healed, it serves again. It could reach its tools all the time."""
    with server.empty_schema() as dsn, wire_to(dsn) as wire:
        with cluster(tmp_path, url_of(wire.dsn), *2 * [url_of(dsn)], delay=0.1) as made:
            with load(made, dsn):
                broken: Fault = "silence" if fault == "cut" else fault  # type: ignore[assignment]
                wire.fault = broken
                if fault == "cut":
                    wire.cut()
                living(dsn, 2)
                wire.fault = "none"
                wire.cut()
            created = made.members[0].post("/conversations", {"message": "hello"}, status=201)
            assert created["result"]["response"] == "said"


def test_primary_is_killed_and_a_synchronous_standby_promoted(tmp_path: Path) -> None:
    """No acknowledged request is lost."""
    with ExitStack() as stack:
        primary = stack.enter_context(running_postgres("wal_level=replica", "max_wal_senders=4"))
        standby = primary.standby(5433)
        standby.start()
        stack.callback(standby.stop)
        primary.require_standby()
        both = f"host={primary.folder},{primary.folder} port=5432,5433 user=stopgo dbname=postgres"
        dsn = f"{both} target_session_attrs=read-write"
        made = stack.enter_context(cluster(tmp_path, *3 * [url_of(dsn)], delay=0.1))
        with load(made, dsn):
            primary.stop(signal.SIGKILL)
            standby.promote()


def asked(cluster: Cluster, member: int) -> tuple[str, str]:
    """Ask a member for something destructive. Returns the UUID of the approval, and the ledger's name."""
    name = f"asked-{next(_NUMBERS)}"
    uuid = cluster.members[member].ask_for(f"wipe {name}")
    return uuid, name


def test_decision_while_the_owner_is_down(site: Site) -> None:
    uuid, name = asked(site.cluster, 0)
    site.cluster.kill(0)
    assert (
        site.cluster.members[1].post(f"/approvals/{uuid}", {"approved": True})["result"]["state"]
        == "finished"
    )
    assert site.cluster.ledger()["wipe", name] == 1


def test_two_members_decide_at_once(site: Site) -> None:
    for _ in range(10):
        uuid, name = asked(site.cluster, 0)
        with ThreadPoolExecutor(2) as pool:
            decisions = [
                pool.submit(member.client.post, f"/approvals/{uuid}", json={"approved": approved})
                for member, approved in zip(site.cluster.members[1:], (True, False), strict=True)
            ]
            answers = [each.result() for each in decisions]
        assert sorted(each.status_code for each in answers) == [200, 409]
        [refused] = [each.json() for each in answers if each.status_code == 409]
        assert refused["code"] == "already_decided"
        assert site.cluster.ledger()["wipe", name] == (answers[0].status_code == 200)
