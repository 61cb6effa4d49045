"""The paths of HTTP+JSON (version 1.0.1, section 11.3; version 0.3.0, section 3.5.3), below `/a2a/`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

_TASK = r"tasks/(?P<task>[^/:]+)"
_CONFIGS = rf"{_TASK}/pushNotificationConfigs"
_CONFIG = rf"{_CONFIGS}/(?P<config>[^/]+)"

# Each with the name of its method in JSON-RPC: of version 1.0, and of 0.3, whose paths begin with "v1/".
_ROUTES = (
    ("POST", r"message:send", "SendMessage", "message/send"),
    ("POST", r"message:stream", "SendStreamingMessage", "message/stream"),
    ("GET", _TASK, "GetTask", "tasks/get"),
    ("GET", r"tasks", "ListTasks", "tasks/list"),
    ("POST", rf"{_TASK}:cancel", "CancelTask", "tasks/cancel"),
    ("GET", rf"{_TASK}:subscribe", "SubscribeToTask", "tasks/resubscribe"),
    ("POST", rf"{_TASK}:subscribe", "SubscribeToTask", "tasks/resubscribe"),
    ("POST", _CONFIGS, "CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
    ("GET", _CONFIGS, "ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
    ("GET", _CONFIG, "GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
    ("DELETE", _CONFIG, "DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
    ("GET", r"extendedAgentCard", "GetExtendedAgentCard", ""),
    ("GET", r"card", "", "agent/getAuthenticatedExtendedCard"),
)

_NAMES_THE_TASK = frozenset({"SendMessage", "CreateTaskPushNotificationConfig"}) | frozenset(
    {"GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"}
)
"""Methods of 1.0 whose parameter `taskId` is the task; for all others it is `id`."""


@attrs.frozen
class HttpCall:
    is_v1: bool
    method: str
    """As JSON-RPC calls it."""
    params: Mapping[str, str]
    """Those in the path."""


def find(http_method: str, path: str) -> HttpCall | tuple[str, ...]:
    """The call that a path stands for, else the methods that the path has; none: there is no such path."""
    is_v1 = not path.startswith("v1/")
    allowed: list[str] = []
    for wanted, pattern, v1, v03 in _ROUTES:
        found = re.fullmatch(pattern, path if is_v1 else path.removeprefix("v1/"))
        method = v1 if is_v1 else v03
        if found is None or not method:
            continue
        if wanted == http_method:
            return HttpCall(is_v1, method, _params(method, found.groupdict()))
        allowed.append(wanted)
    return tuple(allowed)


def _params(method: str, names: Mapping[str, str]) -> Mapping[str, str]:
    if "task" not in names:
        return {}
    if "pushNotificationConfig/" in method:
        if method.endswith("/set"):
            return {"taskId": names["task"]}
        return {
            "id": names["task"],
            **({"pushNotificationConfigId": names["config"]} if "config" in names else {}),
        }
    if method in _NAMES_THE_TASK:
        return {"taskId": names["task"], **({"id": names["config"]} if "config" in names else {})}
    return {"id": names["task"]}
