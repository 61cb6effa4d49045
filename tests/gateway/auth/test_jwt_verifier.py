"""Which tokens are accepted, and the principals that they name."""

from __future__ import annotations

import time
from typing import Any

import attrs
import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.auth.jwks import PAUSE, RENEW_AFTER, USABLE_FOR, pick
from stopgo.gateway.auth.jwt_verifier import LEEWAY, claim_at, principal_of, roles_of
from stopgo.gateway.auth.verifiers import Unverified
from stopgo.gateway.http.errors import RequestError

from .fake_issuer import (
    AUDIENCE,
    CONFIG,
    KNOWN,
    FakeIssuer,
    by_hand,
    claims,
    ec_key,
    jwk,
    public_pem,
    rsa_key,
    signed,
    verifying,
)

FIRST = jwk(rsa_key("first"), kid="first")
MALLORY = rsa_key("mallory")


async def test_a_valid_token_names_its_principal_and_ends_with_it() -> None:
    body = claims(roles=["payments", "operator", "unknown"])
    async with verifying(FakeIssuer()) as verifier:
        identity = await verifier.verify(signed(body))
        again = await verifier.verify(signed(body))
        other = await verifier.verify(signed({**body, "jti": "2"}))
    principal = identity.principal
    assert (principal.id, [each.name for each in principal.grants]) == ("alice", ["payments", "operator"])
    assert principal.credential == again.principal.credential != other.principal.credential
    assert identity.lifetime.expires is not None
    left = identity.lifetime.expires - trio.current_time()
    assert left == pytest.approx(body["exp"] + LEEWAY - time.time(), abs=5)


@pytest.mark.parametrize(
    ("more", "is_person"),
    [
        ({}, True),
        ({"azp": "portal", "client_id": "portal", "cid": "portal"}, True),  # a person who uses a client
        ({"client_id": "alice"}, False),  # RFC 9068, section 2.2
        ({"azp": "alice"}, False),  # Google: identity of a service account
        ({"cid": "alice"}, False),  # Okta: claims of an access token
        ({"idtyp": "app"}, False),  # Entra ID: optional claim `idtyp`
        ({"idtyp": "user"}, True),
        ({"gty": "client-credentials"}, False),  # Auth0: profiles of access tokens
        ({"azp": "ci", "preferred_username": "service-account-ci"}, False),  # Keycloak: service accounts
        ({"azp": "portal", "preferred_username": "service-account-ci"}, True),  # a name that a person chose
        ({"azp": None, "client_id": ["alice"]}, True),
    ],
)
async def test_token_of_a_program_names_no_person(more: dict[str, Any], is_person: bool) -> None:
    async with verifying(FakeIssuer()) as verifier:
        assert (await verifier.verify(signed(claims(**more)))).principal.is_person is is_person


async def test_elliptic_curves_and_lists_of_audiences_are_accepted() -> None:
    issuer = FakeIssuer([FIRST, jwk(ec_key("second"), kid="second")])
    token = signed(claims(aud=["other", AUDIENCE]), ec_key("second"), "ES256", kid="second")
    async with verifying(issuer) as verifier:
        assert (await verifier.verify(token)).principal.id == "alice"


