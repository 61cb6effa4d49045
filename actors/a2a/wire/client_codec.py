"""The calling side of A2A in every version and binding. Pure.

`write_call` makes the HTTP request for an `Interface` (URL, binding, version); `read_answer` and `read_event`
read what comes back. `_CODECS` chooses the codec of a version and binding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode, urlsplit, urlunsplit

import attrs

from ....runtime.json_text import dump_wire
from . import http_paths, older_codec, v03_codec, v03_rest_codec, v1_codec
from .a2a_errors import A2AError, InvalidAnswer
from .a2a_headers import EXTENSION_HEADERS, VERSION_HEADER
from .error_json import quoted, read_error
from .fields import Fields
from .object_codec import Json, ObjectCodec
from .task import ClientRequest, ListTasks, Message, Send, StreamItem, Subscribe, Task, TaskPage

Binding: TypeAlias = Literal["JSONRPC", "HTTP+JSON"]
Version: TypeAlias = Literal["1.0", "0.3", "older"]

_JSON = "application/json"
_A2A_JSON = "application/a2a+json"
_SSE = "text/event-stream"


@attrs.frozen
class Interface:
    """One way to reach an agent. Versions before 0.3 have JSON-RPC only."""

    url: str
    """Absolute URL. For HTTP+JSON, the paths of the protocol are relative to it. Empty: unknown."""
    binding: Binding
    version: Version


@attrs.frozen
class HttpCall:
    verb: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


@attrs.frozen
class _Codec:
    objects: ObjectCodec
    write_request: Callable[[ClientRequest], tuple[str, Json]]
    to_known: Callable[[object], object] = lambda result: result
    """Converts a result to the form that `objects` reads."""


_CODECS: Mapping[tuple[Version, Binding], _Codec] = {
    ("1.0", "JSONRPC"): _Codec(v1_codec.OBJECTS, v1_codec.write_request),
    ("1.0", "HTTP+JSON"): _Codec(v1_codec.OBJECTS, v1_codec.write_request),
    ("0.3", "JSONRPC"): _Codec(v03_codec.OBJECTS, v03_codec.write_request),
    ("0.3", "HTTP+JSON"): _Codec(v03_rest_codec.OBJECTS, v03_rest_codec.write_request),
    ("older", "JSONRPC"): _Codec(v03_codec.OBJECTS, older_codec.write_request, older_codec.as_v03),
}


def lists(interface: Interface) -> bool:
    """Whether the interface has `ListTasks`."""
    return interface.version == "1.0" or (interface.version == "0.3" and interface.binding == "HTTP+JSON")


# -------------------------------------------------------------------------- requests


def write_call(interface: Interface, request: ClientRequest, extensions: Collection[str] = ()) -> HttpCall:
    """The HTTP request. `extensions`: URIs of the extensions to activate.

    Raises:
        A2AError: INVALID_PARAMS, for a task id that cannot be part of a path.
        ValueError: the version does not have the request: lists (see `lists`), or streams before 0.3.
    """
    method, params = _codec(interface).write_request(request)
    headers = {"Accept": _accepted(interface, request)}
    if interface.version == "1.0":
        headers[VERSION_HEADER] = interface.version
    if extensions:
        headers |= dict.fromkeys(EXTENSION_HEADERS, ", ".join(sorted(extensions)))
    if interface.binding == "JSONRPC":
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return _with_body(interface.url, headers, call)
    task = None if isinstance(request, Send | ListTasks) else request.id
    verb, path = http_paths.path_of(method, task)
    rest = {name: value for name, value in params.items() if task is None or name != "id"}
    if verb == "POST":
        return _with_body(_below(interface.url, path), headers, rest)
    return HttpCall(verb, _below(interface.url, path, rest), headers, None)


def _codec(interface: Interface) -> _Codec:
    return _CODECS[interface.version, interface.binding]


def _accepted(interface: Interface, request: ClientRequest) -> str:
    if isinstance(request, Subscribe) or (isinstance(request, Send) and request.stream):
        return _SSE
    return _JSON if interface.binding == "JSONRPC" else f"{_A2A_JSON}, {_JSON}"


def _with_body(url: str, headers: Mapping[str, str], value: Json) -> HttpCall:
    # For HTTP+JSON too, because not all servers accept "a2a+json".
    return HttpCall("POST", url, {**headers, "Content-Type": _JSON}, dump_wire(value))


def _below(url: str, path: str, params: Json | None = None) -> str:
    base = urlsplit(url)
    query = urlencode({name: _in_query(value) for name, value in (params or {}).items()}, errors="replace")
    path = f"{base.path.rstrip('/')}/{path}"
    return urlunsplit((base.scheme, base.netloc, path, "&".join(filter(None, (base.query, query))), ""))


def _in_query(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --------------------------------------------------------------------------- answers


def read_answer(
    interface: Interface, request: ClientRequest, status: int, body: object
) -> Task | Message | TaskPage:
    """Read the answer in the parsed body of a response. A request for a stream may get such an answer too.

    Raises:
        A2AError: the agent refused the request.
        InvalidAnswer: the body is no answer to the request.
    """
    result = _result(interface, status, body)
    with _mistakes_in_answer():
        fields = _fields(interface, result)
        if isinstance(request, ListTasks):
            return _codec(interface).objects.read_page(fields)
        item = _codec(interface).objects.read_item(fields)
    if isinstance(item, Task) or (isinstance(item, Message) and isinstance(request, Send)):
        return item
    raise InvalidAnswer("the answer is not a task")


def read_event(interface: Interface, data: object) -> StreamItem:
    """Read the item in the parsed data of an event.

    Raises:
        A2AError: the agent ends the stream with this error.
        InvalidAnswer: the data is no item of a stream.
    """
    result = _result(interface, 200, data)
    with _mistakes_in_answer():
        return _codec(interface).objects.read_item(_fields(interface, result))


def _fields(interface: Interface, result: object) -> Fields:
    return Fields(_codec(interface).to_known(result), "result")


def _result(interface: Interface, status: int, body: object) -> object:
    over_http = interface.binding == "HTTP+JSON"
    failed = not 200 <= status < 300
    error = read_error(body, bare=over_http) if isinstance(body, Mapping) else None
    if error is not None:
        raise error
    if failed:
        raise InvalidAnswer(quoted(f"HTTP status {status}{_error_text(body)}"))
    if over_http:
        return body
    if not isinstance(body, Mapping) or "result" not in body:
        text = f"there is neither a result nor an error in the answer{_error_text(body)}"
        raise InvalidAnswer(quoted(text))
    return body["result"]


def _error_text(body: object) -> str:
    """The error text in the body of a server without A2A."""
    texts = (
        [body.get(name) for name in ("error", "detail", "message")] if isinstance(body, Mapping) else [body]
    )
    return next((f": {text}" for text in texts if isinstance(text, str) and text), "")


@contextmanager
def _mistakes_in_answer() -> Iterator[None]:
    """Raise mistakes in an answer as `InvalidAnswer`, because they are no refusal by the agent."""
    try:
        yield
    except A2AError as error:
        raise InvalidAnswer(str(error)) from error
