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
from ..messages.messages import ModelFailed
from .json_fields import array, mapping, text

MAX_SENTENCE = 500
"""Characters of a provider's message that are repeated."""
MAX_RESPONSE = 64 * 1024
"""Bytes of an answer that are searched for the names of tools."""

_OUT_OF_MONEY = {
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
}
"""Codes of OpenAI, all with status 429, which a retry cannot help."""

_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # Codes of OpenAI: its guide "Error codes" and `ResponseError` of its SDK 3.54.
    "content_filter": 400,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "invalid_encrypted_content": 400,
    "invalid_prompt": 400,
    "unsupported_parameter": 400,
    "unsupported_value": 400,
    "invalid_api_key": 401,
    "model_not_found": 404,
    # Exceptions in streams of Bedrock: its API reference, `ResponseStream` and `ConverseStreamOutput`.
    "validationException": 400,
    "modelTimeoutException": 408,
    "modelStreamErrorException": 424,
    "throttlingException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
    "slow_down": 429,
    **dict.fromkeys(_OUT_OF_MONEY, 429),
    "server_is_overloaded": 503,
    "vector_store_timeout": 504,
}
"""HTTP status by the code or type of an error inside an answer of status 200."""
_REFUSED = re.compile(r".*(image|policy).*")
"""Other codes of OpenAI with status 400: "image_too_large", "invalid_image_url", "bio_policy"."""

_TRY_AGAIN = re.compile(r"try again in (?:([0-9]{1,6})m)?([0-9]{1,6}(?:\.[0-9]{1,9})?)(ms|s)\b")
"""In OpenAI's messages about rates: "Please try again in 6.57s.", "120ms", "1m12.3s"."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")
"""google.protobuf.Duration in JSON."""


def from_response(status: int, headers: Mapping[str, str], raw: bytes, *, now: float) -> ModelFailed:
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
        said = raw.decode(errors="replace").strip()
        sentence = "" if said.startswith("<") else said
    failure = ModelFailed.from_status(
        _short(sentence) or _phrase(status), status, _retry_after(headers, body, now)
    )
    failure.answer = raw[:MAX_RESPONSE].decode(errors="replace")
    failure = _judged(failure, body)
    if failure.provider_code is None:  # AWS: "ThrottlingException:http://..."
        failure.provider_code = headers.get("x-amzn-errortype", "").partition(":")[0] or None
    # A quota of Bedrock, with the same status and name as a limit of its rate.
    failure.retryable &= "tokens per day" not in sentence
    return failure


def from_error(error: object) -> ModelFailed:
    """The failure for an error object inside an answer."""
    known = mapping(error)
    code = text(known.get("code"))
    sentence = _short(_sentence(error)) or "an error without a message" + (f" ({code})" if code else "")
    for key in ("code", "status_code", "status", "type"):
        status = _status(known.get(key))
        if status is not None:
            failure = ModelFailed.from_status(sentence, status, _retry_after({}, error, 0))
            failure.answer = dump_wire(error)[:MAX_RESPONSE].decode(errors="replace")
            return _judged(failure, error)
    # An error of an unknown type that ends an answer is most likely a temporary one of the provider.
    return _judged(ModelFailed(sentence, retryable=True), error)


def _judged(failure: ModelFailed, body: object) -> ModelFailed:
    """The failure with what its error object says beyond the sentence."""
    error = _error_of(body)
    failure.provider_code = text(error.get("code")) or None
    # The account has no credit left. OpenAI sends 429 for that too.
    failure.retryable &= _OUT_OF_MONEY.isdisjoint((text(error.get("code")), text(error.get("type"))))
    return failure


def _status(word: object) -> int | None:
    if isinstance(word, str):
        if re.fullmatch("[45][0-9][0-9]", word):
            return int(word)
        return _STATUS_OF.get(word, 400 if _REFUSED.fullmatch(word) else None)
    return word if isinstance(word, int) and 400 <= word <= 599 else None


def _sentence(body: object) -> str:
    """The message of an error, in any of its known places."""
    match body:
        case str():
            return body
        case {"msg": str(sentence)}:  # a validation error of FastAPI
            where = ".".join(str(part) for part in array(mapping(body).get("loc")))
            return f"{where}: {sentence}" if where else sentence
        case [inner, *_] | {"error": (dict() | list() | str()) as inner}:
            return _sentence(inner)
        case {"message": str(sentence), "innererror": {"content_filter_result": dict(filters)}}:  # Azure
            why = [name for name, found in filters.items() if mapping(found).get("filtered")]
            return f"{sentence} (filtered: {', '.join(why)})" if why else sentence
        case {"message": str(sentence), "metadata": {"raw": str(raw)}}:  # an error that OpenRouter passes on
            return f"{sentence}: {raw}"
        case {"message": str(sentence), "param": str(param)} if param and param not in sentence:
            return f"{sentence} (parameter {param})" if sentence else ""
        case (
            {"message": (dict() | list() | str()) as inner}
            | {"Message": str() as inner}  # some services of AWS
            | {"detail": (dict() | list() | str()) as inner}
        ):
            return _sentence(inner)
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
    if found := _TRY_AGAIN.search(text(_error_of(body).get("message"))):
        return float(found[1] or 0) * 60 + float(found[2]) / (1000 if found[3] == "ms" else 1)
    return None


def _number(said: str | None) -> float | None:
    try:
        number = float(said or "")
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