NOW = int(time.time())
SECRET = public_pem(rsa_key("first"))
FORGED = {
    "alg none": by_hand({"alg": "none", "kid": "first"}, claims()),
    "alg None": by_hand({"alg": "None", "kid": "first"}, claims()),
    "no alg": by_hand({"kid": "first"}, claims()),
    "alg no text": by_hand({"alg": ["RS256"], "kid": "first"}, claims()),
    "the public key as HMAC secret": by_hand({"alg": "HS256", "kid": "first"}, claims(), SECRET),
    "RS256 said, HMAC made": by_hand({"alg": "RS256", "kid": "first"}, claims(), SECRET),
    "an algorithm that is not accepted": signed(algorithm="RS512"),
    "a key of another type": signed(None, ec_key("second"), "ES256", kid="first"),
    "a signature of another": signed(None, MALLORY),
    "an unknown kid": signed(None, MALLORY, kid="mallory"),
    "a kid that is no text": by_hand({"alg": "RS256", "kid": 1}, claims(), b"x"),
    "its own key": signed(None, MALLORY, jwk=jwk(MALLORY)),
    "its own key, by its kid": signed(None, MALLORY, kid="mallory", jwk=jwk(MALLORY, kid="mallory")),
    "the address of its key": signed(None, MALLORY, kid="mallory", jku="https://mallory.example/keys"),
    "its own certificate": signed(None, MALLORY, x5u="https://mallory.example/x5u", x5c=["MIIB"]),
    "an unknown critical header": signed(crit=["exp"], exp=NOW + 300),
    "an unencoded payload": signed(crit=["b64"], b64=False),
    "another audience": signed(claims(aud="other")),
    "audiences without ours": signed(claims(aud=["other", "stopgo"])),
    "no audience": signed(claims(aud=None)),
    "an audience that is an object": signed(claims(aud={AUDIENCE: 1})),
    "another issuer": signed(claims(iss="https://issuer.example")),
    "an issuer with a slash more": signed(claims(iss=CONFIG.issuer + "/")),
    "no issuer": signed(claims(iss=None)),
    "no exp": signed(claims(exp=None)),
    "exp null": by_hand({"alg": "RS256", "kid": "first"}, {**claims(), "exp": None}, b"x"),
    "expired": signed(claims(exp=NOW - 60)),
    "an exp beyond every number": by_hand({"alg": "RS256", "kid": "first"}, claims(exp=1e400), b"x"),
    "not valid yet": signed(claims(nbf=NOW + 3600)),
    "issued in the future": signed(claims(iat=NOW + 3600)),
    "no subject": signed(claims(sub=None)),
    "an empty subject": signed(claims(sub="")),
    "a subject of spaces": signed(claims(sub="  ")),
    "a subject with a line break": signed(claims(sub="alice\nadmin")),
    "a long subject": signed(claims(sub="a" * 201)),
    "a subject like a key's": signed(claims(sub="key:ci")),
    "no token": "opaque",
    "two parts": signed().rpartition(".")[0],
    "a part more": signed() + ".x",
    "a payload that is a list": by_hand({"alg": "RS256"}, [], b"x"),  # type: ignore[arg-type]
    "deep nesting": by_hand({"alg": "RS256", "kid": "first", "x": 1}, {"a": "["}, b"x").replace("e", "["),
}


@pytest.mark.parametrize("name", FORGED)
async def test_forged_tokens_are_refused(name: str) -> None:
    async with verifying(FakeIssuer([FIRST, jwk(ec_key("second"), kid="second")])) as verifier:
        with pytest.raises(Unverified) as refused:
            await verifier.verify(FORGED[name])
        assert (await verifier.verify(signed())).principal.id == "alice"  # only the forgery is refused
    assert not any(part and part in str(refused.value) for part in FORGED[name].split("."))


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    async def run() -> None:
        async with verifying(FakeIssuer()) as verifier:
            for token in (text, f"{text}.{text}.{text}", f"{signed().rpartition('.')[0]}.{text}"):
                with pytest.raises(Unverified):
                    await verifier.verify(token)

    trio.run(run)


async def test_tokens_of_others_cause_no_request_to_the_issuer() -> None:
    issuer = FakeIssuer()
    async with verifying(issuer) as verifier:
        for token in ("opaque", signed(claims(iss="https://other.example")), signed(claims(aud="other"))):
            with pytest.raises(Unverified):
                await verifier.verify(token)
    assert issuer.read == 0


async def test_the_leeway_covers_clocks_that_differ() -> None:
    now = time.time()
    async with verifying(FakeIssuer()) as verifier:
        identity = await verifier.verify(signed(claims(exp=int(now) - 10, nbf=now + 10, iat=now + 10)))
    assert not identity.lifetime.has_ended


@pytest.mark.parametrize(
    ("value", "roles"),
    [
        (["a", "b"], ["a", "b"]),
        ("a  b", ["a", "b"]),
        (["a", 1, None, ["b"]], ["a"]),
        (None, []),
        ({"a": 1}, []),
        (7, []),
    ],
)
def test_roles_are_a_list_or_a_text_with_spaces(value: Any, roles: list[str]) -> None:
    assert list(roles_of(value)) == roles


def test_claims_have_the_names_that_the_agent_file_gives() -> None:
    config = attrs.evolve(CONFIG, subject_claim="email", roles_claim="groups")
    body = {"sub": "1", "email": "alice@example.com", "groups": "viewer nobody"}
    found = principal_of(body, config, KNOWN, "")
    assert (found.id, [each.name for each in found.grants]) == ("alice@example.com", ["viewer"])


# Keycloak nests roles (keycloak docs, "Protocol mappers"); Auth0's names of claims are addresses with dots.
@pytest.mark.parametrize(
    ("claims", "path"),
    [
        ({"roles": ["viewer"]}, "roles"),
        ({"realm_access": {"roles": ["viewer"]}}, "realm_access.roles"),
        ({"resource_access": {"my.client": {"roles": ["viewer"]}}}, "resource_access.my.client.roles"),
        ({"https://x.example/roles": ["viewer"]}, "https://x.example/roles"),
        ({"a": {"b": 1}, "a.b": ["viewer"]}, "a.b"),
    ],
)
def test_claim_is_found_by_its_name_or_inside_objects(claims: Any, path: str) -> None:
    assert claim_at(claims, path) == ["viewer"]


