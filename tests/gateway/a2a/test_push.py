"""Push notifications, from a request to a receiver over real sockets."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.a2a.wire.task import PushConfig
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.common.bounded_post import TIMEOUT
from stopgo.actors.models.messages.messages import Emit, ModelReply, ModelRequest
from stopgo.actors.models.offline.script import ScriptModel
from stopgo.config.load import load_config
from stopgo.gateway.a2a import push as push_module
from stopgo.gateway.a2a.push import MOST_OF_A_TASK, NOTES, PushNotifier, open_push
from stopgo.gateway.a2a.push_hook import SetBy
from stopgo.gateway.app import make_app
from stopgo.gateway.http.http_server import bind, open_server
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.gateway.a2a.receiver import OK, Receiver, answer, open_receiver, resolving, until_blocked
from tests.http_client import http_client
from tests.waiting import until

REPLIES = """
replies:
  - when: {user: 'ask *(?P<what>.*)'}
    text: which ${what}?
    a2a: {state: input-required}
  - when: {user: '(?P<what>.*)'}
    text: you said ${what}
"""
SECRET = "s3cr3t-credentials"


@pytest.fixture
async def thought(monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """The model answers when it is set."""
    event = trio.Event()
    complete = ScriptModel.complete

    async def think(self: ScriptModel, request: ModelRequest, emit: Emit) -> ModelReply:
        await event.wait()
        return await complete(self, request, emit)

    monkeypatch.setattr(ScriptModel, "complete", think)
    return event


@pytest.fixture
async def receiver(nursery: trio.Nursery) -> Receiver:
    return await open_receiver(nursery)


@attrs.frozen
class Client:
    http: httpx2.AsyncClient
    push: PushNotifier | None
    agent: Agent

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result; of an error, its code."""
        version = {} if "/" in method else {"A2A-Version": "1.0"}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self.http.post("/a2a", json=body, headers=version)).json()
        return answer["result"] if "result" in answer else answer["error"]["code"]

    async def send(self, text: str, push: Mapping[str, Any] | None = None, **more: Any) -> Any:
        message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **more}
        params = {"message": message}
        if push is not None:
            params["configuration"] = {"taskPushNotificationConfig": push}
        result = await self.call("SendMessage", params)
        return result["task"] if isinstance(result, dict) else result

    async def set(self, task: str, url: str, **more: Any) -> Any:
        return await self.call("CreateTaskPushNotificationConfig", {"taskId": task, "url": url, **more})

    async def noted(self, condition: Callable[[list[Any]], bool]) -> None:
        """Wait until the stored notes fulfil a condition."""

        async def fulfilled() -> bool:
            return condition(list((await self.agent.notes.notes(NOTES)).values()))

        await until(fulfilled)

    async def listed(self, task: str) -> Any:
        return (await self.call("ListTaskPushNotificationConfigs", {"taskId": task}))["configs"]


Open = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path) -> Open:
    """An agent in one data directory, with its notifier, served: ``async with opened() as client``."""
    (tmp_path / "replies.yaml").write_text(REPLIES)

    @asynccontextmanager
    async def open_it(
        *, private: bool = True, pushes: bool = True, journal: Any = None, **options: Any
    ) -> AsyncIterator[Client]:
        text = f"name: a\nllm: {{model: 'script:replies.yaml'}}\nserver: {{push_to_private: {private}}}\n"
        (tmp_path / "agent.yaml").write_text(text.replace("True", "true").replace("False", "false"))
        config = load_config(tmp_path / "agent.yaml", environ={}, data_dir=tmp_path / "data")
        async with AsyncExitStack() as stack:
            agent = await stack.enter_async_context(open_agent(config, journal=journal))
            push = await stack.enter_async_context(open_push(agent, **options)) if pushes else None
            server = await stack.enter_async_context(
                open_server(make_app(agent, push=push), bind("127.0.0.1", 0))
            )
            http = await stack.enter_async_context(http_client(base_url=server.url, trust_env=False))
            yield Client(http, push, agent)

    return open_it


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == push_module.__name__]


# -------------------------------------------------------------------- what is sent


