"""The dialects of A2A, and the choice of the dialect of a request. Pure, except for random ids."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

import attrs

from ...actors.a2a.wire import older_codec, v03_codec, v03_rest_codec, v1_codec
from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.a2a_headers import EXTENSION_HEADERS
from ...actors.a2a.wire.error_json import http_error
from ...actors.a2a.wire.json_rpc import Call
from ...actors.a2a.wire.object_codec import Json
from ...actors.a2a.wire.task import Answer, Request, Send, StreamItem
from ..http.request import Headers

_V1 = re.compile(r"1(\.0(\.\d+)?)?")
_V03 = re.compile(r"(0\.[23](\.\d+)?)?")
"""A missing version means 0.3 (section 3.6.2)."""


@attrs.frozen
class Dialect:
    read: Callable[[str, Any], Request]
    """Takes the JSON-RPC name of the method and the parameters. Raises `A2AError`."""
    write_answer: Callable[[Request, Answer], Any]
    write_item: Callable[[StreamItem], Json]
    write_error: Callable[[A2AError], Json] = http_error
    """The body of an error in HTTP+JSON."""
    is_v1: bool = False


V1 = Dialect(v1_codec.read_request, v1_codec.write_answer, v1_codec.write_item, is_v1=True)
V03 = Dialect(v03_codec.read_request, v03_codec.write_answer, v03_codec.write_item)
V03_HTTP = Dialect(
    v03_rest_codec.read_request,
    v03_rest_codec.write_answer,
    v03_rest_codec.write_item,
    v03_rest_codec.write_error,
)


_NO_ID = secrets.token_hex(16)


def _read_older(method: str, params: Any) -> Request:
    """Read a request. A message without an id gets an empty one, because with a random id every repeat would
    be another message."""
    wanted = older_codec.read_request(method, params, message_id=_NO_ID)
    if isinstance(wanted, Send) and wanted.message.id == _NO_ID:
        return attrs.evolve(wanted, message=attrs.evolve(wanted.message, id=""))
    return wanted


OLDER = Dialect(_read_older, older_codec.write_answer, v03_codec.write_item)


def dialect_of(call: Call, version: str) -> Dialect:
    """The dialect of a JSON-RPC call, which its method name determines.

    Raises:
        A2AError: METHOD_NOT_FOUND or VERSION_NOT_SUPPORTED.
    """
    check_version(version)
    if call.method in v1_codec.METHODS:
        return V1
    if call.method not in v03_codec.METHODS:
        raise A2AError("METHOD_NOT_FOUND", "Method not found")
    if not _V03.fullmatch(version):
        raise _not_supported(version, f"{call.method} is a method of version 0.3")
    return OLDER if older_codec.is_older(call.method, call.params) else V03


def check_version(version: str) -> None:
    """Raises `A2AError` VERSION_NOT_SUPPORTED."""
    if not (_V1.fullmatch(version) or _V03.fullmatch(version)):
        raise _not_supported(version, "the agent speaks 1.0 and 0.3")


def _not_supported(version: str, why: str) -> A2AError:
    return A2AError("VERSION_NOT_SUPPORTED", f"A2A version {version[:20]!r} is not supported: {why}")


def extensions_in(headers: Headers) -> frozenset[str]:
    """The extensions that a request activates."""
    given = ",".join(headers.get(name, "") for name in EXTENSION_HEADERS).split(",")
    return frozenset(uri.strip() for uri in given if uri.strip())
