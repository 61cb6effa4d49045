"""Request bodies: bounded reading and strict JSON parsing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import trio
from hypercorn.typing import ASGIReceiveCallable, HTTPRequestEvent

from ...runtime.json_text import load_edge
from .errors import RequestError

MAX_BODY = 1024 * 1024
"""Bytes; more is 413."""
MAX_DISCARDED = 16 * MAX_BODY
"""Bytes of a body that is too large which are still read, so that the client receives the 413."""


async def read(receive: ASGIReceiveCallable) -> bytes:
    """The body of a request. Raises `RequestError`: ``request_timeout``, ``body_too_large``."""
    try:
        return await _read(receive)
    except trio.TooSlowError:
        text = "the body of the request did not arrive in time"
        raise RequestError(408, "request_timeout", text) from None


async def _read(receive: ASGIReceiveCallable) -> bytes:
    """Read the body. A body that is too large is read to its end and discarded, because closing the
    connection while the client still sends would reset it, and the answer could be lost.
    """
    data, arrived, more = bytearray(), 0, True
    while more and arrived <= MAX_DISCARDED:
        message = cast(HTTPRequestEvent, await receive())
        arrived += len(message["body"])
        if arrived <= MAX_BODY:
            data += message["body"]
        else:
            data.clear()
        more = message["more_body"]
    if arrived > MAX_BODY:
        text = f"the body is larger than {MAX_BODY} bytes"
        raise RequestError(413, "body_too_large", text, hint=_TOO_LARGE)
    return bytes(data)


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object; an empty body is ``{}``. See `parse_json`."""
    if not data or data.isspace():
        return {}
    value = parse_json(data)
    if not isinstance(value, dict):
        raise _invalid(f"expected an object, not {kind(value)}", hint=_HINT)
    return value


def parse_json(data: bytes) -> Any:
    """The value of a body, in the dialect of `load_edge`.

    Raises:
        RequestError: ``invalid_request_body``.
    """
    try:
        return load_edge(data)
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno}, column {error.colno}", hint=_HINT) from None
    except ValueError as error:
        raise _invalid(str(error)) from None


def message_of(body: Mapping[str, Any]) -> str | None:
    """The `message` of a body; None if it is absent, null or blank."""
    value = body.get("message")
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(f"message must be a string, not {kind(value)}", details={"field": "message"})
    return value if value.strip() else None


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def kind(value: object) -> str:
    """The name of a JSON value's type, with its article."""
    return _KINDS.get(type(value), "a number")


_TOO_LARGE = (
    "Send less: make pictures smaller, at most 750 KB in all before base64, "
    "or put the data where a tool can read it."
)
_HINT = 'Send one JSON object: {"message": "..."} to send a message, {"approved": true} to decide.'


def _invalid(why: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None) -> RequestError:
    return RequestError(
        400, "invalid_request_body", f"invalid request body: {why}", hint=hint, details=details
    )
