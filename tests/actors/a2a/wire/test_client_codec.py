"""Calls of other agents over HTTP, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.a2a.wire import (
    older_codec,
    v03_codec,
    v03_rest_codec,
    v1_codec,
)
from stopgo.actors.a2a.wire.a2a_errors import KINDS, A2AError, InvalidAnswer, Reason
from stopgo.actors.a2a.wire.a2a_headers import HITL, IDEMPOTENCY
from stopgo.actors.a2a.wire.client_codec import (
    HttpCall,
    Interface,
    lists,
    read_answer,
    read_event,
    write_call,
)
from stopgo.actors.a2a.wire.error_json import http_error
from stopgo.actors.a2a.wire.http_paths import PathCall, find
from stopgo.actors.a2a.wire.json_rpc import read_call, write_error, write_result
from stopgo.actors.a2a.wire.task import (
    ArtifactUpdate,
    CancelTask,
    ClientRequest,
    Data,
    GetTask,
    ListTasks,
    Message,
    Send,
    StatusUpdate,
    Subscribe,
    Task,
    TaskPage,
    Text,
)

from . import objects
from .objects import TASK
from .test_read import MESSAGES_REST
from .test_requests_written import requests

V1 = Interface("https://h/a2a", "JSONRPC", "1.0")
V1_HTTP = Interface("https://h/a2a", "HTTP+JSON", "1.0")
V03 = Interface("https://h/a2a", "JSONRPC", "0.3")
V03_HTTP = Interface("https://h/a2a", "HTTP+JSON", "0.3")
OLDER = Interface("https://h/a2a", "JSONRPC", "older")
INTERFACES = [V1, V1_HTTP, V03, V03_HTTP, OLDER]
MODERN = INTERFACES[:-1]
READERS: Mapping[Interface, Any] = {V1: v1_codec, V1_HTTP: v1_codec, V03: v03_codec, V03_HTTP: v03_rest_codec}

HELLO = Message(id="m1", role="user", parts=(Text("hi"),))
SEND = Send(message=HELLO)
STREAM = Send(message=HELLO, stream=True)
REAL: Mapping[str, Any] = json.loads(Path(__file__).with_name("real_answers.json").read_text())


# -------------------------------------------------------------------------- requests


def received(interface: Interface, call: HttpCall) -> ClientRequest:
    """The request that our own server reads in a call."""
    codec = READERS[interface]
    body = {} if call.body is None else json.loads(call.body)
    if interface.binding == "JSONRPC":
        assert (call.verb, call.url) == ("POST", interface.url)
        rpc = read_call(body)
        found = codec.read_request(rpc.method, rpc.params)
    else:
        url = urlsplit(call.url)
        assert call.url.startswith("https://h/a2a/")
        path = find(call.verb, unquote(url.path.removeprefix("/a2a/")))
        assert isinstance(path, PathCall)
        assert path.is_v1 is (interface.version == "1.0")
        found = codec.read_request(path.method, {**dict(parse_qsl(url.query)), **body, **path.params})
    assert isinstance(found, ClientRequest)
    return found


def speaks(interface: Interface, request_: ClientRequest) -> bool:
    """Whether the request can be written; an id with these two is in no path that our server knows."""
    if isinstance(request_, ListTasks):
        return lists(interface)
    if isinstance(request_, Send):
        return True
    return interface.binding == "JSONRPC" or not (set(request_.id) & {"/", ":"} or request_.id in (".", ".."))


@given(st.sampled_from(MODERN), requests(MESSAGES_REST))
def test_our_server_reads_what_we_write(interface: Interface, request_: ClientRequest) -> None:
    if speaks(interface, request_):
        assert received(interface, write_call(interface, request_)) == request_


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize(
    "request_", [SEND, STREAM, GetTask("t"), ListTasks(), CancelTask("t"), Subscribe("t")]
)
def test_headers(interface: Interface, request_: ClientRequest) -> None:
    streams = request_ is STREAM or isinstance(request_, Subscribe)
    if (interface is OLDER and streams) or (isinstance(request_, ListTasks) and not lists(interface)):
        with pytest.raises(ValueError, match=r"no streams|no method"):
            write_call(interface, request_)
        return
    call = write_call(interface, request_, {IDEMPOTENCY, HITL})
    both = f"{HITL}, {IDEMPOTENCY}"
    plain = "application/json" if interface.binding == "JSONRPC" else "application/a2a+json, application/json"
    expected = {
        "Accept": "text/event-stream" if streams else plain,
        "A2A-Extensions": both,
        "X-A2A-Extensions": both,
        **({"A2A-Version": "1.0"} if interface.version == "1.0" else {}),
        **({} if call.body is None else {"Content-Type": "application/json"}),
    }
    assert call.headers == expected
    assert not [name for name in write_call(interface, request_).headers if "Extensions" in name]
    if interface.binding == "JSONRPC":
        assert call.body is not None
        rpc = json.loads(call.body)
        assert (rpc["jsonrpc"], rpc["id"]) == ("2.0", 1)


@pytest.mark.parametrize(
    ("interface", "request_", "verb", "url", "body"),
    [
        (V1_HTTP, GetTask("t", 0), "GET", "/tasks/t?historyLength=0", None),
        (V1_HTTP, ListTasks(artifacts=True), "GET", "/tasks?pageSize=50&includeArtifacts=true", None),
        (V1_HTTP, CancelTask("t"), "POST", "/tasks/t:cancel", {}),
        # The proto has GET in both versions, and so have the servers of 0.3.
        (V1_HTTP, Subscribe("t"), "GET", "/tasks/t:subscribe", None),
        (V03_HTTP, Subscribe("t"), "GET", "/v1/tasks/t:subscribe", None),
        (
            V03_HTTP,
            ListTasks(state="canceled"),
            "GET",
            "/v1/tasks?pageSize=50&status=TASK_STATE_CANCELLED",
            None,
        ),
        (V03_HTTP, CancelTask("t"), "POST", "/v1/tasks/t:cancel", {}),
        (
            V1_HTTP,
            SEND,
            "POST",
            "/message:send",
            {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
        ),
        (
            V03_HTTP,
            STREAM,
            "POST",
            "/v1/message:stream",
            {
                "message": {"messageId": "m1", "role": "ROLE_USER", "content": [{"text": "hi"}]},
                "configuration": {"blocking": True},
            },
        ),
    ],
)
def test_calls_over_http(
    interface: Interface, request_: ClientRequest, verb: str, url: str, body: object
) -> None:
    call = write_call(interface, request_)
    assert (call.verb, call.url) == (verb, f"https://h/a2a{url}")
    assert (None if call.body is None else json.loads(call.body)) == body


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h", "https://h/tasks/t?historyLength=1"),
        ("https://h/", "https://h/tasks/t?historyLength=1"),
        ("https://h:8443/x/?key=1#top", "https://h:8443/x/tasks/t?key=1&historyLength=1"),
    ],
)
def test_the_paths_are_below_the_url(url: str, expected: str) -> None:
    assert write_call(Interface(url, "HTTP+JSON", "1.0"), GetTask("t", 1)).url == expected


@pytest.mark.parametrize(
    ("id", "segment"),
    [
        ("../../admin", "..%2F..%2Fadmin"),
        ("a/b?c#d", "a%2Fb%3Fc%23d"),
        ("t:cancel", "t%3Acancel"),
        ("%2e%2e", "%252e%252e"),
        ("é \n", "%C3%A9%20%0A"),
        ("\ud800", "%3F"),
        ("...", "..."),
    ],
)
def test_an_id_stays_one_segment(id: str, segment: str) -> None:
    assert write_call(V1_HTTP, GetTask(id)).url == f"https://h/a2a/tasks/{segment}"
    assert write_call(V03_HTTP, CancelTask(id)).url == f"https://h/a2a/v1/tasks/{segment}:cancel"


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_dot_ids_are_refused(id: str) -> None:
    for interface in (V1_HTTP, V03_HTTP):
        for request_ in (GetTask(id), CancelTask(id), Subscribe(id)):
            with pytest.raises(A2AError, match="id: is no segment of a path"):
                write_call(interface, request_)


def test_lone_surrogate_in_a_body_is_replaced() -> None:
    body = write_call(V1, Send(message=attrs.evolve(HELLO, parts=(Text("a\ud800é"),)))).body
    assert body is not None
    assert json.loads(body)["params"]["message"]["parts"] == [{"text": "a\ufffdé"}]


def test_a_message_in_the_older_dialect() -> None:
    call = write_call(OLDER, Send(message=attrs.evolve(HELLO, task="t")))
    assert call.body is not None
    rpc = read_call(json.loads(call.body))
    assert older_codec.is_older(rpc.method, rpc.params)
    assert "A2A-Version" not in call.headers


# --------------------------------------------------------------------------- answers


def enveloped(interface: Interface, result: Any) -> Any:
    return write_result(1, result) if interface.binding == "JSONRPC" else result


@pytest.mark.parametrize("interface", MODERN)
@pytest.mark.parametrize("request_", [SEND, STREAM, GetTask("t"), CancelTask("t"), Subscribe("t")])
def test_task_is_an_answer_to_all_but_lists(interface: Interface, request_: ClientRequest) -> None:
    body = enveloped(interface, READERS[interface].write_answer(request_, TASK))
    assert read_answer(interface, request_, 200, body) == TASK


@given(st.sampled_from(MODERN), objects.messages(objects.parts(st.none()), references=st.just(())))
def test_a_message_answers_a_message(interface: Interface, message: Message) -> None:
    body = enveloped(interface, READERS[interface].write_answer(SEND, message))
    assert read_answer(interface, SEND, 200, body) == message
    for request_ in (GetTask("t"), CancelTask("t"), Subscribe("t")):
        with pytest.raises(InvalidAnswer, match="the answer is not a task"):
            read_answer(interface, request_, 200, body)


@pytest.mark.parametrize("interface", MODERN)
def test_update_is_no_answer(interface: Interface) -> None:
    update = StatusUpdate(task="t", context="c", status=TASK.status)
    body = enveloped(interface, READERS[interface].write_item(update))
    assert read_event(interface, body) == update
    with pytest.raises(InvalidAnswer, match="not a task"):
        read_answer(interface, SEND, 200, body)


@pytest.mark.parametrize("interface", [V1, V1_HTTP, V03_HTTP])
def test_a_page_answers_a_list(interface: Interface) -> None:
    page = TaskPage((TASK,), "2", 1, 3)
    body = enveloped(interface, READERS[interface].write_answer(ListTasks(), page))
    assert read_answer(interface, ListTasks(), 200, body) == page


def test_interfaces_that_list_tasks() -> None:
    assert list(map(lists, INTERFACES)) == [True, True, False, True, False]


REFUSALS = [A2AError(reason, f"no: {reason}") for reason in get_args(Reason)]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.reason)
@pytest.mark.parametrize("interface", INTERFACES)
def test_invalid_calls_are_refused(interface: Interface, error: A2AError) -> None:
    reason: Reason = error.reason
    if interface is V1_HTTP:
        body: Any = http_error(error)
    elif interface is V03_HTTP:
        body = v03_rest_codec.write_error(error)
    else:
        body = write_error(1, error, details=interface is V1)
        if interface is not V1 and KINDS[reason].code == -32000:
            reason = "INTERNAL_ERROR"  # the number says no more
    status = error.kind.http if interface.binding == "HTTP+JSON" else 200
    for read in (
        lambda: read_answer(interface, GetTask("t"), status, body),
        lambda: read_event(interface, body),
    ):
        with pytest.raises(A2AError) as raised:
            read()
        assert (raised.value.reason, str(raised.value)) == (reason, f"no: {error.reason}")


def refusal(interface: Interface, body: object, status: int = 400) -> tuple[str, str]:
    with pytest.raises(A2AError) as raised:
        read_answer(interface, SEND, status, body)
    return raised.value.reason, str(raised.value)


@pytest.mark.parametrize(
    ("interface", "body", "reason", "message"),
    [
        # JSON-RPC: whatever the status is.
        (V1, {"error": {"code": -32001, "message": "gone"}, "result": None}, "TASK_NOT_FOUND", "gone"),
        (
            V1,
            {"error": {"code": -32001, "message": "x", "data": [{"reason": "UNAVAILABLE"}]}},
            "UNAVAILABLE",
            "x",
        ),
        (
            V1,
            {"error": {"code": -32002, "message": "x", "data": [7, {"reason": "ODD"}]}},
            "TASK_NOT_CANCELABLE",
            "x",
        ),
        (V03, {"error": {"code": -32000, "message": "busy"}}, "INTERNAL_ERROR", "busy"),
        (V03, {"error": {"code": -32099, "message": "odd"}}, "INTERNAL_ERROR", "odd"),
        (V03, {"error": {}}, "INTERNAL_ERROR", "no reason was given"),
        (
            V03,
            {"error": {"code": [], "message": {}, "data": "x", "status": {}}},
            "INTERNAL_ERROR",
            "no reason was given",
        ),
        # HTTP+JSON: google.rpc without details, the body itself (0.3), problem details (drafts of 1.0).
        (V1_HTTP, {"error": {"code": 404, "status": "NOT_FOUND", "message": "x"}}, "TASK_NOT_FOUND", "x"),
        (V1_HTTP, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}, "UNAVAILABLE", "x"),
        (V1_HTTP, {"error": {"code": 418, "status": "TEAPOT", "message": "x"}}, "INTERNAL_ERROR", "x"),
        (V03_HTTP, {"type": "TaskNotFoundError", "message": "x"}, "TASK_NOT_FOUND", "x"),
        (V03_HTTP, {"code": -32004, "message": "x"}, "UNSUPPORTED_OPERATION", "x"),
        (
            V1_HTTP,
            {"type": "https://a2a-protocol.org/errors/version-not-supported", "title": "T", "status": 400},
            "VERSION_NOT_SUPPORTED",
            "T",
        ),
    ],
)
def test_errors_in_every_form(interface: Interface, body: object, reason: str, message: str) -> None:
    assert refusal(interface, body) == (reason, message)


@pytest.mark.parametrize("interface", INTERFACES)
def test_long_messages_are_cut(interface: Interface) -> None:
    _, message = refusal(interface, {"error": {"code": -32603, "message": "x" * 501}})
    assert message == "x" * 499 + "…"
    with pytest.raises(InvalidAnswer) as raised:
        read_answer(interface, SEND, 500, "x" * 5000)
    assert len(str(raised.value)) == 500


@pytest.mark.parametrize(
    ("interface", "status", "body", "complaint"),
    [
        (V1, 200, None, "neither a result nor an error in the answer"),
        (V1, 200, [], "neither a result nor an error"),
        (V1, 200, {"error": None}, "neither a result nor an error"),
        (V1, 200, {"error": "no"}, "neither a result nor an error in the answer: no"),
        (V1, 200, "hello", "neither a result nor an error in the answer: hello"),
        (V1, 200, {"result": None}, "result: must be an object"),
        (V1, 200, {"task": {"id": "t", "status": {"state": "working"}}}, "neither a result"),
        (V1, 404, {"detail": "Not Found"}, "HTTP status 404: Not Found"),
        (V1, 500, {"result": {}}, "HTTP status 500"),
        (V1, 302, None, "HTTP status 302"),
        (V1_HTTP, 404, {"detail": "Not Found"}, "HTTP status 404: Not Found"),
        (V1_HTTP, 401, {"error": "unauthorized"}, "HTTP status 401: unauthorized"),
        (V1_HTTP, 502, "<html>", "HTTP status 502: <html>"),
        (V1_HTTP, 200, None, "result: must be an object"),
        (V03_HTTP, 200, {"type": "NoError", "code": 7, "title": "x"}, "result.kind: is neither"),
        (OLDER, 200, {"result": "done"}, "result: must be an object"),
    ],
)
def test_unusable_answers_fail(interface: Interface, status: int, body: object, complaint: str) -> None:
    with pytest.raises(InvalidAnswer, match=complaint):
        read_answer(interface, SEND, status, body)
    if status == 200:
        with pytest.raises(InvalidAnswer, match=complaint):
            read_event(interface, body)


def test_answer_in_the_older_dialect_is_read() -> None:
    body = write_result(1, older_codec.write_answer(SEND, TASK))
    found = read_answer(OLDER, SEND, 200, body)
    assert isinstance(found, Task)
    assert found.status.message is not None
    assert found.status.message.parts == (Text("Approve?"),)


# ---------------------------------------------------------- answers of the official kit


def spoken_in(name: str) -> Interface:
    if name.startswith("REST"):
        return V03_HTTP if "v03" in name else V1_HTTP
    return V03 if "v03" in name else V1


TASKS: list[tuple[str, ClientRequest, str]] = [
    ("v1 SendMessage input-required", SEND, "input-required"),
    ("v03 message/send input-required", SEND, "input-required"),
    ("v1 auth-required", SEND, "auth-required"),
    ("v03 auth-required", SEND, "auth-required"),
    ("v1 continue", SEND, "completed"),
    ("v1 get", GetTask("t"), "completed"),
    ("v1 cancel", CancelTask("t"), "canceled"),
    ("v1 returnImmediately", SEND, "submitted"),
    ("v03 blocking false", SEND, "submitted"),
    ("REST send", SEND, "input-required"),
    ("REST continue", SEND, "completed"),
    ("REST get", GetTask("t"), "completed"),
    ("REST v03 send", SEND, "completed"),
]


@pytest.mark.parametrize(("name", "request_", "state"), TASKS)
def test_real_tasks(name: str, request_: ClientRequest, state: str) -> None:
    interface = spoken_in(name)
    task = read_answer(interface, request_, REAL[name]["status"], REAL[name]["body"])
    assert isinstance(task, Task)
    assert task.status.state == state
    if state == "input-required":
        assert task.status.message is not None
        tool_calls = [{"args": {"path": "/x"}, "name": "rm"}]
        assert task.status.message.parts == (Text("Approve?"), Data({"tool_calls": tool_calls}))
        assert [message.role for message in task.history] == ["user"]
    if state == "completed":
        (artifact,) = task.artifacts
        assert artifact.parts in [(Text("echo: hi"),), (Text("echo: approved"),)]


@pytest.mark.parametrize(("name", "count"), [("v1 list", 1), ("v1 list empty", 0), ("REST list", 1)])
def test_real_pages(name: str, count: int) -> None:
    page = read_answer(spoken_in(name), ListTasks(), 200, REAL[name]["body"])
    assert isinstance(page, TaskPage)
    assert (len(page.tasks), page.total) == (count, count)


REFUSED: list[tuple[str, str]] = [
    ("v1 send to terminal", "UNSUPPORTED_OPERATION"),
    ("v03 send to terminal", "UNSUPPORTED_OPERATION"),
    ("v1 cancel terminal", "TASK_NOT_CANCELABLE"),
    ("v1 subscribe terminal", "UNSUPPORTED_OPERATION"),
    ("v1 mismatched contextId", "INVALID_PARAMS"),
    ("v1 unknown task", "TASK_NOT_FOUND"),
    ("v03 unknown task", "TASK_NOT_FOUND"),
    ("unknown method", "METHOD_NOT_FOUND"),
    ("v1 method without header", "VERSION_NOT_SUPPORTED"),
    ("v03 method with header 1.0", "INTERNAL_ERROR"),
    ("bad version", "VERSION_NOT_SUPPORTED"),
    ("v1 bad params", "INVALID_PARAMS"),
    ("v03 bad params", "INVALID_REQUEST"),
    ("parse error", "PARSE_ERROR"),
    ("batch", "INVALID_REQUEST"),
    ("REST cancel terminal", "TASK_NOT_CANCELABLE"),
    ("REST unknown", "TASK_NOT_FOUND"),
    ("REST bad version", "VERSION_NOT_SUPPORTED"),
    ("REST no version", "VERSION_NOT_SUPPORTED"),
    ("REST bad body", "INVALID_PARAMS"),
]


@pytest.mark.parametrize(("name", "reason"), REFUSED)
def test_real_refusals(name: str, reason: str) -> None:
    answer = REAL[name]
    found, message = refusal(spoken_in(name), answer["body"], answer["status"])
    assert (found, message) == (reason, answer["body"]["error"]["message"])


@pytest.mark.parametrize("name", ["v1 stream", "v03 stream", "REST stream"])
def test_real_streams(name: str) -> None:
    first, working, chunk, last = (read_event(spoken_in(name), event) for event in REAL[name]["events"])
    assert isinstance(first, Task)
    assert isinstance(working, StatusUpdate)
    assert isinstance(chunk, ArtifactUpdate)
    assert isinstance(last, StatusUpdate)
    assert [first.status.state, working.status.state, last.status.state] == [
        "submitted",
        "working",
        "completed",
    ]
    assert first.id == working.task == chunk.task == last.task
    assert {each.context for each in (first, working, chunk, last)} == {first.context}
    assert (last.final, working.final) == (name == "v03 stream", False)


def test_recorded_streams_refused_and_waiting() -> None:
    _, asks = (read_event(V03, event) for event in REAL["v03 stream input-required"]["events"])
    assert isinstance(asks, StatusUpdate)
    assert asks.status.state == "input-required"
    (event,) = REAL["v03 resubscribe terminal"]["events"]
    with pytest.raises(A2AError, match="terminal state"):
        read_event(V03, event)


def test_all_real_answers_are_looked_at() -> None:
    streams = {name for name, answer in REAL.items() if "events" in answer}
    cards = {"REST v03 card", "ext card v03"}
    seen = (
        {name for name, *_ in (*TASKS, *REFUSED)}
        | {"v1 list", "v1 list empty", "REST list"}
        | cards
        | streams
    )
    assert seen == REAL.keys()
