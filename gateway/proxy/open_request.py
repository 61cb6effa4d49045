"""One request as long as it is answered: what is closed with it, and how it is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import attrs
import trio

from ..http.request import Request

_KEY = "stopgo.open_request"


@attrs.frozen(eq=False)
class OpenRequest:
    resources: AsyncExitStack
    """Closed when the request is over, however it ends."""
    task: trio.CancelScope
    """Cancelled to close the connection in the middle of the answer: else part of it would look like all."""

    def begin(self, state: dict[str, object]) -> None:
        """Belong to the request with this state."""
        state[_KEY] = self


def open_request(request: Request) -> OpenRequest:
    found: OpenRequest = request.facts[_KEY]
    return found


class Stopping:
    """Ends the streams when the process stops: they would go on for as long as their clients listen."""

    def __init__(self) -> None:
        self._stopped = False
        self._streams: set[trio.CancelScope] = set()

    def stop(self) -> None:
        self._stopped = True
        for scope in self._streams:
            scope.cancel()

    @contextmanager
    def stream(self) -> Iterator[trio.CancelScope]:
        """A wait of a stream, which is cancelled then."""
        with trio.CancelScope() as scope:
            if self._stopped:
                scope.cancel()
            self._streams.add(scope)
            try:
                yield scope
            finally:
                self._streams.discard(scope)
