"""Which credential and which token for tools a request has."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import Headers

from stopgo.gateway.auth.chosen_credential import (
    ChosenCredential,
    GivenByRequest,
    GivenKey,
    GivenToken,
    choose,
)
from stopgo.gateway.auth.jwt_verifier import is_for
from stopgo.gateway.auth.verifiers import RequestKind
from stopgo.gateway.http.errors import RequestError


def jwt(**claims: Any) -> str:
    body = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.c2ln"


KEY, OTHER_KEY = "sg_1_" + "a" * 48, "sg_2_" + "b" * 48
OURS, LISTED, FOREIGN = jwt(aud="us"), jwt(aud=["them", "us"]), jwt(aud="them")
X, A, T = "X-API-Key", "Authorization", "X-Tool-Authorization"


def bearer(token: str) -> str:
    return f"Bearer {token}"


@attrs.frozen
class Case:
    headers: Sequence[tuple[str, str]]
    credential: Any
    """Or the status and code of the refusal."""
    token: str | None = None
    forward_to: tuple[str, ...] | None = None
    presented: Sequence[RequestKind] = ()
    forward: tuple[str, ...] = ()


REFUSED = (401, "unauthenticated")
MIXED = (400, "credential_as_tool_token")
S = GivenByRequest("session")
P = GivenByRequest("proxy")

CASES = [
    # One credential, and the token of each header.
    Case([], REFUSED),
    Case([(X, KEY)], GivenKey(KEY)),
    Case([(X, f" {KEY} ")], GivenKey(KEY)),
    Case([(A, bearer(KEY))], GivenKey(KEY)),
    Case([(A, f"bearer  {KEY}")], GivenKey(KEY)),
    Case([(A, bearer(OURS))], GivenToken(OURS)),
    Case([(A, bearer("opaque"))], GivenToken("opaque")),
    Case([(X, KEY), (A, bearer("B"))], GivenKey(KEY), "B"),
    Case([(X, KEY), (A, bearer(FOREIGN))], GivenKey(KEY), FOREIGN),
    Case([(X, KEY), (A, "Basic dTpw")], GivenKey(KEY)),
    Case([(X, KEY), (T, bearer("T"))], GivenKey(KEY), "T"),
    Case([(X, KEY), (A, bearer("B")), (T, bearer("T"))], GivenKey(KEY), "T"),
    Case([(A, bearer(OURS)), (T, bearer("T"))], GivenToken(OURS), "T"),
    Case([(T, bearer("T"))], REFUSED),
    # Other kinds of credentials.
    Case([], S, presented=["session"]),
    Case([], GivenByRequest("ticket"), presented=["session", "ticket"]),
    Case([(X, KEY)], GivenKey(KEY), presented=["session"]),
    Case([(A, bearer("B"))], S, "B", presented=["session"]),
    Case([(A, bearer("B")), (T, bearer("T"))], S, "T", presented=["session"]),
    Case([(A, bearer("B"))], P, presented=["proxy"]),
    Case([(A, bearer(KEY))], P, presented=["proxy"]),
    Case([(A, bearer("B")), (T, bearer("T"))], P, "T", presented=["proxy"]),
    Case([(X, KEY), (A, bearer("B"))], GivenKey(KEY), presented=["proxy"]),
    # A credential as the token for tools.
    Case([(X, KEY), (A, bearer(OTHER_KEY))], MIXED),
    Case([(X, KEY), (T, bearer(KEY))], MIXED),
    Case([(X, KEY), (A, bearer(OTHER_KEY))], MIXED, forward=("crm",)),
    Case([(A, bearer(KEY)), (T, bearer(KEY))], MIXED, forward=("crm",)),
    Case([(X, KEY), (A, bearer(OURS))], MIXED),
    Case([(X, KEY), (T, bearer(LISTED))], MIXED),
    Case([(A, bearer(OURS)), (T, bearer(OURS))], MIXED),
    Case([(A, bearer(OURS))], MIXED, presented=["session"]),
    # One JWT for both.
    Case([(A, bearer(OURS))], GivenToken(OURS), OURS, ("crm",), forward=("crm",)),
    Case([(X, KEY), (A, bearer(LISTED))], GivenKey(KEY), LISTED, ("crm",), forward=("crm",)),
    Case([(A, bearer(OURS)), (T, bearer("T"))], GivenToken(OURS), "T", forward=("crm",)),
    Case([(A, bearer(FOREIGN))], GivenToken(FOREIGN), forward=("crm",)),
    Case([(A, bearer("opaque"))], GivenToken("opaque"), forward=("crm",)),
    Case([(A, bearer(KEY))], GivenKey(KEY), forward=("crm",)),
    Case([(A, bearer(OURS))], P, presented=["proxy"], forward=("crm",)),
    # Malformed, empty and repeated ones never give way to another one.
    Case([(X, ""), (A, bearer("B"))], GivenKey(""), "B"),
    Case([(X, "no key"), (A, bearer(KEY))], MIXED),
    Case([(A, "Basic dTpw")], REFUSED),
    Case([(A, "")], REFUSED),
    Case([(A, "Bearer")], REFUSED),
    Case([(A, "Bearer two words")], REFUSED),
    Case([(A, bearer("x" * 9000))], REFUSED),
    Case([(X, KEY), (A, "Bearer two words")], (400, "invalid_token")),
    Case([(X, KEY), (T, "T")], (400, "invalid_token")),
    Case([(X, KEY), (T, "Basic dTpw")], (400, "invalid_token")),
    Case([(X, KEY), (T, "")], (400, "invalid_token")),
    Case([(X, KEY), (X, KEY)], (400, "invalid_request")),
    Case([(X, KEY), (A, bearer("B")), (A, bearer("B"))], (400, "invalid_request")),
    Case([(X, KEY), (T, bearer("T")), (T, bearer("U"))], (400, "invalid_request")),
]


@pytest.mark.parametrize("case", CASES)
def test_each_request_has_one_credential_and_at_most_one_token(case: Case) -> None:
    headers = Headers(list(case.headers))
    if isinstance(case.credential, tuple):
        with pytest.raises(RequestError) as refused:
            choose(headers, case.presented, audience="us", forward_credential=case.forward)
        assert (refused.value.status, refused.value.code) == case.credential
        is_challenged = "WWW-Authenticate" in refused.value.headers
        assert is_challenged == (refused.value.status == 401)
    else:
        chosen = choose(headers, case.presented, audience="us", forward_credential=case.forward)
        assert chosen == ChosenCredential(case.credential, case.token, case.forward_to)
        assert not any(secret in repr(chosen) for secret in (KEY, OURS, "'B'", "'T'"))


VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from([KEY, bearer(KEY), bearer(OURS), bearer(LISTED), bearer("T"), "Basic x"]),
)


@given(st.lists(st.tuples(st.sampled_from([X, A, T]), VALUES), max_size=4))
def test_no_credential_becomes_a_token_for_tools(headers: list[tuple[str, str]]) -> None:
    sendable = Headers([(name, value) for name, value in headers if not set("\r\n") & set(value)])
    with suppress(RequestError):
        token = choose(sendable, audience="us").tool_token or ""
        assert not token.startswith("sg_")
        assert not is_for(token, "us")
