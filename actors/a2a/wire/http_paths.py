"""The paths of HTTP+JSON, relative to the address of an agent. Pure.

Source: version 1.0.1, section 11.3, and version 0.3.0, section 3.5.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

import attrs

from .a2a_errors import invalid

_TASK = "tasks/{task}"
_CONFIGS = f"{_TASK}/pushNotificationConfigs"
_CONFIG = f"{_CONFIGS}/{{config}}"

ROUTES = (
    ("POST", "message:send", "SendMessage", "message/send"),
    ("POST", "message:stream", "SendStreamingMessage", "message/stream"),
    ("GET", _TASK, "GetTask", "tasks/get"),
    ("GET", "tasks", "ListTasks", "tasks/list"),
    ("POST", f"{_TASK}:cancel", "CancelTask", "tasks/cancel"),
    ("GET", f"{_TASK}:subscribe", "SubscribeToTask", "tasks/resubscribe"),
    ("POST", f"{_TASK}:subscribe", "SubscribeToTask", "tasks/resubscribe"),
    ("POST", _CONFIGS, "CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
    ("GET", _CONFIGS, "ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
    ("GET", _CONFIG, "GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
    ("DELETE", _CONFIG, "DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
    ("GET", "extendedAgentCard", "GetExtendedAgentCard", ""),
    ("GET", "card", "", "agent/getAuthenticatedExtendedCard"),
)
"""Each with its HTTP method, and its methods in JSON-RPC of version 1.0 and of 0.3, whose paths begin with
"v1/"; empty: that version has no such path."""

_PATTERNS = [
    re.compile(path.replace("{task}", "(?P<task>[^/:]+)").replace("{config}", "(?P<config>[^/]+)"))
    for _, path, _, _ in ROUTES
]

_NAMES_THE_TASK = frozenset({"SendMessage", "CreateTaskPushNotificationConfig"}) | frozenset(
    {"GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"}
)
"""Methods of 1.0 that call the task `taskId`; all others call it `id`."""


@attrs.frozen
class PathCall:
    is_v1: bool
    method: str
    """Name of the method in JSON-RPC."""
    params: Mapping[str, str]
    """The parameters in the path."""


def find(http_method: str, path: str) -> PathCall | tuple[str, ...]:
    """The call of a path, or the HTTP methods that the path allows; empty: there is no such path."""
    is_v1 = not path.startswith("v1/")
    allowed: list[str] = []
    for (wanted, _, v1, v03), pattern in zip(ROUTES, _PATTERNS, strict=True):
        found = pattern.fullmatch(path if is_v1 else path.removeprefix("v1/"))
        method = v1 if is_v1 else v03
        if found is None or not method:
            continue
        if wanted == http_method:
            return PathCall(is_v1, method, _params(method, found.groupdict()))
        allowed.append(wanted)
    return tuple(allowed)


def path_of(method: str, task: str | None) -> tuple[str, str]:
    """The HTTP method and the path for a method of JSON-RPC. `task`: the id of its task.

    Raises:
        A2AError: INVALID_PARAMS, for an id that would change the path.
        KeyError: there is no such method.
    """
    for verb, path, v1, v03 in ROUTES:
        if method in (v1, v03):
            path = path if task is None else path.replace("{task}", _segment(task))
            return verb, path if method == v1 else f"v1/{path}"
    raise KeyError(method)


def _segment(id: str) -> str:
    # Proxies resolve dots in a path even if they are encoded.
    if id in ("", ".", ".."):
        raise invalid("id", "is no segment of a path")
    return quote(id, safe="", errors="replace")


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
