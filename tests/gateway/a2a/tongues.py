"""How clients write A2A, by hand from the specifications and apart from the product's codecs.

Requests are made of parts as version 1.0 has them; answers are read into one shape.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

Json = dict[str, Any]
HITL = "https://kagent.dev/extensions/hitl/v1"
IDEMPOTENCY = "urn:agent-stop-and-go:idempotency:v1"


@attrs.frozen
class Ask:
    """A request, as the HTTP client takes it."""

    method: str
    url: str
    json: Any = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    params: Mapping[str, Any] = attrs.field(factory=dict)

    def of_client(self, **headers: str) -> dict[str, Any]:
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        body = {} if self.json is None else {"json": self.json}
        return {"method": self.method, "url": self.url, "headers": sent, "params": self.params, **body}


@attrs.frozen(kw_only=True)
class Refused:
    code: int
    """Of JSON-RPC; of HTTP+JSON the status."""
    message: str
    body: Json


@attrs.frozen(kw_only=True)
class Told:
    """A task, a message, or an update."""

    kind: str
    id: str
    """Of the task."""
    context: str
    state: str = ""
    parts: Sequence[Json] = ()
    """Of the message of the status; of a message."""
    artifacts: Sequence[Json] = ()
    history: Sequence[str] = ()
    """The texts."""
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    message_metadata: Mapping[str, Any] = attrs.field(factory=dict)
    final: bool = False
    body: Json = attrs.field(factory=dict, repr=False, eq=False)

    @property
    def text(self) -> str:
        """The text of the status message."""
        return "\n".join(part["text"] for part in self.parts if "text" in part)

    @property
    def pending(self) -> list[Json]:
        """The pending questions in the status message."""
        return [item for part in self.parts for item in part.get("data", {}).get("pending", ())]

    @property
    def given(self) -> list[Json]:
        """The parts of all artifacts."""
        return [part for artifact in self.artifacts for part in artifact["parts"]]

    @property
    def answer(self) -> str:
        return "\n".join(part["text"] for part in self.given if "text" in part)


# ------------------------------------------------------------------------- parts


def _part_03(part: Json, mark: str = "kind") -> Json:
    if "raw" in part or "url" in part:
        named = {"bytes": part.get("raw"), "uri": part.get("url")}
        about = {"mimeType": part.get("mediaType"), "name": part.get("filename")}
        file = {name: value for name, value in {**named, **about}.items() if value is not None}
        return {mark: "file", "file": file}
    return {mark: "data" if "data" in part else "text", **part}


def _part_03_http(part: Json) -> Json:
    if "raw" in part or "url" in part:
        named = {"fileWithBytes": part.get("raw"), "fileWithUri": part.get("url")}
        about = {"mimeType": part.get("mediaType"), "name": part.get("filename")}
        return {"file": {name: value for name, value in {**named, **about}.items() if value is not None}}
    return {"data": {"data": part["data"]}} if "data" in part else part


def _read_part(part: Json) -> Json:
    file = part.get("file")
    if file is not None:
        renamed = {"bytes": "raw", "fileWithBytes": "raw", "uri": "url", "fileWithUri": "url"}
        renamed |= {"mimeType": "mediaType", "name": "filename"}
        return {renamed[name]: value for name, value in file.items()}
    data = part.get("data")
    if isinstance(data, dict) and data.keys() == {"data"} and "kind" not in part:
        return {"data": data["data"]}
    return {name: value for name, value in part.items() if name not in ("kind", "type", "metadata")}


def _parts(message: Any) -> list[Json]:
    if message is None:
        return []
    if isinstance(message, str):
        return [{"text": message}]
    return [_read_part(part) for part in message.get("parts", message.get("content", ()))]


# ----------------------------------------------------------------------- answers


def read_told(body: Json) -> Told:
    """A task, message or update of any version."""
    wrapped = body.keys() & {"task", "message", "statusUpdate", "artifactUpdate"}
    if len(body) == 1 and wrapped:
        [kind] = wrapped
        inner = body[kind]
    else:
        inner, kind = body, body.get("kind", "task")
    status = inner.get("status") or {}
    said = inner if kind == "message" else status.get("message")
    artifacts = inner.get("artifacts") or [each for each in [inner.get("artifact")] if each]
    return Told(
        kind=kind.replace("Update", "-update"),
        id=inner.get("taskId") or inner.get("id") or "",
        context=inner.get("contextId", ""),
        state=status.get("state", "").removeprefix("TASK_STATE_").lower().replace("_", "-"),
        parts=_parts(said),
        artifacts=[{**each, "parts": [_read_part(part) for part in each["parts"]]} for each in artifacts],
        history=[part.get("text", "") for message in inner.get("history", ()) for part in _parts(message)],
        metadata=inner.get("metadata", {}),
        message_metadata=said.get("metadata", {}) if isinstance(said, dict) else {},
        final=inner.get("final", False),
        body=inner,
    )


def read(body: Json) -> Told | Refused:
    if isinstance(error := body.get("error"), dict):
        return Refused(code=error["code"], message=error["message"], body=error)
    if isinstance(body.get("detail"), str) or isinstance(body.get("code"), str):
        return Refused(code=0, message=json.dumps(body), body=body)
    return read_told(body["result"] if "jsonrpc" in body else body)


def blocks(line: str) -> Iterator[Told | Refused]:
    """The item in a line of a stream."""
    if line.startswith("data: "):
        yield read(json.loads(line.removeprefix("data: ")))


# ---------------------------------------------------------------------- requests


@attrs.frozen
class Tongue:
    name: str
    version: str
    """`1.0` or `0.3`."""
    is_http: bool = False
    is_older: bool = False
    write_part: Callable[[Json], Json] = lambda part: part

    def send(
        self,
        *parts: str | Json,
        task: str | None = None,
        context: str | None = None,
        id: str = "m",
        stream: bool = False,
        wait: bool = True,
        modes: Sequence[str] = (),
        metadata: Json | None = None,
        history: int | None = None,
    ) -> Ask:
        written = [self.write_part({"text": part} if isinstance(part, str) else part) for part in parts]
        proto = self.version == "1.0" or self.is_http
        name = "content" if self.is_http and self.version == "0.3" else "parts"
        message: Json = {"role": "ROLE_USER" if proto else "user", name: written}
        if not self.is_older:
            message |= {"messageId": id, "taskId": task, "contextId": context, "metadata": metadata}
        options: Json = {"acceptedOutputModes": list(modes) or None, "historyLength": history}
        options |= {"returnImmediately": not wait} if self.version == "1.0" else {"blocking": wait}
        params: Json = {"message": _given(message), "configuration": _given(options)}
        if self.is_older and task is not None:
            params["taskId"] = task
        return self._ask("stream" if stream else "send", params)

    def get(self, id: str, history: int | None = None) -> Ask:
        return self._ask("get", _given({"id": id, "historyLength": history}))

    def cancel(self, id: str) -> Ask:
        return self._ask("cancel", {"id": id})

    def subscribe(self, id: str) -> Ask:
        return self._ask("subscribe", {"id": id})

    def _ask(self, what: str, params: Json) -> Ask:
        headers = {"A2A-Version": "1.0"} if self.version == "1.0" else {}
        if not self.is_http:
            method = _METHODS[what][self.version]
            return Ask(
                "POST", "/a2a", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers
            )
        base = "/a2a" if self.version == "1.0" else "/a2a/v1"
        if what in ("send", "stream"):
            return Ask("POST", f"{base}/message:{what}", params, headers)
        id = params.pop("id")
        if what == "get":
            return Ask("GET", f"{base}/tasks/{id}", None, headers, params)
        return Ask("POST", f"{base}/tasks/{id}:{what}", {}, headers)


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


_METHODS: Mapping[str, Mapping[str, str]] = {
    "send": {"1.0": "SendMessage", "0.3": "message/send"},
    "stream": {"1.0": "SendStreamingMessage", "0.3": "message/stream"},
    "get": {"1.0": "GetTask", "0.3": "tasks/get"},
    "cancel": {"1.0": "CancelTask", "0.3": "tasks/cancel"},
    "subscribe": {"1.0": "SubscribeToTask", "0.3": "tasks/resubscribe"},
}

V1 = Tongue("1.0", "1.0")
V1_HTTP = Tongue("1.0-http", "1.0", is_http=True)
V03 = Tongue("0.3", "0.3", write_part=_part_03)
V03_HTTP = Tongue("0.3-http", "0.3", is_http=True, write_part=_part_03_http)
OLDER = Tongue("older", "0.3", is_older=True, write_part=lambda part: _part_03(part, "type"))

DIALECTS = (V1, V03, OLDER)
TONGUES = (V1, V1_HTTP, V03, V03_HTTP, OLDER)
STREAMING = (V1, V1_HTTP, V03, V03_HTTP)
"""The older dialect has no streams of its own."""
