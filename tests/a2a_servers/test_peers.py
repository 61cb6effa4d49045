"""The agents that ours delegates to do what their own files say; clients that others wrote ask them."""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import httpx2
import pytest
import trio
from a2a.client import Client, ClientConfig, create_client
from a2a.types import CancelTaskRequest, GetTaskRequest, SendMessageRequest, Task, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.a2a_servers.peer_process import Json, Peer, running
from tests.http_client import http_client
from tests.waiting import LIMIT, until

pytestmark = pytest.mark.agents

ITEMS = ("i1", "i2")


def kinds(*, but: str = "") -> pytest.MarkDecorator:
    """Each way to start an agent made with an SDK."""
    found = [
        pytest.param(
            program,
            ("--version", version, "--binding", binding, *more),
            id=id,
            marks=[pytest.mark.npm] if program == "js" else [],
        )
        for program in ("sdk", "js")
        for version, more in (("1.0", ()), ("1.0", ("--no-streaming",)), ("0.3", ()))
        for binding in ("JSONRPC", "HTTP+JSON")
        if (id := "".join([program, "-", version, "-", binding, *more])) != but
    ]
    return pytest.mark.parametrize(("program", "options"), found)


@attrs.define
class Talk:
    """The client of `a2a-sdk`, and all that came of the last message."""

    client: Client
    http: httpx.AsyncClient
    events: list[Json] = attrs.field(factory=list)

    async def send(self, text: str = "", data: Json | None = None, about: Json | None = None) -> Json:
        """The task, as it is once nothing more is to come for now; or the message."""
        ids = {"taskId": about["id"], "contextId": about["contextId"]} if about else {}
        part = {"data": data} if data else {"text": text}
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [part], **ids}
        self.events = []
        request = ParseDict({"message": message}, SendMessageRequest())
        async with aclosing(self.client.send_message(request)) as events:  # type: ignore[type-var]
            async for event in events:
                self.events.append(MessageToDict(event))
                # A stream may stay open for a task that waits for credentials.
                if "TASK_STATE_AUTH_REQUIRED" in str(self.events[-1]):
                    break
        first = next(iter(self.events[0].values()))
        return first if "role" in first else await self.look(first.get("id") or first["taskId"])

    async def look(self, id: str) -> Json:
        task: Json = MessageToDict(await self.client.get_task(GetTaskRequest(id=id)))
        return task


@asynccontextmanager
async def talking(peer: Peer, options: Sequence[str] = ()) -> AsyncIterator[Talk]:
    binding = options[options.index("--binding") + 1] if "--binding" in options else "JSONRPC"
    async with httpx.AsyncClient(trust_env=False) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        async with await create_client(peer.url, config) as client:
            yield Talk(client, http)


def state(task: Json) -> str:
    name: str = task["status"]["state"].removeprefix("TASK_STATE_")
    return name.lower().replace("_", "-")


def said(task: Json) -> str:
    (part, *_) = task["status"]["message"]["parts"]
    text: str = part["text"]
    return text


def parts(task: Json) -> list[Json]:
    return [part for each in task["artifacts"] for part in each["parts"]]


def pending(task: Json) -> list[Any]:
    _, data = task["status"]["message"]["parts"]
    return [item["id"] for item in data["data"]["pending"]]


@kinds()
async def test_it_does_what_it_is_told(program: str, options: Sequence[str]) -> None:
    async with running(program, *options) as peer, talking(peer, options) as talk:
        task = await talk.send("echo a  b")
        assert (state(task), parts(task)) == ("completed", [{"text": "echo: a  b"}])
        assert (await talk.send("say hi"))["parts"] == [{"text": "say: hi"}]
        task = await talk.send("slow 0.02")
        assert (state(task), parts(task)) == ("completed", [{"text": "slow: all of it is over"}])
        assert "half of it is over" in str(talk.events)
        for words, end, told in (("fail", "failed", "it broke"), ("reject", "rejected", "I will not")):
            task = await talk.send(words)
            assert (state(task), said(task)) == (end, told)
        assert state(await talk.send("dance")) == "failed"