async def test_queued_message_is_notified_until_its_task_ends(
    opened: Open, receiver: Receiver, thought: trio.Event
) -> None:
    """The run before it ends the task, for a moment."""
    at_once = {"returnImmediately": True}
    async with opened() as client:
        parts = {"role": "ROLE_USER", "parts": [{"text": "slow"}]}
        message = {"messageId": "1", **parts}
        first = await client.call("SendMessage", {"message": message, "configuration": at_once})
        second = {"messageId": "2", "taskId": first["task"]["id"], **parts}
        options = {**at_once, "taskPushNotificationConfig": {"url": receiver.url}}
        await client.call("SendMessage", {"message": second, "configuration": options})
        thought.set()
        await until(lambda: receiver.states.count("completed") == 2)
        assert receiver.states[-3:] == ["completed", "working", "completed"]
        await client.noted(lambda notes: [note["is_over"] for note in notes] == [True])


async def test_each_update_of_a_new_task_is_sent_in_order(opened: Open, receiver: Receiver) -> None:
    config = {
        "id": "c1",
        "url": receiver.url,
        "token": "t0ken",
        "authentication": {"scheme": "Basic", "credentials": SECRET},
    }
    async with opened() as client:
        task = await client.send("hello", config)
        await until(lambda: receiver.states[-1:] == ["completed"])
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        [listed] = await client.listed(task["id"])
        assert listed["id"] == "c1"
    first = receiver.got[0]
    assert first.head.splitlines()[0] == "POST /hook?key=1 HTTP/1.1"
    assert first.header("Host") == f"127.0.0.1:{receiver.port}"
    assert first.header("Content-Type") == "application/a2a+json"
    assert first.header("Authorization") == f"Basic {SECRET}"
    assert first.header("X-A2A-Notification-Token") == "t0ken"
    kinds = [next(iter(got.body)) for got in receiver.got]
    assert kinds == ["statusUpdate", "artifactUpdate", "statusUpdate"]
    assert receiver.states == ["working", "completed"]
    assert {got.body[next(iter(got.body))]["taskId"] for got in receiver.got} == {task["id"]}


async def test_version_0_3_is_sent_the_task_once_for_each_event(opened: Open, receiver: Receiver) -> None:
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    config = {"url": receiver.url, "authentication": {"schemes": ["Bearer"], "credentials": SECRET}}
    async with opened() as client:
        params = {"message": message, "configuration": {"pushNotificationConfig": config}}
        task = await client.call("message/send", params)
        await until(lambda: receiver.states[-1:] == ["completed"])
        one = await client.call("tasks/pushNotificationConfig/get", {"id": task["id"]})
        all_of_them = await client.call("tasks/pushNotificationConfig/list", {"id": task["id"]})
    assert receiver.states == ["working", "completed"]
    last = receiver.got[-1]
    assert last.body == task
    assert last.header("Content-Type") == "application/json"
    assert last.header("Authorization") == f"Bearer {SECRET}"
    shown = {"url": receiver.url, "id": "default", "authentication": {"schemes": ["Bearer"]}}
    assert one == {"taskId": task["id"], "pushNotificationConfig": shown}
    assert all_of_them == [one]


