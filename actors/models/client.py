"""The one HTTP client that all models of an agent share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
"""Seconds to reach a provider; how long it may then take is the model's own deadline."""


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
        if self._client is None:
            import httpx2

            limits = httpx2.Limits(
                max_connections=self._max_connections, max_keepalive_connections=self._max_connections
            )
            self._client = httpx2.AsyncClient(
                # A model thinks as long as its own deadline lets it.
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                limits=limits,
                transport=self._transport,
            )
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
