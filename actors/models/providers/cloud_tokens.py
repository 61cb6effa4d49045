"""Access tokens of clouds, from the official libraries of Azure and Google, which are extras.

* The libraries block and may ask a server, so they run in a thread, and they are imported there.
* One login at a time: calls that wait for a token get the same one, or the same failure.
* A token is renewed `RENEW_BEFORE` its end. If that fails, the token is used as long as it is valid.
* A request that the cloud refuses with 401 gets one new token. The token may have been revoked.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from importlib import import_module
from typing import Any

import attrs
import httpx2
import trio

from ..messages.messages import ModelFailed

RENEW_BEFORE = 300.0
"""Seconds before its end at which a token is renewed."""
PAUSE = 30.0
"""Seconds until a renewal that failed is tried again while the token is still valid."""
_REMEMBERED = 4
"""Tokens that no error may show, the newest ones."""
_USUAL = 3600.0
"""Seconds for which a token is valid if the library does not say it."""
MAX_SENTENCE = 300
"""Characters of a library's error that are repeated."""

SCOPE_AZURE_V1 = "https://ai.azure.com/.default"
SCOPE_AZURE = "https://cognitiveservices.azure.com/.default"
SCOPE_GOOGLE = "https://www.googleapis.com/auth/cloud-platform"


@attrs.frozen
class CloudToken:
    text: str = attrs.field(repr=False)
    ends: float
    """Seconds since the epoch."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Further headers that belong to it."""


@attrs.define(eq=False)
class TokenLogin:
    """The tokens of one model."""

    _fetch: Callable[[], CloudToken]
    """Gets a new token; it blocks. Its errors are those of the library."""
    _lock: trio.Lock = attrs.field(factory=trio.Lock)
    _token: CloudToken | None = None
    _failed: tuple[float, str] | None = None
    """The last failure: when, on the clock of trio, and why."""

    _given: deque[str] = attrs.field(factory=lambda: deque(maxlen=_REMEMBERED), repr=False)

    @property
    def secrets(self) -> Sequence[str]:
        return tuple(self._given)

    async def headers(self, url: httpx2.URL, body: bytes) -> Mapping[str, str]:
        """The headers of a request. Raises `ModelFailed`: there is no token."""
        token = self._token
        if token is None or token.ends - time.time() < RENEW_BEFORE:
            token = await self._renewed(token, trio.current_time())
        return {**token.headers, "authorization": f"Bearer {token.text}"}

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Forget the token of a request that was refused. Whether another attempt has a new one."""
        if self._token is not None and headers["authorization"] == f"Bearer {self._token.text}":
            self._token = None
        return True

    async def _renewed(self, old: CloudToken | None, asked: float) -> CloudToken:
        async with self._lock:
            if self._token is not old and self._token is not None:
                return self._token
            valid = old is not None and self._token is old and old.ends > time.time()
            if self._failed is not None:
                at, why = self._failed
                if valid and old is not None and trio.current_time() - at < PAUSE:
                    return old
                if at >= asked and not valid:
                    raise ModelFailed(why)
            try:
                self._token = await trio.to_thread.run_sync(self._fetch, abandon_on_cancel=True)
            except Exception as error:  # of any class: those of the libraries have no common base
                self._failed = trio.current_time(), f"no access token: {told(error)}"
                if valid and old is not None:
                    return old
                raise ModelFailed(self._failed[1]) from None
            self._failed = None
            self._given.append(self._token.text)
            return self._token


def told(error: Exception) -> str:
    """The sentence of a library's error, on one line."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= MAX_SENTENCE else said[:MAX_SENTENCE] + "..."


def azure_login(scope: str) -> TokenLogin:
    """Tokens of Entra, by the environment, a managed identity, a workload or a login of the command line."""

    def fetch() -> CloudToken:
        # A new credential each time, because it would return a refused token again.
        with import_module("azure.identity").DefaultAzureCredential() as credential:
            found = credential.get_token(scope)
        return CloudToken(found.token, float(found.expires_on))

    return TokenLogin(fetch)


def google_login() -> TokenLogin:
    """Tokens by Google's application default credentials."""
    found: list[Any] = []

    def fetch() -> CloudToken:
        request = import_module("google.auth.transport.requests").Request()
        if not found:
            credentials, _ = import_module("google.auth").default(scopes=[SCOPE_GOOGLE])
            found.append(credentials)
        found[0].refresh(request)
        return _google_token(found[0])

    return TokenLogin(fetch)


def _google_token(credentials: Any) -> CloudToken:
    # `expiry` is in UTC, without a zone.
    expiry = credentials.expiry
    ends = expiry.replace(tzinfo=UTC).timestamp() if expiry is not None else time.time() + _USUAL
    payer = getattr(credentials, "quota_project_id", None)
    return CloudToken(credentials.token, ends, {"x-goog-user-project": payer} if payer else {})
