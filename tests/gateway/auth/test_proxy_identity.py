"""Identity headers count only if they come from the proxy, and are never ignored."""

from __future__ import annotations

import pytest
from werkzeug.datastructures import Headers

from stopgo.config.sections.auth import TrustedProxyConfig
from stopgo.gateway.auth.proxy_identity import stated_person
from stopgo.gateway.auth.verifiers import Unverified

from .fake_issuer import KNOWN

SECRET = "s3cret-of-the-proxy"
BOTH = TrustedProxyConfig(secret=SECRET, socket="/run/stopgo.sock")
ONLY_SOCKET = TrustedProxyConfig(socket="/run/stopgo.sock")
USER, GROUPS, SHARED = "X-Forwarded-User", "X-Forwarded-Groups", "X-Proxy-Secret"


@pytest.mark.parametrize("via_socket", [True, False])
def test_the_person_and_the_roles_that_the_proxy_names(via_socket: bool) -> None:
    headers = Headers({USER: "J\u00fcrgen".encode().decode("latin-1"), GROUPS: "viewer, payments,nobody"})
    if not via_socket:
        headers[SHARED] = SECRET
    person = stated_person(headers, BOTH, KNOWN, via_socket=via_socket)
    assert person is not None
    assert person.id == "Jürgen"
    assert [grant.name for grant in person.grants] == ["viewer", "payments"]
    assert person.is_person


@pytest.mark.parametrize("via_socket", [True, False])
def test_a_request_without_its_headers_has_no_such_credential(via_socket: bool) -> None:
    headers = Headers({"X-API-Key": "sg_x", "Authorization": "Bearer x"})
    assert stated_person(headers, BOTH, KNOWN, via_socket=via_socket) is None


def test_without_roles_nothing_is_granted() -> None:
    person = stated_person(Headers({USER: "alice", SHARED: SECRET}), BOTH, KNOWN, via_socket=False)
    assert person is not None
    assert person.grants == ()


@pytest.mark.parametrize(
    ("headers", "config", "via_socket"),
    [
        ([(USER, "alice")], BOTH, False),
        ([(GROUPS, "admin")], BOTH, False),
        ([(USER, "alice"), (SHARED, "")], BOTH, False),
        ([(USER, "alice"), (SHARED, "guess")], BOTH, False),
        ([(USER, "alice"), (SHARED, SECRET + " ")], BOTH, False),
        ([(USER, "alice"), (SHARED, "\xff")], BOTH, False),
        ([(USER, "alice"), (SHARED, "None")], ONLY_SOCKET, False),
        ([(USER, "alice"), (SHARED, "")], ONLY_SOCKET, False),
        ([(SHARED, SECRET)], BOTH, False),
        ([(USER, ""), (SHARED, SECRET)], BOTH, False),
        ([(USER, "key:ci"), (SHARED, SECRET)], BOTH, False),
        ([(USER, "\xff"), (SHARED, SECRET)], BOTH, False),
        ([(USER, "alice"), (USER, "bob"), (SHARED, SECRET)], BOTH, False),
        ([(USER, "alice"), (USER, "bob")], BOTH, True),
        ([(USER, "alice"), (GROUPS, "viewer"), (GROUPS, "admin")], BOTH, True),
        ([(USER, "alice"), (SHARED, "guess"), (SHARED, SECRET)], BOTH, False),
    ],
)
def test_headers_that_are_not_the_proxys_are_refused(
    headers: list[tuple[str, str]], config: TrustedProxyConfig, via_socket: bool
) -> None:
    with pytest.raises(Unverified) as refused:
        stated_person(Headers(headers), config, KNOWN, via_socket=via_socket)
    assert SECRET not in str(refused.value)


def test_the_secret_is_not_in_the_text_of_the_configuration() -> None:
    assert SECRET not in repr(BOTH)
