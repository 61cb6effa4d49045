"""The identity behind a request: the chosen credential, verified."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import assert_never
from weakref import WeakValueDictionary

import attrs
import trio

from ...config.sections.auth import AuthConfig
from ..http.errors import RequestError, unauthenticated
from ..http.identity import Identity
from ..http.request import HttpRequest
from ..http.stream_count import StreamCount
from .api_keys import ApiKeys
from .chosen_credential import Credential, GivenByRequest, GivenKey, GivenToken, choose
from .lifetimes import is_api_key
from .login import Login
from .request_rate import RequestRate
from .tickets import Tickets
from .verifiers import BearerVerifier, RequestVerifier, Unverified

log = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class Authenticator:
    """Verifies the credentials that an agent file accepts. A kind without a verifier is refused."""

    auth: AuthConfig
    keys: ApiKeys | None = None
    tokens: BearerVerifier | None = None
    others: Sequence[RequestVerifier] = ()
    tickets: Tickets | None = None
    login: Login | None = None
    """The login of the page, if there is one."""
    _rate: RequestRate = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: RequestRate(self.auth.limits.requests_per_minute), takes_self=True
        ),
    )
    _streams: WeakValueDictionary[str, StreamCount] = attrs.field(init=False, factory=WeakValueDictionary)
    """By id of the principal, as long as a request of it is served."""

    async def identify(self, request: HttpRequest) -> Identity:
        """See `Entrance`."""
        chosen = choose(
            request.headers,
            [each.kind for each in self.others if each.presents(request)],
            audience=None if self.auth.oidc is None else self.auth.oidc.audience,
            forward_credential=self.auth.forward_credential,
        )
        try:
            identity = await self._verify(chosen.credential, request)
        except Unverified as error:
            log.info("a credential of the client %s is refused: %s", request.peer or "of the socket", error)
            raise unauthenticated() from None
        if chosen.tool_token is not None:
            identity = identity.with_token(chosen.tool_token, chosen.forward_to)
        return self._within_limits(identity)

    def credential_is_live(self, id: str) -> bool:
        """Whether the vote of a credential still counts. It lapses with an API key, not with a session or a
        token of the issuer, which end soon."""
        return not is_api_key(id) or (self.keys is not None and self.keys.is_live(id))

    def _within_limits(self, identity: Identity) -> Identity:
        id = identity.principal.id
        if (wait := self._rate.admit(id, trio.current_time())) is not None:
            raise RequestError(
                429,
                "limit_reached",
                f"a principal may send {self._rate.limit} requests in a minute",
                headers={"Retry-After": str(wait)},
            )
        if (most := self.auth.limits.streams) is None:
            return identity
        return attrs.evolve(identity, streams=self._streams.setdefault(id, StreamCount(most)))

    async def _verify(self, credential: Credential, request: HttpRequest) -> Identity:
        match credential:
            case GivenKey() if self.keys is not None:
                return self.keys.verify(credential.text)
            case GivenToken() if self.tokens is not None:
                return await self.tokens.verify(credential.text)
            case GivenByRequest():
                found = next(each for each in self.others if each.kind == credential.kind)
                return await found.verify(request)
            case GivenKey() | GivenToken():
                raise Unverified("the agent file does not accept this kind of credential")
            case _:
                assert_never(credential)
