from __future__ import annotations

import json
from typing import Any

import pytest

from stopgo.actors.models.codecs.faults import MAX_SENTENCE, from_error, from_response
from stopgo.actors.models.messages.messages import ModelFailed

NOW = 1_000_000_000.0  # 2001-09-09T01:46:40Z


def failure(status: int, body: Any = None, **headers: str) -> ModelFailed:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return from_response(status, {key.replace("_", "-"): headers[key] for key in headers}, raw, now=NOW)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
        ({"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}, "quota"),
        ([{"error": {"code": 400, "message": "in a list"}}], "in a list"),
        ({"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}, "no"),
        (
            {"error": {"message": "Unsupported value", "param": "stream"}},
            "Unsupported value (parameter stream)",
        ),
        ({"error": {"message": "Unknown parameter: 'x'", "param": "x"}}, "Unknown parameter: 'x'"),
        ({"error": {"message": "", "param": "x"}}, "Bad Gateway"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"object": "error", "message": "flat", "type": "invalid"}, "flat"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body", "model"], "msg": "field required"}]}, "body.model: field required"),
        ({"message": {"detail": [{"msg": "extra inputs"}]}}, "extra inputs"),
        (
            {"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "too many"}}},
            "Provider returned error: too many",
        ),
        ("just a text", "just a text"),
        (b"upstream connect error", "upstream connect error"),
        (b"two\n\n lines", "two lines"),
        (b"\n<html><h1>502 Bad Gateway</h1></html>", "Bad Gateway"),
        (b"", "Bad Gateway"),
        ({}, "Bad Gateway"),
        ([], "Bad Gateway"),
        (None, "Bad Gateway"),
        ({"error": {}}, "Bad Gateway"),
        ({"error": {"message": None}}, "Bad Gateway"),
    ],
)
def test_failures_of_the_user(body: Any, sentence: str) -> None:
    failed = failure(502, body)
    assert str(failed) == f"{sentence} (status 502)"
    assert failed.status == 502
    assert failed.retryable


def test_unknown_status_has_no_phrase() -> None:
    assert str(failure(599, b"")) == "no reason was given (status 599)"


def test_a_long_sentence_is_cut() -> None:
    assert len(str(failure(400, {"error": "x" * 10_000}))) < MAX_SENTENCE + 30


def test_exhausted_quota_is_not_retryable() -> None:
    error = {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": None}
    assert not failure(429, {"error": error}).retryable
    assert failure(429, {"error": {**error, "type": "requests"}}).retryable


@pytest.mark.parametrize(
    "code",
    [
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
    ],
)
def test_exhausted_credit_is_not_retryable(code: str) -> None:
    # OpenAI's guide "Error codes", 2026-11.
    error = {"message": "No credit", "type": "billing", "code": code}
    assert not failure(429, {"error": error}).retryable
    assert (from_error(error).status, from_error(error).retryable) == (429, False)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Rate limit reached. Please try again in 6.57s.", 6.57),
        ("Please try again in 120ms.", 0.12),
        ("Please try again in 1m12.5s.", 72.5),
        ("Please try again in a while.", None),
        ("Please try again in 9999999999999999999999s.", None),
    ],
)
def test_wait_in_the_sentence_is_read(said: str, seconds: float | None) -> None:
    error = {"message": said, "code": "rate_limit_exceeded"}
    assert failure(429, {"error": error}).retry_after == seconds
    assert from_error(error).retry_after == seconds
    assert failure(429, {"error": error}, retry_after="2").retry_after == 2.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("17", 17.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Sun, 09 Sep 2001 01:47:00 GMT", 20.0),
        ("Sun, 09 Sep 2001 01:47:00 -0000", 20.0),
        ("Sun, 09 Sep 2001 01:46:00 GMT", 0.0),
        ("Sun, 09 Sep 2001 01:47:00 +9999999999999", None),
        (f"Sun, 09 Sep {'9' * 25} 01:47:00 GMT", None),
        ("soon", None),
        ("nan", None),
        ("1e999", None),
        ("", None),
    ],
)
def test_retry_after(header: str, seconds: float | None) -> None:
    assert failure(429, retry_after=header).retry_after == seconds


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Sun, 09 Sep 2001 01:46:40 GMT", 20.0),
        ("Sun, 09 Sep 2001 00:46:50 GMT", 3610.0),
        ("Mon, 09 Sep 2002 01:46:50 GMT", 0.0),
        ("today", 20.0),
        ("Sun, 09 Sep 2001 01:47:00 +9999999999999", 20.0),
    ],
)
def test_retry_after_date_is_relative_to_the_date_header(said: str, seconds: float) -> None:
    found = failure(429, retry_after="Sun, 09 Sep 2001 01:47:00 GMT", date=said)
    assert found.retry_after == seconds


def test_retry_after_ms_takes_precedence() -> None:
    assert failure(429, retry_after="2", retry_after_ms="1500").retry_after == 1.5


@pytest.mark.parametrize("wrapped", [True, False])
def test_retry_info(wrapped: bool) -> None:
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"},
    ]
    body = {"error": {"code": 429, "message": "quota", "details": details}}
    assert failure(429, [body] if wrapped else body).retry_after == 17.5
    details[1]["retryDelay"] = "a while"
    assert failure(429, body).retry_after is None


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        ({"type": "overloaded_error", "message": "m"}, 529, True),
        ({"type": "invalid_request_error", "message": "m"}, 400, False),
        ({"code": 502, "message": "m"}, 502, True),
        ({"code": "401", "message": "m"}, 401, False),
        ({"code": 503, "message": "m", "status": "UNAVAILABLE"}, 503, True),
        ({"code": "insufficient_quota", "message": "m"}, 429, False),
        ({"code": "context_length_exceeded", "message": "m"}, 400, False),
        ({"code": "image_content_policy_violation", "message": "m"}, 400, False),
        ({"code": "model_not_found", "message": "m"}, 404, False),
        ({"code": None, "type": "server_error", "message": "m"}, 500, True),
        ({"type": "strange", "message": "m"}, None, True),
        ({"code": 7, "message": "m"}, None, True),
        ("m", None, True),
    ],
)
def test_an_error_inside_an_answer(error: object, status: int | None, retryable: bool) -> None:
    failed = from_error(error)
    assert (failed.status, failed.retryable) == (status, retryable)
    assert str(failed) == ("m" if status is None else f"m (status {status})")


def test_error_without_a_message() -> None:
    assert str(from_error({})) == "an error without a message"
