"""Request bodies: bounded while they arrive, JSON objects once they are here."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, NoReturn, cast

import trio
from hypercorn.typing import ASGIReceiveCallable, HTTPRequestEvent

from ...runtime.journal.json_text import MAX_DEPTH, depth
from .errors import RequestError

MAX_BODY = 1024 * 1024
"""Bytes; more is 413."""
MAX_DISCARDED = 16 * MAX_BODY
"""Bytes of a body that is too large which are still read, so that the client gets to hear of it."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    if math.isfinite(number := float(digits)):
        return number
    raise ValueError("a number is out of range")


def _whole(digits: str) -> int:
    if len(digits) > sys.float_info.max_10_exp:
        _finite(digits)
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a name is there twice in one object")
    return named


_JSON = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, parse_int=_whole, object_pairs_hook=_object
)


async def read(receive: ASGIReceiveCallable) -> bytes:
    """The body of a request. Raises `RequestError`: ``request_timeout``, ``body_too_large``."""
    try:
        return await _read(receive)
    except trio.TooSlowError:
        text = "the body of the request did not arrive in time"
        raise RequestError(408, "request_timeout", text) from None


async def _read(receive: ASGIReceiveCallable) -> bytes:
    """Read a body that is too large to its end, and forget it.

    Answering and closing while the client still sends resets the connection, and the answer with it.
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
        raise RequestError(413, "body_too_large", f"the body is larger than {MAX_BODY} bytes")
    return bytes(data)


def parse_object(data: bytes) -> dict[str, Any]:
    """An object; nothing is ``{}``. See `parse_json`."""
    if not data or data.isspace():
        return {}
    value = parse_json(data)
    if not isinstance(value, dict):
        raise _invalid(f"expected an object, not {kind(value)}", hint=_HINT)
    return value


def parse_json(data: bytes) -> Any:
    """Strict JSON (RFC 8259): no NaN, no numbers beyond a double, no halves of surrogate pairs, no name twice
    in an object (who looks at it before us may go by the other one), nested at most `MAX_DEPTH` deep.

    Raises:
        RequestError: ``invalid_request_body``.
    """
    try:
        text = data.decode("utf-8")
        value = _JSON.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise _invalid("half of a surrogate pair in a string") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno}, column {error.colno}", hint=_HINT) from None
    except RecursionError:
        raise _invalid("nested too deeply") from None
    except ValueError as error:
        raise _invalid(str(error)) from None
    # Counted first, for hardly any body has so many.
    if text.count("{") + text.count("[") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise _invalid(f"nested more than {MAX_DEPTH} deep")
    return value


def message_of(body: Mapping[str, Any]) -> str | None:
    """The `message` of a body; absent, null and blank are all None."""
    value = body.get("message")
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(f"message must be a string, not {kind(value)}", details={"field": "message"})
    return value if value.strip() else None


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def kind(value: object) -> str:
    """What a JSON value is called."""
    return _KINDS.get(type(value), "a number")


_HINT = 'Send one JSON object: {"message": "..."} to say something, {"approved": true} to decide.'


def _invalid(why: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None) -> RequestError:
    return RequestError(
        400, "invalid_request_body", f"invalid request body: {why}", hint=hint, details=details
    )
