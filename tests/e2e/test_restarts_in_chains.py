"""Three agents in a row, of which any is killed at any point and starts again: what the last one's tool does
happens once, people are asked once, and nothing hangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from tests.e2e.chains import (
    SCRIPTED,
    TELL,
    Json,
    answer_of,
    asked_in,
    begin,
    begin_and_leave,
    calling,
    decide,
    decide_and_leave,
    done,
    echo_server,
    ended,
    eventually,
    held_port,
    leaks,
    passing_on,
    written,
)
from tests.e2e.conftest import Serve, Server, Servers

pytestmark = pytest.mark.agents

SLOW: Json = {"name": "slow", "arguments": {"seconds": 0.5}}
WAITS: Json = {"when": {"call": 1, "user": "^wait, then"}, "tool_calls": [SLOW]}
LAST: Json = {"llm": SCRIPTED, "mcp_servers": [echo_server("tools", DELAY="0.5")]}
REPLIES = [WAITS, calling("wipe", call=2, words="wait, then wipe"), calling("wipe"), TELL]


@attrs.define(eq=False)
class Row:
    """The agents, each of which can be killed and started again where it was."""

    _serve: Serve
    _folder: Path
    _ports: Sequence[int]
    agents: list[Server] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        configs: list[tuple[Json, list[Json]]] = [
            (passing_on("m"), []),
            (passing_on("l"), []),
            (LAST, REPLIES),
        ]
        for number, (config, replies) in enumerate(configs):
            written(self._folder / str(number), config, replies)
        self.agents = [self._start(number) for number in range(3)]

    def _start(self, number: int) -> Server:
        after = self._ports[min(number + 1, 2)]
        env = {"LEDGER": str(self.ledger), "NEXT": f"http://127.0.0.1:{after}"}
        config = self._folder / str(number) / "agent.yaml"
        return self._serve(self._folder / f"data{number}", config=config, env=env, port=self._ports[number])

    @property
    def ledger(self) -> Path:
        return self._folder / "ledger"

    @property
    def first(self) -> Server:
        return self.agents[0]

    def kill(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.agents[number].run.kill()

    def start(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.agents[number] = self._start(number)

    def restart(self, numbers: Sequence[int]) -> None:
        self.kill(numbers)
        self.start(numbers)


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Row]:
    servers = Servers()
    with held_port() as first, held_port() as middle, held_port() as last:
        yield Row(servers, tmp_path_factory.mktemp("row"), (first, middle, last))
        servers.stop_all()


@pytest.fixture
def before(row: Row) -> int:
    """How much had been done when the test began."""
    return len(done(row.ledger))


KILLED = {"the first": (0,), "the middle": (1,), "the last": (2,), "all": (0, 1, 2)}


def killing(*who: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("killed", [KILLED[each] for each in who], ids=who)


def wiped(row: Row, before: int) -> list[str]:
    return [each for each in done(row.ledger)[before:] if each.startswith("wipe")]


@killing("the first", "the middle", "the last")
def test_killed_while_the_last_one_works(row: Row, before: int, killed: Sequence[int]) -> None:
    """It has not asked yet. The task of then is followed, so it asks once."""
    id = begin_and_leave(row.first, "wait, then wipe lamp")
    eventually(lambda: done(row.ledger)[before:] == ["slow None"])
    row.restart(killed)

    [asked] = asked_in(ended(row.first, id, "waiting"))
    assert asked["tool_args"] == {"text": "lamp"}
    assert wiped(row, before) == []
    turn = decide(row.first, asked)
    assert turn["result"]["response"] == "told: lamp"
    assert wiped(row, before) == ["wipe lamp"]
    assert len(turn["conversation"]["approvals"]) == 1


@killing("the first", "the middle", "the last")
def test_killed_while_the_question_waits(row: Row, before: int, killed: Sequence[int]) -> None:
    turn = begin(row.first, "wipe lamp")
    [asked] = asked_in(turn["conversation"])
    row.restart(killed)

    assert asked_in(row.first.conversation(turn["conversation"]["id"])) == [asked]
    turn = decide(row.first, asked)
    assert turn["result"]["response"] == "told: lamp"
    assert wiped(row, before) == ["wipe lamp"]
    assert [each["state"] for each in turn["conversation"]["approvals"]] == ["decided"]


@killing("the first", "the middle", "the last", "all")
def test_killed_while_the_tool_does_it(row: Row, before: int, killed: Sequence[int]) -> None:
    """Only a kill of the last agent leaves the outcome unknown; then the first agent asks a person."""
    turn = begin(row.first, "wipe lamp")
    id, [asked] = turn["conversation"]["id"], asked_in(turn["conversation"])
    decide_and_leave(row.first, asked)
    eventually(lambda: wiped(row, before))
    row.restart(killed)

    kinds = ["tool"]
    if 2 in killed:
        [asked] = asked_in(ended(row.first, id, "waiting"))
        assert "OUTCOME UNKNOWN" in asked["description"]
        decide(row.first, asked, action="done", result="lamp")
        kinds.append("outcome_unknown")
    conversation = ended(row.first, id)
    assert answer_of(conversation) == "told: lamp"
    assert wiped(row, before) == ["wipe lamp"]
    assert [each["kind"] for each in conversation["approvals"]] == ["proxy"] * len(kinds)
    assert [each["state"] for each in conversation["approvals"]] == ["decided"] * len(kinds)


@pytest.mark.parametrize(("away", "approved"), [((2,), True), ((1, 2), False)])
def test_decided_while_others_are_away(row: Row, before: int, away: Sequence[int], approved: bool) -> None:
    """The decision is on record, and arrives when they are back."""
    turn = begin(row.first, "wipe lamp")
    id, [asked] = turn["conversation"]["id"], asked_in(turn["conversation"])
    row.kill(away)
    decide_and_leave(row.first, asked, approved=approved)
    row.start(away)
    conversation = ended(row.first, id)
    assert ("told: lamp" in answer_of(conversation)) is approved
    assert wiped(row, before) == ["wipe lamp"] * approved
    assert len(conversation["approvals"]) == 1


def test_after_a_restart_the_token_is_asked_for(row: Row, before: int) -> None:
    """It is nowhere on disk, and no call goes without it."""
    turn = begin(row.first, "wipe lamp", token="canary")
    id, [asked] = turn["conversation"]["id"], asked_in(turn["conversation"])
    row.restart([0])
    turn = decide(row.first, asked)
    assert turn["result"]["state"] == "auth_required"
    assert wiped(row, before) == []
    assert leaks(row.agents, "canary") == []
    turn = row.first.post(f"/conversations/{id}/resume", token="canary")
    assert turn["result"]["response"] == "told: lamp"
    assert wiped(row, before) == ["wipe lamp"]
