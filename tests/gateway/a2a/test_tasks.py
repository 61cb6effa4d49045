"""Tasks over HTTP, with a real agent: their states, and the answers to their questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.gateway.a2a import task_events, task_server
from tests.actors.world import World
from tests.canary import TOKEN

from .talk import GIVEN, SLOW, Talk, furnish, talking
from .tongues import DIALECTS, HITL, OLDER, TONGUES, V03, V1, Json, Refused, Told, Tongue

in_every_tongue = pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)
in_every_dialect = pytest.mark.parametrize("tongue", DIALECTS, ids=lambda tongue: tongue.name)


# ------------------------------------------------------------------------ states


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        ("hi", "completed", ""),
        ("use wipe:a", "input-required", "This action requires approval"),
        ("use locked", "auth-required", 'Tool server "remote" needs a bearer token.'),
        ("fail", "failed", "no model today"),
        ("end rejected", "rejected", "so it ends"),
    ],
)
@in_every_tongue
async def test_states(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, text: str, state: str, said: str
) -> None:
    task = await talk.told(tongue.send(text))
    # What the oldest clients do not know is told in words they know.
    known = {"rejected": "failed"} if tongue is OLDER else {}
    assert (task.id, task.state) == (task.context, known.get(state, state))
    assert said in task.text
    found = await talk.get(task.id, tongue)
    assert (found.state, found.history) == (state, [text])
    assert (await talk.conversation(task.id))["messages"][1]["content"] == text


@in_every_dialect
async def test_rest_shows_the_approval_of_a_task(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    task = await talk.waiting("use wipe:a", tongue)
    [item] = (await talk.get(task.id, tongue)).pending
    approval = (await talk.conversation(task.id))["pending_approval"]
    expected = {
        "id": approval["uuid"],
        "kind": "tool",
        "tool": "wipe",
        "arguments": {"name": "a"},
        "server": "tools",
        "path": [],
        "answer": {"approved": True},
    }
    assert {**item, **expected} == item
    assert approval["description"] in task.text
    assert [each["uuid"] for each in await talk.approvals()] == [item["id"]]


@pytest.mark.parametrize("by", ["data", "words", "rest"])
@pytest.mark.parametrize("approved", [True, False])
@in_every_tongue
async def test_answer_over_a2a_or_rest_completes_the_task(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, by: str, approved: bool
) -> None:
    task = await talk.waiting("use wipe:a", tongue)
    [item] = (await talk.get(task.id)).pending
    if by == "rest":
        await talk.rest.post(f"/approvals/{item['id']}", json={"approved": approved})
        done = await talk.get(task.id, tongue)
    else:
        words: str | Json = {"data": {"id": item["id"], "approved": approved, "decided_by": "me"}}
        if by == "words":
            words = " Approved " if approved else "NO"
        done = await talk.told(tongue.send(words, task=task.id))
    assert (done.id, done.state) == (task.id, "completed")
    assert talk.world.called("wipe") == approved
    assert (await talk.get(task.id)).metadata == ({} if approved else {"rejected": True})
    stored = (await talk.rest.get(f"/approvals/{item['id']}")).json()["approval"]
    assert stored["decision"]["approved"] is approved
    assert stored["decision"].get("decided_by") == ("me" if by == "data" else None)
    assert done.answer.endswith(await talk.last_said(task.id))


async def test_running_task_is_working_and_can_be_canceled(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("rest", wait=False))
    await trio.sleep(1)
    assert (await talk.get(task.id)).state == "working"
    gone = await talk.told(V1.cancel(task.id))
    assert (gone.id, gone.state) == (task.id, "canceled")
    assert (await talk.get(task.id, V03)).text == (await talk.conversation(task.id))["messages"][-1][
        "content"
    ]
    assert (await talk.refused(V1.cancel(task.id))).code == -32002
    assert (await talk.refused(V1.cancel("nothing"))).code == -32001


@pytest.mark.parametrize("context", [".", "..", ".hidden", "a/b", "a~b", "x" * 129])
async def test_invalid_context_id_is_refused(talk: Talk, autojump_clock: MockClock, context: str) -> None:
    """REST could not reach `..`: clients leave such segments out of paths."""
    assert (await talk.refused(V1.send("hi", context=context))).code == -32602


async def test_cancelling_an_ended_task_spares_the_next_task(
    talk: Talk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*args: Any, **options: Any) -> Any:
        log = await task_events.read_own_tasks(*args, **options)
        await trio.sleep(SLOW)
        return log

    task = await talk.told(V1.send("rest", wait=False))
    await trio.sleep(1)
    following = await talk.told(V1.send("rest", context=task.context, wait=False))
    with monkeypatch.context() as patched:
        patched.setattr(task_server, "read_own_tasks", late)
        assert (await talk.refused(V1.cancel(task.id))).code == -32002
    assert (await talk.get(following.id)).state == "completed"


async def test_queued_message_continues_a_canceled_task(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("rest", wait=False))
    await trio.sleep(1)
    await talk.told(V1.send("rest", task=task.id, wait=False))
    assert (await talk.told(V1.cancel(task.id))).state in ("submitted", "working")
    await trio.sleep(1)
    assert (await talk.told(V1.cancel(task.id))).state == "canceled"
    await trio.sleep(SLOW)
    assert (await talk.get(task.id)).state == "canceled"


async def test_cancel_voids_the_approval(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a")
    assert (await talk.told(V03.cancel(task.id))).state == "canceled"
    found = (await talk.rest.get(f"/approvals/{task.pending[0]['id']}")).json()["approval"]
    assert found["state"] == "void"


async def test_task_of_a_queued_message_is_submitted(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("rest", wait=False))
    await trio.sleep(1)
    second = await talk.told(V1.send("hi", context=first.context, wait=False))
    assert (second.context, second.state, second.history) == (first.context, "submitted", ["hi"])
    assert second.id != first.id
    assert (await talk.get(second.id)) == second
    assert (await talk.refused(V1.cancel(second.id))).code == -32002
    await trio.sleep(SLOW)
    assert (await talk.get(second.id)).answer == "you said hi"
    assert (await talk.get(first.id)).answer == "rested"


async def test_files_and_data_of_tools_become_artifacts(talk: Talk, autojump_clock: MockClock) -> None:
    for tongue in TONGUES[:-1]:
        task = await talk.told(tongue.send("tell"))
        *given, answer = task.given
        if tongue.version == "0.3":  # whose texts have no name and no type
            assert given == [{"text": part["text"]} if "text" in part else part for part in GIVEN]
        else:
            assert given == GIVEN
        assert task.artifacts[-1]["name"] == "answer"
        assert answer == {"text": "it says: two files"}
    older = await talk.told(OLDER.send("tell"))
    assert older.answer == "it says: two files"  # it has one artifact, the last


async def test_message_brings_the_missing_token(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("use locked"))
    assert task.parts[1]["data"]["auth"]["server"] == "remote"
    none = await talk.told(V1.send("go on", task=task.id))
    assert none.state == "auth-required"
    assert "decides nothing" in none.text
    wrong = await talk.told(V1.send("go on", task=task.id), Authorization=f"Bearer {TOKEN}")
    assert wrong.state == "auth-required"
    done = await talk.told(V1.send("go on", task=task.id), Authorization="Bearer good")
    assert (done.id, done.state, done.answer) == (task.id, "completed", "it says: open")
    assert done.history == ["use locked"]


# ----------------------------------------------------------------------- answers


@pytest.mark.parametrize("text", ["why?", "yes please", "approved?", "", "not approved", "approve all of it"])
@in_every_dialect
async def test_other_text_leaves_the_question_pending(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, text: str
) -> None:
    task = await talk.waiting("use wipe:a", tongue)
    before = await talk.conversation(task.id)
    still = await talk.told(tongue.send(text, task=task.id))
    assert (still.id, still.state) == (task.id, "input-required")
    assert still.text.startswith("The message decides nothing")
    assert still.text.endswith(task.text)
    assert await talk.conversation(task.id) == before
    assert (await talk.told(tongue.send("ok", task=task.id))).state == "completed"


@pytest.mark.parametrize(
    "parts",
    [
        ("yes", {"data": {"because": "I say so"}}),
        ("yes", {"url": "https://a.test"}),
        ({"data": "yes"},),
        ({"data": {"approved": True}},),
    ],
)
async def test_word_with_another_part_decides_nothing(
    talk: Talk, autojump_clock: MockClock, parts: tuple[Any, ...]
) -> None:
    task = await talk.waiting("use wipe:a")
    assert (await talk.told(V1.send(*parts, task=task.id))).state == "input-required"


ACTIVE: Any = {"A2A_Extensions": HITL}


def response(kind: str = "tool_approval_response", **fields: Any) -> Json:
    return {HITL: {"type": kind, **fields}}


async def test_hitl_extension_requests_and_takes_decisions(talk: Talk, autojump_clock: MockClock) -> None:
    for name in ACTIVE, {"X_A2A_Extensions": f"urn:other, {HITL}"}:
        task = await talk.waiting("use wipe:a wipe:b", **name)
        request = task.message_metadata[HITL]
        assert request["type"] == "tool_approval_request"
        assert [(tool["name"], tool["args"]) for tool in request["tools"]] == [
            ("wipe", {"name": "a"}),
            ("wipe", {"name": "b"}),
        ]
        ids = [tool["id"] for tool in request["tools"]]
        assert ids == [item["id"] for item in task.pending]
        yes = [{"id": id, "approved": True} for id in ids]
        for wrong in (
            yes[:1],
            [*yes, yes[0]],
            [{"id": ids[0]}],
            None,
            [*yes, {"id": "x", "approved": True}],
        ):
            bad = V1.send("x", task=task.id, metadata=response(approvals=wrong))
            assert (await talk.refused(bad, **name)).code == -32602
        assert (await talk.get(task.id)).state == "input-required"
        no = {"id": ids[1], "approved": False, "rejection_reason": "mine"}
        done = await talk.told(V1.send("x", task=task.id, metadata=response(approvals=[yes[0], no])), **name)
        assert done.state == "completed"
        stored = (await talk.rest.get(f"/approvals/{ids[1]}")).json()["approval"]
        assert stored["decision"]["reason"] == "mine"
    assert HITL not in (await talk.waiting("use wipe:a")).message_metadata


async def test_words_decide_nothing_with_the_extension(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a", **ACTIVE)
    assert (await talk.told(V1.send("yes", task=task.id), **ACTIVE)).state == "input-required"
    # A response is one also in a data part, and where the extension is not active.
    said = {
        "type": "tool_approval_response",
        "approvals": [{"id": task.pending[0]["id"], "approved": True}],
    }
    assert (await talk.told(V1.send({"data": said}, task=task.id))).state == "completed"


async def test_words_decide_nothing_with_two_approvals(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a wipe:b")
    assert (await talk.told(V1.send("yes", task=task.id))).state == "input-required"
    first, second = (item["id"] for item in task.pending)
    assert len(await talk.approvals()) == 2

    half = await talk.told(V1.send({"data": {"id": second, "approved": True}}, task=task.id))
    assert half.state == "input-required"
    assert [item["id"] for item in half.pending] == [first]
    done = await talk.told(V1.send("yes", task=task.id))  # now it can mean but one
    assert done.state == "completed"
    assert talk.world.called("wipe") == 2


async def test_words_with_the_id_decide_one_of_two_approvals(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a wipe:b")
    first, second = (item["id"] for item in task.pending)
    assert f'"approve {second}"' in task.text
    half = await talk.told(V1.send(f"Approve {second}.", task=task.id))
    assert (half.state, [item["id"] for item in half.pending]) == ("input-required", [first])
    assert half.text.endswith('Reply with "yes" or "no".')
    late = await talk.refused(V1.send(f"reject {second}", task=task.id))
    assert (late.code, late.message.endswith("approved")) == (-32004, True)
    assert (await talk.told(V1.send("NO!", task=task.id))).state == "completed"
    assert talk.world.ledger == [("wipe", {"name": "b"})]


@pytest.mark.parametrize("by", ["yes", "id", "data"])
@pytest.mark.parametrize("tongue", [V1, V03], ids=lambda tongue: tongue.name)
async def test_message_with_only_the_context_answers_its_pending_task(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, by: str
) -> None:
    """Clients that only keep the context, such as chats of one box."""
    task = await talk.waiting("use wipe:a")
    [item] = task.pending
    answers: Json = {"yes": "yes", "id": f"approve {item['id']}"}
    said = answers.get(by, {"data": {"id": item["id"], "approved": True}})
    key: Any = {"Idempotency_Key": "k"}
    done = await talk.told(tongue.send(said, context=task.context), **key)
    assert (done.id, done.state) == (task.id, "completed")
    again = await talk.told(tongue.send(said, context=task.context), **key)
    assert (again.id, again.state) == (task.id, "completed")
    assert talk.world.called("wipe") == 1
    new = await talk.told(tongue.send("yes", context=task.context))
    assert (new.id != task.id, new.answer) == (True, "you said yes")


@pytest.mark.parametrize("words", ["yes {id}", "Approve `{id}`.", "data"])
@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)
async def test_decision_with_the_id_needs_neither_task_nor_context(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, words: str
) -> None:
    """Clients that keep neither: `A2AAgent` of strands-agents 1.62.0 (multiagent/a2a/_converters.py)."""
    task, other = await talk.waiting("use wipe:a"), await talk.waiting("use wipe:b")
    [item] = task.pending
    said: Any = words.format(id=item["id"])
    if words == "data":
        said = {"data": {"id": item["id"], "approved": True}}
    key: Any = {"Idempotency_Key": "k"}
    for _ in range(2):
        done = await talk.told(tongue.send(said), **key)
        assert (done.id, done.state) == (task.id, "completed")
    assert talk.world.ledger == [("wipe", {"name": "a"})]
    late = await talk.refused(tongue.send(f"no {item['id']}"))
    assert (late.code in {-32004, 400}, late.message.endswith("approved")) == (True, True)
    for text in (f"yes please {item['id']}", f"{item['id']}", "yes 00000000-0000-4000-8000-000000000000"):
        assert (await talk.told(tongue.send(text))).answer == f"you said {text}"
    assert (await talk.get(other.id)).state == "input-required"


async def test_one_message_decides_two_approvals(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a wipe:b")
    first, second = (item["id"] for item in task.pending)
    both = {"approvals": [{"approval_id": first, "approved": True}, {"uuid": second, "approved": False}]}
    done = await talk.told(V1.send({"data": both}, task=task.id))
    assert (done.state, done.metadata) == ("completed", {"rejected": True})
    assert talk.world.ledger == [("wipe", {"name": "a"})]


@pytest.mark.parametrize(
    "words",
    [
        {"approved": "perhaps"},
        {"decision": "maybe"},
        {"approved": True, "arguments": {"name": 1}},
        {"id": "none", "approved": True},
    ],
)
async def test_invalid_decision_leaves_the_question_pending(
    talk: Talk, autojump_clock: MockClock, words: Json
) -> None:
    task = await talk.waiting("use wipe:a")
    data = {"id": task.pending[0]["id"], **words}
    assert (await talk.refused(V1.send({"data": data}, task=task.id))).code == -32602
    assert (await talk.get(task.id)).pending == task.pending


async def test_answer_can_change_the_arguments(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a")
    words = {"approval": {"id": task.pending[0]["id"]}, "approved": True, "arguments": {"name": "b"}}
    assert (await talk.told(V1.send({"data": words}, task=task.id))).state == "completed"
    assert talk.world.ledger == [("wipe", {"name": "b"})]


# ------------------------------------------------------------ contexts and tasks


@in_every_dialect
async def test_only_the_older_dialect_continues_an_ended_task(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    task = await talk.told(tongue.send("hi"))
    again = await talk.ask(tongue.send("use wipe:a", task=task.id))
    if tongue is not OLDER:
        assert isinstance(again, Refused)
        assert again.code == -32004
        assert (await talk.get(task.id)).history == ["hi"]
        return
    assert isinstance(again, Told)
    assert (again.id, again.state) == (task.id, "input-required")
    done = await talk.told(tongue.send("ok", task=task.id))
    assert (done.id, done.answer) == (task.id, "it says: wipe ok")
    kept = await talk.get(task.id)
    assert (kept.history, kept.answer) == (["hi", "use wipe:a"], "you said hi\nit says: wipe ok")


async def test_context_continues_with_another_task(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("hi", context="of-mine"))
    assert (first.id, first.context) == ("of-mine", "of-mine")
    second = await talk.told(V03.send("use wipe:a", context="of-mine"))
    assert second.context == "of-mine"
    assert second.id.startswith("of-mine")
    assert second.id != "of-mine"
    assert (await talk.get("of-mine")).answer == "you said hi"
    third = await talk.ask(V1.send("ho", context="of-mine"))  # while another task waits
    assert isinstance(third, Told)
    assert third.kind == "message"
    assert third.body["referenceTaskIds"] == [second.id]
    assert (await talk.told(V1.send("yes", task=second.id, context="of-mine"))).id == second.id
    said = [each["content"] for each in (await talk.conversation("of-mine"))["messages"]]
    assert [each for each in said if each in ("hi", "use wipe:a", "ho", "yes")] == ["hi", "use wipe:a"]


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ({"task": "nothing"}, -32001),
        ({"task": "c~none"}, -32001),
        ({"task": "c", "context": "other"}, -32602),
        ({"context": "a b"}, -32602),
        ({"context": "c~1"}, -32602),
        ({"context": "x" * 129}, -32602),
    ],
)
async def test_unknown_task_or_context_is_refused(
    talk: Talk, autojump_clock: MockClock, where: Any, code: int
) -> None:
    await talk.told(V1.send("hi", context="c"))
    assert (await talk.refused(V1.send("hi", **where))).code == code


async def test_runs_started_over_rest_belong_to_the_first_task(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("hi"))
    second = await talk.told(V1.send("ho", context=first.context))
    path = f"/conversations/{first.context}"
    asked = (await talk.rest.post(f"{path}/messages", json={"message": "use wipe:a"})).json()
    task = await talk.get(first.id)
    assert (task.state, task.history) == ("input-required", ["hi", "use wipe:a"])
    assert task.pending[0]["id"] == asked["result"]["approval"]["uuid"]
    assert (await talk.get(second.id)).state == "completed"
    done = await talk.told(V1.send("no", task=first.id))
    assert done.metadata == {"rejected": True}
    messages = (await talk.rest.get(path)).json()["conversation"]["messages"]
    assert done.given[-1]["text"].endswith(messages[-1]["content"])
    await talk.rest.post(f"{path}/messages", json={"message": "hi again"})
    assert (await talk.get(first.id)).metadata == {}


async def test_rest_decides_in_a_later_task(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("hi"))
    second = await talk.told(V1.send("use wipe:a", context=first.context))
    await talk.rest.post(f"/approvals/{second.pending[0]['id']}", json={"approved": True})
    assert (await talk.get(second.id)).answer == "it says: wipe ok"
    assert (await talk.get(first.id)).history == ["hi"]


async def test_tasks_survive_a_restart(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = furnish(World(tmp_path))
    async with talking(world) as talk:
        first = await talk.told(V1.send("hi"))
        task = await talk.waiting("use wipe:a")
    async with talking(world) as talk:
        assert await talk.get(first.id) == first
        assert await talk.get(task.id) == task
        done = await talk.told(V1.send("yes", task=task.id))
        assert (done.state, world.called("wipe")) == ("completed", 1)


@pytest.mark.parametrize(("length", "told"), [(None, 3), (0, 0), (2, 2), (9, 3)])
async def test_history_length_is_limited(
    talk: Talk, autojump_clock: MockClock, length: int | None, told: int
) -> None:
    task = await talk.told(OLDER.send("hi"))
    for text in "ho", "he":
        await talk.told(OLDER.send(text, task=task.id))
    for tongue in TONGUES[:-1]:
        newest = 3 if length == 0 and tongue.version == "0.3" else told  # 0.3 calls that "all"
        assert (await talk.told(tongue.get(task.id, length))).history == ["hi", "ho", "he"][3 - newest :]
