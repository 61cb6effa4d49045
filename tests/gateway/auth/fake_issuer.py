"""An issuer whose keys and answers the test decides, without HTTP."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, cast

import attrs
import jwt
import trio
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from stopgo.actors.access.principal import all_grants
from stopgo.config.sections.auth import AuthConfig, LoginConfig, OidcConfig, ScopeConfig
from stopgo.gateway.auth.authenticator import Authenticator
from stopgo.gateway.auth.issuer import Endpoints, Issuer, IssuerError
from stopgo.gateway.auth.jwks import Jwks
from stopgo.gateway.auth.jwt_verifier import JwtVerifier
from stopgo.gateway.auth.lifetimes import Lifetimes
from stopgo.gateway.auth.login import Login
from stopgo.gateway.auth.proxy_identity import ProxyVerifier
from stopgo.gateway.auth.sessions import Sessions, SessionVerifier
from stopgo.gateway.auth.tickets import Tickets, TicketVerifier
from stopgo.gateway.auth.verifiers import RequestVerifier
from stopgo.runtime.journal.followed_notes import FollowedNotes
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal

ADDRESS = "https://issuer.example/realm"
AUDIENCE, CLIENT = "stopgo-api", "stopgo-page"
KNOWN = all_grants({"payments": ScopeConfig(tools=("pay*",))})
CONFIG = OidcConfig(
    issuer=ADDRESS, audience=AUDIENCE, algorithms=("RS256", "ES256"), login=LoginConfig(client_id=CLIENT)
)

Json = dict[str, Any]


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key for each name; making one takes a tenth of a second."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(name: str, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def public_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(key: Any, **members: Any) -> Json:
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**{name: value for name, value in made.items() if name != "key_ops"}, **members}


def claims(**changes: Any) -> Json:
    """Those of a valid token; a claim that is None is left out."""
    now = int(time.time())
    whose = {"iss": ADDRESS, "aud": AUDIENCE, "sub": "alice", "roles": ["operator"]}
    body = {**whose, "exp": now + 300, "iat": now, **changes}
    return {name: value for name, value in body.items() if value is not None}


def signed(
    body: Mapping[str, Any] | None = None,
    key: Any = None,
    algorithm: str = "RS256",
    **header: Any,
) -> str:
    header = {name: value for name, value in {"kid": "first", **header}.items() if value is not None}
    return jwt.encode(claims() if body is None else dict(body), key or rsa_key("first"), algorithm, header)


def by_hand(header: Json, body: Json, secret: bytes | None = None) -> str:
    """A token that the library would not make: signed with HMAC, or not at all."""
    parts = ".".join(_text(json.dumps(part).encode()) for part in (header, body))
    return f"{parts}.{_text(hmac.digest(secret, parts.encode(), 'sha256')) if secret is not None else ''}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@attrs.define(eq=False)
class FakeIssuer:
    keys: list[Any] = attrs.field(factory=lambda: [jwk(rsa_key("first"), kid="first", use="sig")])
    address: str = ADDRESS
    is_away: bool = False
    answers: bool = True
    """If not, a request for the keys waits for ever."""
    read: int = 0
    """How often the keys were read."""
    id_token: Json = attrs.field(factory=dict)
    """Claims of the next ID token."""
    info: Json = attrs.field(factory=dict)
    forms: list[Mapping[str, str]] = attrs.field(factory=list)

    async def endpoints(self) -> Endpoints:
        await trio.lowlevel.checkpoint()
        if self.is_away:
            raise IssuerError("it is away")
        return Endpoints(f"{ADDRESS}/keys", f"{ADDRESS}/auth", f"{ADDRESS}/token", f"{ADDRESS}/me", False)

    async def key_set(self, endpoints: Endpoints) -> Json:
        self.read += 1
        if not self.answers:
            await trio.sleep_forever()
        return {"keys": list(self.keys)}

    async def tokens(
        self, endpoints: Endpoints, form: Mapping[str, str], client_id: str, secret: str | None
    ) -> Json:
        await trio.lowlevel.checkpoint()
        self.forms.append(form)
        if form["code"] != "code":
            raise IssuerError("it answered HTTP 400")
        body = claims(**{"aud": client_id, **self.id_token})
        return {"id_token": signed(body), "access_token": "opaque"}

    async def userinfo(self, endpoints: Endpoints, access_token: str) -> Json:
        await trio.lowlevel.checkpoint()
        return self.info


@asynccontextmanager
async def verifying(issuer: FakeIssuer, config: OidcConfig = CONFIG) -> AsyncIterator[JwtVerifier]:
    jwks = Jwks(cast(Issuer, issuer))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jwks.run)
        yield JwtVerifier(config, KNOWN, jwks)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def authenticating(issuer: FakeIssuer, auth: AuthConfig) -> AsyncIterator[Authenticator]:
    """As `open_authenticator` does it, with this issuer."""
    assert auth.oidc is not None
    assert auth.oidc.login is not None
    async with verifying(issuer, auth.oidc) as verifier:
        notes = FollowedNotes(MemoryJournal())
        sessions = Sessions(auth.oidc.login.session_hours * 3600, notes, KNOWN)
        login = Login(auth.oidc.login, verifier, None, sessions, notes)
        await login.load()
        tickets = Tickets(notes, KNOWN, Lifetimes(None, login, notes.wall).of)
        others: list[RequestVerifier] = [TicketVerifier(tickets), SessionVerifier(sessions)]
        if auth.proxy is not None:
            others.append(ProxyVerifier(auth.proxy, KNOWN))
        yield Authenticator(auth, None, verifier, others, tickets, login)
