"""Tokens of our own: OAuth 2 client credentials, by the SDK's provider, kept in memory only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import httpx2

from stopgo.config.mcp import OAuthConfig

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


def client_credentials(url: str, config: OAuthConfig) -> httpx2.Auth:
    """What gets, renews and sends the tokens of the server at `url`."""
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    return ClientCredentialsOAuthProvider(
        server_url=url,
        storage=_Memory(),
        client_id=config.client_id,
        client_secret=config.client_secret,
        scope=" ".join(config.scopes) or None,
        issuer=config.issuer,
    )


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
