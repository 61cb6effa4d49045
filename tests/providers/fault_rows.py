"""Faults of model calls, one row each, with the expected outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Literal, TypeAlias

import attrs

from stopgo.actors.nodes.ask_model import MAX_CALLS
from tests.canary import KEY
from tests.providers.servers.http import Chunk, Pause
from tests.providers.servers.model_server import Broken, Event, Fail, Fault, Place, Raw, Say, Slow
from tests.providers.servers.talk import Json, Said, SaidCall

Outcome: TypeAlias = Literal["retried", "failed", "retried or failed", "harmless", "too much"]
"""`too much`: a limit of the run is reached, which no other model can help.

`harmless`: it ends somehow, and nothing was done that was not asked for in good order."""

FOREVER = 10_000.0
HTML = b"<!DOCTYPE html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>"


@attrs.frozen
class Row:
    name: str
    fault: Fault
    outcome: Outcome
    words: str = ""
    """Part of the text that the user reads after a failure."""
    streams: tuple[bool, ...] = (False, True)
    at_least: float = 0.0
    """Seconds that pass before the turn ends."""
    at_most: float = 9.0


def statuses() -> Iterator[Row]:
    for status in (408, 409, 429, 500, 502, 503, 504, 529):
        yield Row(f"status {status}", Fail(status), "retried")
    for status in (400, 402, 403, 404, 413):
        yield Row(f"status {status}", Fail(status), "failed", f"something is wrong here.*status {status}")
    for status in (401, 422):  # some have their own form of errors
        yield Row(f"status {status}", Fail(status), "failed", f"status {status}")
    yield Row("an error that repeats the key", Fail(400, why=f"Wrong key: {KEY}"), "failed", "Wrong key")
    yield Row("retry-after soon", Fail(429, {"retry-after": "soon"}), "retried")
    yield Row("retry-after -1", Fail(429, {"retry-after": "-1"}), "retried")
    yield Row("retry-after nan", Fail(429, {"retry-after": "nan"}), "retried")
    yield Row("retry-after long ago", Fail(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), "retried")
    yield Row("redirect", Fail(302, {"location": "http://elsewhere/"}), "failed", "302")
    yield Row("HTML with 502", Fail(502, body=HTML), "retried")
    yield Row("HTML with 403", Fail(403, body=HTML), "failed", "status 403")
    for number, body in enumerate(
        (
            b"",
            b'"nope"',
            b"null",
            b"[]",
            b"{}",
            b'{"error": null}',
            b'{"error": {"message": 3}}',
            b"\xff\xfe\0",
        )
    ):
        yield Row(f"status 400 with odd body {number}", Fail(400, body=body), "failed", "status 400")
    yield Row("a string as error", Fail(400, body=b'{"error": "nope"}'), "failed", "nope.*status 400")
    yield Row("a detail as error", Fail(400, body=b'{"detail": "nope"}'), "failed", "nope.*status 400")
    yield Row("a very long error", Fail(400, why="long " * 100_000), "failed", "long.*status 400")
    yield Row("a body of megabytes", Fail(500, body=b"x" * 5_000_000), "retried")


def broken() -> Iterator[Row]:
    places: tuple[Place, ...] = ("head", "first", "text", "call", "stop")
    for place in places:
        yield Row(f"drop: {place}", Broken(place), "retried")
    yield Row("drop: end", Broken("end"), "harmless")
    for place in places[1:]:
        yield Row(f"early end: {place}", Broken(place, "end"), "retried or failed")
    yield Row("early end: end", Broken("end", "end"), "harmless")
    for at in ("first", "text", "call", "stop"):
        hang = Broken(at, then=(Pause(FOREVER),))
        yield Row(f"hang: {at}", hang, "failed", "60 s", at_least=59, at_most=61)
    yield Row("hang: head", Slow(FOREVER), "failed", "60 s", at_least=59, at_most=61)
    yield Row("slow drip", Slow(20, 20), "failed", "60 s", at_least=59, at_most=61)
    yield Row("an event that repeats the key", Event("text", f"Wrong key: {KEY}"), "retried or failed")
    for at in ("first", "text", "call", "stop"):
        yield Row(f"error event: {at}", Event(at), "retried")  # type: ignore[arg-type]


def garbage() -> Iterator[Row]:
    bodies = (
        HTML,
        b"hello",
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b'{"choices": 3, "candidates": 3, "content": 3}',
        b'{"choices": [], "candidates": [], "content": []}',
        b'{"choices": [null], "candidates": [null], "content": [null], "stop_reason": "tool_use"}',
        b'{"choices": [{"message": null}], "candidates": [{"content": 1}], "content": "x"}',
        b'{"choices": [{"message": {"content": null}, "finish_reason": "tool_calls"}], "content": [], '
        b'"stop_reason": "tool_use", "candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\xff\xfe\x00",
        b"data: {\n\n",
        b"data: null\n\n",
        b"data: []\n\ndata: 3\n\n",
        b"event: message_start\ndata: {}\n\n",
        b"data: [DONE]\n\n",
        b": nothing\n\n",
        b"data: \xff\xfe\n\n",
    )
    for number, body in enumerate(bodies):
        yield Row(f"200 with garbage {number}", Raw((body,)), "retried or failed")
        events = Raw((body,), content_type="text/event-stream")
        yield Row(f"stream of garbage {number}", events, "retried or failed")
    yield Row("no content", Raw((), 204), "retried or failed")


def huge() -> Iterator[Row]:
    spaces: Iterator[Chunk] = repeat(b" " * 65536)
    yield Row("endless space", Raw(spaces), "retried or failed")
    line: Iterator[Chunk] = repeat(b"data:" + b"x" * 65536)
    yield Row("endless line", Raw(line, content_type="text/event-stream"), "retried or failed")
    comments: Iterator[Chunk] = repeat((b": " + b"x" * 126 + b"\n\n") * 512)
    yield Row("endless comments", Raw(comments, content_type="text/event-stream"), "retried or failed")
    lines: Iterator[Chunk] = repeat((b"data: " + b"1" * 120 + b"\n") * 512)
    yield Row("endless event", Raw(lines, content_type="text/event-stream"), "retried or failed")


def _said(*calls: SaidCall, stop: str = "auto") -> Say:
    return Say(Said("Well", calls, stop=stop, nonce="n", tokens_in=50, tokens_out=9))  # type: ignore[arg-type]


ADD: Json = {"name": "one-1", "value": 1}
CUT = json.dumps(ADD)[:-5]


def replies() -> Iterator[Row]:
    """Replies that arrive whole and are of no use all the same."""
    add = SaidCall("resources_add", ADD)
    yield Row("max_tokens with calls", _said(add, stop="max_tokens"), "failed", "cut off")
    yield Row("content filter", _said(stop="filter"), "failed")
    yield Row("refusal", _said(stop="refusal"), "failed")
    yield Row("unknown tool", _said(SaidCall("resources_burn", {})), "harmless")
    yield Row("too many calls", _said(*((MAX_CALLS + 1) * [add])), "too much", f"{MAX_CALLS + 1} tool calls")


def broken_arguments() -> Iterator[Row]:
    """Of the providers that send arguments as text."""
    yield Row("no tool name", _said(SaidCall("", {})), "harmless")
    cut = SaidCall("resources_add", CUT)
    yield Row("cut arguments and max_tokens", _said(cut, stop="max_tokens"), "failed", "cut off")
    for number, text in enumerate(
        (
            CUT,
            "not json",
            "[1]",
            "null",
            '"text"',
            '{"name": "one-1", "value": 1} trailing',
            '{"name": "one-1", "value": NaN}',
            '{"name": "one-1", "value": 1e999}',
            '{"name": "one-1", "value": ' + "9" * 5000 + "}",
            '{"name": ' * 1500,
        )
    ):
        yield Row(f"malformed arguments {number}", _said(SaidCall("resources_add", text)), "harmless")


COMMON = (*statuses(), *broken(), *garbage(), *huge(), *replies())
"""For every provider."""
BROKEN_ARGUMENTS = tuple(broken_arguments())


def gemini() -> Iterator[Row]:
    usage = {"promptTokenCount": 12, "totalTokenCount": 12}

    def raw(value: Json) -> Iterator[tuple[Raw, tuple[bool, ...]]]:
        yield Raw((json.dumps(value).encode(),)), (False,)
        event = b"data: " + json.dumps(value).encode() + b"\r\n\r\n"
        yield Raw((event,), content_type="text/event-stream"), (True,)

    call = {"functionCall": {"name": "resources_add", "args": ADD}}
    for reason in ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "IMAGE_SAFETY", "OTHER"):
        for fault, streams in raw({"promptFeedback": {"blockReason": reason}, "usageMetadata": usage}):
            yield Row(f"prompt blocked: {reason}", fault, "failed", streams=streams)
    for reason in (
        "MAX_TOKENS",
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
        "LANGUAGE",
        "OTHER",
        "SOMETHING_NEW",
    ):
        for name, candidate in (
            ("without content", {"finishReason": reason}),
            ("without parts", {"finishReason": reason, "content": {"role": "model"}}),
            ("with a call", {"finishReason": reason, "content": {"role": "model", "parts": [call]}}),
        ):
            for fault, streams in raw({"candidates": [candidate], "usageMetadata": usage}):
                new = reason == "SOMETHING_NEW"  # the calls may well be all right
                outcome: Outcome = "harmless" if new else "retried or failed"
                yield Row(f"{reason} {name}", fault, outcome, streams=streams)
    for name, value in (
        ("nothing at all", {"usageMetadata": usage}),
        ("empty candidate", {"candidates": [{}]}),
        ("STOP without content", {"candidates": [{"finishReason": "STOP"}]}),
        ("STOP without parts", {"candidates": [{"finishReason": "STOP", "content": {"role": "model"}}]}),
    ):
        for fault, streams in raw(value):
            yield Row(name, fault, "harmless", streams=streams)
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
    error = {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [retry]}
    info = json.dumps({"error": error}).encode()
    yield Row("RetryInfo", Fail(429, body=info), "retried", at_least=17, at_most=26)
    listed = json.dumps([{"error": error}]).encode()
    yield Row("RetryInfo in a list", Fail(429, body=listed), "retried", at_least=17, at_most=26)
    later = json.dumps({"error": {**error, "details": [{**retry, "retryDelay": "3600s"}]}}).encode()
    yield Row("RetryInfo of an hour", Fail(429, body=later), "failed", "quota.*status 429", at_most=1)
    why = json.dumps([{"error": {"code": 400, "message": "nope", "status": "INVALID_ARGUMENT"}}]).encode()
    yield Row("an error in a list", Fail(400, body=why), "failed", "nope.*status 400")


GEMINI = tuple(gemini())
