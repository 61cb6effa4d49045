"""HTTP requests to the OpenID Connect issuer. Every answer is bounded, and nothing of it gets into an error.

Redirects are not followed. The addresses come from the issuer's discovery document, whose `issuer` must be
the configured one, and are https; http only at addresses of this machine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import attrs
import trio

from ...actors.common.http_proxies import Routed, said_by_proxy
from ...actors.common.loopback import is_loopback
from ...actors.common.tls import TlsUnusable, trusted, why_unreached
from ...runtime.json_text import load_provider

if TYPE_CHECKING:
    import httpx2

DISCOVERY = "/.well-known/openid-configuration"
TIMEOUT = 10.0
"""Seconds for a request and its answer."""
MAX_RESPONSE = 256 * 1024
"""Bytes of an answer."""


class IssuerError(Exception):
    """The issuer gives no usable answer. The text says why, and quotes nothing that it sent."""


@attrs.frozen
class Endpoints:
    """The addresses of the discovery document."""

    jwks: str
    authorization: str | None
    token: str | None
    userinfo: str | None
    posts_secret: bool
    """Whether the client secret goes into the body of a token request instead of `Authorization`."""


def read_endpoints(document: Mapping[str, Any], issuer: str) -> Endpoints:
    """Read a discovery document. Raises `IssuerError`. Pure."""
    if document.get("issuer") != issuer:
        raise IssuerError("its discovery document is of another issuer")
    jwks = _address(document, "jwks_uri")
    if jwks is None:
        raise IssuerError("its discovery document has no jwks_uri")
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        jwks,
        _address(document, "authorization_endpoint"),
        _address(document, "token_endpoint"),
        _address(document, "userinfo_endpoint"),
        isinstance(methods, list) and "client_secret_basic" not in methods,
    )


def _address(document: Mapping[str, Any], name: str) -> str | None:
    url = document.get(name)
    if url is None:
        return None
    if not isinstance(url, str) or not _is_safe(url):
        raise IssuerError(f"{name} of its discovery document is not an https address")
    return url


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


@attrs.define(eq=False)
class Issuer:
    """The HTTP client of one issuer. Methods raise `IssuerError`. Close it with `aclose`."""

    address: str
    """As in its tokens."""
    _client: httpx2.AsyncClient | None = None

    async def endpoints(self) -> Endpoints:
        """Request the discovery document."""
        url = self.address.removesuffix("/") + DISCOVERY
        return read_endpoints(await self._request("GET", url), self.address)

    async def key_set(self, endpoints: Endpoints) -> Mapping[str, Any]:
        return await self._request("GET", endpoints.jwks)

    async def tokens(
        self, endpoints: Endpoints, form: Mapping[str, str], client_id: str, secret: str | None
    ) -> Mapping[str, Any]:
        """Exchange an authorization code for tokens."""
        if endpoints.token is None:
            raise IssuerError("its discovery document has no token_endpoint")
        form = {**form, "client_id": client_id}
        if secret is None:
            return await self._request("POST", endpoints.token, form=form)
        if endpoints.posts_secret:
            return await self._request("POST", endpoints.token, form={**form, "client_secret": secret})
        # RFC 6749, section 2.3.1: both are form-encoded first.
        basic = (quote(client_id, safe=""), quote(secret, safe=""))
        return await self._request("POST", endpoints.token, form=form, basic=basic)

    async def userinfo(self, endpoints: Endpoints, access_token: str) -> Mapping[str, Any]:
        if endpoints.userinfo is None:
            return {}
        return await self._request("GET", endpoints.userinfo, bearer=access_token)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _request(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        basic: tuple[str, str] | None = None,
        bearer: str | None = None,
    ) -> Mapping[str, Any]:
        import httpx2

        headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
        auth = None if basic is None else httpx2.BasicAuth(*basic)
        try:
            with trio.fail_after(TIMEOUT):
                request = self._http().build_request(method, url, data=form, headers=headers)
                response = await self._http().send(request, auth=auth, stream=True)
                try:
                    return await _object(response)
                finally:
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + 1.0):
                        await response.aclose()
        except trio.TooSlowError:
            raise IssuerError(f"no answer within {TIMEOUT:g} s") from None
        except httpx2.ProxyError as error:
            raise IssuerError(f"it cannot be reached: {said_by_proxy(error)}") from error
        except (httpx2.UnsupportedProtocol, TlsUnusable) as error:
            raise IssuerError(f"it cannot be reached: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            why = why_unreached(error) or type(error).__name__
            raise IssuerError(f"it cannot be reached: {why}") from error

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            # httpx2 logs the URL of every request.
            logging.getLogger("httpx2").setLevel(logging.WARNING)
            headers = {"accept": "application/json", "accept-encoding": "identity"}
            transport = Routed(httpx2.Limits(), trusted())
            self._client = httpx2.AsyncClient(
                transport=transport, timeout=TIMEOUT, headers=headers, trust_env=False
            )
        return self._client


async def _object(response: httpx2.Response) -> Mapping[str, Any]:
    """The JSON object of an answer. Raises `IssuerError`."""
    if response.status_code != 200:
        raise IssuerError(f"it answered HTTP {response.status_code}")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_RESPONSE:
            raise IssuerError(f"its answer is larger than {MAX_RESPONSE // 1024} KiB")
    try:
        value = load_provider(bytes(body))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise IssuerError("its answer is not a JSON object")
    return value
