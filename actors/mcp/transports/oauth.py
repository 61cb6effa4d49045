"""OAuth 2 client credentials: the agent's own tokens for a server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import attrs
import httpx2

from ....config.sections.mcp import OAuthConfig
from ...servers.masking import Secrets
from ..wire.failures import UNAUTHORIZED, first_line
from ..wire.sdk import OAuthClientInformationFull, OAuthFlowError, OAuthToken, client_credentials_provider

# It logs, with a traceback, failures that we report anyway as the error of a request, and may quote one.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

FAILED = "stopgo.auth"
"""The extension of a request that must not be sent; its value is the `AuthFailed` to raise."""


class AuthFailed(httpx2.TransportError):
    """No credentials could be obtained for the request."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent
        """The request was sent before, and was not refused."""


class ContainedAuth(httpx2.Auth):
    """An auth flow whose exceptions fail only their own request.

    The SDK's connection would not survive them. So the request goes on with the extension `FAILED`, for which
    `McpTransport` raises `AuthFailed`.
    """

    def __init__(self, inner: httpx2.Auth, log: logging.Logger) -> None:
        self._inner = inner
        self._log = log

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._inner.async_auth_flow(request)
        sent = False
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if (outgoing.method, outgoing.url) == (request.method, request.url):
                    sent = response.status_code not in UNAUTHORIZED
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except Exception as error:
            request.extensions[FAILED] = AuthFailed(self._reason(error), sent=sent)
        finally:
            await flow.aclose()
        yield request

    def _reason(self, error: Exception) -> str:

        if isinstance(error, OAuthFlowError | ValueError):
            text = f"no token could be obtained: {first_line(error)}"
            self._log.warning("%s", text)
            return text
        self._log.error("no token could be obtained", exc_info=error)
        return f"no token could be obtained: {type(error).__name__}"


def client_credentials(url: str, config: OAuthConfig, secrets: Secrets) -> httpx2.Auth:
    """Return an auth flow that obtains, renews and sends tokens for the server at `url`.

    The tokens are added to `secrets`.
    """

    return client_credentials_provider()(
        server_url=url,
        storage=_Memory(secrets),
        client_id=config.client_id,
        client_secret=config.client_secret,
        scope=" ".join(config.scopes) or None,
        issuer=config.issuer,
    )


@attrs.define(eq=False)
class _Memory:
    """The SDK's `TokenStorage`. It keeps tokens in memory only."""

    _secrets: Secrets
    _tokens: OAuthToken | None = attrs.field(default=None, repr=False)
    _client: OAuthClientInformationFull | None = attrs.field(default=None, repr=False)

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens
        self._secrets.learn("oauth", [tokens.access_token, tokens.refresh_token or ""])

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info