@kinds(but="js-0.3-HTTP+JSON")
async def test_it_has_files(program: str, options: Sequence[str]) -> None:
    async with running(program, *options) as peer, talking(peer, options) as talk:
        text, file, data, link = parts(await talk.send("file"))
        assert text == {"text": "a text"}
        assert (file["filename"], file["mediaType"]) == ("bytes.bin", "application/octet-stream")
        assert b64decode(file["raw"]) == bytes(range(256))
        assert data == {"data": {"rows": [1, 2, 3]}}
        assert (link["url"], link["mediaType"]) == ("https://files.example/a.pdf", "application/pdf")


@pytest.mark.npm
async def test_what_the_sdks_do_to_files_over_http_in_0_3() -> None:
    """One encodes bytes twice, so that its client cannot read what the other sends; that one loses names."""
    found = {}
    for program in ("sdk", "js"):
        async with raw(program, "--version", "0.3", "--binding", "HTTP+JSON") as talk:
            content = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "file"}]}
            answer = await talk.http.post(f"{talk.peer.url}/rest/v1/message:send", json={"message": content})
            found[program] = parts(answer.json()["task"])[1]["file"]
    assert b64decode(b64decode(found["sdk"].pop("fileWithBytes"))) == bytes(range(256))
    assert b64decode(found["js"].pop("fileWithBytes")) == bytes(range(256))
    assert found["sdk"] == {"mimeType": "application/octet-stream", "name": "bytes.bin"}
    assert found["js"] == {"mimeType": "application/octet-stream"}


@kinds()
async def test_it_asks(program: str, options: Sequence[str]) -> None:
    async with running(program, *options) as peer, talking(peer, options) as talk:
        for answer, done in (("approved", "done"), ("rejected", "not done"), ("why?", "not done")):
            task = await talk.send("ask")
            assert (state(task), said(task)) == ("input-required", "May I?")
            assert len(task["status"]["message"]["parts"]) == 1
            task = await talk.send(answer, about=task)
            assert (state(task), parts(task)) == ("completed", [{"text": done}])

        task = await talk.send("ask twice")
        task = await talk.send("approved", about=task)
        assert (state(task), said(task)) == ("input-required", "Really?")
        assert parts(await talk.send("approved", about=task)) == [{"text": "done"}]

        for first, second in (ITEMS, reversed(ITEMS)):
            task = await talk.send("ask items")
            assert pending(task) == list(ITEMS)
            task = await talk.send("approved", about=task)
            assert (state(task), pending(task)) == ("input-required", list(ITEMS))
            task = await talk.send(data={"id": first, "approved": True}, about=task)
            assert (state(task), pending(task)) == ("input-required", [second])
            task = await talk.send(data={"id": second, "approved": False}, about=task)
            told = {first: "approved", second: "rejected"}
            assert parts(task) == [{"text": ", ".join(f"{id} {told[id]}" for id in ITEMS)}]


@kinds()
async def test_it_wants_to_know_who_asks(program: str, options: Sequence[str]) -> None:
    async with running(program, *options) as peer, talking(peer, options) as talk:
        task = await talk.send("login")
        assert (state(task), said(task)) == ("auth-required", "login at https://idp.example")
        talk.http.headers["Authorization"] = "Bearer bad"
        assert state(await talk.send("here I am", about=task)) == "auth-required"
        talk.http.headers.update({"Authorization": "Bearer good", "X-Session-ID": "s1"})
        task = await talk.send("here I am", about=task)
        assert (state(task), parts(task)) == ("completed", [{"text": "hello good"}])
        (last,) = [
            line for line in peer.requests() if "Bearer good" in str(line) and "here I am" in str(line)
        ]
        assert last["headers"]["x-session-id"] == "s1"
        assert peer.requests()[0]["path"] == "/.well-known/agent-card.json"


