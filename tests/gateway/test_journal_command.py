"""`stopgo journal copy` and `stopgo keys` with a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.common.fleet import Process, written
from stopgo.gateway.cli.main import main
from stopgo.runtime.journal.protocol import Journal
from stopgo.runtime.stores.open_journal import open_journal
from stopgo.runtime.stores.transfer import copy_journal
from tests.actors.world import DESTRUCTIVE, World, answer, call, say, use
from tests.fleet.cluster import url_of
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_schema() as dsn:
        yield url_of(dsn)


def test_keys_move_with_the_journal(
    url: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.yaml").write_text("name: a\nllm: {model: offline:rules}\nauth: {api_keys: true}\n")
    config = ["--config", str(tmp_path / "agent.yaml")]
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["keys", "add", "ci", "--role", "viewer", *config, "--data-dir", first]) == 0
    assert main(["run", "hello", *config, "--data-dir", first]) == 0
    capsys.readouterr()
    assert main(["journal", "copy", first, url]) == 0
    assert capsys.readouterr().out.startswith("copied and compared: 1 conversations, ")
    monkeypatch.setenv("STOPGO_JOURNAL", url)
    assert main(["keys", "add", "ci", "--role", "admin", *config]) == 0
    assert main(["keys", "add", "ci", "--role", "admin", *config]) == 2  # two of one name are valid already
    assert main(["keys", "revoke", "ci", *config]) == 0
    capsys.readouterr()
    assert main(["keys", "list", *config]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in listed] == [["ci", "viewer"], ["ci", "admin"]]
    assert all("revoked" in line for line in listed)
    assert main(["journal", "copy", first, url]) == 1
    assert "already has conversations" in capsys.readouterr().err
    monkeypatch.delenv("STOPGO_JOURNAL")
    assert main(["journal", "copy", url, second]) == 0
    capsys.readouterr()
    assert main(["keys", "list", *config, "--data-dir", second]) == 0
    assert capsys.readouterr().out.splitlines() == listed


def test_keys_revoked_in_a_copy_stay_revoked(
    url: str, postgres_server: PostgresServer, tmp_path: Path, capsys: Any
) -> None:
    """The directory has notes of the keys, too, as earlier versions copied them."""
    (tmp_path / "agent.yaml").write_text("name: a\nllm: {model: offline:rules}\nauth: {api_keys: true}\n")
    config = ["--config", str(tmp_path / "agent.yaml")]
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for name in ("ci", "ops"):
        assert main(["keys", "add", name, "--role", "viewer", *config, "--data-dir", str(first)]) == 0
    assert main(["run", "hello", *config, "--data-dir", str(first)]) == 0
    assert main(["journal", "copy", str(first), url]) == 0
    copy_journal(url, second)
    (second / "keys.json").write_bytes((first / "keys.json").read_bytes())
    (second / "keys.json").chmod(0o600)
    assert main(["keys", "revoke", "ci", *config, "--data-dir", str(second)]) == 0
    with postgres_server.empty_schema() as dsn:
        assert main(["journal", "copy", str(second), url_of(dsn)]) == 0
        assert main(["journal", "copy", url_of(dsn), str(third)]) == 0
        for place in (["--journal", url_of(dsn)], ["--data-dir", str(third)]):
            capsys.readouterr()
            assert main(["keys", "list", *config, *place]) == 0
            listed = capsys.readouterr().out.splitlines()
            assert [(line.split()[1], "revoked" in line) for line in listed] == [("ci", True), ("ops", False)]


def test_processes_that_work_with_the_database_are_named(url: str, tmp_path: Path, capsys: Any) -> None:
    async def begin_lease() -> None:
        about = written(Process("host-1", 4711, "1.2.0", 0.0))
        async with open_journal(url, lease=1000.0, about=about) as journal:
            await journal.renew()

    trio.run(begin_lease)
    assert main(["journal", "copy", url, str(tmp_path / "copy")]) == 1
    errors = capsys.readouterr().err
    assert "processes work with the database: 1; stop them first\n" in errors
    assert "process 4711 on host-1, version 1.2.0, started " in errors
    assert "; its lease ends in 16 min " in errors
    assert not (tmp_path / "copy").exists()


async def test_copied_conversations_go_on(
    url: str, postgres_server: PostgresServer, tmp_path: Path, jumping_clock: MockClock
) -> None:
    """From a database to a directory, and to another database: with pending approvals, and at rest."""
    world = World(tmp_path)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    with postgres_server.empty_schema() as dsn:
        places = (url, str(tmp_path / "copy"), url_of(dsn))
        for place, after in zip(places, (*places[1:], None), strict=True):
            world.journal = cast(Journal, place)
            async with world.agent() as agent:
                if place == url:
                    for _ in places:
                        await agent.start_conversation("go")
                    resting = (await agent.start_conversation()).conversation.id
                [approval, *_] = (await agent.approvals()).approvals
                assert answer(await agent.decide(approval.id, {"approved": True})).response == "done"
                assert answer(await agent.send(resting, place)).state == "waiting"
                await agent.cancel(resting)
            if after is not None:
                copy_journal(place, after)
    assert world.called("wipe") == len(places)


def test_role_that_may_not_change_tables(
    postgres_server: PostgresServer, url: str, tmp_path: Path, capsys: Any
) -> None:
    """The grants are those of docs/guides/scale-out.md."""
    (tmp_path / "agent.yaml").write_text("name: a\nllm: {model: offline:rules}\n")
    schema = url.rpartition("search_path%3D")[2]
    serving = url.replace("user=stopgo", f"user={schema}_agent")
    turn = ["run", "hello", "--config", str(tmp_path / "agent.yaml"), "--journal", serving]
    postgres_server.execute(
        f"CREATE ROLE {schema}_agent LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO {schema}_agent"
    )
    assert main(turn) == 1
    assert "may not create its tables" in capsys.readouterr().err
    assert main(["journal", "migrate", url]) == 0
    postgres_server.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}_agent",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {schema}_agent",
    )
    data = str(tmp_path / "data")
    assert main([*turn[:-2], "--data-dir", data]) == 0
    assert main(["journal", "copy", data, serving]) == 0
    assert main(turn) == 0
    assert main(["journal", "migrate", serving]) == 0  # nothing is left to do
    postgres_server.execute(f"DROP OWNED BY {schema}_agent", f"DROP ROLE {schema}_agent")


@pytest.mark.parametrize("wrong", [["mysql://x", "data"], ["", "data"], ["data"]])
def test_wrong_addresses(wrong: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["journal", "copy", *wrong])
