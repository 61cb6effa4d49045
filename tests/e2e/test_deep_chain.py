"""Questions of the last of three or four agents reach the first, and decisions there reach the last."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.actors.mcp.test_questions import asking_server
from tests.e2e.chains import (
    Chain,
    Json,
    answer_of,
    approval_of,
    asked_in,
    begin,
    calls_of,
    decide,
    decide_and_leave,
    ended,
    entries,
    eventually,
    leaks,
)
from tests.e2e.conftest import Servers
from tests.e2e.deep_chain import NAMES, Ledger, expire, original, start_four, way_down

pytestmark = pytest.mark.agents


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deep")


@pytest.fixture(scope="module")
def four(folder: Path) -> Iterator[Chain]:
    env = {**os.environ, "TOKENS": "+", "LEDGER": str(folder / "guarded")}
    servers = Servers()
    with asking_server("http", env) as guarded:
        yield start_four(servers, folder, folder / "ledger", guarded)
        servers.stop_all()


@pytest.fixture(scope="module")
def settled_elsewhere(four: Chain) -> tuple[str, Json]:
    """A question that was decided where it was asked, while other tests go on: the agent before hears of it
    only when it looks."""
    _, _, before, last = four.agents
    turn = begin(before, "quick wipe elsewhere")
    [asked] = asked_in(turn["conversation"])
    decide(last, original(four, asked, before))
    return turn["conversation"]["id"], asked


@pytest.fixture
def ledger(four: Chain, folder: Path, settled_elsewhere: object) -> Ledger:
    return Ledger(folder / "ledger")


@pytest.mark.parametrize("hops", [4, 3])
def test_approval_in_a_deep_chain_is_decided_at_the_first_agent(
    four: Chain, ledger: Ledger, hops: int
) -> None:
    first = four.agents[-hops]
    before = four.conversations
    turn = begin(first, "quick wipe lamp")

    [asked] = asked_in(turn["conversation"])
    names = list(NAMES[-(hops - 1) :])
    assert (asked["kind"], asked["path"], asked["remote_agent_name"]) == ("proxy", names, names[0])
    assert (asked["tool_name"], asked["tool_args"]) == ("mcp__quick__wipe", {"text": "lamp"})
    assert " -> ".join(names) in asked["description"]
    assert "lamp" in asked["description"]
    assert ledger.new == []
    way = way_down(four, asked, first)
    assert [each["status"] for _, each in way] == ["waiting_approval"] * (hops - 1)
    assert [each["pending_approval"]["kind"] for _, each in way] == ["proxy"] * (hops - 2) + ["tool"]

    turn = decide(first, asked)
    assert turn["result"]["response"] == "told: lamp"
    assert ledger.new == ["wipe lamp"]
    new = [now - then for now, then in zip(four.conversations, before, strict=True)]
    assert new == [0] * (4 - hops) + [1] * hops
    for server, conversation in way:
        now = server.conversation(conversation["id"])
        assert (now["status"], answer_of(now)) == ("active", "told: lamp")
        assert [each["decision"]["approved"] for each in now["approvals"]] == [True]


def test_edited_arguments_reach_the_last_agent(four: Chain, ledger: Ledger) -> None:
    [asked] = asked_in(begin(four.first, "quick wipe lamp")["conversation"])
    wrong = decide(four.first, asked, status=422, approved=True, arguments={"text": 5})
    assert wrong["code"] == "invalid_arguments"
    turn = decide(four.first, asked, approved=True, arguments={"text": "chair"}, decided_by="maria")
    assert turn["result"]["response"] == "told: chair"
    assert ledger.new == ["wipe chair"]
    decision = original(four, asked, four.first)["decision"]
    assert (decision["arguments"], decision["decided_by"]) == ({"text": "chair"}, "maria")


def test_rejection_reaches_the_last_agent_with_its_reason(four: Chain, ledger: Ledger) -> None:
    [asked] = asked_in(begin(four.first, "quick wipe lamp")["conversation"])
    turn = decide(four.first, asked, approved=False, reason="it is still in use")
    assert (turn["conversation"]["status"], turn["result"]["state"]) == ("active", "finished")
    assert turn["result"]["response"].startswith("Operation cancelled by user.")
    # The model of the last agent heard the reason, and what it said about it comes back.
    assert turn["result"]["response"].endswith("Reason: it is still in use")
    assert ledger.new == []
    for _, conversation in way_down(four, asked, four.first):
        [approval] = conversation["approvals"]
        assert approval["decision"]["approved"] is False
        assert approval["decision"]["reason"] == "it is still in use"


ORDERS = {
    "in order": ((("lamp", True), ("chair", True)), ["wipe lamp", "wipe chair"]),
    "the other way round": ((("chair", True), ("lamp", True)), ["wipe chair", "wipe lamp"]),
    "a no first": ((("lamp", False), ("chair", True)), ["wipe chair"]),
    "a no last": ((("lamp", True), ("chair", False)), ["wipe lamp"]),
}


@pytest.mark.parametrize(("answers", "happens"), ORDERS.values(), ids=ORDERS)
def test_approvals_of_two_branches_are_decided_in_any_order(
    four: Chain, ledger: Ledger, answers: Sequence[tuple[str, bool]], happens: list[str]
) -> None:
    turn = begin(four.first, "both lamp chair")
    asked = {each["tool_args"]["text"]: each for each in asked_in(turn["conversation"])}
    assert asked.keys() == {"lamp", "chair"}
    assert [each["path"] for each in asked.values()] == [list(NAMES)] * 2
    assert len({each["remote_task_id"] for each in asked.values()}) == 1

    (first, yes), (second, also) = answers
    half = decide(four.first, asked[first], approved=yes)
    # Only the other question is still open, and it is the same one.
    assert (half["result"]["state"], asked_in(half["conversation"])) == ("waiting", [asked[second]])
    assert ledger.new == happens[:1] * yes
    full = decide(four.first, asked[second], approved=also)

    assert full["result"]["state"] == "finished"
    assert ledger.new == happens
    for text, was in answers:
        assert (f"told: {text}" in full["result"]["response"]) == was
    assert [len(each["approvals"]) for _, each in way_down(four, asked[first], four.first)] == [2, 2, 2]


def test_concurrent_decisions_are_both_carried_out(four: Chain, ledger: Ledger) -> None:
    turn = begin(four.first, "both lamp chair")
    for asked in asked_in(turn["conversation"]):
        decide_and_leave(four.first, asked)
    conversation = ended(four.first, turn["conversation"]["id"])
    assert answer_of(conversation) == "told: lamp\ntold: chair"
    assert sorted(ledger.new) == ["wipe chair", "wipe lamp"]
    assert len(conversation["approvals"]) == 2


def test_branches_of_the_first_agent_have_their_own_tasks(four: Chain, ledger: Ledger) -> None:
    """Two tasks, of which each has its own question."""
    turn = begin(four.first, "beside each other")
    asked = {each["node"]: each for each in asked_in(turn["conversation"])}
    assert asked.keys() == {"one", "other"}
    assert len({each["remote_task_id"] for each in asked.values()}) == 2
    half = decide(four.first, asked["other"])
    assert asked_in(half["conversation"]) == [asked["one"]]
    assert ledger.new == ["wipe other"]
    turn = decide(four.first, asked["one"])
    assert turn["result"]["response"] == "told: one\ntold: other"
    assert ledger.new == ["wipe other", "wipe one"]


def test_loop_over_agents_asks_in_each_iteration(four: Chain, ledger: Ledger) -> None:
    turn = begin(four.first, "twice quick wipe lamp")
    tasks = []
    for number in (1, 2):
        [asked] = asked_in(turn["conversation"])
        tasks.append(asked["remote_task_id"])
        turn = decide(four.first, asked)
        assert ledger.new == ["wipe lamp"] * number
    assert (turn["result"]["state"], turn["result"]["response"]) == ("finished", "told: lamp")
    assert len(set(tasks)) == 2


OUTCOMES: dict[str, tuple[Json, str]] = {
    "done": ({"action": "done", "result": "it is gone"}, "told: it is gone"),
    "failed": ({"action": "failed", "reason": "I looked"}, "I looked"),
}


@pytest.mark.parametrize(("words", "says"), OUTCOMES.values(), ids=OUTCOMES)
def test_first_agent_asks_about_an_unknown_outcome(
    four: Chain, ledger: Ledger, words: Json, says: str
) -> None:
    turn = begin(four.first, "slow wipe lamp")
    decide_and_leave(four.first, turn["result"]["approval"])
    eventually(lambda: ledger.new)
    os.kill(entries(ledger.path)[-1]["pid"], signal.SIGKILL)

    conversation = ended(four.first, turn["conversation"]["id"], "waiting")
    [asked] = asked_in(conversation)
    assert (asked["kind"], asked["path"]) == ("proxy", list(NAMES))
    assert "OUTCOME UNKNOWN" in asked["description"]
    assert (asked["tool_name"], asked["tool_args"]) == ("mcp__slow__wipe", {"text": "lamp"})
    # Its words are those of the question there: a mere yes would say nothing.
    assert decide(four.first, asked, status=400, approved=True)["code"] == "decision_required"
    turn = decide(four.first, asked, **words)

    assert turn["result"]["state"] == "finished"
    assert says in turn["result"]["response"]
    assert ledger.new == ["wipe lamp"]
    _, there = way_down(four, asked, four.first)[-1]
    assert [each["kind"] for each in there["approvals"]] == ["tool", "outcome_unknown"]


def test_retry_at_the_first_agent_repeats_the_call(four: Chain, ledger: Ledger) -> None:
    turn = begin(four.first, "slow wipe lamp")
    [asked] = asked_in(turn["conversation"])
    for times, words in ((1, {"approved": True}), (2, {"action": "retry"})):
        decide_and_leave(four.first, asked, **words)
        eventually(lambda: ledger.new[times - 1 :])  # noqa: B023 - it is over when the loop goes on
        os.kill(entries(ledger.path)[-1]["pid"], signal.SIGKILL)
        [asked] = asked_in(ended(four.first, turn["conversation"]["id"], "waiting"))
    turn = decide(four.first, asked, action="done", result="twice")
    assert turn["result"]["response"] == "told: twice"
    assert ledger.new == ["wipe lamp"] * 2


ANSWERS: dict[str, tuple[Json, str]] = {
    "accept": ({"action": "accept", "content": {"name": "Ada", "colour": "red"}}, "told: Ada likes red"),
    "accept with a default": ({"action": "accept", "content": {"name": "Ada"}}, "told: Ada likes blue"),
    "decline": ({"action": "decline"}, "told: decline"),
}


@pytest.mark.parametrize(("words", "says"), ANSWERS.values(), ids=ANSWERS)
def test_first_agent_answers_an_elicitation(four: Chain, words: Json, says: str) -> None:
    asked = begin(four.first, "asker ask she")["result"]["approval"]
    assert (asked["kind"], asked["path"]) == ("proxy", list(NAMES))
    assert "Who is she?" in asked["description"]
    assert asked["input_schema"]["required"] == ["name"]
    wrong = decide(four.first, asked, status=422, action="accept", content={"name": "A"})
    assert wrong["code"] == "invalid_arguments"
    turn = decide(four.first, asked, **words)
    assert turn["result"]["state"] == "finished"
    assert turn["result"]["response"].endswith(says)


SAID: dict[str, tuple[str, Json]] = {
    "a form": ("asker ask she", {"action": "accept", "content": {"name": "Ada"}}),
    "a no": ("quick wipe lamp", {"approved": False}),
}


@pytest.mark.parametrize(("message", "words"), SAID.values(), ids=SAID)
def test_agents_in_between_do_not_change_the_texts(four: Chain, message: str, words: Json) -> None:
    """The question and the answer are the same after four hops as after two, but for the way."""
    told: list[tuple[str, str]] = []
    for first in (four.agents[0], four.agents[2]):
        [asked] = asked_in(begin(first, message)["conversation"])
        turn = decide(first, asked, **words)
        way = f"A2A Agent: {' -> '.join(asked['path'])}**"
        told.append((asked["description"].replace(way, "A2A Agent: WAY**"), turn["result"]["response"]))
    assert told[0] == told[1]


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_cancel_reaches_all_agents(four: Chain, ledger: Ledger, how: str) -> None:
    turn = begin(four.first, "both lamp chair")
    id, [asked, _] = turn["conversation"]["id"], asked_in(turn["conversation"])
    way = way_down(four, asked, four.first)
    if how == "cancel":
        assert four.first.post(f"/conversations/{id}/cancel")["result"]["state"] == "cancelled"
        assert decide(four.first, asked, status=410)["code"] == "void"
    else:
        assert four.first.client.delete(f"/conversations/{id}").status_code == 204
    for server, conversation in way:
        now = server.conversation(conversation["id"])
        assert (now["status"], now["run"]["state"]) == ("active", "cancelled")
        assert [each["state"] for each in now["approvals"]] == ["void", "void"]
    assert ledger.new == []


def test_approval_decided_at_the_next_agent_is_void_here(four: Chain, ledger: Ledger) -> None:
    """Two hops: the last but one looks before it takes a decision."""
    before = four.agents[2]
    turn = begin(before, "quick wipe lamp")
    [asked] = asked_in(turn["conversation"])
    decide(four.last, original(four, asked, before), approved=False, reason="not today")

    late = decide(before, asked, status=410)
    assert late["code"] == "void"
    assert late["approval"]["state"] == "void"
    assert late["approval"]["void_reason"]
    conversation = ended(before, turn["conversation"]["id"])
    assert answer_of(conversation).endswith("Reason: not today")
    assert ledger.new == []


def test_decision_three_agents_away_stands(four: Chain, ledger: Ledger) -> None:
    turn = begin(four.first, "quick wipe lamp")
    [asked] = asked_in(turn["conversation"])
    decide(four.last, original(four, asked, four.first), approved=False, reason="not today")
    late = four.first.client.post(f"/approvals/{asked['uuid']}", json={"approved": True})
    assert (late.status_code, late.json()["code"]) == (410, "void")
    conversation = ended(four.first, turn["conversation"]["id"])
    assert answer_of(conversation).endswith("Reason: not today")
    assert ledger.new == []
    assert len(conversation["approvals"]) == 1


def test_approval_expired_at_the_next_agent_is_void_here(four: Chain, ledger: Ledger) -> None:
    before = four.agents[2]
    turn = begin(before, "later wipe lamp")
    [asked] = asked_in(turn["conversation"])
    there = original(four, asked, before)
    expire(four.last, there)
    eventually(lambda: approval_of(four.last, there)["state"] == "expired")
    assert decide(before, asked, status=410)["code"] == "void"
    conversation = ended(before, turn["conversation"]["id"])
    assert conversation["status"] == "active"
    assert ledger.new == []


def test_bearer_and_session_arrive_at_the_last_agent(four: Chain, folder: Path) -> None:
    """NFR-004. The token of a decision is used from then on; no agent stores one."""
    turn = begin(four.first, "guarded wipe lamp", token="good-canary.1~+/=")
    [asked] = asked_in(turn["conversation"])
    sessions = {each["session_id"] for _, each in way_down(four, asked, four.first)}
    assert sessions == {turn["conversation"]["session_id"]}
    turn = decide(four.first, asked, token="good-canary.2")
    turn2 = begin(four.first, "guarded look chair", token="good-canary.3")
    assert called(folder)[-2:] == [
        ["wipe", "lamp", "Bearer good-canary.2"],
        ["look", "chair", "Bearer good-canary.3"],
    ]
    assert "told: wiped lamp" in turn["result"]["response"]
    assert leaks(four.agents, "canary", turn, turn2) == []


def called(folder: Path) -> list[list[str]]:
    """The calls of the guarded tool server, each with its token."""
    path = folder / "guarded"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_token_for_the_last_agent_is_asked_at_the_first(four: Chain, folder: Path) -> None:
    before = called(folder)
    turn = begin(four.first, "guarded look lamp")
    id = turn["conversation"]["id"]
    assert (turn["result"]["state"], turn["result"]["auth_required"]) == ("auth_required", True)
    assert turn["result"]["auth"]["status"] == 401
    assert turn["conversation"]["run"]["state"] == "auth_required"

    wrong = four.first.post(f"/conversations/{id}/resume", token="bad-canary.1")
    assert wrong["result"]["state"] == "auth_required"
    turn = four.first.post(f"/conversations/{id}/resume", token="good-canary.2")

    assert turn["result"]["state"] == "finished"
    assert turn["result"]["response"].endswith("told: lamp")
    assert called(folder)[len(before) :] == [["look", "lamp", "Bearer good-canary.2"]]
    assert leaks(four.agents, "canary", turn, wrong) == []


def test_decision_at_the_next_agent_is_noticed_in_time(
    four: Chain, settled_elsewhere: tuple[str, Json]
) -> None:
    """The last test of this file, so that the time has passed meanwhile."""
    id, asked = settled_elsewhere
    conversation = ended(four.agents[2], id)
    assert answer_of(conversation) == "told: elsewhere"
    now = approval_of(four.agents[2], asked)
    assert (now["state"], "decision" in now, bool(now["void_reason"])) == ("void", False, True)
    assert Counter(each["name"] for each in calls_of(conversation)) == {"a2a_d": 1}
