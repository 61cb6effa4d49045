"""The scope of a forwarded request, and the shutdown of event streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import attrs
import trio

from ..http.request import HttpRequest

_KEY = "stopgo.request_scope"


@attrs.frozen(eq=False)
class RequestScope:
    """The scope of one HTTP request to the proxy."""

    resources: AsyncExitStack
    """Closed when the request ends."""
    cancel_scope: trio.CancelScope
    """Cancel it to close the client's connection in the middle of an answer. Otherwise a truncated answer
    would look complete."""

    def attach(self, state: dict[str, object]) -> None:
        """Make this the scope of the request with this ASGI state."""
        state[_KEY] = self


def scope_of(request: HttpRequest) -> RequestScope:
    scope: RequestScope = request.facts[_KEY]
    return scope


class EventStreams:
    """The open event streams. `stop` ends them; otherwise each lasts until its client disconnects."""

    def __init__(self) -> None:
        self._stopped = False
        self._streams: set[trio.CancelScope] = set()

    def stop(self) -> None:
        """End all open streams, and all later ones."""
        self._stopped = True
        for scope in self._streams:
            scope.cancel()

    @contextmanager
    def wait_scope(self) -> Iterator[trio.CancelScope]:
        """Open a scope for the wait for a stream's next chunk, which `stop` cancels."""
        with trio.CancelScope() as scope:
            if self._stopped:
                scope.cancel()
            self._streams.add(scope)
            try:
                yield scope
            finally:
                self._streams.discard(scope)
