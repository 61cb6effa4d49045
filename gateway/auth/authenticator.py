"""The identity behind a request: the chosen credential, verified."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import assert_never

import attrs

from ...config.auth import AuthConfig
from ..http.errors import unauthenticated
from ..http.identity import Identity
from ..http.request import Request
from .api_keys import ApiKeys
from .chosen_credential import Credential, GivenByRequest, GivenKey, GivenToken, choose
from .verifiers import BearerVerifier, RequestVerifier, Unverified

log = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class Authenticator:
    """Verifies the credentials that an agent file accepts. A kind without a verifier is refused."""

    auth: AuthConfig
    keys: ApiKeys | None = None
    tokens: BearerVerifier | None = None
    others: Sequence[RequestVerifier] = ()

    async def identify(self, request: Request) -> Identity:
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
            log.info("a credential is refused: %s", error)
            raise unauthenticated() from None
        if chosen.tool_token is None:
            return identity
        return identity.with_token(chosen.tool_token, chosen.forward_to)

    async def _verify(self, credential: Credential, request: Request) -> Identity:
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
