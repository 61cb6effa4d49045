"""A receiver of traces over OTLP/HTTP that accepts nothing but valid spans.

It runs in a thread with an event loop of its own, because the agents under test are processes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager

import attrs
import trio
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.e2e.chains import eventually
from tests.providers.servers.http import Answer, Request, serve
from tests.providers.servers.threaded import in_a_thread
from tests.telemetry.exported import Span, read, unresolved

PATH = "/v1/traces"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "20"}
"""The environment of an agent that exports its spans after 20 ms."""
TYPE = "application/x-protobuf"
SUCCESS = Answer(200, {"content-type": TYPE}, ExportTraceServiceResponse().SerializeToString())


@attrs.define(eq=False)
class Receiver:
    url: str = ""
    fault: Answer | None = None
    """The answer to every export; None: the export is accepted if it is valid."""
    exports: list[bytes] = attrs.field(factory=list, repr=False)
    """The bodies that arrived, decompressed."""
    spans: list[Span] = attrs.field(factory=list, repr=False)
    violations: list[str] = attrs.field(factory=list)

    async def handle(self, request: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        try:
            body = _body(request)
            self.exports.append(body)
            if self.fault is not None:
                return self.fault
            spans, broken = read(ExportTraceServiceRequest.FromString(body))
        except (_Refused, DecodeError) as refused:
            spans, broken = [], [str(refused)]
        known = {(span.trace, span.id) for span in self.spans}
        for span in spans:
            if (span.trace, span.id) in known:
                broken.append(f"span {span.name!r}: a second span with the id {span.id}")
            known.add((span.trace, span.id))
        self.spans += spans
        self.violations += broken
        return Answer(400) if broken else SUCCESS

    def trace(self, id: str) -> list[Span]:
        return [span for span in list(self.spans) if span.trace == id]

    def when(
        self, id: str, condition: Callable[[Sequence[Span]], object], known: Iterable[str] = ()
    ) -> list[Span]:
        """The spans of the trace, once the condition holds and their parents and links have arrived.

        `known` are the ids of spans that other programs export.
        """
        known = set(known)

        def found() -> list[Span]:
            spans = self.trace(id)
            linked = {link.trace for span in spans for link in span.links} - {id}
            others = [span for trace in linked for span in self.trace(trace)]
            return spans if condition(spans) and not unresolved([*spans, *others], known) else []

        spans: list[Span] = eventually(found)
        assert self.violations == []
        return spans


class _Refused(Exception):
    """The request is no export."""


def _body(request: Request) -> bytes:
    if (request.method, request.path, request.query) != ("POST", PATH, ""):
        raise _Refused(f"{request.method} {request.path}")
    if (type := request.headers.get("content-type")) != TYPE:
        raise _Refused(f"content-type is {type}")
    match request.headers.get("content-encoding"):
        case None:
            return request.body
        case "gzip":
            try:
                return gzip.decompress(request.body)
            except (OSError, EOFError, zlib.error) as error:
                raise _Refused(f"not gzip: {error}") from error
        case encoding:
            raise _Refused(f"content-encoding is {encoding}")


@asynccontextmanager
async def open_receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve, receiver.handle, lambda: None)
        receiver.url = f"http://127.0.0.1:{port}{PATH}"
        yield receiver
        nursery.cancel_scope.cancel()


def receiving() -> AbstractContextManager[Receiver]:
    return in_a_thread(open_receiver())
