"""Tokens of our own: OAuth 2 client credentials, and what becomes of a request when none can be had."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import attrs
import httpx2

from ...config.mcp import OAuthConfig
from ..tools.masking import Secrets
from .failures import UNAUTHORIZED, first_line
from .sdk import OAuthClientInformationFull, OAuthFlowError, OAuthToken, client_credentials_provider

# This logs, with a traceback, what reaches us as the error of a request anyway, and may quote what was sent.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

FAILED = "stopgo.auth"
"""The extension of a request that is not to be sent: its `AuthFailed`."""


class AuthFailed(httpx2.TransportError):
    """There are no credentials for the request."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent
        """It went out before, and was not refused."""


class Patient(httpx2.Auth):
    """A flow whose failure is that of the one request it was for. The SDK's connection would not survive what
    else it raises."""

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
            request.extensions[FAILED] = AuthFailed(self._told(error), sent=sent)
        finally:
            await flow.aclose()
        yield request

    def _told(self, error: Exception) -> str:

        if isinstance(error, OAuthFlowError | ValueError):
            text = f"no token could be had: {first_line(error)}"
            self._log.warning("%s", text)
            return text
        self._log.error("no token could be had", exc_info=error)
        return f"no token could be had: {type(error).__name__}"


def client_credentials(url: str, config: OAuthConfig, secrets: Secrets) -> httpx2.Auth:
    """What gets, renews and sends the tokens of the server at `url`; `secrets` learn of them."""

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
    """The SDK's `TokenStorage`: tokens are kept in memory only."""

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
