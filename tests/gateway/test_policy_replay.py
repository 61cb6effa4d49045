"""`stopgo policy replay`: what it prints, its exit codes, and journals that it cannot read."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from trio.testing import MockClock

from stopgo.gateway.cli.client.agent_client import AgentClient, ServerError
from stopgo.gateway.cli.commands import policy_replay
from stopgo.gateway.cli.main import main
from stopgo.runtime.journal import passage
from stopgo.runtime.journal.errors import JournalUnavailable
from stopgo.runtime.journal.postgres.journal import open_postgres
from stopgo.runtime.journal.postgres.postgres_reader import read_postgres
from stopgo.runtime.journal.sqlite import sql_passage
from stopgo.runtime.journal.sqlite.sqlite_journal import FILE, open_sqlite
from tests.actors.replay.test_judged_calls import NO, lived
from tests.actors.several_members import YES
from tests.actors.world import World, call, wall
from tests.fleet.cluster import url_of
from tests.postgres_server import PostgresServer

SAME = "mcp_servers: [{name: tools, command: none}]\n"
RULES = "approval:\n  rules:\n    - {tool: wipe, then: %s}\n    - {tool: x, then: deny}\n"


def record(folder: Path, *decisions: Any) -> None:
    """Calls of `send` and `wipe`, and decisions about those of `wipe`."""

    async def live() -> None:
        async with open_sqlite(folder / "data", wall=wall, inline=True) as journal:
            world = World(folder, journal)
            wipes = [call("wipe", name=f"n{number}") for number in range(len(decisions))]
            await lived(world, call("send"), *wipes, decisions=decisions)

    trio.run(live, clock=MockClock(autojump_threshold=0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(f"data_dir: {tmp_path}/data\n{SAME}")
    return path


def rules(file: Path, then: str) -> Path:
    file.write_text(file.read_text() + RULES % then)
    return file


def replay(*words: str | Path) -> int:
    return main(["policy", "replay", *map(str, words)])


@pytest.mark.parametrize(
    ("then", "decisions", "code"),
    [(None, [YES, NO], 0), ("ask", [NO], 0), ("run", [YES], 3), ("run", [YES, NO], 4), ("deny", [NO], 0)],
)
def test_exit_code_says_whether_something_is_loosened(
    file: Path, tmp_path: Path, then: str | None, decisions: Sequence[Any], code: int
) -> None:
    record(tmp_path, *decisions)
    assert replay(file if then is None else rules(file, then), "--strict") == code


def test_report_names_the_refused_call_first(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, YES, NO)
    assert replay(rules(file, "run")) == 4
    out, err = capsys.readouterr()
    [conversation] = {line.split()[1] for line in out.splitlines() if "agent: wipe" in line}
    assert err == ""
    assert (
        out
        == f"""\
3 calls in 1 conversations, from 2023-11-14T22:13:20Z to 2023-11-14T22:13:20Z
3 exact, 0 bounded, 0 unknown

WAS, NOW         run       ask      deny      none   unknown
run                1         0         0         0         0
ask                2         0         0         0         0

rules of {file}
      HITS   CHANGED  APPROVED    EDITED  REJECTED  ANSWERED  RULE
         2         2         1         0         1         0  approval.rules[0] (tool: wipe): run
         0         0         0         0         0         0  approval.rules[1] (tool: x): deny
         1         0         0         0         0         0  destructiveHint: false

a person rejected, answered or edited the call, and it would run: 1 calls
  2023-11-14T22:13:20Z  {conversation}  agent: wipe {{"name": "n1"}}
      was ask by destructiveHint: true, rejected
      now run by approval.rules[0] (tool: wipe): run (exact)

less strict: 1 calls
  2023-11-14T22:13:20Z  {conversation}  agent: wipe {{"name": "n0"}}
      was ask by destructiveHint: true, approved
      now run by approval.rules[0] (tool: wipe): run (exact)
