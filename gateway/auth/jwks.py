"""The keys with which the issuer signs, and the addresses of its discovery document, both cached.

=========================  ===============================================================================
age of the keys            a token whose key
                           is among them                          is not among them
=========================  ======================================  =======================================
below `RENEW_AFTER`        is checked                              has them read again, then is refused
up to `USABLE_FOR`         has them read again, then is checked    has them read again, then is refused
above, or never read       has them read again; if that fails: the issuer is unavailable
=========================  ===============================================================================

Unknown keys have the keys read at most every `PAUSE` seconds, and so does an issuer that is not available. A
task of its own reads, so that a client that disconnects cannot prevent it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio

from ..http.errors import RequestError
from .issuer import Endpoints, Issuer, IssuerError

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger(__name__)

PAUSE = 30.0
"""Seconds between two readings for unknown keys, and after a failed reading."""
RENEW_AFTER = 1800.0
USABLE_FOR = 3600.0
"""Seconds after which keys no longer count, if the issuer cannot be reached."""
MOST_KEYS = 100

_FITTING: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Type and curve of a key, by algorithm."""


def pick(keys: Sequence[Any], id: str | None, algorithm: str) -> PyJWK | None:
    """The only key of a key set (RFC 7517) with this id that fits the algorithm. Pure.

    A token without an id of a key has to fit exactly one.
    """
    import jwt

    fitting = [
        key
        for key in keys[:MOST_KEYS]
        if isinstance(key, dict) and (id is None or key.get("kid") == id) and _fits(key, algorithm)
    ]
    if len(fitting) != 1:
        return None
    try:
        return jwt.PyJWK(fitting[0], algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    type, curve = _FITTING[algorithm]
    uses = key.get("key_ops", ["verify"])
    return (
        key.get("kty") == type
        and (curve is None or key.get("crv") == curve)
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and isinstance(uses, list)
        and "verify" in uses
    )


@attrs.frozen
class PublishedKeys:
    """The documents that the issuer publishes."""

    endpoints: Endpoints
    keys: Sequence[Any]
    read_at: float
    """On trio's clock."""
    made: dict[tuple[str | None, str], PyJWK] = attrs.field(factory=dict)
    """Keys that were picked before, because reading one takes as long as checking a signature."""

    def key(self, id: str | None, algorithm: str) -> PyJWK | None:
        if (found := self.made.get((id, algorithm))) is None:
            found = pick(self.keys, id, algorithm)
            if found is not None:
                self.made[id, algorithm] = found
        return found


@attrs.define(eq=False)
class Jwks:
    """The cache. `run` reads, the other methods wait for it."""

    issuer: Issuer
    _published: PublishedKeys | None = None
    _may_read_at: float = -math.inf
    _may_fetch_at: float = -math.inf
    """When an unknown key may have the keys read again."""
    _wanted: trio.Event = attrs.field(factory=trio.Event)
    _done: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Read the keys whenever they are wanted."""
        while True:
            await self._wanted.wait()
            try:
                self._published = await self._read()
            except IssuerError as error:
                log.warning("the issuer %s is not available: %s", self.issuer.address, error)
                self._may_read_at = trio.current_time() + PAUSE
            done, self._wanted, self._done = self._done, trio.Event(), trio.Event()
            done.set()

    async def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key of a token; None if the issuer has no such key. Raises `RequestError`
        ``issuer_unavailable``."""
        found = (await self._usable()).key(id, algorithm)
        if found is not None:
            return found
        if trio.current_time() >= self._may_fetch_at or self._wanted.is_set():
            self._may_fetch_at = trio.current_time() + PAUSE
            await self._renew()
        return (await self._usable()).key(id, algorithm)

    async def endpoints(self) -> Endpoints:
        """Raises `RequestError` ``issuer_unavailable``."""
        return (await self._usable()).endpoints

    async def _usable(self) -> PublishedKeys:
        if self._age > RENEW_AFTER:
            await self._renew()
        if self._published is None or self._age > USABLE_FOR:
            raise issuer_unavailable()
        return self._published

    @property
    def _age(self) -> float:
        return math.inf if self._published is None else trio.current_time() - self._published.read_at

    async def _renew(self) -> None:
        if trio.current_time() >= self._may_read_at:
            self._wanted.set()
            await self._done.wait()

    async def _read(self) -> PublishedKeys:
        endpoints = await self.issuer.endpoints()
        keys = (await self.issuer.key_set(endpoints)).get("keys")
        if not isinstance(keys, list):
            raise IssuerError("its key set has no keys")
        return PublishedKeys(endpoints, keys, trio.current_time())


def issuer_unavailable() -> RequestError:
    return RequestError(
        503,
        "issuer_unavailable",
        "the issuer of tokens cannot be reached, so no token can be verified",
        hint="The server's log has the reason.",
    )
