"""Resources of a request: closed when it ends, or cut off when the process stops."""

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
    """Closed when the request ends."""
    task: trio.CancelScope
    """Cancelled to close the connection in the middle of an answer. Otherwise a truncated answer would look
    complete."""

    def begin(self, state: dict[str, object]) -> None:
        """Attach to the request with this state."""
        state[_KEY] = self


def open_request(request: Request) -> OpenRequest:
    found: OpenRequest = request.facts[_KEY]
    return found


class Stopping:
    """Ends the event streams when the process stops. Otherwise they last until their clients disconnect."""

    def __init__(self) -> None:
        self._stopped = False
        self._streams: set[trio.CancelScope] = set()

    def stop(self) -> None:
        self._stopped = True
        for scope in self._streams:
            scope.cancel()

    @contextmanager
    def stream(self) -> Iterator[trio.CancelScope]:
        """A scope for a stream's wait, cancelled by `stop`."""
        with trio.CancelScope() as scope:
            if self._stopped:
                scope.cancel()
            self._streams.add(scope)
            try:
                yield scope
            finally:
                self._streams.discard(scope)
