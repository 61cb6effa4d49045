"""The HTTP client that all models of an agent share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ..messages.errors import ModelUnusable

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
"""Seconds to connect to a provider. The deadline of the model call bounds the rest."""
CLOSE_GRACE = 5.0
"""Seconds for closing connections gracefully."""


class ModelClient:
    """Creates the client when the first model needs it, because that takes tens of milliseconds."""

    def __init__(self, *, max_connections: int, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        """
        Args:
            max_connections: the maximum number of connections of all models together.
            transport: replaces the network.
        """
        self._max_connections = max_connections
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    def get(self) -> httpx2.AsyncClient:
        """The client. Raises `ModelUnusable`: the environment has a wrong certificate file."""
        if self._client is None:
            import httpx2

            from ...common.tls import TlsUnusable
            from .reading import limit_body

            try:
                self._client = httpx2.AsyncClient(
                    # The deadline of the model call bounds reading.
                    timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                    transport=self._transport or self._network(),
                    trust_env=False,
                    headers={"accept-encoding": "identity"},
                    event_hooks={"response": [limit_body]},
                )
            except TlsUnusable as error:
                raise ModelUnusable(str(error)) from error
        return self._client

    def _network(self) -> httpx2.AsyncBaseTransport:
        import httpx2

        from ...common.http_proxies import Routed
        from ...common.tls import trusted
        from .direct_http import DirectTransport

        most, tls = self._max_connections, trusted()
        limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most)
        return Routed(limits, tls, DirectTransport(most, tls, CONNECT_TIMEOUT))

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


@asynccontextmanager
async def open_client(
    max_connections: int, transport: httpx2.AsyncBaseTransport | None = None
) -> AsyncIterator[ModelClient]:
    """A client that is closed at the end of the block. See `ModelClient` for the arguments."""
    client = ModelClient(max_connections=max_connections, transport=transport)
    try:
        yield client
    finally:
        with trio.move_on_after(CLOSE_GRACE, shield=True):
            await client.aclose()
