"""The open streams of one principal."""

from __future__ import annotations

import attrs

from .errors import RequestError


@attrs.define(eq=False)
class StreamCount:
    limit: int
    _open: int = 0

    def begin(self) -> None:
        """Count a stream. Raises `RequestError` ``limit_reached``."""
        if self._open >= self.limit:
            raise RequestError(
                429,
                "limit_reached",
                f"{self._open} streams of this principal are open, and no more are allowed",
                hint="Close one of them.",
            )
        self._open += 1

    def end(self) -> None:
        self._open -= 1
