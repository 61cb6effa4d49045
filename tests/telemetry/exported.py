"""Exported spans as values, and the rules of OTLP that an export can break. Pure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2 as otlp

AHEAD = 5_000_000_000
"""Nanoseconds that the clock of another process may be ahead."""


@attrs.frozen
class Link:
    trace: str
    span: str


@attrs.frozen
class Span:
    service: str
    trace: str
    """Ids are in hexadecimal digits."""
    id: str
    parent: str | None
    name: str
    kind: str
    start: int
    """Nanoseconds since the epoch."""
    end: int
    attributes: Mapping[str, Any]
    failed: bool
    message: str
    """The description of the status."""
    links: Sequence[Link]

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes.get(attribute)

    @property
    def traceparent(self) -> str:
        """As a parent of spans elsewhere (W3C Trace Context)."""
        return f"00-{self.trace}-{self.id}-01"


def read(request: ExportTraceServiceRequest) -> tuple[list[Span], list[str]]:
    """Return the spans, and the rules that they break."""
    spans: list[Span] = []
    broken = [f"unknown field {number} in {name}" for name, number in _unknown(request)]
    if not request.resource_spans:
        broken.append("an export without spans")
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes, "the resource", broken)
        service = resource.get("service.name", "")
        if not service or service.startswith("unknown_service"):
            broken.append(f"service.name is {service!r}")
        for scope_spans in resource_spans.scope_spans:
            if not scope_spans.scope.name:
                broken.append("a scope without a name")
            for span in scope_spans.spans:
                spans.append(_span(service, span, broken))
    return spans, broken


def _span(service: str, span: otlp.Span, broken: list[str]) -> Span:
    of = f"span {span.name!r}"
    broken += [f"{of}: {rule}" for rule in _broken_by(span)]
    for event in span.events:
        _attributes(event.attributes, f"{of}, event {event.name!r}", broken)
    for link in span.links:
        _attributes(link.attributes, f"{of}, a link", broken)
    return Span(
        service=service,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex() or None,
        name=span.name,
        kind=otlp.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_attributes(span.attributes, of, broken),
        failed=span.status.code == otlp.Status.STATUS_CODE_ERROR,
        message=span.status.message,
        links=[Link(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


def _broken_by(span: otlp.Span) -> Iterator[str]:
    yield from _wrong_id("trace id", span.trace_id, 16)
    yield from _wrong_id("span id", span.span_id, 8)
    if span.parent_span_id:
        yield from _wrong_id("id of the parent", span.parent_span_id, 8)
        if span.parent_span_id == span.span_id:
            yield "is its own parent"
    if not span.name.strip():
        yield "has no name"
    if span.kind == otlp.Span.SPAN_KIND_UNSPECIFIED:
        yield "has no kind"
    if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
        yield "ends before it starts"
    if span.end_time_unix_nano > time.time_ns() + AHEAD:
        yield "ends in the future"
    if span.status.message and span.status.code != otlp.Status.STATUS_CODE_ERROR:
        yield "describes a status that is no error"
    for event in span.events:
        if not event.name or not event.time_unix_nano:
            yield "has an event without a name or a time"
    for link in span.links:
        yield from _wrong_id("trace id of a link", link.trace_id, 16)
        yield from _wrong_id("span id of a link", link.span_id, 8)


def _wrong_id(name: str, id: bytes, length: int) -> Iterator[str]:
    if len(id) != length or not any(id):
        yield f"the {name} is {id.hex()!r}"


def _attributes(pairs: Iterable[KeyValue], of: str, broken: list[str]) -> dict[str, Any]:
    pairs = list(pairs)
    for key, count in Counter(pair.key for pair in pairs).items():
        if not key:
            broken.append(f"{of}: an attribute without a name")
        if count > 1:
            broken.append(f"{of}: {count} attributes {key!r}")
    broken += [f"{of}: attribute {pair.key!r} has no value" for pair in pairs if _value(pair.value) is None]
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(each) for each in value.array_value.values]
        case "kvlist_value":
            return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}
        case name:
            return getattr(value, name)


def _unknown(message: Message) -> Iterator[tuple[str, int]]:
    for field in UnknownFieldSet(message):
        yield message.DESCRIPTOR.name, field.field_number
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_MESSAGE:
            for each in value if descriptor.is_repeated else (value,):
                yield from _unknown(each)


def unresolved(spans: Sequence[Span], known: Iterable[str] = ()) -> list[str]:
    """The parents and linked spans that are neither among the spans nor known."""
    arrived = {(span.trace, span.id) for span in spans}
    ids = set(known)
    return [
        f"{what} {id} of {span.name!r} has not arrived"
        for span in spans
        for what, trace, id in (
            ("the parent", span.trace, span.parent),
            *(("the link", link.trace, link.span) for link in span.links),
        )
        if id is not None and (trace, id) not in arrived and id not in ids
    ]


def tree(spans: Sequence[Span], parent: str | None) -> str:
    """The descendants of a span as text: each below its parent, in the order of their start.

    Those of a parallel node are in the order of their names. A failed span shows its `error.type`.
    """
    return "".join(_lines(spans, parent, "", 0))


def _lines(spans: Sequence[Span], parent: str | None, name: str, depth: int) -> Iterator[str]:
    assert depth < 50, "the parents of spans form a circle"
    children = [each for each in spans if each.parent == parent]
    by_name = name.startswith("parallel")
    for span in sorted(children, key=lambda each: (each.name if by_name else "", each.start)):
        failure = f"  !{span['error.type']}" if span.failed else ""
        yield f"{'  ' * depth}{span.name}{failure}\n"
        yield from _lines(spans, span.id, span.name, depth + 1)
