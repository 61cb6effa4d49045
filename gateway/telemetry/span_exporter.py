"""The exporter of spans, and its failures in the log: a line when they begin, and a line when they end.

The SDK logs every attempt that fails, with the address, which may contain a secret. These lines are dropped.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import httpx2
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk import _shared_internal
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from requests import Session

from ...actors.common.http_proxies import proxy_to

log = logging.getLogger(__name__)


class RoutedSession(Session):
    """Finds proxies and certificates as the agent does elsewhere. `requests` has rules of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def merge_environment_settings(
        self, url: str, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> dict[str, Any]:
        proxy = proxy_to(httpx2.URL(url))
        if verify in (None, True) and self.verify is True:
            names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
            verify = next((path for name in names if (path := os.environ.get(name))), True)
        found = super().merge_environment_settings(url, proxies, stream, verify, cert)
        return {**found, "proxies": {} if proxy is None else {"http": proxy, "https": proxy}}


class ReportingExporter(SpanExporter):
    def __init__(self, endpoint: str | None) -> None:
        """`endpoint`: the URL to export to; by default that of the environment. Raises ValueError."""
        # Such a provider has a session of its own.
        provided = any(name.endswith("_CREDENTIAL_PROVIDER") for name in os.environ)
        session = None if provided else RoutedSession()
        self._exporter = trace_exporter.OTLPSpanExporter(endpoint, session=session)
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
