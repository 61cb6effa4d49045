"""Error answers of providers as failures for the user. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from ....runtime.json_text import dump_wire, load_provider, mend
from ..messages import ModelFailed
from .json_fields import array, mapping

MAX_SENTENCE = 500
"""Characters of a provider's message that are repeated."""
MAX_ANSWER = 64 * 1024
"""Bytes of an answer that are searched for the names of tools."""

_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status by the type of an error inside an answer of status 200."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")
"""google.protobuf.Duration in JSON."""


def from_answer(status: int, headers: Mapping[str, str], raw: bytes, *, now: float) -> ModelFailed:
    """The failure for an HTTP answer with an error status.

    Args:
        headers: names are looked up in lower case.
        raw: the body, of any form.
        now: seconds since the epoch, for a `retry-after` with a date in an answer without a `date` header.
    """
    body: Any = None
    try:
        body = load_provider(raw)
        sentence = _sentence(body)
    except ValueError:
        text = raw.decode(errors="replace").strip()
        sentence = "" if text.startswith("<") else text
    failure = ModelFailed.from_status(
        _short(sentence) or _phrase(status), status, _retry_after(headers, body, now)
    )
    failure.retryable &= not _quota_used_up(body)
    failure.answer = raw[:MAX_ANSWER].decode(errors="replace")
    return failure


def from_error(error: object) -> ModelFailed:
    """The failure for an error object inside an answer."""
    sentence = _short(_sentence(error)) or "an error without a message"
    known = mapping(error)
    for key in ("code", "status_code", "status", "type"):
        status = _status(known.get(key))
        if status is not None:
            failure = ModelFailed.from_status(sentence, status, _retry_after({}, error, 0))
            failure.retryable &= not _quota_used_up(error)
            failure.answer = dump_wire(error)[:MAX_ANSWER].decode(errors="replace")
            return failure
    # An error of an unknown type that ends an answer is most likely a temporary one of the provider.
    return ModelFailed(sentence, retryable=True)


def _status(word: object) -> int | None:
    if isinstance(word, str):
        return int(word) if re.fullmatch("[45][0-9][0-9]", word) else _STATUS_OF.get(word)
    return word if isinstance(word, int) and 400 <= word <= 599 else None


def _sentence(body: object) -> str:
    """The message of an error, in any of its known places."""
    match body:
        case str():
            return body
        case [first, *_]:
            return _sentence(first)
        case {"msg": str(sentence)}:  # a validation error of FastAPI
            where = ".".join(str(part) for part in array(mapping(body).get("loc")))
            return f"{where}: {sentence}" if where else sentence
        case {"error": (dict() | list() | str()) as error}:
            return _sentence(error)
        case {"message": str(sentence), "metadata": {"raw": str(raw)}}:  # an error that OpenRouter passes on
            return f"{sentence}: {raw}"
        case {"message": (dict() | list() | str()) as message}:
            return _sentence(message)
        case {"detail": (dict() | list() | str()) as detail}:
            return _sentence(detail)
    return ""


def _short(sentence: str) -> str:
    sentence = " ".join(mend(sentence).split())
    return sentence if len(sentence) <= MAX_SENTENCE else sentence[:MAX_SENTENCE] + "..."


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason was given"


def _error_of(body: object) -> Mapping[str, Any]:
    first = mapping(body[0] if isinstance(body, list) and body else body)
    return mapping(first.get("error")) or first


def _quota_used_up(body: object) -> bool:
    """Whether the account has no credit left. OpenAI sends 429 for that too, and a retry cannot help."""
    error = _error_of(body)
    return "insufficient_quota" in (error.get("code"), error.get("type"))


def _retry_after(headers: Mapping[str, str], body: object, now: float) -> float | None:
    """Seconds to wait, by a header (milliseconds, seconds or a date: RFC 9110, 10.2.3) or by RetryInfo."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        seconds = _number(header)
        return seconds if seconds is not None else _until(header, headers.get("date"), now)
    for detail in array(_error_of(body).get("details")):
        delay = mapping(detail).get("retryDelay")
        if isinstance(delay, str) and (found := _DURATION.fullmatch(delay)):
            return _number(found[1])
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _until(date: str, said: str | None, now: float) -> float | None:
    """Seconds from the time of the answer by the provider's clock, because ours may differ by hours."""
    at = _moment(date)
    if at is None:
        return None
    sent = _moment(said) if said is not None else None
    return max(0.0, at - (now if sent is None else sent))


def _moment(date: str) -> float | None:
    try:
        at = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
