"""kill -9 of each of three agents that delegate to each other, at every event of a turn that the last one's
tool does harm in: people are asked at the first, once, and it happens once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import httpx2
import pytest

from tests.e2e.chains import TELL, Json, answer_of, asked_in, calling, done, eventually, held_port, written
from tests.e2e.conftest import Server, Servers
from tests.e2e.test_restarts_in_chains import LAST, Row

from .test_kill import ENDS
from .test_kill import TURN as LAST_TURN

pytestmark = pytest.mark.agents

REPLIES = [{**calling("wipe"), "delay": 0.1}, {**TELL, "delay": 0.1}]

DELEGATING_TURN = (
    "conversation.created",
    "message.added",
    "run.started",
    "step.finished",
    "tool.started",
    "tool.accepted",
    "tool.finished",
    "approval.requested",
    "run.waiting",
    "approval.resolved",
    "run.resumed",
    "tool.started",
    "tool.finished",
    "batch.finished",
    "run.finished",
)
TURNS = (DELEGATING_TURN, DELEGATING_TURN, LAST_TURN)
"""What happens in each agent when nothing goes wrong, by seq from 1."""
NAMES = ("first", "middle", "last")


@attrs.define(eq=False)
class SlowRow(Row):
    """The model of the last agent takes its time, so that there is some to kill somebody in."""

    def _start(self, number: int) -> Server:
        if number == len(NAMES) - 1:
            written(self._folder / str(number), LAST, REPLIES)
        return super()._start(number)


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowRow]:
    servers = Servers()
    with held_port() as first, held_port() as middle, held_port() as last:
        yield SlowRow(servers, tmp_path_factory.mktemp("row"), (first, middle, last))
        servers.stop_all()


@attrs.define(eq=False)
class Person:
    """Says one thing to the first agent, and yes to what it asks; again and again while that is away."""

    row: Row
    id: str
    done_before: int
    _said: bool = False

    def see_through(self) -> Json:
        """The conversation, when its run is over."""
        found: Json = eventually(self._step)
        return found

    def _step(self) -> Json | None:
        try:
            if not self._said:
                self._post("say", f"/conversations/{self.id}/messages", {"message": "wipe lamp"})
                self._said = True
            conversation = self.row.first.conversation(self.id)
            for approval in asked_in(conversation):
                self._post(f"yes {approval['uuid']}", f"/approvals/{approval['uuid']}", self._words(approval))
        except httpx2.TransportError:
            return None  # killed: to be said again
        run = conversation.get("run") or {"state": "queued"}
        return conversation if f"run.{run['state']}" in ENDS else None

    def _words(self, approval: Json) -> Json:
        if not _is_unknown(approval):
            return {"approved": True}
        return {"action": "done", "result": "lamp"} if self.wiped else {"action": "retry"}

    def _post(self, key: str, path: str, body: Json) -> None:
        headers = {"Idempotency-Key": f"{self.id} {key}", "Prefer": "respond-async"}
        response = self.row.first.client.post(path, json=body, headers=headers)
        assert response.status_code in (200, 202, 409), response.text

    @property
    def wiped(self) -> list[str]:
        return done(self.row.ledger)[self.done_before :]


def _is_unknown(approval: Json) -> bool:
    return "OUTCOME UNKNOWN" in approval["description"]


def ids(server: Server) -> set[str]:
    return {each["id"] for each in server.get("/conversations", limit="200")["conversations"]}


def events(server: Server, id: str) -> Iterator[tuple[int, str]]:
    with server.client.stream("GET", f"/conversations/{id}/events") as response:
        seq = 0
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                seq = int(value)
            elif name == "event":
                yield seq, value


def told(server: Server, id: str, until: int | None = None) -> list[str]:
    """The events of a conversation, up to the one with this seq, or the end of its run."""
    seen: list[str] = []
    for seq, type in events(server, id):
        seen.append(type)
        if seq == until or type in ENDS:
            break
    return seen


def live(row: Row, kill: tuple[int, int] | None) -> tuple[Person, Json, Sequence[str]]:
    """One turn; the agent of this number dies at the event with this seq, and is started again. The person,
    the conversation at the end, and the ids of the agents' conversations."""
    before = [ids(agent) for agent in row.agents]
    person = Person(row, row.first.new(), len(done(row.ledger)))
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(person.see_through)
        if kill is not None:
            number, at = kill
            agent = row.agents[number]
            [id] = eventually(lambda: ids(agent) - before[number])
            seen = told(agent, id, at)
            row.restart([number])
            assert told(row.agents[number], id, len(seen)) == seen, "an event that was told is lost"
        conversation = end.result()
    after = [ids(agent) - earlier for agent, earlier in zip(row.agents, before, strict=True)]
    assert [len(each) for each in after] == [1, 1, 1], "somebody was told twice, or not at all"
    return person, conversation, [each.pop() for each in after]


def test_the_turns_are_those_that_are_expected(row: SlowRow) -> None:
    person, _, found = live(row, None)
    assert tuple(tuple(told(agent, id)) for agent, id in zip(row.agents, found, strict=True)) == TURNS
    assert person.wiped == ["wipe lamp"]


POINTS = [(number, seq) for number, turn in enumerate(TURNS) for seq in range(1, len(turn) + 1)]


def _name(point: Any) -> str:
    number, seq = point
    return f"{NAMES[number]}-{seq}-{TURNS[number][seq - 1]}"


@pytest.mark.parametrize("point", POINTS, ids=_name)
def test_killed_at(point: tuple[int, int], row: SlowRow) -> None:
    person, conversation, found = live(row, point)
    assert conversation["run"]["state"] == "finished"
    assert answer_of(conversation) == "told: lamp"
    assert person.wiped == ["wipe lamp"]
    for agent, id in zip(row.agents, found, strict=True):
        asked = agent.conversation(id)["approvals"]
        assert {each["state"] for each in asked} == {"decided"}
        kinds = Counter(_is_unknown(each) for each in asked)
        assert kinds[False] == 1, "people were asked again"
        assert kinds[True] <= (point[0] == 2), "nobody who knows of the tool died"
