"""Data directories of released versions: opened by `stopgo serve`, looked at, answered, and compared.

All of it goes through the command line, HTTP and SQLite, so that the code may be moved about meanwhile.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import attrs
import yaml

from tests.e2e.conftest import TESTDATA, Json, Serve, Server, clean_environment

UPGRADE = TESTDATA / "upgrade"
STATUSES = ("active", "waiting_approval", "completed")
STATES = ("pending", "decided", "expired", "void")
AT_REST = ("run.waiting", "run.auth_required", "run.finished", "run.failed", "run.cancelled")
KINDS = ("tool", "outcome_unknown", "elicitation", "checkpoint")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"  # a random one; others are computed
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
_SECONDS = ("duration", "average_duration", "worked")


# ----------------------------------------------------------------------------- what the directory holds


def stored_events(data_dir: Path) -> dict[tuple[str, int], tuple[str, float, str]]:
    """Type, time and body of every event, as the file has them, by conversation and seq."""
    with closing(sqlite3.connect(data_dir / "journal.db")) as db:
        rows = db.execute(
            "SELECT name, seq, type, at, event.body FROM event JOIN stream ON stream.id = stream_id"
        )
        return {(name, seq): (type, at, body) for name, seq, type, at, body in rows}


@attrs.frozen
class Mask:
    """Hides ids and times that the directory does not hold, for they are others each time."""

    ids: frozenset[str]
    times: frozenset[str]
    last: Mapping[str, int]
    """The seq of the last event the directory holds, by conversation."""

    @classmethod
    def of(cls, data_dir: Path) -> Mask:
        with closing(sqlite3.connect(data_dir / "journal.db")) as db:
            ids = re.findall(_UUID, "\n".join(db.iterdump()))
            rows = db.execute(
                "SELECT at FROM event UNION SELECT created FROM stream UNION SELECT updated FROM stream"
                " UNION SELECT created FROM question UNION SELECT expires FROM question"
                " UNION SELECT settled FROM question"
            ).fetchall()
            last = dict(db.execute("SELECT name, last_seq FROM stream"))
        times = (datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") for (at,) in rows if at)
        return cls(frozenset(ids), frozenset(each.replace("+00:00", "Z") for each in times), last)

    def hide(self, value: Any) -> Any:
        match value:
            case dict():
                return {key: self.hide(each) for key, each in value.items()}
            case list():
                return [self.hide(each) for each in value]
            case str():
                value = re.sub(_UUID, lambda found: found[0] if found[0] in self.ids else "<id>", value)
                return re.sub(_TIME, lambda found: found[0] if found[0] in self.times else "<time>", value)
        return value

    def hide_event(self, event: Json) -> Json:
        """Seconds of work, too, when the event is new."""
        event = self.hide(event)
        if event["seq"] > self.last.get(event["conversation_id"], 0):
            for key in event["body"].keys() & _SECONDS:
                value = event["body"][key]
                hidden = dict.fromkeys(value, "<seconds>") if isinstance(value, dict) else "<seconds>"
                event["body"][key] = hidden
        return event


# --------------------------------------------------------------------------------------- a life of it


@contextmanager
def guarded(ledger: Path) -> Iterator[str]:
    """The address of a tool server that wants tokens."""
    script = str(TESTDATA / "servers" / "asking_server.py")
    env = {**clean_environment(), "TOKENS": "+", "LEDGER": str(ledger)}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", script, "http"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def start(serve: Serve, place: Path, data_dir: Path, url: str, life: Mapping[str, Any]) -> Server:
    """Serve the directory, and wait until everything that moves by itself has come to rest."""
    last = Mask.of(data_dir).last if life.get("moved") else {}
    env = {"GUARDED_URL": url, **life.get("env", {})}
    server = serve(data_dir, config=place / "agent.yaml", env=env)
    ids = ids_by_session(server)
    for session in life.get("moved", ()):
        until(server, ids[session], last[ids[session]], *AT_REST)
    return server


def follow(server: Server, id: str, after: int) -> Generator[Json]:
    with server.client.stream("GET", f"/conversations/{id}/events", params={"after": after}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def until(server: Server, id: str, after: int, *types: str) -> None:
    with closing(follow(server, id, after)) as events:
        assert any(event["type"] in types for event in events)


def play(server: Server, steps: Sequence[Mapping[str, Any]]) -> Json:
    """Perform the steps of a story; returns the answers."""
    ids = ids_by_session(server)
    return {f"answer {n} in {step['in']}": _step(server, ids, step) for n, step in enumerate(steps, 1)}


def _step(server: Server, ids: dict[str, str], step: Mapping[str, Any]) -> Json:
    session, to = step["in"], step.get("to", "messages")
    if session not in ids or to == "begin":
        named = {"X-Session-ID": session, "Idempotency-Key": session}
        begun = server.client.post("/conversations", json={}, headers=named)
        ids[session] = begun.json()["conversation"]["id"]
        if to == "begin":
            return {"status": begun.status_code, "id": ids[session]}
    conversation = server.conversation(ids[session])
    path = f"/conversations/{ids[session]}/{to}"
    if to in ("decide", "decided"):
        asked = conversation["approvals"][-1:] if to == "decided" else conversation["pending_approvals"]
        fitting = (each["uuid"] for each in asked if each.get("node") == step.get("node", each.get("node")))
        path = f"/approvals/{next(fitting, 'none')}"  # then the answer says so
    headers = {"Prefer": "respond-async"} if "until" in step else {}
    if "key" in step:
        headers["Idempotency-Key"] = step["key"]
    if "token" in step:
        headers["Authorization"] = f"Bearer {step['token']}"
    body = {"message": step["say"]} if "say" in step else step.get("body", {})
    response = server.client.post(path, json=body, headers=headers)
    if step.get("until"):
        until(server, ids[session], conversation["last_seq"], step["until"])
    answer = response.json()
    answer.pop("conversation", None)  # the next look shows it
    return {"status": response.status_code, **answer}


# ------------------------------------------------------------------------------------------ what it says


def _pages(server: Server, path: str, key: str, params: Mapping[str, str]) -> tuple[list[Json], Json]:
    """The items of all pages, and the other fields of the last page with all cursors."""
    items: list[Json] = []
    cursors: list[str] = []
    while True:
        cursor = {"cursor": cursors[-1]} if cursors else {}
        page = server.client.get(path, params={"limit": "10", **params, **cursor}).raise_for_status().json()
        items += page.pop(key)
        if "next_cursor" not in page:
            return items, {**page, "cursors": cursors}
        cursors.append(page.pop("next_cursor"))


def ids_by_session(server: Server) -> dict[str, str]:
    return {
        each["session_id"]: each["id"] for each in _pages(server, "/conversations", "conversations", {})[0]
    }


def look(server: Server, mask: Mask, after: Mapping[str, int] | None = None) -> Json:
    """The answers of every GET. Items of lists are compared with the single answers, and shown by id
    alone."""
    found: Json = {f"GET {path}": server.get(path) for path in ("/health", "/health/ready", "/tools")}
    found["GET /health/ready"].pop("memory")  # of the machine and the moment
    trees: Json = {}
    listed, _ = _pages(server, "/conversations", "conversations", {})
    by_id = {each["id"]: server.conversation(each["id"]) for each in listed}
    for id, conversation in by_id.items():
        found[f"GET /conversations/{id}"] = mask.hide(conversation)
        begin = (after or {}).get(id, 0)
        events: list[Json] = []
        with closing(follow(server, id, begin)) as followed:
            while begin + len(events) < conversation["last_seq"]:
                event = next(followed)
                if tree := event["body"].pop("tree", None):  # long, and always the same
                    assert trees.setdefault(event["body"]["tree_id"], tree) == tree
                events.append(mask.hide_event(event))
        found[f"GET /conversations/{id}/events?after={begin}"] = events
    found["trees"] = trees

    filters = [{}, *({"status": each} for each in STATUSES), {"q": "WIPE"}, {"view": "full"}]
    for params in filters:
        items, rest = _pages(server, "/conversations", "conversations", params)
        for item in items:
            whole = by_id[item["id"]]
            assert whole == (item if "view" in params else {**item, "messages": whole["messages"]})
        found[f"GET /conversations?{urlencode(params)}"] = {**rest, "ids": [item["id"] for item in items]}

    approvals: dict[str, Json] = {}
    for approval in (each for one in by_id.values() for each in one["approvals"]):
        whole = server.get(f"/approvals/{approval['uuid']}")["approval"]
        assert approval == {name: value for name, value in whole.items() if name != "input_schema"}
        approvals[approval["uuid"]] = whole
    filters = [{}, *({"state": each} for each in STATES), *({"kind": each} for each in KINDS)]
    for params in filters:
        items, rest = _pages(server, "/approvals", "approvals", params)
        assert all(item == approvals[item["uuid"]] for item in items)
        found[f"GET /approvals?{urlencode(params)}"] = mask.hide(
            {**rest, "ids": [item["uuid"] for item in items]}
        )
    return found


def tell(serve: Serve, place: Path, data_dir: Path) -> Json:
    """The answers for a copy of the directory: after opening, to the decisions, and at the end."""
    story = yaml.safe_load((place / "story.yaml").read_text())
    mask, ledger = Mask.of(data_dir), data_dir / "guarded.jsonl"
    with guarded(ledger) as url:
        server = start(serve, place, data_dir, url, story)
        opened = look(server, mask)
        after = {id: server.conversation(id)["last_seq"] for id in mask.last}
        answered = mask.hide(play(server, story["answers"]))
        ended = look(server, mask, after)
    lines = [json.loads(line) for file in data_dir.glob("*.jsonl") for line in file.read_text().splitlines()]
    ended["calls of tools"] = sorted(
        [each["tool"], each["arguments"]["text"]] if isinstance(each, dict) else each for each in lines
    )
    return {"opened": opened, "answered": answered, "ended": ended}


# ------------------------------------------------------------------------------------------- comparison


@attrs.frozen
class Difference:
    at: str
    kind: str
    """`added`, `removed` or `changed`."""
    old: Any = None
    new: Any = None


_ABSENT = object()


def differences(old: Any, new: Any, at: str = "") -> Iterator[Difference]:
    """Where two answers differ, down to the values; `at` is the place in them."""
    pairs: list[tuple[str, Any, Any]]
    match old, new:
        case dict(), dict():
            keys = dict.fromkeys([*old, *new])
            pairs = [(key, old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in keys]
        case list(), list():
            both = zip_longest(old, new, fillvalue=_ABSENT)
            pairs = [(str(number), *pair) for number, pair in enumerate(both)]
        case _:
            if old is _ABSENT:
                yield Difference(at, "added", new=new)
            elif new is _ABSENT:
                yield Difference(at, "removed", old=old)
            elif old != new:
                yield Difference(at, "changed", old, new)
            return
    for key, one, other in pairs:
        place = f"{at}.{key}" if ": " in at else f"{at}: {key}" if at else key
        yield from differences(one, other, place)


def uncovered(found: Sequence[Difference], rows: Sequence[Mapping[str, str]]) -> list[Difference | str]:
    """Differences that no row of the table covers, and rows that cover none."""

    def covers(row: Mapping[str, str], one: Difference) -> bool:
        return row["kind"] == one.kind and fnmatchcase(one.at, row["at"])

    unused = [f"covers nothing: {row}" for row in rows if not any(covers(row, one) for one in found)]
    return [*(one for one in found if not any(covers(row, one) for row in rows)), *unused]