@kinds()
async def test_what_it_works_on_can_be_cancelled(program: str, options: Sequence[str]) -> None:
    async with running(program, *options) as peer, talking(peer, options) as talk:
        config = {"returnImmediately": True}
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": f"slow {10 * LIMIT}"}]}
        request = ParseDict({"message": message, "configuration": config}, SendMessageRequest())
        async with aclosing(talk.client.send_message(request)) as events:  # type: ignore[type-var]
            first = MessageToDict(await anext(events))
        id = first["task"]["id"]
        cancelled = await talk.client.cancel_task(CancelTaskRequest(id=id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        assert state(await talk.look(id)) == "canceled"
        await peer.noted(cancelled=id)


async def test_it_has_its_tasks_again_where_it_keeps_them(tmp_path: Path) -> None:
    async with running("sdk", "--store", str(tmp_path / "tasks")) as peer, talking(peer) as talk:
        before, task = peer.url, await talk.send("ask")
        await peer.restart()
        assert peer.url == before
        assert parts(await talk.send("approved", about=task)) == [{"text": "done"}]


@attrs.define
class Raw:
    """One who writes JSON-RPC by hand."""

    peer: Peer
    http: httpx2.AsyncClient
    url: str

    async def post(self, method: str, params: Json) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(self.url, json=body)

    async def result(self, method: str, params: Json) -> Json:
        answer = (await self.post(method, params)).json()
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def send(self, text: str, task: Any = None) -> Json:
        told: Json = (await self.result("SendMessage", message(text, task)))["task"]
        return told

    async def stream(self, text: str) -> list[Json]:
        """What the events have, in order."""
        answer = await self.post("SendStreamingMessage", message(text))
        return [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line]

    async def look(self, id: Any) -> Json:
        return await self.result("GetTask", {"id": id})


def message(text: str, task: Any = None) -> Json:
    ids = {} if task is None else {"taskId": task}
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **ids}}


@asynccontextmanager
async def raw(kind: str, *options: str) -> AsyncIterator[Raw]:
    async with running(kind, *options) as peer, http_client(trust_env=False) as http:
        yield Raw(peer, http, peer.url if kind == "older" else f"{peer.url}/a2a")


async def test_the_older_dialect() -> None:
    def params(text: str, task: str | None = None) -> Json:
        said = {"message": {"role": "user", "parts": [{"type": "text", "text": text}]}}
        return {"taskId": task, **said} if task else said

    async with raw("older") as talk:

        async def send(text: str, task: str | None = None) -> Json:
            return await talk.result("message/send", params(text, task))

        port = httpx2.URL(talk.url).port
        card = await talk.http.get(f"http://127.0.0.1:{port}/.well-known/agent.json")
        assert card.json()["url"] == f"http://0.0.0.0:{port}"
        assert (
            await talk.http.get(f"http://127.0.0.1:{port}/.well-known/agent-card.json")
        ).status_code == 404

        done = await send("echo a b")
        assert done["status"] == {"state": "completed"}
        assert done["artifact"] == {"parts": [{"type": "text", "text": "echo: a b"}]}
        assert await talk.result("tasks/get", {"id": done["id"]}) == done

        asked = await send("ask twice")
        assert asked["status"] == {"state": "input-required", "message": "May I?"}
        asked = await send("approved", asked["id"])
        assert asked["status"]["message"] == "Really?"
        assert (await send("rejected", asked["id"]))["artifact"]["parts"][0]["text"] == "not done"

        unknown = await send("login")
        assert unknown["status"] == {"state": "auth-required", "message": "login at https://idp.example"}
        talk.http.headers["Authorization"] = "Bearer good"
        assert (await send("again", unknown["id"]))["artifact"]["parts"][0]["text"] == "hello good"
        assert talk.peer.calls("message/send")[-1]["headers"]["authorization"] == "Bearer good"
        assert (await send("fail"))["status"] == {"state": "failed", "message": "it broke"}

        for method, refused, code in (
            ("message/stream", params("echo"), -32601),
            ("message/send", params("approved", "another"), -32602),
            ("message/send", {"message": {"parts": [{"kind": "text", "text": "echo"}]}}, -32602),
        ):
            assert (await talk.post(method, refused)).json()["error"]["code"] == code
        named = {"jsonrpc": "2.0", "id": "a", "method": "message/send", "params": params("echo")}
        assert (await talk.http.post(talk.url, json=named)).json()["error"]["code"] == -32700


