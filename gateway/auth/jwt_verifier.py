"""JSON Web Tokens of the issuer: their verification, and the principals that they name.

1. Issuer, audience and algorithms are those of the agent file. The header of a token only selects among the
   issuer's keys and the accepted algorithms: `alg: none`, symmetric algorithms, and keys or addresses of keys
   in the header (`jwk`, `jku`, `x5c`, `x5u`) are useless, and an unknown critical header is refused.
2. `exp` is required. `exp`, `nbf` and `iat` have a leeway of `LEEWAY` seconds.
3. The subject is one that `subject` accepts.
4. Roles that the agent does not have are ignored. A token without a known role authenticates, but grants
   nothing.
5. A token that its issuer gave a program for itself, and not for a person who uses it, names no person
   (`is_of_program`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import attrs
import trio

from ...actors.access.principal import Grants, Principal, granted
from ...config.sections.auth import OidcConfig
from ..http.identity import Identity, Lifetime
from .jwks import Jwks
from .principal_names import is_subject
from .verifiers import Unverified

LEEWAY = 30.0
"""Seconds by which the clocks of the issuer and the agent may differ."""
MOST_ROLES = 200
"""Maximum number of roles of a token that are considered."""


def subject_of(value: object) -> str:
    """A subject as the issuer or a proxy names it (rule 3). Raises `Unverified`. Pure."""
    if not isinstance(value, str) or not is_subject(value):
        raise Unverified("it names no valid subject")
    return value


def claim_at(claims: Mapping[str, Any], path: str) -> object:
    """The claim of this name or, if there is none, at this path of names with dots between them. Pure."""
    if path in claims:
        return claims[path]
    for name in islice(claims, MOST_ROLES):
        inner = claims[name]
        if path.startswith(f"{name}.") and isinstance(inner, Mapping):
            found = claim_at(inner, path[len(name) + 1 :])
            if found is not None:
                return found
    return None


def roles_of(value: object, group_roles: Mapping[str, str] | None = None) -> Sequence[str]:
    """The names of roles in a claim: a list, or a text with spaces. Pure.

    Args:
        group_roles: the roles of the values; None or empty: the values are the roles.
    """
    names = value.split() if isinstance(value, str) else value
    if not isinstance(names, list):
        return ()
    if isinstance(value, str) and group_roles and value in group_roles:
        names = [value]  # the name of one group, with spaces
    found = [name for name in names if isinstance(name, str)]
    if group_roles:
        found = list(dict.fromkeys(group_roles[name] for name in found if name in group_roles))
    return found[:MOST_ROLES]


def principal_of(claims: Mapping[str, Any], config: OidcConfig, known: Grants, credential: str) -> Principal:
    """Raises `Unverified`. Pure."""
    return Principal(
        id=subject_of(claims.get(config.subject_claim)),
        grants=granted(roles_of(claim_at(claims, config.roles_claim), config.group_roles), known),
        credential=credential,
        is_person=not is_of_program(claims),
    )


def is_of_program(claims: Mapping[str, Any]) -> bool:
    """Whether a client got the token for itself, by the grant "client credentials". Pure.

    ================================================  ==============================================
    claims                                            source
    ================================================  ==============================================
    `sub` is `client_id`                              RFC 9068, section 2.2 and RFC 8693, section 4.3
    `sub` is `azp` or `cid`                           Google; Okta
    `idtyp` is ``app``                                Entra ID
    `gty` is ``client-credentials``                   Auth0
    `preferred_username` is ``service-account-AZP``   Keycloak
    ================================================  ==============================================
    """
    subject, client = claims.get("sub"), claims.get("azp")
    return (
        (subject is not None and subject in [claims.get(name) for name in ("client_id", "azp", "cid")])
        or claims.get("idtyp") == "app"
        or claims.get("gty") == "client-credentials"
        or (client is not None and claims.get("preferred_username") == f"service-account-{client}")
    )


def is_for(token: str, audience: str) -> bool:
    """Whether a token says that it is for this audience. Its signature is not checked. Pure."""
    import jwt

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return False
    named = claims.get("aud")
    return audience in (named if isinstance(named, list) else [named])


@attrs.frozen(eq=False)
class JwtVerifier:
    """Verifies the tokens of one issuer."""

    config: OidcConfig
    known: Grants
    jwks: Jwks

    async def verify(self, token: str) -> Identity:
        """See `BearerVerifier`. The `RequestError` is ``issuer_unavailable``."""
        claims = await self.claims(token, self.config.audience)
        credential = f"jwt:{hashlib.sha256(token.encode()).hexdigest()[:16]}"
        principal = principal_of(claims, self.config, self.known, credential)
        left = int(claims["exp"]) + LEEWAY - time.time()
        return Identity(principal, lifetime=Lifetime(trio.current_time() + left))

    async def claims(self, token: str, audience: str) -> Mapping[str, Any]:
        """The claims of a token of the issuer for this audience.

        Raises:
            Unverified
            RequestError: ``issuer_unavailable``.
        """
        import jwt

        try:
            # Without a check of the signature: issuer and audience first, so that tokens of others cause no
            # requests to the issuer.
            header = jwt.get_unverified_header(token)
            self._decode(token, "", audience, verify_signature=False)
            algorithm = header.get("alg")
            if algorithm not in self.config.algorithms:
                raise Unverified("its algorithm is not accepted")
            key = await self.jwks.find(header.get("kid"), algorithm)
            if key is None:
                raise Unverified("the issuer has no such key")
            return self._decode(token, key, audience, verify_signature=True)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Unverified(_WHY.get(type(error).__name__, "it is not a valid token")) from None

    def _decode(self, token: str, key: Any, audience: str, *, verify_signature: bool) -> Mapping[str, Any]:
        import jwt

        return jwt.decode(
            token,
            key,
            algorithms=self.config.algorithms,
            audience=audience,
            issuer=self.config.issuer,
            leeway=LEEWAY,
            options={
                "verify_signature": verify_signature,
                "verify_exp": True,
                "verify_nbf": True,
                "verify_iat": True,
                "verify_aud": True,
                "verify_iss": True,
                "require": ["exp", "iss", "aud"],
                "enforce_minimum_key_length": True,
            },
        )


_WHY: Mapping[str, str] = {
    "ExpiredSignatureError": "it has expired",
    "ImmatureSignatureError": "it is not valid yet",
    "InvalidAlgorithmError": "its algorithm is not accepted",
    "InvalidAudienceError": "it is for another audience",
    "InvalidIssuerError": "it is of another issuer",
    "InvalidKeyError": "the key of the issuer is too short",
    "InvalidSignatureError": "its signature is wrong",
    "MissingRequiredClaimError": "`exp`, `iss` or `aud` is missing",
}
"""Reasons by exception. The texts of the library may quote the token."""