"""
    )


def test_json_has_a_line_for_each_call_and_a_summary(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, NO)
    assert replay(rules(file, "run"), "--json") == 4
    sent, wiped, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (sent["tool"], sent["change"], "answer" in sent) == ("send", "same", False)
    assert (wiped["tool"], wiped["change"], wiped["answer"]) == ("wipe", "loosened", "rejected")
    assert wiped["was"] == {"verdict": "ask", "rule": "destructiveHint: true"}
    assert summary["summary"]["calls"] == 2
    assert summary["summary"]["changes"] == {"refused": 1, "loosened": 0, "tightened": 0}
    assert summary["summary"]["verdicts"] == [
        {"was": "ask", "now": "run", "calls": 1},
        {"was": "run", "now": "run", "calls": 1},
    ]


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (["--tool", "w*"], 2),
        (["--tool", "send", "--node", "agent", "--server", "tools"], 1),
        (["--since", "2023-11-14T22:13:20Z", "--until", "2023-11-15"], 3),
        (["--until", "1d"], 3),
        (["--since", "1h"], 0),
        (["--limit", "1"], 1),
    ],
)
def test_calls_can_be_chosen(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], calls: int
) -> None:
    record(tmp_path, YES, YES)
    assert replay(file, "--json", *words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]["calls"] == calls


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--since", "soon"], "neither a time, such as"),
        (["--since", "2026-01-02", "--until", "2026-01-01"], "--until is not after --since"),
        (["--limit", "0"], "not a number from 1"),
        (["--journal", "x"], "not a postgresql:// URL"),
        (["--data-dir", "x", "--journal", "postgresql://h/d"], "not allowed with argument"),
    ],
)
def test_wrong_words(file: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str) -> None:
    try:
        code = replay(file, *words)
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    assert expected in capsys.readouterr().err


def test_file_that_does_not_load(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("approval: {rules: [{tol: x, then: run}]}")
    assert replay(file) == 2
    assert 'unknown key "tol" (did you mean "tool"?)' in capsys.readouterr().err


# ------------------------------------------------------------------ journals


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def change(folder: Path, statement: str) -> None:
    db = sqlite3.connect(folder / "data" / FILE, isolation_level=None)
    db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    ("version", "expected"),
    [(99, "has version 99, but this program reads version 5: update it"), (1, "start the agent once")],
)
def test_journal_of_another_version(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int, expected: str
) -> None:
    record(tmp_path, YES)
    change(tmp_path, f"PRAGMA user_version = {version}")
    before = contents(tmp_path / "data")
    assert replay(file) == 1
    assert expected in capsys.readouterr().err
    assert contents(tmp_path / "data") == before


def test_no_journal(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(file) == 1
    assert capsys.readouterr().err == f"stopgo policy replay: {tmp_path}/data has no journal\n"
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).write_text("no database")
    assert replay(file) == 1
    assert "cannot be read: file is not a database" in capsys.readouterr().err


def test_nothing_is_written(file: Path, tmp_path: Path) -> None:
    record(tmp_path, YES)
    before = contents(tmp_path / "data")
    assert replay(file) == 0
    assert contents(tmp_path / "data") == before


def test_agent_may_run_meanwhile(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, YES)

    async def while_open() -> int:
        async with open_sqlite(tmp_path / "data"):
            return await trio.to_thread.run_sync(lambda: replay(file, "--json"))

    assert trio.run(while_open) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]["calls"] == 2


def test_agent_that_opens_a_journal_at_rest_is_noticed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, YES)
    read = "stopgo.runtime.journal.sqlite.sql_passage.read"

    def opened(*_: Any) -> None:
        (tmp_path / "data" / f"{FILE}-wal").touch()
        raise sqlite3.DatabaseError("malformed")

    monkeypatch.setattr(read, opened)
    assert replay(file) == 1
    assert "an agent has opened the journal in the meantime: try again" in capsys.readouterr().err


def test_agent_that_has_used_a_journal_at_rest_is_noticed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone again, with its log."""
    record(tmp_path, YES)
    read = sql_passage.read

    def used(*args: Any) -> passage.Passage:
        change(tmp_path, "UPDATE event SET at = at + 1")
        return read(*args)

    monkeypatch.setattr(sql_passage, "read", used)
    assert replay(file) == 1
    assert "an agent has opened the journal in the meantime: try again" in capsys.readouterr().err


