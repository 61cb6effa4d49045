"""A request without a mistake for each shape of parameters, and how to put one in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from stopgo.actors.a2a.wire import v03_codec, v03_rest_codec, v1_codec

GONE = object()
"""The value of a field that is not there."""

PUSH_03 = {"id": "p1", "url": "https://c", "authentication": {"schemes": ["Bearer"], "credentials": "z"}}
PUSH_1 = {**PUSH_03, "authentication": {"scheme": "Bearer", "credentials": "z"}}
MESSAGE = {
    "messageId": "m1",
    "taskId": "t1",
    "contextId": "c1",
    "extensions": ["urn:x"],
    "metadata": {"k": [1]},
}
OPTIONS = {"historyLength": 3, "acceptedOutputModes": ["text/plain"]}
LIST = {
    "contextId": "c1",
    "status": "TASK_STATE_WORKING",
    "pageSize": 2,
    "historyLength": 0,
    "includeArtifacts": True,
    "statusTimestampAfter": "2026-11-21T20:34:07Z",
}

SEND_1: dict[str, Any] = {
    "message": {
        **MESSAGE,
        "role": "ROLE_USER",
        "referenceTaskIds": ["t0"],
        "parts": [
            {"text": "hi", "mediaType": "text/plain", "filename": "f", "metadata": {}},
            {"raw": "aGk="},
            {"url": "https://c"},
            {"data": [1]},
        ],
    },
    "configuration": {**OPTIONS, "returnImmediately": True, "taskPushNotificationConfig": PUSH_1},
    "metadata": {"k": "v"},
}
SEND_03: dict[str, Any] = {
    "message": {
        **MESSAGE,
        "kind": "message",
        "role": "user",
        "referenceTaskIds": ["t0"],
        "parts": [
            {"kind": "text", "text": "hi", "metadata": {}},
            {"kind": "file", "file": {"bytes": "aGk=", "mimeType": "text/plain", "name": "f"}},
            {"kind": "file", "file": {"uri": "https://c"}},
            {"kind": "data", "data": {"a": 1}},
        ],
    },
    "configuration": {**OPTIONS, "blocking": False, "pushNotificationConfig": PUSH_03},
    "metadata": {"k": "v"},
}
SEND_REST: dict[str, Any] = {
    "message": {
        **MESSAGE,
        "role": "ROLE_USER",
        "content": [
            {"text": "hi", "metadata": {}},
            {"file": {"fileWithBytes": "aGk=", "mimeType": "text/plain", "name": "f"}},
            {"file": {"fileWithUri": "https://c"}},
            {"data": {"data": {"a": 1}}},
        ],
    },
    "configuration": {**OPTIONS, "blocking": True, "pushNotification": PUSH_03},
    "metadata": {"k": "v"},
}
SET_03 = {"taskId": "t1", "pushNotificationConfig": PUSH_03}
GET = {"id": "t1", "historyLength": 1}
OF_PUSH_03 = {"id": "t1", "pushNotificationConfigId": "p1"}
OF_PUSH_1 = {"taskId": "t1", "id": "p1"}
VALID: list[tuple[Any, str, Mapping[str, Any]]] = [
    (v1_codec, "SendMessage", SEND_1),
    (v1_codec, "SendStreamingMessage", SEND_1),
    (v1_codec, "GetTask", GET),
    (v1_codec, "ListTasks", LIST),
    (v1_codec, "CancelTask", {"id": "t1"}),
    (v1_codec, "SubscribeToTask", {"id": "t1"}),
    (v1_codec, "CreateTaskPushNotificationConfig", {**PUSH_1, "taskId": "t1"}),
    (v1_codec, "GetTaskPushNotificationConfig", OF_PUSH_1),
    (v1_codec, "ListTaskPushNotificationConfigs", {"taskId": "t1"}),
    (v1_codec, "DeleteTaskPushNotificationConfig", OF_PUSH_1),
    (v1_codec, "GetExtendedAgentCard", {}),
    (v03_codec, "message/send", SEND_03),
    (v03_codec, "message/stream", SEND_03),
    (v03_codec, "tasks/get", GET),
    (v03_codec, "tasks/cancel", {"id": "t1"}),
    (v03_codec, "tasks/resubscribe", {"id": "t1"}),
    (v03_codec, "tasks/pushNotificationConfig/set", SET_03),
    (v03_codec, "tasks/pushNotificationConfig/get", OF_PUSH_03),
    (v03_codec, "tasks/pushNotificationConfig/list", {"id": "t1"}),
    (v03_codec, "tasks/pushNotificationConfig/delete", OF_PUSH_03),
    (v03_codec, "agent/getAuthenticatedExtendedCard", {}),
    (v03_rest_codec, "message/send", SEND_REST),
    (v03_rest_codec, "message/stream", SEND_REST),
    (v03_rest_codec, "tasks/list", LIST),
    (v03_rest_codec, "tasks/pushNotificationConfig/set", SET_03),
    (v03_rest_codec, "tasks/pushNotificationConfig/set", {"taskId": "t1", "config": SET_03}),
]


def changed(params: Mapping[str, Any], where: str, value: object) -> Any:
    """The parameters with another value for a field, or without it: `a.b[0].c`."""
    result = copy.deepcopy(dict(params))
    *path, last = where.replace("[", ".[").split(".")
    place: Any = result
    for step in path:
        place = place[_key(step)]
    if value is GONE:
        del place[_key(last)]
    else:
        place[_key(last)] = value
    return result


def _key(step: str) -> str | int:
    return int(step[1:-1]) if step.startswith("[") else step
