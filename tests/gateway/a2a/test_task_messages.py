"""The text that messages become, repeated messages, and lists of tasks."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import UserMessage
from stopgo.actors.tools.pictures import Picture
from stopgo.gateway.a2a import task_server
from stopgo.gateway.contract.attachments import MAX_TEXT_FILE
from stopgo.gateway.http.body import MAX_BODY

from .talk import GIVEN, Talk
from .tongues import IDEMPOTENCY, OLDER, TONGUES, V03_HTTP, V1, V1_HTTP, Ask, Json, Refused, Tongue

in_every_tongue = pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
KEY: Any = {"Idempotency_Key": "k"}
EXTENDED: Any = {"A2A_Extensions": IDEMPOTENCY}


def file(content: bytes, media_type: str | None = "text/plain", name: str | None = "a.txt") -> Json:
    part: Json = {"raw": base64.b64encode(content).decode(), "mediaType": media_type, "filename": name}
    return {name: value for name, value in part.items() if value is not None}


# ------------------------------------------------------------------------- parts


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["a", "b"], "a\n\nb"),
        ([{"data": {"n": 1, "é": [True]}}], '{"n": 1, "é": [true]}'),
        (["see", file("hé".encode())], "see\n\na.txt:\nhé"),
        ([file(b"[1]", "application/json", None)], "file:\n[1]"),
        (
            [{"url": "http://127.0.0.1:1/x", "filename": "x.pdf", "mediaType": "application/pdf"}],
            "File x.pdf at http://127.0.0.1:1/x",
        ),
    ],
)
@in_every_tongue
async def test_parts_become_the_text_of_the_message(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, parts: list[Any], text: str
) -> None:
    task = await talk.told(tongue.send(*parts))
    assert (await talk.conversation(task.id))["messages"][1]["content"] == text
    assert [request.user for request in talk.world.requests] == [text]


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (file(b"\x89PNG", "image/png"), -32005),
        (file(b"text", None), -32005),
        (file(b"\xff", "text/plain"), -32005),
        (file(b"x" * (MAX_TEXT_FILE + 1)), -32005),
        (" \n", -32602),
    ],
)
@in_every_tongue
async def test_part_without_text_is_refused(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, part: Any, code: int
) -> None:
    refused = await talk.refused(tongue.send(part))
    assert refused.code == (400 if tongue.is_http else code)
    assert (await talk.rest.get("/conversations")).json()["conversations"] == []
    task = await talk.told(tongue.send("hi", context="c") if tongue is not OLDER else tongue.send("hi"))
    again = (
        tongue.send(part, context=task.context) if tongue is not OLDER else tongue.send(part, task=task.id)
    )
    assert (await talk.refused(again)).code == refused.code
    assert (await talk.get(task.id)).history == ["hi"]


@in_every_tongue
async def test_picture_is_shown_to_the_model_and_named(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    picture = file(PNG, "image/png", "cat.png")
    task = await talk.told(tongue.send("what is this?", picture))
    text = f"what is this?\n\n[image cat.png: image/png, {len(PNG)} bytes]"
    message = (await talk.conversation(task.id))["messages"][1]
    assert (message["content"], message["pictures"]) == (
        text,
        [{"media_type": "image/png", "size": len(PNG)}],
    )
    [request] = talk.world.requests
    assert request.messages == (UserMessage(text, (Picture("image/png", picture["raw"]),)),)


async def test_picture_of_a_streamed_message_is_shown_to_the_model(
    talk: Talk, autojump_clock: MockClock
) -> None:
    await talk.all_of(V1.send(file(PNG, "image/png", "cat.png"), stream=True))
    assert [request.has_pictures for request in talk.world.requests] == [True]


async def test_file_of_the_largest_size_is_accepted(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send(file(b"x" * MAX_TEXT_FILE)))
    assert len((await talk.get(task.id)).history[0]) == MAX_TEXT_FILE + len("a.txt:\n")


@pytest.mark.parametrize("tongue", [V1, V1_HTTP])
async def test_body_over_the_limit_is_refused(talk: Talk, autojump_clock: MockClock, tongue: Tongue) -> None:
    response = await talk.raw(tongue.send("x" * MAX_BODY))
    assert response.status_code == 413
    assert (await talk.rest.get("/conversations")).json()["conversations"] == []


@pytest.mark.parametrize("tongue", [V1, V1_HTTP])
@pytest.mark.parametrize("header", [{"Idempotency_Key": ""}, {"Authorization": "Bearer a b"}])
async def test_invalid_header_is_refused(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, header: dict[str, str]
) -> None:
    refused = await talk.ask(tongue.send("hi"), **header)
    assert isinstance(refused, Refused)
    assert refused.code == (400 if tongue.is_http else -32602)
    assert (await talk.rest.get("/conversations")).json()["conversations"] == []


# ------------------------------------------------------------------ output modes


@pytest.mark.parametrize(
    ("modes", "given"),
    [
        (["text/plain"], [1, 5]),
        # The default of CrewAI 1.15.30 (crewai/a2a/config.py), which shows only texts all the same.
        (["application/json"], [4, 5]),
        (["text"], [1, 3, 5]),
        (["data", "image/png"], [0, 4, 5]),
        (["text/plain; charset=utf-8", "image/*"], [0, 1, 5]),
        (["*/*"], [0, 1, 2, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("tongue", [V1, V03_HTTP], ids=lambda tongue: tongue.name)
async def test_only_accepted_media_types_are_sent(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, modes: list[str], given: list[int]
) -> None:
    parts = [*GIVEN, {"text": "it says: two files"}]
    if tongue is V03_HTTP:
        parts = [{"text": part["text"]} if "text" in part else part for part in parts]
    expected = [parts[number] for number in given]
    assert (await talk.told(tongue.send("tell", modes=modes))).given == expected
    streamed = await talk.all_of(tongue.send("tell", modes=modes, stream=True))
    assert [part for item in streamed for part in item.given] == expected
    assert streamed[-1].state == "completed"


async def test_unacceptable_output_modes_are_refused_first(talk: Talk, autojump_clock: MockClock) -> None:
    for stream in False, True:
        refused = await talk.refused(V1.send("hi", modes=["image/png"], stream=stream))
        assert refused.code == -32005
    assert (await talk.rest.get("/conversations")).json()["conversations"] == []


# ----------------------------------------------------------------------- repeats


@pytest.mark.parametrize("name", [KEY, EXTENDED], ids=["header", "extension"])
@in_every_tongue
async def test_repeat_returns_the_first_task(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, name: Any
) -> None:
    if tongue is OLDER and name is EXTENDED:
        return  # its messages have no ids
    first = await talk.told(tongue.send("hi"), **name)
    again = await talk.told(tongue.send("hi"), **name)
    assert again == first
    assert len(talk.world.requests) == 1
    other = await talk.refused(tongue.send("ho"), **name)
    assert other.code == (400 if tongue.is_http else -32602)
    if tongue is not OLDER:
        [snapshot] = await talk.all_of(tongue.send("hi", stream=True), **name)
        assert (snapshot.kind, snapshot.id, snapshot.state) == ("task", first.id, "completed")
    assert len((await talk.rest.get("/conversations")).json()["conversations"]) == 1


async def test_message_ids_alone_identify_no_repeat(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("hi", id="m"))
    second = await talk.told(V1.send("hi", id="m"))
    third = await talk.told(V1.send("hi", id="m", context=second.context))
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.parametrize("name", [KEY, EXTENDED], ids=["header", "extension"])
async def test_repeat_in_a_context_returns_the_first_task(
    talk: Talk, autojump_clock: MockClock, name: Any
) -> None:
    for context in "new", "new", (await talk.told(V1.send("hi"))).context:
        first = await talk.told(V1.send("hi", context=context), **name)
        assert await talk.told(V1.send("hi", context=context), **name) == first
        assert (await talk.refused(V1.send("ho", context=context), **name)).code == -32602
    assert len(talk.world.requests) == 3


@pytest.mark.parametrize("by", ["data", "yes"])
@pytest.mark.parametrize("name", [KEY, EXTENDED], ids=["header", "extension"])
@pytest.mark.parametrize("then", ["", " then wipe:b"])
async def test_repeated_answer_never_decides_the_next_question(
    talk: Talk, autojump_clock: MockClock, name: Any, by: str, then: str
) -> None:
    """They never answer the question that came next."""
    task = await talk.waiting(f"first wipe:a{then}")
    [item] = task.pending
    answer: Any = {"data": {"id": item["id"], "approved": True}} if by == "data" else by
    done = await talk.told(V1.send(answer, task=task.id), **name)
    assert done.state == ("input-required" if then else "completed")
    assert await talk.told(V1.send(answer, task=task.id), **name) == done
    [snapshot] = await talk.all_of(V1.send(answer, task=task.id, stream=True), **name)
    assert snapshot == done
    others: list[Any] = ["no", "why?", {"data": {"id": item["id"], "approved": False}}]
    others += [{"data": {"id": each["id"], "approved": True}} for each in done.pending]
    for other in others:
        assert (await talk.refused(V1.send(other, task=task.id), **name)).code == -32602
    assert await talk.get(task.id) == done
    assert talk.world.called("wipe") == 1


async def test_repeat_during_the_run_gets_the_same_answer(talk: Talk, autojump_clock: MockClock) -> None:
    answers = []

    async def send(wanted: Ask) -> None:
        answers.append(await talk.told(wanted, **KEY))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(send, V1.send("rest"))
    assert [answer.answer for answer in answers] == ["rested"] * 5
    assert len({answer.id for answer in answers}) == 1


async def test_repeated_message_with_a_token_is_answered(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("use locked"))
    for _ in range(2):
        done = await talk.told(V1.send("go", task=task.id), **KEY, Authorization="Bearer good")
        assert done.state == "completed"


# ------------------------------------------------------------------------- lists


def listing(tongue: Tongue, **params: Any) -> Ask:
    if tongue.is_http:
        return Ask("GET", "/a2a/tasks" if tongue is V1_HTTP else "/a2a/v1/tasks", params=params)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}
    return Ask("POST", "/a2a", body, {"A2A-Version": "1.0"})


async def listed(talk: Talk, tongue: Tongue, **params: Any) -> Json:
    body = (await talk.raw(listing(tongue, **params))).json()
    found: Json = body["result"] if "jsonrpc" in body else body
    assert "error" not in found, found
    return found


async def listed_ids(talk: Talk, tongue: Tongue = V1, **params: Any) -> list[str]:
    return [task["id"] for task in (await listed(talk, tongue, **params))["tasks"]]


@pytest.mark.parametrize("tongue", [V1, V1_HTTP, V03_HTTP], ids=lambda tongue: tongue.name)
async def test_lists(talk: Talk, autojump_clock: MockClock, tongue: Tongue) -> None:
    empty = await listed(talk, tongue)
    assert (empty["tasks"], empty.get("nextPageToken", ""), empty.get("totalSize", 0)) == ([], "", 0)
    ids: list[str] = []
    for number, text in enumerate(["hi", "use wipe:a", "fail", "tell", "ho"]):
        await trio.sleep(1)
        context = ids[0] if number == 4 else None
        ids.append((await talk.told(V1.send(text, context=context))).id)

    async def found(**params: Any) -> list[str]:
        return await listed_ids(talk, tongue, **params)

    assert await found() == ids[::-1]
    assert await found(contextId=ids[0]) == [ids[4], ids[0]]
    assert await found(contextId="none") == []
    assert await found(status="TASK_STATE_INPUT_REQUIRED") == [ids[1]]
    assert await found(status="TASK_STATE_COMPLETED", contextId=ids[1]) == []
    pages: list[list[str]] = []
    token = ""
    while not pages or token:
        page = await listed(talk, tongue, pageSize=2, pageToken=token)
        pages.append([task["id"] for task in page["tasks"]])
        token = page.get("nextPageToken", "")
        assert tongue.version == "0.3" or (page["pageSize"], page["totalSize"]) == (2, 5)
    assert pages == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]
    for wrong in {"pageSize": 101}, {"pageSize": 0}, {"pageToken": "x"}, {"status": "DONE"}:
        assert (await talk.refused(listing(tongue, **wrong))).code in (400, -32602)
    about = {task["id"]: task for task in (await listed(talk, tongue, contextId=ids[3]))["tasks"]}
    assert "artifacts" not in about[ids[3]]
    [whole] = (await listed(talk, tongue, contextId=ids[3], includeArtifacts="true"))["tasks"]
    assert len(whole["artifacts"]) == 2
    [bare] = (await listed(talk, tongue, contextId=ids[3], historyLength=0))["tasks"]
    assert "history" not in bare or tongue.version == "0.3"


async def test_list_includes_queued_tasks(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("rest", wait=False))
    await trio.sleep(1)
    second = await talk.told(V1.send("hi", context=first.context, wait=False))
    states = {task["id"]: task["status"]["state"] for task in (await listed(talk, V1))["tasks"]}
    assert states == {first.id: "TASK_STATE_WORKING", second.id: "TASK_STATE_SUBMITTED"}


async def test_page_of_large_tasks_ends_early(
    talk: Talk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_server, "MOST_BYTES", 1)
    ids: list[str] = []
    for text in ("hi", "ho", "hey"):
        await trio.sleep(1)
        ids.append((await talk.told(V1.send(text))).id)
    pages: list[list[str]] = []
    token = ""
    while not pages or token:
        page = await listed(talk, V1, pageSize=50, **({"pageToken": token} if token else {}))
        pages.append([task["id"] for task in page["tasks"]])
        token = page.get("nextPageToken", "")
    assert pages == [[id] for id in reversed(ids)]