DAMAGE = {
    "a type that is no text": "UPDATE event SET type = x'ff' WHERE type = 'approval.resolved'",
    "an unknown type": "UPDATE event SET type = 'approval.resolvee' WHERE type = 'approval.resolved'",
    "a body that is no JSON": "UPDATE event SET body = 'x' WHERE type = 'approval.resolved'",
    "a body that is no text": "UPDATE event SET body = 7 WHERE type = 'approval.resolved'",
    "a time": "UPDATE event SET at = 'x' WHERE type = 'approval.resolved'",
    "a number of events": "UPDATE stream SET last_seq = 'x'",
}


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_damage_hides_no_rejection(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    record(tmp_path, NO)
    rules(file, "run")
    assert replay(file) == 4
    change(tmp_path, statement)
    assert replay(file, "--strict") == 5
    err = capsys.readouterr().err
    assert "1 events or conversations cannot be read:" in err
    assert replay(file) in (0, 3)


def test_unknown_verdicts_are_told(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, YES)
    file.write_text(file.read_text() + "agent: {type: llm, name: other}\n")
    assert replay(file, "--json") == 0
    assert capsys.readouterr().err == (
        "stopgo policy replay: the verdict on 2 of 2 calls is unknown (2: the file has no such node)\n"
    )
    assert replay(file, "--strict") == 5


def test_long_journal_is_judged_by_two_processes(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for decisions in ([YES, NO], [NO], [YES]):
        record(tmp_path, *decisions)
    rules(file, "run")
    assert replay(file) == 4
    alone = capsys.readouterr().out
    monkeypatch.setattr(policy_replay, "LONG", 0)
    monkeypatch.setattr(passage, "MOST_EVENTS", 3)
    assert replay(file) == 4
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(alone.splitlines())
    change(tmp_path, "DROP TABLE event")
    assert replay(file) == 1
    assert "the journal cannot be read: no such table: event" in capsys.readouterr().err


def be_killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_end_of_the_second_process_is_told(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        record(tmp_path, YES)
    monkeypatch.setattr(policy_replay, "LONG", 0)
    monkeypatch.setattr(passage, "MOST_EVENTS", 3)
    monkeypatch.setattr(policy_replay, "replay_other_part", be_killed)
    assert replay(file) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("stopgo policy replay: process_ended: the second process was ended")


# ------------------------------------------------------------------ databases and agents


@pytest.mark.postgres
def test_database(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres_server: PostgresServer
) -> None:
    record(tmp_path, YES, NO)
    rules(file, "run")
    assert replay(file, "--json") == 4
    here = capsys.readouterr().out
    with postgres_server.empty_schema() as dsn:
        url = url_of(dsn)
        assert replay(file, "--journal", url) == 1
        assert "the database has no journal in the schema" in capsys.readouterr().err
        assert main(["journal", "copy", str(tmp_path / "data"), url]) == 0
        capsys.readouterr()
        assert replay(file, "--json", "--journal", url) == 4
        assert capsys.readouterr().out == here
        with psycopg.connect(dsn) as db:
            db.execute("UPDATE event SET type = 'x' WHERE type = 'approval.resolved'")
        assert replay(file, "--strict", "--journal", url) == 5
        with psycopg.connect(dsn) as db:
            db.execute("UPDATE journal_version SET version = 99")
        assert replay(file, "--journal", url) == 1
        assert "has version 99, but this program reads version 1: update it" in capsys.readouterr().err


@pytest.mark.postgres
async def test_nothing_is_written_to_a_database(postgres_server: PostgresServer) -> None:
    with postgres_server.empty_schema() as dsn:
        async with open_postgres(dsn):
            pass
        async with read_postgres(dsn) as journal:
            with pytest.raises(JournalUnavailable, match="read-only"):
                await journal._run(lambda db: db.execute("CREATE TABLE t (a int)"))
            assert await journal.notes("policy") == {}


def test_agent_that_refuses(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: AgentClient, path: str, **__: str) -> Any:
        raise ServerError("this needs the role admin", hint="ci has: viewer", status=403)

    monkeypatch.setattr(AgentClient, "get", refused)
    assert replay(file, "--url", "http://127.0.0.1:1") == 1
    assert capsys.readouterr().err == "this needs the role admin\nci has: viewer\n"

    async def other(_: AgentClient, path: str, **__: str) -> Any:
        return {"calls": []}

    monkeypatch.setattr(AgentClient, "get", other)
    assert replay(file, "--url", "http://127.0.0.1:1") == 1
    assert "answers in another form: KeyError('damaged')" in capsys.readouterr().err


CALL: dict[str, Any] = {
    "conversation": "c",
    "seq": 1,
    "at": "2026-01-31T08:00:00Z",
    "key": "1/~0.0",
    "node": "agent",
    "tool": "send",
    "server": "tools",
    "arguments": {},
    "unfit": False,
    "judged_anew": False,
    "asked": 0,
    "after_damage": False,
    "verdict": {"action": "run", "policy": "p", "rule": "r"},
}


@pytest.mark.parametrize(
    ("wrong", "policy"),
    [
        ({"node": ["agent"]}, {"rules": []}),
        ({"arguments": ["x"]}, {"rules": []}),
        ({"asked": "2"}, {"rules": []}),
        ({"anew": {"action": "ask"}}, {"rules": []}),
        ({}, []),
        ({}, {"rules": [{}]}),
    ],
)
def test_agent_that_sends_other_types(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wrong: Any,
    policy: Any,
) -> None:
    async def get(_: AgentClient, path: str, **__: str) -> Any:
        if path == "/policy":
            return {"policy": policy}
        return {"calls": [{**CALL, **wrong}], "damaged": 0, "broken": {}}

    monkeypatch.setattr(AgentClient, "get", get)
    assert replay(file, "--url", "http://127.0.0.1:1") == 1
    assert "answers in another form" in capsys.readouterr().err


def test_hidden_characters_of_an_agent_are_escaped(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(_: AgentClient, path: str, **__: str) -> Any:
        return {"calls": [], "damaged": 1, "broken": {"c\x1b[2J": "\u202eno"}}

    monkeypatch.setattr(AgentClient, "get", get)
    assert replay(file, "--url", "http://127.0.0.1:1") == 0
    assert "c\\x1b[2J: \\u202eno" in capsys.readouterr().err


def test_no_agent_at_the_address(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(file, "--url", "http://127.0.0.1:1") == 1
    assert "no agent answers at http://127.0.0.1:1" in capsys.readouterr().err
