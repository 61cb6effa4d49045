"""The one HTTP client that all models of an agent share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from .errors import ModelUnusable

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
"""Seconds to reach a provider; how long it may then take is the model's own deadline."""
PROXIES = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY"
CLOSE_GRACE = 5.0
"""Seconds that connections get to be closed in good order."""


class ModelClient:
    """Made when the first model needs it: it costs tens of milliseconds, and many agents need none."""

    def __init__(self, *, max_connections: int, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        """
        Args:
            max_connections: what the models may use at the same time, all together.
            transport: in place of the network.
        """
        self._max_connections = max_connections
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    def get(self) -> httpx2.AsyncClient:
        """Raises `ModelUnusable`: the environment keeps it from being made."""
        if self._client is None:
            import httpx2

            from ..common.tls import TlsUnusable, trusted
            from .providers.reading import bound

            limits = httpx2.Limits(
                max_connections=self._max_connections, max_keepalive_connections=self._max_connections
            )
            try:
                self._client = httpx2.AsyncClient(
                    # A model thinks as long as its own deadline lets it.
                    timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                    limits=limits,
                    transport=self._transport,
                    headers={"accept-encoding": "identity"},
                    event_hooks={"response": [bound]},
                    verify=trusted(),
                )
            except TlsUnusable as error:
                raise ModelUnusable(str(error)) from error
            except (ValueError, httpx2.InvalidURL) as error:
                raise ModelUnusable(f"a proxy of the environment has no valid address ({PROXIES})") from error
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


@asynccontextmanager
async def open_client(
    max_connections: int, transport: httpx2.AsyncBaseTransport | None = None
) -> AsyncIterator[ModelClient]:
    """A client for the length of the block; see `ModelClient` for its arguments."""
    client = ModelClient(max_connections=max_connections, transport=transport)
    try:
        yield client
    finally:
        with trio.move_on_after(CLOSE_GRACE, shield=True):
            await client.aclose()
