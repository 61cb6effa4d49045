"""Traces: spans of requests and runs, exported with the SDK of OpenTelemetry.

The SDK gets spans that have ended, with ids that are decided here. Its batch processor queues and
exports them in a thread of its own: a slow or missing collector delays nothing, and the spans beyond the
queue are dropped. The variables `OTEL_*` configure the SDK.

No global tracer provider is set, so that libraries of the process, such as the MCP SDK, create no spans.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version

import trio
from hypercorn.typing import WWWScope
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    NoOpTracer,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from ...actors.common.errors import StartError
from ...actors.log.writer.observer import Observer
from ...config.sections.agent_config import AgentConfig
from ..http.request_observer import ROUTE, TRACEPARENT, RequestObserver, client_traceparent
from .run_spans import RunSpans
from .span_exporter import ReportingExporter
from .spans import Attributes, Place, Span

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that asks for prompts, arguments, results and answers (OpenTelemetry's conventions)."""
MAX_VALUE = 2**15
"""Characters of an attribute, unless the environment sets a limit: prompts are long, and thousands of spans
wait."""
FLUSH = 3.0
"""Maximum number of seconds that a shutdown waits for the last export, if no less of its grace is left."""
LEAST_FLUSH = 0.25
"""The same if nothing is left."""
PROBES = ("/health", "/health/ready")
"""Paths without spans: they are asked every few seconds."""

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}
_UNSET, _ERROR, _SAMPLED = Status(), Status(StatusCode.ERROR), TraceFlags(TraceFlags.SAMPLED)
_NANO = 1_000_000_000


class _HashedOnce(Resource):
    """A resource with a fast hash: the SDK computes it for each span, from the attributes as JSON."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


class Exporter:
    """Passes spans to the SDK."""

    def __init__(self, name: str, endpoint: str | None) -> None:
        """`endpoint`: the URL to export to; by default that of the environment. Raises ValueError."""
        given = Resource.create({SERVICE_VERSION: version("agent-stop-and-go")})
        if str(given.attributes[SERVICE_NAME]).startswith("unknown_service"):
            given = given.merge(Resource({SERVICE_NAME: name}))
        self._resource = _HashedOnce(given)
        self._scope = InstrumentationScope("stopgo", version("agent-stop-and-go"))
        self._max_value = SpanLimits().max_span_attribute_length or MAX_VALUE
        provider = TracerProvider(shutdown_on_exit=False)
        self._sampler = provider.sampler
        self._disabled = isinstance(provider.get_tracer("stopgo"), NoOpTracer)
        self._processor = BatchSpanProcessor(ReportingExporter(endpoint))

    def begins(self, trace: int, parent: Place | None = None) -> bool:
        """Whether the sampler exports a trace that begins here, or continues at `parent`."""
        if self._disabled:
            return False
        context = (
            Context() if parent is None else set_span_in_context(NonRecordingSpan(_remote(parent)), Context())
        )
        return self._sampler.should_sample(context, trace, "").decision is Decision.RECORD_AND_SAMPLE

    def emit(self, span: Span) -> None:
        # Made without a tracer, whose cost is five times as high.
        attributes = dict(self._attributes(span.attributes))
        if span.error is not None:
            attributes["error.type"] = self._valid(span.error)
        started = int(span.started * _NANO)
        made = ReadableSpan(
            self._valid(span.name),
            SpanContext(span.place.trace, span.place.span, is_remote=False, trace_flags=_SAMPLED),
            parent=None if span.parent is None else _remote(span.parent),
            resource=self._resource,
            attributes=attributes,
            links=[Link(_remote(each)) for each in span.links],
            kind=_KINDS[span.kind],
            status=_UNSET if span.error is None else _ERROR,
            start_time=started,
            end_time=max(started, int(span.ended * _NANO)),
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(made)

    def _attributes(self, given: Attributes) -> Iterator[tuple[str, str | bool | int | float | list[str]]]:
        for name, value in given.items():
            if isinstance(value, str):
                yield name, self._valid(value)
            elif isinstance(value, bool | int | float):
                yield name, value
            elif value is not None:
                yield name, [self._valid(each) for each in value]

    def _valid(self, text: str) -> str:
        """The text up to the limit. Models may write lone surrogates, which UTF-8 cannot encode."""
        return (text if text.isascii() else text.encode(errors="replace").decode())[: self._max_value]

    def close(self) -> None:
        """Export what is queued, and stop. Blocks."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]


def _remote(place: Place) -> SpanContext:
    return SpanContext(place.trace, place.span, is_remote=True, trace_flags=TraceFlags(int(place.sampled)))


class RequestSpans(RequestObserver):
    """A span for each request. What the request starts is part of the same trace."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def request_began(self, request: WWWScope) -> None:
        if request["path"] in PROBES:
            return
        state = request["state"]
        parent = Place.parse(client_traceparent(request))
        trace = random.getrandbits(128) or 1 if parent is None else parent.trace
        place = Place(trace, random.getrandbits(64) or 1, self._exporter.begins(trace, parent))
        state[_PLACE], state[TRACEPARENT] = (place, parent), place.traceparent

    def request_ended(self, request: WWWScope, status: int, seconds: float) -> None:
        state = request["state"]
        place, parent = state.get(_PLACE, (None, None))
        if place is None or not place.sampled:
            return
        method = request["method"] if request["type"] == "http" else "GET"
        route = state.get(ROUTE)
        attributes: Attributes = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "url.path": request["path"],
            "url.scheme": request["scheme"],
            "gen_ai.conversation.id": state.get("conversation"),
        }
        name, ended = method if route is None else f"{method} {route}", time.time()
        error = str(status) if status >= 500 else None
        span = Span(name, place, parent, ended - seconds, ended, "server", attributes, error=error)
        self._exporter.emit(span)


_PLACE = "span"
"""Key in the state of a request's scope: its place, and that of its parent."""


@asynccontextmanager
async def open_tracing(
    config: AgentConfig, endpoint: str | None, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[tuple[Observer, RequestObserver]]:
    """Trace an agent: yields the observers of its runs and of its requests.

    `endpoint` is the URL of a collector, for instance ``http://127.0.0.1:4318/v1/traces``; by default the
    variables `OTEL_EXPORTER_OTLP_*` decide. Raises `StartError` if they are not valid.
    """
    try:
        exporter = Exporter(config.name, endpoint)
    except ValueError as error:
        raise StartError(f"traces cannot be exported: {error}") from error
    with_content = environ.get(CAPTURE, "").strip().lower() == "true"
    try:
        yield RunSpans(config, exporter.emit, exporter.begins, with_content), RequestSpans(exporter)
    finally:
        left = max(trio.current_effective_deadline() - trio.current_time(), LEAST_FLUSH)
        with trio.move_on_after(min(FLUSH, config.shutdown_grace, left), shield=True):
            await trio.to_thread.run_sync(exporter.close, abandon_on_cancel=True)
