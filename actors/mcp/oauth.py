"""Tokens of our own: OAuth 2 client credentials, by the SDK's provider, kept in memory only."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import attrs
import httpx2

from stopgo.actors.mcp.failures import first_line
from stopgo.config.mcp import OAuthConfig

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


def client_credentials(url: str, config: OAuthConfig, log: logging.Logger) -> httpx2.Auth:
    """What gets, renews and sends the tokens of the server at `url`."""
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    provider = ClientCredentialsOAuthProvider(
        server_url=url,
        storage=_Memory(),
        client_id=config.client_id,
        client_secret=config.client_secret,
        scope=" ".join(config.scopes) or None,
        issuer=config.issuer,
    )
    return _Patient(provider, log)


class _Patient(httpx2.Auth):
    """An OAuth flow whose failure is that of the one request it was for: the request goes out as it is, and
    is refused. The SDK's connection would not survive the error."""

    requires_response_body = True

    def __init__(self, inner: httpx2.Auth, log: logging.Logger) -> None:
        self._inner = inner
        self._log = log

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        from mcp.client.auth import OAuthFlowError

        flow = self._inner.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValueError) as error:
            self._log.warning("no token could be had: %s", first_line(error))
        finally:
            await flow.aclose()
        yield request


@attrs.define(eq=False)
class _Memory:
    """The SDK's `TokenStorage`."""

    _tokens: OAuthToken | None = attrs.field(default=None, repr=False)
    _client: OAuthClientInformationFull | None = attrs.field(default=None, repr=False)

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info
