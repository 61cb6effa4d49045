"""The receiver of these tests accepts spans of the official SDK, and names each rule that others break."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.providers.servers.http import Request
from tests.telemetry.exported import tree, unresolved
from tests.telemetry.receiver import PATH, TYPE, Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.mark.parametrize("compression", [Compression.Gzip, Compression.NoCompression])
def test_spans_of_the_sdk_are_accepted(receiver: Receiver, compression: Compression) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "a"}), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(receiver.url, compression=compression)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    with tracer.start_as_current_span("root", kind=trace.SpanKind.SERVER) as root:
        link = trace.Link(root.get_span_context())
        with tracer.start_as_current_span("child", links=[link], attributes={"n": [1, 2]}) as child:
            id = format(child.get_span_context().trace_id, "032x")
            child.set_status(trace.StatusCode.ERROR, "why")
            child.set_attribute("error.type", "oops")
        [early] = receiver.trace(id)
        assert unresolved([early]) == [
            f"{what} {early.parent} of 'child' has not arrived" for what in ("the parent", "the link")
        ]
        assert unresolved([early], [str(early.parent)]) == []
    spans = receiver.when(id, lambda spans: len(spans) == 2)
    assert tree(spans, None) == "root\n  child  !oops\n"
    assert [(each.service, each.kind, each.failed, each.message) for each in spans] == [
        ("a", "internal", True, "why"),
        ("a", "server", False, ""),
    ]
    assert spans[0]["n"] == [1, 2]
    provider.shutdown()


def text(key: str, value: str = "v") -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def valid(**changes: Any) -> ExportTraceServiceRequest:
    """An export of one span, with other fields."""
    now = time.time_ns()
    fields = {
        "trace_id": b"t" * 16,
        "span_id": b"s" * 8,
        "name": "name",
        "kind": Span.SPAN_KIND_INTERNAL,
        "start_time_unix_nano": now,
        "end_time_unix_nano": now,
        "attributes": [text("a")],
        "events": [Span.Event(time_unix_nano=now, name="event")],
        "links": [Span.Link(trace_id=b"t" * 16, span_id=b"o" * 8)],
    }
    span = Span(**{**fields, **changes})
    scope_spans = ScopeSpans(spans=[span])
    scope_spans.scope.name = "scope"
    resource_spans = ResourceSpans(scope_spans=[scope_spans])
    resource_spans.resource.attributes.append(text("service.name"))
    return ExportTraceServiceRequest(resource_spans=[resource_spans])


Change = Callable[[ExportTraceServiceRequest], object]


def spans_of(request: ExportTraceServiceRequest) -> list[Span]:
    return list(request.resource_spans[0].scope_spans[0].spans)


def with_fields(**fields: Any) -> Change:
    return lambda request: request.CopyFrom(valid(**fields))


UNKNOWN = b"\x9a\x06\x01x"
"""Field 99 with one byte."""

BROKEN: dict[str, Change] = {
    "an export without spans": lambda request: request.Clear(),
    "unknown field 99 in ExportTraceServiceRequest": lambda request: request.MergeFromString(UNKNOWN),
    "unknown field 99 in Span": lambda request: spans_of(request)[0].MergeFromString(UNKNOWN),
    "service.name is ''": lambda request: request.resource_spans[0].ClearField("resource"),
    "a scope without a name": lambda request: request.resource_spans[0].scope_spans[0].ClearField("scope"),
    "span 'name': the trace id is '00000000000000000000000000000000'": with_fields(trace_id=bytes(16)),
    "span 'name': the trace id is '7474'": with_fields(trace_id=b"tt"),
    "span 'name': the span id is ''": with_fields(span_id=b""),
    "span 'name': the span id is '0000000000000000'": with_fields(span_id=bytes(8)),
    "span 'name': the id of the parent is '0000000000000000'": with_fields(parent_span_id=bytes(8)),
    "span 'name': is its own parent": with_fields(parent_span_id=b"s" * 8),
    "span '': has no name": with_fields(name=""),
    "span 'name': has no kind": with_fields(kind=Span.SPAN_KIND_UNSPECIFIED),
    "span 'name': ends before it starts": with_fields(end_time_unix_nano=1),
    "span 'name': ends in the future": with_fields(end_time_unix_nano=time.time_ns() + 10**15),
    "span 'name': describes a status that is no error": with_fields(
        status=Status(code=Status.STATUS_CODE_OK, message="fine")
    ),
    "span 'name': has an event without a name or a time": with_fields(events=[Span.Event(name="event")]),
    "span 'name': the span id of a link is ''": with_fields(links=[Span.Link(trace_id=b"t" * 16)]),
    "span 'name': an attribute without a name": with_fields(attributes=[text("")]),
    "span 'name': 2 attributes 'a'": with_fields(attributes=[text("a"), text("a")]),
    "span 'name': attribute 'a' has no value": with_fields(attributes=[KeyValue(key="a")]),
}


async def posted(
    receiver: Receiver,
    body: bytes,
    *,
    method: str = "POST",
    path: str = PATH,
    type: str = TYPE,
    encoding: str | None = None,
) -> int:
    """The status of the answer."""
    headers = {"content-type": type} | ({} if encoding is None else {"content-encoding": encoding})
    return (await receiver.handle(Request(method, path, "", headers, body))).status


@pytest.mark.parametrize("rule", BROKEN)
async def test_each_broken_rule_is_named(rule: str) -> None:
    receiver = Receiver()
    request = valid()
    BROKEN[rule](request)
    assert await posted(receiver, request.SerializeToString()) == 400
    assert receiver.violations == [rule]


async def test_a_span_may_arrive_only_once() -> None:
    receiver, body = Receiver(), valid().SerializeToString()
    assert await posted(receiver, body) == 200
    assert await posted(receiver, gzip.compress(body), encoding="gzip") == 400
    assert receiver.violations == [f"span 'name': a second span with the id {(b's' * 8).hex()}"]


@pytest.mark.parametrize(
    ("refused", "changes"),
    [
        ("GET /v1/traces", {"method": "GET"}),
        ("POST /v1/metrics", {"path": "/v1/metrics"}),
        ("content-type is application/json", {"type": "application/json"}),
        ("content-encoding is deflate", {"encoding": "deflate"}),
        ("not gzip: ", {"encoding": "gzip"}),
        ("Error parsing message", {"body": b"\xff"}),
    ],
)
async def test_other_requests_are_violations(refused: str, changes: dict[str, Any]) -> None:
    receiver = Receiver()
    assert await posted(receiver, **{"body": valid().SerializeToString(), **changes}) == 400
    [violation] = receiver.violations
    assert violation.startswith(refused)
