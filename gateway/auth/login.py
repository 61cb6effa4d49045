"""The login of the page: authorization code with PKCE at the issuer.

``GET /login`` sends the browser to the issuer, and the issuer sends it back to ``/login/callback``, which
begins a session. The callback answers with a page that continues, not with a redirect: the session's cookie
is `Strict`, so browsers would not send it with a redirect that began at the issuer.
"""

from __future__ import annotations

import hmac
import html
import logging
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import attrs

from ...actors.access.principal import Principal
from ...config.sections.auth import LoginConfig
from ...runtime.journal.followed_notes import FollowedNotes, made_once
from ..http.errors import RequestError
from ..http.host_and_origin import Allowed, prefix_of
from ..http.quart_app import Application
from ..http.request import HttpRequest
from ..http.responses import Reply
from .issuer import IssuerError
from .jwt_verifier import JwtVerifier, claim_at, principal_of
from .login_transaction import (
    LOGIN_COOKIE,
    LOGIN_SECONDS,
    Transaction,
    own_path,
    read_transaction,
)
from .sessions import COOKIE, Sessions, cookie
from .verifiers import Unverified

log = logging.getLogger(__name__)

CALLBACK = "/login/callback"
NOTE = "login"
"""The kind of the note with the key of logins, and its key."""
MOST_USED = 10_000
"""Maximum number of completed logins whose repetition is refused here; the issuer refuses it, too."""

