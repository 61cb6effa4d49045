"""The exporter of spans, and its failures in the log: a line when they begin, and a line when they end.

The SDK logs every attempt that fails, with the address, which may contain a secret. These lines are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk import _shared_internal
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger(__name__)


class ReportingExporter(SpanExporter):
    def __init__(self, endpoint: str | None) -> None:
        """`endpoint`: the URL to export to; by default that of the environment. Raises ValueError."""
        self._exporter = trace_exporter.OTLPSpanExporter(endpoint)
        self._failing = False
        self._status: int | None = None
        logging.getLogger(trace_exporter.__name__).addFilter(self._take_status)
        logging.getLogger(_shared_internal.__name__).addFilter(_Once())

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._status = None
        result = self._exporter.export(spans)
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            status = "" if self._status is None else f" (status {self._status})"
            log.warning("spans are dropped, because the collector does not accept them%s", status)
        if self._failing and not failing:
            log.info("spans are exported again")
        self._failing = failing
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _take_status(self, record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else ()
        self._status = next((each for each in given if isinstance(each, int)), self._status)
        return False


class _Once(logging.Filter):
    """Passes each message once: a queue that is full stays full for long."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        new = record.msg not in self._passed
        self._passed.add(record.msg)
        return new
