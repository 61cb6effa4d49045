"""An invalid request is refused with the name of the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stopgo.actors.a2a.wire import v03_codec, v03_rest_codec, v1_codec
from stopgo.actors.a2a.wire.a2a_errors import A2AError

from .valid_requests import (
    GET,
    GONE,
    LIST,
    OF_PUSH_03,
    OF_PUSH_1,
    PUSH_1,
    SEND_03,
    SEND_1,
    SEND_REST,
    SET_03,
    VALID,
    changed,
)


def test_valid_requests_of_every_method_are_read() -> None:
    for codec, method, params in VALID:
        codec.read_request(method, params)
    for codec in (v1_codec, v03_codec):
        assert {method for other, method, _ in VALID if other is codec} == codec.METHODS


@pytest.mark.parametrize("codec", [v1_codec, v03_codec, v03_rest_codec])
def test_unknown_methods_are_refused(codec: Any) -> None:
    with pytest.raises(A2AError, match="Method not found") as raised:
        codec.read_request("tasks/none", {})
    assert raised.value.reason == "METHOD_NOT_FOUND"


NEEDED = "is required"
TEXT = "must be a string"
TEXTS = "must be a list of strings"
OBJECT = "must be an object"
FLAG = "must be true or false"
NOT_NEGATIVE = "must be a whole number not less than 0"
SIZE = "must be a whole number from 1 to 100"
TIME = "must be a timestamp (RFC 3339)"
BASE64 = "must be base64"

# The field, its value, the mistake; and the field that is named, if it is another one.
ANY_SEND: list[tuple[Any, ...]] = [
    ("message", GONE, NEEDED),
    ("message", None, NEEDED),
    ("message", "hi", OBJECT),
    ("message.messageId", GONE, NEEDED),
    ("message.messageId", "", NEEDED),
    ("message.messageId", 7, TEXT),
    ("message.role", GONE, NEEDED),
    ("message.role", 1, TEXT),
    ("message.taskId", ["t"], TEXT),
    ("message.contextId", False, TEXT),
    ("message.extensions", "urn:x", TEXTS),
    ("message.extensions", ["urn:x", None], TEXTS),
    ("message.metadata", [], OBJECT),
    ("metadata", "k", OBJECT),
    ("configuration", [], OBJECT),
    ("configuration.historyLength", -1, NOT_NEGATIVE),
    ("configuration.historyLength", 2**31, NOT_NEGATIVE),
    ("configuration.historyLength", 10**400, NOT_NEGATIVE),
    ("configuration.historyLength", 1.5, NOT_NEGATIVE),
    ("configuration.historyLength", float("nan"), NOT_NEGATIVE),
    ("configuration.historyLength", float("inf"), NOT_NEGATIVE),
    ("configuration.historyLength", True, NOT_NEGATIVE),
    ("configuration.historyLength", "-1", NOT_NEGATIVE),
    ("configuration.historyLength", "٣", NOT_NEGATIVE),
    ("configuration.historyLength", "9" * 5000, NOT_NEGATIVE),
    ("configuration.acceptedOutputModes", {}, TEXTS),
]
MISTAKES: list[tuple[Any, str, Mapping[str, Any], list[tuple[Any, ...]]]] = [
    (v1_codec, "SendMessage", SEND_1, ANY_SEND),
    (v03_codec, "message/send", SEND_03, ANY_SEND),
    (v03_rest_codec, "message/send", SEND_REST, ANY_SEND),
    (
        v1_codec,
        "SendMessage",
        SEND_1,
        [
            ("message.role", "user", "must be ROLE_USER"),
            ("message.role", "ROLE_AGENT", "must be ROLE_USER"),
            ("message.referenceTaskIds", 1, TEXTS),
            ("message.parts", GONE, "must hold at least one part"),
            ("message.parts", [], "must hold at least one part"),
            ("message.parts", {"text": "hi"}, "must be a list"),
            ("message.parts[0]", "hi", OBJECT),
            ("message.parts[0].text", GONE, "is required, or raw, url or data"),
            ("message.parts[0].text", None, "is required, or raw, url or data"),
            ("message.parts[0].text", 1, TEXT),
            ("message.parts[0].url", "https://c", "must not stand beside text"),
            ("message.parts[0].mediaType", 1, TEXT),
            ("message.parts[0].filename", {}, TEXT),
            ("message.parts[0].metadata", 1, OBJECT),
            ("message.parts[1].raw", "a", BASE64),
            ("message.parts[1].raw", "aé==", BASE64),
            ("message.parts[1].raw", "\ud800", BASE64),
            ("message.parts[1].raw", 1, TEXT),
            ("message.parts[2].url", [], TEXT),
            ("configuration.returnImmediately", "yes", FLAG),
            ("configuration.returnImmediately", 1, FLAG),
            ("configuration.taskPushNotificationConfig", "https://c", OBJECT),
            ("configuration.taskPushNotificationConfig.url", GONE, NEEDED),
            ("configuration.taskPushNotificationConfig.authentication", "Bearer", OBJECT),
            ("configuration.taskPushNotificationConfig.authentication.scheme", [], TEXT),
        ],
    ),
    (
        v03_codec,
        "message/send",
        SEND_03,
        [
            ("message.role", "ROLE_USER", "must be user"),
            ("message.role", "agent", "must be user"),
            ("message.referenceTaskIds", 1, TEXTS),
            ("message.parts", [], "must hold at least one part"),
            ("message.parts", "hi", "must be a list"),
            ("message.parts[0]", None, OBJECT),
            ("message.parts[0].kind", "video", "must be one of text, file, data"),
            ("message.parts[0].kind", 1, TEXT),
            ("message.parts[0].text", GONE, NEEDED),
            ("message.parts[0].text", [], TEXT),
            ("message.parts[0]", {}, "must be one of text, file, data", "message.parts[0].kind"),
            ("message.parts[1].file", GONE, NEEDED),
            ("message.parts[1].file", "f", OBJECT),
            ("message.parts[1].file.bytes", "?", BASE64),
            ("message.parts[1].file.mimeType", 1, TEXT),
            ("message.parts[2].file.uri", GONE, NEEDED),
            ("message.parts[3].data", GONE, NEEDED),
            ("message.parts[3].data", 1, "must be an object or a list"),
            ("configuration.blocking", "yes", FLAG),
            ("configuration.pushNotificationConfig.url", "", NEEDED),
            ("configuration.pushNotificationConfig.authentication.schemes", "Bearer", TEXTS),
        ],
    ),
    (
        v03_rest_codec,
        "message/send",
        SEND_REST,
        [
            ("message.role", "user", "must be ROLE_USER"),
            ("message.content", GONE, "must hold at least one part"),
            ("message.content[0].text", GONE, "is required, or file, or data"),
            ("message.content[0].text", 1, TEXT),
            ("message.content[1].file", "f", OBJECT),
            ("message.content[1].file.fileWithBytes", "?", BASE64),
            ("message.content[2].file.fileWithUri", GONE, NEEDED),
            ("message.content[3].data", [], OBJECT),
            ("message.content[3].data.data", "d", "must be an object or a list"),
            ("configuration.blocking", 0, FLAG),
            ("configuration.pushNotification.url", GONE, NEEDED),
        ],
    ),
    *(
        (
            codec,
            method,
            LIST,
            [
                ("contextId", 1, TEXT),
                ("pageSize", 0, SIZE),
                ("pageSize", 101, SIZE),
                ("pageSize", "x", SIZE),
                ("pageToken", 7, TEXT),
                ("historyLength", -1, NOT_NEGATIVE),
                ("includeArtifacts", "1", FLAG),
                ("statusTimestampAfter", 1795293247, TEXT),
                ("statusTimestampAfter", "yesterday", TIME),
                ("statusTimestampAfter", "2026-02-30T00:00:00Z", TIME),
                ("statusTimestampAfter", "2026-02-20T00:00:00", TIME),
                ("statusTimestampAfter", "2026-02-20", TIME),
                ("status", "working", f"must be one of {', '.join(codec.OBJECTS.states.values())}"),
            ],
        )
        for codec, method in ((v1_codec, "ListTasks"), (v03_rest_codec, "tasks/list"))
    ),
    (v1_codec, "GetTask", GET, [("id", GONE, NEEDED), ("id", 1, TEXT), ("historyLength", [], NOT_NEGATIVE)]),
    (v1_codec, "CancelTask", GET, [("id", GONE, NEEDED)]),
    (v1_codec, "SubscribeToTask", GET, [("id", GONE, NEEDED)]),
    (v1_codec, "CreateTaskPushNotificationConfig", {**PUSH_1, "taskId": "t1"}, [("taskId", GONE, NEEDED)]),
    (v1_codec, "GetTaskPushNotificationConfig", OF_PUSH_1, [("taskId", GONE, NEEDED), ("id", GONE, NEEDED)]),
    (v1_codec, "ListTaskPushNotificationConfigs", OF_PUSH_1, [("taskId", GONE, NEEDED)]),
    (
        v1_codec,
        "DeleteTaskPushNotificationConfig",
        OF_PUSH_1,
        [("taskId", GONE, NEEDED), ("id", GONE, NEEDED)],
    ),
    (v03_codec, "tasks/get", GET, [("id", GONE, NEEDED), ("historyLength", "x", NOT_NEGATIVE)]),
    (v03_codec, "tasks/cancel", GET, [("id", GONE, NEEDED)]),
    (v03_codec, "tasks/resubscribe", GET, [("id", GONE, NEEDED)]),
    (v03_codec, "tasks/pushNotificationConfig/get", GET, [("id", GONE, NEEDED)]),
    (v03_codec, "tasks/pushNotificationConfig/list", GET, [("id", GONE, NEEDED)]),
    (
        v03_codec,
        "tasks/pushNotificationConfig/delete",
        OF_PUSH_03,
        [("id", GONE, NEEDED), ("pushNotificationConfigId", GONE, NEEDED)],
    ),
    *(
        (
            codec,
            "tasks/pushNotificationConfig/set",
            SET_03,
            [
                ("taskId", GONE, NEEDED),
                ("pushNotificationConfig", GONE, NEEDED),
                ("pushNotificationConfig.url", GONE, NEEDED),
                ("pushNotificationConfig.token", 1, TEXT),
            ],
        )
        for codec in (v03_codec, v03_rest_codec)
    ),
]


@pytest.mark.parametrize(
    ("codec", "method", "params", "field", "mistake"),
    [
        pytest.param(codec, method, changed(params, where, value), (*other, where)[0], mistake)
        for codec, method, params, mistakes in MISTAKES
        for where, value, mistake, *other in mistakes
    ],
)
def test_refusal_names_the_field_and_the_mistake(
    codec: Any, method: str, params: Any, field: str, mistake: str
) -> None:
    with pytest.raises(A2AError) as raised:
        codec.read_request(method, params)
    assert raised.value.reason == "INVALID_PARAMS"
    assert raised.value.violations == ((field, mistake),)
    assert str(raised.value) == f"{field}: {mistake}"


@pytest.mark.parametrize("params", [[], "x", 7, True])
@pytest.mark.parametrize(("codec", "method"), [(codec, method) for codec, method, _ in VALID])
def test_parameters_are_an_object(codec: Any, method: str, params: object) -> None:
    if method not in ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"):
        with pytest.raises(A2AError, match="params: must be an object"):
            codec.read_request(method, params)