_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Agent Stop and Go</title>
<link rel="stylesheet" href="{prefix}/page/base.css">
{refresh}</head>
<body>
<main class="empty"><h1>{title}</h1><p>{text}</p><p><a href="{href}">{link}</a></p></main>
</body>
</html>
"""


def with_login(allowed: Allowed) -> Allowed:
    """Issuers may send browsers to the callback."""
    return attrs.evolve(allowed, linked=allowed.linked | {CALLBACK.encode()})


class LoginFailed(Exception):
    """A login that begins no session. The text is for the person."""


@attrs.define(eq=False)
class Login:
    """The routes of the login."""

    config: LoginConfig
    verifier: JwtVerifier
    public_url: str | None
    sessions: Sessions
    _notes: FollowedNotes
    _key: bytes = attrs.field(default=b"", repr=False)
    """The key of the cookies of logins in progress. All members have the same."""
    _used: dict[str, None] = attrs.field(factory=dict)
    """States of completed logins, the oldest first."""

    async def load(self) -> None:
        """Read the key, or make it; and read the sessions. Raises `JournalError`."""
        await self.sessions.load()
        key = await made_once(self._notes.notes, NOTE, NOTE, "key", lambda: secrets.token_hex(32))
        self._key = bytes.fromhex(key)

    def add_to(self, app: Application) -> None:
        app.add("/login", "login", self.begin, ["GET"], public=True)
        app.add(CALLBACK, "login callback", self.finish, ["GET"], public=True)

    async def begin(self, request: HttpRequest) -> Reply:
        """Send the browser to the issuer."""
        try:
            endpoints = await self.verifier.jwks.endpoints()
        except RequestError as error:
            return self._failed(error.status, error.message)
        if endpoints.authorization is None:
            return self._failed(503, "the issuer has no login")
        base = (self.public_url or f"http://{request.host}").rstrip("/")
        back = own_path(request.args.get("return", "/"))
        begun = Transaction.new(base + CALLBACK, back, self._notes.wall())
        parameters = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": begun.redirect_uri,
            "scope": " ".join(self.config.scopes),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": begun.challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in endpoints.authorization else "?"
        return Reply(
            b"",
            303,
            "",
            {
                "Location": f"{endpoints.authorization}{separator}{urlencode(parameters)}",
                "Set-Cookie": cookie(
                    LOGIN_COOKIE, begun.sign(self._key), seconds=LOGIN_SECONDS, same_site="Lax"
                ),
            },
        )

    async def finish(self, request: HttpRequest) -> Reply:
        """Begin a session for the person that the issuer names."""
        try:
            begun = self._begun(request)
            principal = await self._person(request, begun)
        except LoginFailed as error:
            return self._failed(400, str(error))
        except (IssuerError, Unverified) as error:
            log.warning("a login failed: %s", error)
            return self._failed(502, "the issuer gave no valid answer; the server's log has the reason")
        except RequestError as error:
            return self._failed(error.status, error.message)
        id = await self.sessions.begin(principal)
        href = html.escape(prefix_of(self.public_url) + begun.back)
        page = _PAGE.format(
            prefix=prefix_of(self.public_url),
            refresh=f'<meta http-equiv="refresh" content="0;url={href}">\n',
            title="Logged in",
            text="The page continues by itself.",
            href=href,
            link="Continue",
        )
        return _html(200, page, cookie(COOKIE, id, seconds=self.sessions.seconds))

    def _begun(self, request: HttpRequest) -> Transaction:
        """The login that this browser began, which is then used up. Raises `LoginFailed`."""
        begun = read_transaction(request.cookies.get(LOGIN_COOKIE, ""), self._key, self._notes.wall())
        state = _only(request, "state")
        if begun is None or not hmac.compare_digest(begun.state.encode(), state.encode(errors="replace")):
            raise LoginFailed("this login was not begun in this browser, or took too long")
        if state in self._used:
            raise LoginFailed("this login was completed before")
        self._used[state] = None
        if len(self._used) > MOST_USED:
            del self._used[next(iter(self._used))]
        return begun

    async def _person(self, request: HttpRequest, begun: Transaction) -> Principal:
        if "error" in request.args:
            raise LoginFailed("the issuer did not log you in")
        if request.args.get("iss", self.verifier.config.issuer) != self.verifier.config.issuer:
            raise LoginFailed("the answer is of another issuer")
        claims = await self._claims(_only(request, "code"), begun)
        config = self.verifier.config
        return principal_of(claims, config, self.verifier.known, "")

    async def _claims(self, code: str, begun: Transaction) -> Mapping[str, Any]:
        """The claims of the ID token, and of the user info if the former lacks the subject or the roles."""
        verifier, config = self.verifier, self.verifier.config
        endpoints = await verifier.jwks.endpoints()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect_uri,
            "code_verifier": begun.verifier,
        }
        issuer = verifier.jwks.issuer
        tokens = await issuer.tokens(endpoints, form, self.config.client_id, self.config.client_secret)
        claims = await verifier.claims(str(tokens.get("id_token")), self.config.client_id)
        if not hmac.compare_digest(str(claims.get("nonce")).encode(errors="replace"), begun.nonce.encode()):
            raise Unverified("its nonce is that of another login")
        if claims.get("azp", self.config.client_id) != self.config.client_id:
            raise Unverified("it was issued to another client")
        if config.subject_claim in claims and claim_at(claims, config.roles_claim) is not None:
            return claims
        more = await issuer.userinfo(endpoints, str(tokens.get("access_token")))
        if more and more.get("sub") != claims.get("sub"):
            raise Unverified("the user info is of another person")
        return {**more, **claims}

    def _failed(self, status: int, why: str) -> Reply:
        text, prefix = html.escape(f"{why[0].upper()}{why[1:]}."), prefix_of(self.public_url)
        page = _PAGE.format(
            prefix=prefix, refresh="", title="Not logged in", text=text, href=f"{prefix}/", link="Back"
        )
        return _html(status, page, cookie(LOGIN_COOKIE, "", seconds=0, same_site="Lax"))


def _only(request: HttpRequest, name: str) -> str:
    values = request.args.getlist(name)
    if len(values) != 1:
        raise LoginFailed(f"the answer of the issuer has no {name}")
    return values[0]


def _html(status: int, page: str, cookie: str) -> Reply:
    return Reply(page.encode(), status, "text/html; charset=utf-8", {**_HEADERS, "Set-Cookie": cookie})