@pytest.mark.parametrize(
    ("words", "answer", "claimed", "looked"),
    [
        ("echo a", None, "completed", "completed"),
        ("ask Now?", None, "input-required", "input-required"),
        ("ask Now?", "approved", "completed", "completed"),
        ("ask forever", "approved", "input-required", "input-required"),
        ("login forever", "approved", "auth-required", "auth-required"),
        ("contradict first", None, "completed", "input-required"),
        ("contradict completed", "approved", "completed", "input-required"),
        ("contradict asking", None, "input-required", "completed"),
        ("contradict asking", "approved", "input-required", "completed"),
        ("cut clean", None, None, "completed"),
    ],
)
async def test_what_it_says_and_what_it_shows(
    words: str, answer: str | None, claimed: str | None, looked: str
) -> None:
    async with raw("lying") as talk:
        events = await talk.stream(words)
        id = events[0]["task"]["id"]
        if answer is not None:
            assert state(await talk.send(answer, id)) == claimed
        elif claimed is None:
            assert len(events) == 1
        else:
            assert state(events[-1]["statusUpdate"]) == claimed
            assert state(await talk.send(words)) == claimed
        assert state(await talk.look(id)) == looked


async def test_it_asks_for_ever_and_names_other_tasks() -> None:
    async with raw("lying") as talk:
        task = await talk.send("ask forever")
        assert [said(await talk.send("approved", task["id"])) for _ in range(3)] == [
            f"Question {n}?" for n in (2, 3, 4)
        ]
        for words, answer in (
            ("other answer", "approved"),
            ("other get", None),
            ("other context", "approved"),
        ):
            task = await talk.send(words)
            other = await talk.send(answer, task["id"]) if answer else await talk.look(task["id"])
            assert (other["id"], other["contextId"]) != (task["id"], task["contextId"])
            assert state(other) == "completed"
        first, *events = await talk.stream("other stream")
        assert first["task"]["id"] not in {next(iter(each.values()))["taskId"] for each in events}
        *_, done, asks = await talk.stream("contradict after")
        assert (state(done["statusUpdate"]), state(asks["statusUpdate"])) == ("completed", "input-required")
        task = await talk.send("stubborn")
        assert state(await talk.result("CancelTask", {"id": task["id"]})) == "canceled"
        assert state(await talk.look(task["id"])) == "working"


