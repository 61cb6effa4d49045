"""Members that cannot answer, or whose database does not: the answers meanwhile, and the stop of a member.

The source of the results is the table of faults in docs/guides/scale-out.md.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import clean_environment
from tests.forks import forks
from tests.postgres_server import PostgresServer
from tests.waiting import line_with, until_true

from .cluster import Cluster, cluster, url_of
from .conftest import Site

pytestmark = pytest.mark.fleet


@contextmanager
def suspended(server: PostgresServer) -> Iterator[None]:
    server.suspend()
    try:
        yield
    finally:
        server.resume()


@pytest.mark.parametrize("said", [None, "hello", "bump one"], ids=["idle", "a connection each", "a call"])
def test_member_stops_while_its_database_is_suspended(
    server: PostgresServer, tmp_path: Path, said: str | None
) -> None:
    """In good order: the last resort, 2 s after the grace, would have ended it with exit code 1."""
    with server.empty_schema() as dsn, cluster(tmp_path, url_of(dsn), delay=60.0) as made:
        [member] = made.members
        if said is not None:
            prefer = {"Prefer": "respond-async"}
            member.client.post("/conversations", json={"message": said}, headers=prefer)
        if said == "bump one":
            until_true(lambda: bool(made.ledger()))
        with suspended(server):
            member.run.interrupt()


def test_member_stops_while_it_starts_and_its_database_is_suspended(
    server: PostgresServer, tmp_path: Path
) -> None:
    (tmp_path / "agent.yaml").write_text("name: waits\nshutdown_grace: 5\nllm: {model: demo}\n")
    options = ["--config", str(tmp_path / "agent.yaml"), "--data-dir", str(tmp_path), "--port", "0"]
    with server.empty_schema() as dsn, suspended(server):
        process = forks().start(
            "serve", *options, cwd=tmp_path, env={**clean_environment(), "STOPGO_JOURNAL": url_of(dsn)}
        )
        line_with("the journal cannot be reached", process.stdout)
        process.send_signal(signal.SIGTERM)
        process.end()
        assert process.returncode == 128 + signal.SIGTERM


def test_database_is_suspended(site: Site) -> None:
    """Requests are refused, whether or not they have a connection yet, and repeated with their keys."""
    member = site.cluster.members[0]
    id = member.new()
    with suspended(site.server):
        for _ in range(3):
            refused = member.client.post(
                f"/conversations/{id}/messages", json={"message": "hello"}, headers={"Idempotency-Key": "k"}
            )
            assert (refused.status_code, refused.json()["code"]) == (503, "journal_unavailable")
            assert int(refused.headers["Retry-After"]) > 0
    assert _sent(site.cluster, 0, id, "hello") == "said"


def test_member_is_suspended_before_its_lease_runs_out(server: PostgresServer, tmp_path: Path) -> None:
    with server.empty_schema() as dsn, cluster(tmp_path, *2 * [url_of(dsn)], lease=300.0) as made:
        first, second = made.members
        id = first.new()
        prefer = {"Prefer": "respond-async"}
        first.client.post(f"/conversations/{id}/messages", json={"message": "slow one"}, headers=prefer)
        until_true(lambda: bool(made.ledger()))
        made.signal(0, signal.SIGSTOP)
        try:
            refused = second.client.post(
                f"/conversations/{id}/messages", json={"message": "hello"}, headers={"Idempotency-Key": "k"}
            )
            assert (refused.status_code, refused.json()["code"]) == (503, "node_unavailable")
            assert refused.json()["accepted"] is True
            assert int(refused.headers["Retry-After"]) > 0
            assert second.conversation(id)["status"] == "active", "it can be read"
            assert second.say(second.new(), "hello")["result"]["response"] == "said"
        finally:
            made.signal(0, signal.SIGCONT)
        assert _sent(made, 1, id, "hello") == "said"
        said = [each["content"] for each in second.conversation(id)["messages"] if each["role"] == "user"]
        assert said == ["slow one", "hello"]


def _sent(cluster: Cluster, position: int, id: str, text: str) -> str:
    """Send a message until it is answered, and return the answer."""
    answers: list[str] = []

    def has_answer() -> bool:
        done = cluster.members[position].client.post(
            f"/conversations/{id}/messages", json={"message": text}, headers={"Idempotency-Key": "k"}
        )
        if done.status_code == 503:
            assert done.json()["code"] in ("journal_unavailable", "node_unavailable"), done.text
            return False
        assert done.status_code == 200, done.text
        answers.append(done.json()["result"]["response"])
        return True

    until_true(has_answer)
    return answers[0]
