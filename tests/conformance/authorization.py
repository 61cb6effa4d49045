"""How the conformance client gets its tokens: the SDK's providers, with nobody to click."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tests.http_client import http_client

CALLBACK = AnyUrl("http://localhost:3000/callback")
CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"


class MemoryStorage:
    """Forgets everything with the process."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Follows the authorization server's redirect, as a user's browser would."""

    def __init__(self) -> None:
        self._parameters: dict[str, str] = {}

    async def redirect(self, url: str) -> None:
        async with http_client() as client:
            response = await client.get(url, follow_redirects=False)
        query = parse_qs(urlparse(response.headers["location"]).query)
        self._parameters = {name: values[0] for name, values in query.items()}

    async def callback(self) -> AuthorizationCodeResult:
        found, self._parameters = self._parameters, {}
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


def authorization(url: str, scenario: str, context: Mapping[str, Any]) -> httpx2.Auth:
    """What the scenario calls for."""
    storage = MemoryStorage()
    match scenario:
        case "auth/client-credentials-jwt":
            assertion = SignedJWTParameters(
                issuer=context["client_id"],
                subject=context["client_id"],
                signing_algorithm=context.get("signing_algorithm", "ES256"),
                signing_key=context["private_key_pem"],
            )
            return PrivateKeyJWTOAuthProvider(
                server_url=url,
                storage=storage,
                client_id=context["client_id"],
                assertion_provider=assertion.create_assertion_provider(),
            )
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(
                server_url=url,
                storage=storage,
                client_id=context["client_id"],
                client_secret=context["client_secret"],
                token_endpoint_auth_method="client_secret_basic",
            )
        case _:
            return _authorization_code(url, storage, context)


def _authorization_code(url: str, storage: MemoryStorage, context: Mapping[str, Any]) -> httpx2.Auth:
    secret = context.get("client_secret")
    if "client_id" in context:
        storage.client = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=secret,
            redirect_uris=[CALLBACK],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )
    browser = Browser()
    return OAuthClientProvider(
        server_url=url,
        storage=storage,
        redirect_handler=browser.redirect,
        callback_handler=browser.callback,
        client_metadata=OAuthClientMetadata(
            client_name="stopgo-conformance",
            redirect_uris=[CALLBACK],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        client_metadata_url=CLIENT_METADATA_URL,
    )