@pytest.mark.parametrize("kind", ["huge", "path", "empty", "control", "number", "same"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_ids_that_nobody_wants(kind: str, binding: str) -> None:
    async with raw("lying", "--binding", binding) as talk:
        if binding == "JSONRPC":
            task = await talk.send(f"id {kind}")
            looked = await talk.look(task["id"])
        else:
            url = f"{talk.peer.url}/rest"
            task = (await talk.http.post(f"{url}/message:send", json=message(f"id {kind}"))).json()["task"]
            if kind == "huge":  # longer than clients let an address be
                return
            name = "".join(f"%{byte:02x}" for byte in str(task["id"]).encode())
            looked = (await talk.http.get(f"{url}/tasks/{name}")).json()
        assert (looked["id"], state(looked)) == (task["id"], "input-required")


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("kind", ["words", "deep", "utf8", "halved", "types", "id", "doubt"])
async def test_garbage(method: str, kind: str) -> None:
    async with raw("lying") as talk:
        content = (await talk.post(method, message(f"garbage {kind}"))).content
        found = content.removesuffix(b"\n\n").rpartition(b"data: ")[2] if "Streaming" in method else content
        if kind in ("words", "deep", "utf8", "halved"):
            with pytest.raises((ValueError, RecursionError)):
                json.loads(found)
        else:
            json.loads(found)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize(
    ("words", "least", "events"),
    [("one 1", 10**6, 2), ("lines 1", 10**6, None), ("chunks 1", 960_000, 17), ("many 1000", 10**4, 1002),
     ("gzip 1", 960_000, 1)],
)  # fmt: skip
async def test_too_much(method: str, words: str, least: int, events: int | None) -> None:
    async with raw("lying") as talk:
        content = (await talk.post(method, message(f"big {words}"))).content
        assert len(content) > least
        if "Streaming" not in method:
            json.loads(content)
        elif events is not None:
            assert len([json.loads(each[6:]) for each in content.split(b"\n\n") if each]) == events
        else:
            last = content.split(b"\n\n")[1]
            json.loads(b"".join(line.removeprefix(b"data: ") for line in last.split(b"\n")))


async def test_a_head_that_is_too_large() -> None:
    async with raw("lying") as talk:
        with pytest.raises(httpx2.RemoteProtocolError):
            await talk.post("SendMessage", message("big header 1"))


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("kind", ["updates", "comments", "drip", "silence", "head"])
async def test_it_never_ends_and_sees_who_goes(method: str, kind: str) -> None:
    async with raw("lying") as talk:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": message(f"endless {kind}")}
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                async with talk.http.stream("POST", talk.url, json=body) as answer:
                    length = 0
                    async for data in answer.aiter_bytes():
                        length += len(data)
                        if length > (5000 if kind == "updates" and "Streaming" in method else 20):
                            break
                    nursery.cancel_scope.cancel()

            nursery.start_soon(listen)
            if kind in ("head", "silence"):
                await until(lambda: bool(talk.peer.calls(method)))
                nursery.cancel_scope.cancel()
        await talk.peer.noted(gone=f"endless {kind}")


@pytest.mark.parametrize("kind", ["event", "reset", "before"])
async def test_it_ends_too_early(kind: str) -> None:
    async with raw("lying") as talk:
        if kind == "event":
            answer = await talk.post("SendStreamingMessage", message("cut event"))
            with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
                json.loads(answer.text.split("\n\n")[1][6:])
        else:
            with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
                await talk.post("SendStreamingMessage", message(f"cut {kind}"))


async def test_answers_of_http_that_lead_astray() -> None:
    async with raw("lying") as talk:
        elsewhere = talk.peer.told["elsewhere"]
        for code in (302, 307):
            answer = await talk.post("SendMessage", message(f"redirect {code}"))
            assert (answer.status_code, answer.headers["location"]) == (code, f"{elsewhere}/a2a")
        answer = await talk.post("SendMessage", message("redirect 307 loop"))
        assert answer.headers["location"] == talk.url
        answer = await talk.post("SendMessage", message("unauthorized"))
        assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
        answer = await talk.post("SendMessage", message("status 503"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "31536000")
        assert {line["at"] for line in talk.peer.requests()} == {"here"}

        talk.http.headers["Authorization"] = "Bearer t"
        talk.http.follow_redirects = True
        answer = await talk.post("SendStreamingMessage", message("redirect 307"))
        assert "stolen" in answer.text
        assert (
            talk.peer.requests(at="elsewhere", method="POST")[-1]["body"]["method"] == "SendStreamingMessage"
        )


CARDS: Mapping[str, tuple[Json, Json]] = {
    "": ({}, {}),
    "later path": ({"path": "/a2a"}, {"path": "/gone"}),
    "later unstreamed": ({"streaming": True}, {"streaming": False}),
    "later elsewhere": ({"at": "url"}, {"at": "elsewhere"}),
    "elsewhere": ({"at": "elsewhere"}, {"at": "elsewhere"}),
    "foreign": ({"binding": "PIGEON"}, {"binding": "PIGEON"}),
    "version": ({"version": "9.9"}, {"version": "9.9"}),
}


@pytest.mark.parametrize("lie", CARDS)
async def test_cards_that_lie(lie: str) -> None:
    async with raw("lying", "--card", lie) as talk:
        usual = {"path": "/a2a", "streaming": True, "at": "url", "binding": "JSONRPC", "version": "1.0"}
        for found in CARDS[lie]:
            card = (await talk.http.get(f"{talk.peer.url}/.well-known/agent-card.json")).json()
            (interface,) = card["supportedInterfaces"]
            expected = {**usual, **found}
            assert interface == {
                "url": talk.peer.told[expected["at"]] + expected["path"],
                "protocolBinding": expected["binding"],
                "protocolVersion": expected["version"],
            }
            assert card["capabilities"] == {"streaming": expected["streaming"]}
        if lie == "elsewhere":
            answer = await talk.http.post(
                interface["url"], json={"id": 1, "method": "SendMessage", "params": message("echo")}
            )
            assert "stolen" in answer.text
            assert [line["at"] for line in talk.peer.requests(method="POST")] == ["elsewhere"]
        if lie == "later unstreamed":
            refused = await talk.post("SendStreamingMessage", message("echo a"))
            assert refused.json()["error"]["code"] == -32004
            assert state(await talk.send("echo a")) == "completed"


async def test_cards_that_are_none() -> None:
    for lie, status in (
        ("redirect", 302),
        ("unauthorized", 401),
        ("garbage", 200),
        ("types", 200),
        ("empty", 200),
    ):
        async with raw("lying", "--card", lie) as talk:
            answer = await talk.http.get(f"{talk.peer.url}/.well-known/agent-card.json")
            assert answer.status_code == status
            if lie == "garbage":
                with pytest.raises(ValueError, match=r"decode|Expecting"):
                    answer.json()
    for lie, least in (("huge", 10**8), ("endless", 10)):
        async with raw("lying", "--card", lie) as talk:
            length = 0
            async with talk.http.stream("GET", f"{talk.peer.url}/.well-known/agent-card.json") as card:
                async for data in card.aiter_bytes():
                    length += len(data)
                    if lie == "endless" and length > least:
                        break
            assert length > least
            if lie == "endless":
                await talk.peer.noted(gone="/.well-known/agent-card.json")


async def test_the_other_binding_of_one_who_lies() -> None:
    options = ("--binding", "HTTP+JSON")
    async with running("lying", *options) as peer, talking(peer, options) as talk:
        assert parts(await talk.send("echo a")) == [{"text": "echo: a"}]
        task = await talk.send("ask Now?")
        assert (state(task), said(task)) == ("input-required", "Now?")
        assert parts(await talk.send("approved", about=task)) == [{"text": "done"}]
    async with raw("lying", *options, "--no-streaming") as rest:
        answer = await rest.http.post(f"{rest.peer.url}/rest/message:stream", json=message("echo a"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)
        ParseDict(
            (await rest.http.post(f"{rest.peer.url}/rest/message:send", json=message("ask"))).json()["task"],
            Task(),
        )


@pytest.mark.parametrize("kind", ["older", "lying", pytest.param("js", marks=pytest.mark.npm)])
async def test_it_starts_again_where_it_was(kind: str) -> None:
    async with running(kind) as peer, http_client(trust_env=False) as http:
        before = peer.url
        await http.get(before)
        await peer.kill()
        with pytest.raises(httpx2.ConnectError):
            await http.get(before)
        await peer.restart()
        assert peer.url == before
        await http.get(before)
        assert [line["method"] for line in peer.requests()] == ["GET", "GET"]