async def test_task_is_notified_over_all_turns_until_it_ends(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = await client.send("ask colour")
        assert await client.set(task["id"], receiver.url)
        await client.send("hello", contextId=task["contextId"])  # another task
        await client.send("red", taskId=task["id"])
        await until(lambda: receiver.states[-1:] == ["completed"])
        # In the same context there is a task that nobody set anything for.
        other = await client.send("ask size", contextId=task["contextId"])
        assert other["id"] != task["id"]
        third = await client.send("hello", {"url": receiver.url}, contextId=task["contextId"])
        await until(lambda: receiver.states[2:] == ["working", "completed"])
    ids = [next(iter(got.body.values()))["taskId"] for got in receiver.got]
    assert ids == [task["id"]] * 3 + [third["id"]] * 3


async def test_stream_and_notifications_carry_the_same_updates(opened: Open, receiver: Receiver) -> None:
    config = {"taskPushNotificationConfig": {"url": receiver.url}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"message": message, "configuration": config}
    async with opened() as client:
        response = await client.http.post("/a2a/message:stream", json=body, headers={"A2A-Version": "1.0"})
        lines = [line for line in response.text.splitlines() if line]
        streamed = [json.loads(line.removeprefix("data: ")) for line in lines]
        await until(lambda: receiver.states[-1:] == ["completed"])
    assert list(streamed[0]) == ["task"]
    sent = [got.body for got in receiver.got]
    # A stream that begins later has the first updates in its task.
    assert streamed[1:] == sent[len(sent) - len(streamed[1:]) :]
    assert receiver.states[0] == "working"


async def test_ended_task_stores_configs_and_sends_nothing(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = await client.send("hello")
        config = await client.set(task["id"], receiver.url, id="late")
        assert config == {"id": "late", "taskId": task["id"], "url": receiver.url}
        assert await client.listed(task["id"]) == [config]
        await client.send("again", {"url": receiver.url})
        await until(lambda: receiver.states[-1:] == ["completed"])
    assert task["id"] not in [next(iter(got.body.values()))["taskId"] for got in receiver.got]


# ------------------------------------------------------------------ configurations


async def test_push_configs_are_set_shown_and_deleted(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = (await client.send("ask colour"))["id"]
        given = {"token": "t", "authentication": {"scheme": "Bearer", "credentials": SECRET}}
        first = await client.set(task, receiver.url, id="a", **given)
        assert first == {"taskId": task, "id": "a", "url": receiver.url, **given}
        second = await client.set(task, receiver.url)
        third = await client.set(task, receiver.url)
        assert len({"a", second["id"], third["id"]}) == 3
        shown = await client.call("GetTaskPushNotificationConfig", {"taskId": task, "id": "a"})
        assert shown == {
            "taskId": task,
            "id": "a",
            "url": receiver.url,
            "authentication": {"scheme": "Bearer"},
        }
        assert [each["id"] for each in await client.listed(task)] == ["a", second["id"], third["id"]]
        for _ in range(2):
            assert await client.call("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "a"}) is None
        assert await client.call("GetTaskPushNotificationConfig", {"taskId": task, "id": "a"}) == -32001
        assert await client.call("ListTaskPushNotificationConfigs", {"taskId": "no-such-task"}) == -32001
        assert await client.set("no-such-task", receiver.url) == -32001
        url = f"/a2a/tasks/{task}/pushNotificationConfigs"
        over_http = (await client.http.get(url, headers={"A2A-Version": "1.0"})).json()
        assert [each["id"] for each in over_http["configs"]] == [second["id"], third["id"]]


async def test_config_set_again_uses_its_new_address(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = (await client.send("ask colour"))["id"]
        await client.set(task, "http://127.0.0.1:9/", id="a")
        await client.set(task, receiver.url, id="a", token="new")
        await client.send("red", taskId=task)
        await until(lambda: receiver.states[-1:] == ["completed"])
        assert len(await client.listed(task)) == 1
    assert receiver.states == ["working", "completed"]
    assert receiver.got[0].header("X-A2A-Notification-Token") == "new"


async def test_deleted_config_sends_nothing(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = (await client.send("ask colour"))["id"]
        await client.set(task, f"{receiver.url}&deleted", id="a")
        await client.set(task, receiver.url, id="b")
        await client.call("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "a"})
        await client.send("red", taskId=task)
        await until(lambda: receiver.states[-1:] == ["completed"])
    assert not any("deleted" in got.head for got in receiver.got)


async def test_configs_are_deleted_with_their_conversation(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = (await client.send("ask colour"))["id"]
        await client.set(task, receiver.url, id="a")
        await client.agent.delete(task)
        await client.noted(lambda notes: not any(notes))
        assert await client.call("ListTaskPushNotificationConfigs", {"taskId": task}) == -32001


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://hooks.example/"},
        {"url": "http://169.254.169.254/latest/meta-data"},
        {"id": "a" * 129},
        {"id": "a\nb"},
        {"token": "a\r\nX: y"},
        {"token": "a" * 4097},
        {"authentication": {"scheme": "Bearer x\r\n", "credentials": "c"}},
        {"authentication": {"scheme": "Bearer", "credentials": "a\nb"}},
    ],
)
async def test_message_with_an_invalid_config_is_refused(opened: Open, wrong: Any) -> None:
    async with opened() as client:
        task = (await client.send("ask colour"))["id"]
        config = {"url": "http://127.0.0.1:9/", **wrong}
        assert await client.set(task, **config) == -32602
        assert await client.send("red", config, taskId=task) == -32602
        assert await client.listed(task) == []
        assert len((await client.call("GetTask", {"id": task}))["history"]) == 1


async def test_number_of_configs_is_bounded(
    opened: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(journal=MemoryJournal()) as client:
        done = (await client.send("hello"))["id"]
        tasks = [(await client.send(f"ask {word}"))["id"] for word in ("colour", "size")]
        for number in range(MOST_OF_A_TASK):
            assert "id" in await client.set(done, receiver.url, id=f"{number}")
        assert await client.set(done, receiver.url, id="more") == -32004
        assert "id" in await client.set(done, receiver.url, id="0")
        # Those of tasks that have ended make room; live ones do not.
        monkeypatch.setattr(push_module, "MOST_CONFIGS", MOST_OF_A_TASK)
        for number in range(MOST_OF_A_TASK):
            assert "id" in await client.set(tasks[number % 2], receiver.url, id=f"{number}")
        assert await client.listed(done) == []
        assert await client.set(done, receiver.url, id="more") == -32004
        assert len(await client.agent.notes.notes(NOTES)) == MOST_OF_A_TASK


async def test_number_of_configs_per_client_is_bounded(
    opened: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_module, "MOST_OF_A_PEER", 2)
    async with opened(journal=MemoryJournal()) as client:
        task = (await client.send("ask colour"))["id"]
        assert "id" in await client.set(task, receiver.url, id="a")
        assert "id" in await client.set(task, receiver.url, id="b")
        assert await client.set(task, receiver.url, id="c") == -32004
        assert "id" in await client.set(task, receiver.url, id="b")
        config, by = PushConfig(task=task, id="c", url=receiver.url), SetBy(True, peer="192.0.2.1")
        await client.push.set(config, by, after=0, is_over=False)


async def test_message_is_refused_without_room_for_its_push_config(
    opened: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is not delivered, so the client may send it again."""
    monkeypatch.setattr(push_module, "MOST_OF_A_PEER", 1)
    async with opened(journal=MemoryJournal()) as client:
        await client.send("ask colour", {"url": receiver.url})
        assert await client.send("hello", {"url": receiver.url}) == -32004
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (await client.call("ListTasks", {}))["totalSize"] == 1


async def test_deletion_returns_an_empty_object(opened: Open, receiver: Receiver) -> None:
    async with opened() as client:
        task = (await client.send("ask colour"))["id"]
        for version in "", "/v1":
            await client.set(task, receiver.url, id="a")
            answered = await client.http.delete(f"/a2a{version}/tasks/{task}/pushNotificationConfigs/a")
            assert answered.json() == {}
            assert await client.listed(task) == []


async def test_card_without_notifier_offers_no_push(opened: Open) -> None:
    async with opened(pushes=False) as client:
        card = (await client.http.get("/.well-known/agent-card.json")).json()
        assert card["capabilities"]["pushNotifications"] is False
        assert await client.send("hello", {"url": "http://127.0.0.1:9/"}) == -32003
        assert await client.set("t", "http://127.0.0.1:9/") == -32003
    async with opened() as client:
        card = (await client.http.get("/.well-known/agent-card.json")).json()
        assert card["capabilities"]["pushNotifications"] is True


# ----------------------------------------------------------------------- restarts


async def test_configs_are_paused_after_restart_until_set_again(
    opened: Open, receiver: Receiver, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    given = {"id": "a", "token": "t0ken", "authentication": {"scheme": "Bearer", "credentials": SECRET}}
    async with opened() as client:
        done = (await client.send("hello", {"url": receiver.url}))["id"]
        await until(lambda: receiver.states == ["working", "completed"])
        await client.noted(lambda notes: any(note["is_over"] for note in notes))
        task = (await client.send("ask colour"))["id"]
        await client.set(task, receiver.url, **given)
        assert SECRET not in str(await client.agent.notes.notes(NOTES))
    receiver.got.clear()
    with caplog.at_level(logging.WARNING, logger=push_module.__name__):
        async with opened() as client:
            [line] = warned(caplog)
            assert line.startswith("1 push notification configuration(s) paused")
            shown = {"taskId": task, "id": "a", "url": receiver.url, "authentication": {"scheme": "Bearer"}}
            assert await client.listed(task) == [shown]
            assert len(await client.listed(done)) == 1
            await client.send("ask shade", taskId=task)
            await client.set(task, receiver.url, **given)
            await client.send("red", taskId=task)
            await until(lambda: receiver.states[-1:] == ["completed"])
    assert receiver.states == ["working", "completed"]
    assert receiver.got[0].header("Authorization") == f"Bearer {SECRET}"
    assert not any(
        word in path.read_bytes()
        for path in (tmp_path / "data").rglob("*")
        if path.is_file()
        for word in (SECRET.encode(), b"t0ken")
    )


async def test_damaged_configs_are_ignored(opened: Open, receiver: Receiver) -> None:
    journal = MemoryJournal()
    await journal.write_notes(NOTES, {"0": {"task": 1}, "1": {}, "2": {"task": "t", "id": "a", "url": None}})
    async with opened(journal=journal) as client:
        task = (await client.send("ask colour"))["id"]
        await client.set(task, receiver.url, id="a")
        notes = await journal.notes(NOTES)
        assert notes["0"] == {
            "task": task,
            "id": "a",
            "url": receiver.url,
            "scheme": None,
            "is_v1": True,
            "is_over": False,
            "node": journal.member,
        }


async def test_configs_at_two_members(opened: Open, receiver: Receiver, nursery: trio.Nursery) -> None:
    """Each member shows and deletes the configurations of the other, whose updates only the latter sends."""
    other, journal = await open_receiver(nursery), MemoryJournal(lease=1000.0, member="a")
    async with opened(journal=journal) as a, opened(journal=journal.another("b")) as b:
        task = (await a.send("ask colour"))["id"]
        await a.set(task, receiver.url, id="one")
        await b.set(task, other.url, id="two")
        for each in (a, b):
            assert [config["id"] for config in await each.listed(task)] == ["one", "two"]
        await b.call("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "one"})
        assert [config["id"] for config in await a.listed(task)] == ["two"]
        await a.set(task, receiver.url, id="two")  # in place of that of b
        assert [config["url"] for config in await b.listed(task)] == [receiver.url]
        await b.send("red", taskId=task)
        await until(lambda: receiver.states[-1:] == ["completed"])
    assert receiver.states == ["working", "completed"]
    assert other.got == []


# ------------------------------------------------------------------------ retries


async def passes_until(clock: MockClock, condition: Callable[[], bool]) -> None:
    """Let time pass whenever nothing else goes on."""
    for _ in range(10_000):
        await trio.testing.wait_all_tasks_blocked(0.01)
        if condition():
            return
        clock.jump(0.25)
    raise AssertionError("it did not happen")


@attrs.frozen
class Waiting:
    """A client with a task that waits, in virtual time, which passes when nothing else goes on.

    Tests have to ask for the clock themselves: else it is not that of the test.
    """

    client: Client
    task: str
    clock: MockClock

    async def set(self, url: str) -> None:
        assert self.client.push is not None
        config = PushConfig(task=self.task, id="a", url=url)
        end = (await self.client.agent.log_end(self.task)).last_seq
        await self.client.push.set(config, SetBy(True), after=end, is_over=False)

    async def answer(self) -> None:
        """Answer the task's question, so that the task ends."""
        await self.client.agent.send(self.task, "red")

    async def passes_until(self, condition: Callable[[], bool]) -> None:
        await passes_until(self.clock, condition)


@pytest.fixture
async def waiting(opened: Open, mock_clock: MockClock) -> AsyncIterator[Waiting]:
    async with opened(journal=MemoryJournal()) as client:
        yield Waiting(client, (await client.send("ask colour"))["id"], mock_clock)


@pytest.mark.parametrize("status", [500, 503, 408, 429])
async def test_failed_update_is_resent_with_growing_pauses(
    waiting: Waiting, mock_clock: MockClock, receiver: Receiver, status: int
) -> None:
    receiver.answers = [*[answer(status)] * 4, OK]
    await waiting.set(receiver.url)
    await waiting.answer()
    await waiting.passes_until(lambda: receiver.states[-1:] == ["completed"])
    assert receiver.states == ["working"] * 5 + ["completed"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(receiver.at[:5])]
    for number, pause in enumerate(pauses):
        assert 0.5 * 2**number <= pause <= 2**number + 0.5


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 410])
async def test_refused_update_is_not_resent(
    waiting: Waiting, mock_clock: MockClock, receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [answer(status, f"Location: {receiver.url}&redirected\r\n"), OK]
    await waiting.set(receiver.url)
    begun = trio.current_time()
    await waiting.answer()
    await until_blocked(lambda: receiver.states[-1:] == ["completed"])
    assert trio.current_time() == begun
    assert receiver.states == ["working", "completed"]
    assert not any("redirected" in got.head for got in receiver.got)
    host = f"http://127.0.0.1:{receiver.port}"
    assert warned(caplog) == [f"a push notification to {host} was given up: it answered {status}"]


async def test_failing_receiver_still_gets_the_final_update(
    waiting: Waiting,
    mock_clock: MockClock,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = 3
    monkeypatch.setattr(push_module, "ATTEMPTS", attempts)
    receiver.answers = [*[answer(500)] * (2 * attempts), OK]
    await waiting.set(receiver.url)
    await waiting.answer()
    await waiting.passes_until(lambda: len(receiver.got) == 2 * attempts + 1)
    # The artifact is worth one attempt while the receiver fails, the end of the task as many as ever.
    kinds = ["artifact" if "artifactUpdate" in got.body else "status" for got in receiver.got]
    assert kinds == ["status"] * attempts + ["artifact"] + ["status"] * attempts
    assert receiver.states[attempts:] == ["completed"] * attempts
    assert len(warned(caplog)) == 1


def test_all_attempts_are_made_within_minutes() -> None:
    pauses = [pause for pause in push_module._pauses(push_module.ATTEMPTS) if pause is not None]
    assert len(pauses) == push_module.ATTEMPTS - 1
    assert 60 < sum(pauses) < 5 * 60


async def test_silent_receiver_times_out(waiting: Waiting, mock_clock: MockClock, receiver: Receiver) -> None:
    receiver.hold = trio.Event()
    await waiting.set(receiver.url)
    await waiting.answer()
    await waiting.passes_until(lambda: len(receiver.got) == 2)
    assert TIMEOUT <= receiver.at[1] - receiver.at[0] <= TIMEOUT + 2
    receiver.hold.set()
    await waiting.passes_until(lambda: receiver.states[-1:] == ["completed"])


async def test_response_body_of_a_receiver_is_not_read(
    waiting: Waiting, mock_clock: MockClock, receiver: Receiver
) -> None:
    receiver.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"a" * 10_000]
    await waiting.set(receiver.url)
    begun = trio.current_time()
    await waiting.answer()
    await until_blocked(lambda: receiver.states[-1:] == ["completed"])
    assert trio.current_time() == begun


async def test_updates_are_sent_while_the_client_waits(
    opened: Open, receiver: Receiver, thought: trio.Event
) -> None:
    answered: list[Any] = []
    async with opened() as client, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask() -> None:
            answered.append(await client.send("slow", {"url": receiver.url}))

        await until(lambda: receiver.states == ["working"])
        assert not answered
        thought.set()
        await until(lambda: bool(answered) and receiver.states[-1:] == ["completed"])


async def test_unreachable_receiver_delays_no_other(
    waiting: Waiting, mock_clock: MockClock, receiver: Receiver
) -> None:
    """Both of one task; the first is never reached."""
    await waiting.set("http://127.0.0.1:9/")
    await waiting.client.set(waiting.task, receiver.url, id="b")
    begun = trio.current_time()
    await waiting.answer()
    await until_blocked(lambda: receiver.states[-1:] == ["completed"])
    assert trio.current_time() == begun


# ---------------------------------------------------------------------- addresses


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}/", "http://[::ffff:127.0.0.1]:{}/", "http://127.1:{}/"])
async def test_private_address_needs_push_to_private(opened: Open, receiver: Receiver, url: str) -> None:
    url = url.format(receiver.port)
    async with opened(private=False) as client:
        task = (await client.send("ask colour"))["id"]
        assert await client.set(task, url) == -32602
        assert await client.send("hello", {"url": url}) == -32602
        assert await client.listed(task) == []
    assert receiver.got == []


@pytest.mark.parametrize("first", [["8.8.8.8"], []])
async def test_address_of_a_host_name_is_checked_before_each_post(
    opened: Open, receiver: Receiver, caplog: pytest.LogCaptureFixture, first: list[str]
) -> None:
    asked: list[str] = []
    resolve = resolving(first, ["127.0.0.1"], asked=asked)
    async with opened(private=False, resolve=resolve) as client:
        task = (await client.send("ask colour"))["id"]
        await client.set(task, f"http://hooks.example:{receiver.port}/secret")
        assert asked == ["hooks.example"]
        await client.send("red", taskId=task)
        await client.noted(lambda notes: any(note["is_over"] for note in notes))
    # One look-up for each of three updates: none is repeated, for it would be refused again.
    assert asked == ["hooks.example"] * 4
    assert receiver.got == []
    [line] = warned(caplog)
    assert (
        f"to http://hooks.example:{receiver.port} was given up: its address is of a private network" in line
    )
    assert "secret" not in line
