"""What lying_agent.py sends in place of an answer or of an event. Pure."""

from __future__ import annotations

import json
from typing import Any

from lying_tasks import DONE, Task
from lying_wire import Asked


def garbage_of(kind: str, asked: Asked, task: Task) -> bytes:
    def of_status(**status: Any) -> bytes:
        return asked.of_task({**task.whole(DONE), "status": status})

    def of_parts(*parts: Any) -> bytes:
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": list(parts)}
        return of_status(state="TASK_STATE_INPUT_REQUIRED", message=message)

    def of_answer(**answer: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": asked.id, **answer}).encode()

    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}
    return {
        "words": b"this is no JSON",
        "nothing": b"",
        "null": b"null",
        "list": b"[1, 2]",
        "deep": b"[" * 100_000,
        "utf8": of_parts({"text": "caf@"}).replace(b"@", b"\xc3"),
        "halved": of_parts({"text": "caf@"}).partition(b"@")[0] + b"\xc3",
        "surrogate": of_parts({"text": "a \ud83d b"}),
        "infinite": of_parts({"data": [float("nan"), float("inf")]}),
        "text": asked.wrapped("just a text"),
        "neither": asked.wrapped({"neither": {}}),
        "both": asked.wrapped({"task": task.whole(DONE), "message": message}),
        "types": asked.of_task({"id": 7, "contextId": [], "status": "done", "artifacts": {"a": 1}}),
        "bare": asked.of_task({"id": task.id}),
        "state": of_status(state="TASK_STATE_PERHAPS"),
        "number": of_status(state=3),
        "parts": of_parts({"text": 5}, {"raw": "!"}, {"url": None}, {}, "text", {"text": "a", "raw": "YQ=="}),
        "partless": of_status(state="TASK_STATE_INPUT_REQUIRED", message={"messageId": "m"}),
        "resultless": of_answer(),
        "error": of_answer(error="broken"),
        "code": of_answer(error={"code": "x", "message": {"a": 1}, "data": 7}),
        "doubt": of_answer(result={}, error={"code": -32603, "message": "broken"}),
        "id": of_answer(id="another", result={"task": task.whole(DONE)}),
    }[kind]