@pytest.mark.parametrize("claims", [{}, {"a": 1}, {"a": {"b": None}}, {"a": {"c": 1}}, {"a": ["b"]}])
def test_claim_that_is_not_there_has_no_roles(claims: Any) -> None:
    assert claim_at(claims, "a.b") is None


@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        (["/team", "admin", "x y"], ["viewer", "operator"]),
        ("x y", ["operator"]),
        ("/team /team", ["viewer"]),
        (["admin"], []),
        ([*map(str, range(1000)), "/team"], ["viewer"]),
    ],
)
def test_only_listed_groups_give_roles(groups: Any, roles: list[str]) -> None:
    assert list(roles_of(groups, {"/team": "viewer", "x y": "operator"})) == roles


# ------------------------------------------------------------------------------ keys


@pytest.mark.parametrize(
    ("keys", "id", "algorithm", "is_found"),
    [
        ([FIRST], "first", "RS256", True),
        ([FIRST], None, "RS256", True),
        ([FIRST, jwk(MALLORY, kid="other")], None, "RS256", False),
        ([FIRST, FIRST], "first", "RS256", False),
        ([{**FIRST, "alg": "PS256"}], "first", "RS256", False),
        ([{**FIRST, "use": "enc"}], "first", "RS256", False),
        ([{**FIRST, "key_ops": ["encrypt"]}], "first", "RS256", False),
        ([{**FIRST, "key_ops": 1}], "first", "RS256", False),
        ([{**FIRST, "n": 1}], "first", "RS256", False),
        ([{**FIRST, "kty": "oct", "k": "AAAA"}], "first", "RS256", False),
        ([FIRST], "first", "ES256", False),
        ([jwk(ec_key("third", ec.SECP384R1), kid="first")], "first", "ES256", False),
        (["first", None, FIRST], "first", "RS256", True),
    ],
)
def test_one_key_fits_id_type_algorithm_and_use(
    keys: list[Any], id: str | None, algorithm: str, is_found: bool
) -> None:
    assert (pick(keys, id, algorithm) is not None) == is_found


async def test_short_keys_are_refused() -> None:
    short = rsa_key("short", 1024)
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = signed(None, short, kid="short")
    async with verifying(FakeIssuer([jwk(short, kid="short")])) as verifier:
        with pytest.raises(Unverified, match="too short"):
            await verifier.claims(token, AUDIENCE)


async def test_a_new_key_is_fetched_and_the_old_one_still_verifies(autojump_clock: object) -> None:
    issuer = FakeIssuer()
    async with verifying(issuer) as verifier:
        await verifier.verify(signed())
        issuer.keys.insert(0, jwk(rsa_key("next"), kid="next"))
        new = signed(None, rsa_key("next"), kid="next")
        async with trio.open_nursery() as nursery:
            for _ in range(3):  # at the same time
                nursery.start_soon(verifier.verify, new)
        assert issuer.read == 2
        await verifier.verify(signed())
        del issuer.keys[1]
        await trio.sleep(RENEW_AFTER + 1)
        with pytest.raises(Unverified):
            await verifier.verify(signed())
    assert issuer.read == 4  # for the age of the keys, and for the key that is gone


async def test_unknown_keys_have_the_keys_read_at_most_every_30_seconds(autojump_clock: object) -> None:
    issuer = FakeIssuer()
    async with verifying(issuer) as verifier:
        for number in range(100):
            with pytest.raises(Unverified):
                await verifier.verify(signed(None, MALLORY, kid=str(number)))
            await trio.sleep(1)
    assert issuer.read == 5  # once at first, then for the keys


async def test_a_client_that_leaves_does_not_end_the_reading_for_others(autojump_clock: object) -> None:
    issuer = FakeIssuer(answers=False)
    async with verifying(issuer) as verifier:
        with trio.move_on_after(1):
            await verifier.verify(signed())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(verifier.verify, signed())
            await trio.testing.wait_all_tasks_blocked()
            assert issuer.read == 1  # the second client waits for the reading that the first one began
            nursery.cancel_scope.cancel()


async def test_an_issuer_that_is_away_fails_closed(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    issuer = FakeIssuer(is_away=True)
    token = signed(claims(exp=int(time.time()) + 10**6))
    async with verifying(issuer) as verifier:
        for _ in range(3):
            with pytest.raises(RequestError) as unavailable:
                await verifier.verify(token)
        assert (unavailable.value.status, unavailable.value.code) == (503, "issuer_unavailable")
        assert caplog.text.count("is not available: it is away") == 1
        issuer.is_away = False
        await trio.sleep(PAUSE)
        await verifier.verify(token)

        issuer.is_away = True
        await trio.sleep(USABLE_FOR - 1)
        await verifier.verify(token)  # with the keys of an hour ago
        await trio.sleep(2)
        with pytest.raises(RequestError):
            await verifier.verify(token)
