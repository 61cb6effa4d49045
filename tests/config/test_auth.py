from __future__ import annotations

import pytest

from stopgo.config.sections.auth import AuthConfig, LoginConfig, OidcConfig, ScopeConfig, TrustedProxyConfig

from .conftest import Load, Problems


def test_all_of_it(load: Load) -> None:
    text = """
auth:
  api_keys: true
  oidc:
    issuer: https://issuer.example/realm
    audience: api
    algorithms: [ES256]
    roles_claim: groups
    login: {client_id: page, client_secret: "${SECRET}", scopes: [openid], session_hours: 1}
  proxy: {subject_header: X-User, secret: "${SECRET}", socket: run/proxy.sock}
  roles: {payments: {tools: ["pay*"], kinds: [tool]}}
"""
    auth = load(text, {"SECRET": "s3cret"}).auth
    login = LoginConfig(client_id="page", client_secret="s3cret", scopes=("openid",), session_hours=1.0)
    assert auth == AuthConfig(
        api_keys=True,
        oidc=OidcConfig(
            issuer="https://issuer.example/realm",
            audience="api",
            algorithms=("ES256",),
            roles_claim="groups",
            login=login,
        ),
        proxy=TrustedProxyConfig(subject_header="X-User", secret="s3cret", socket="run/proxy.sock"),
        roles={"payments": ScopeConfig(tools=("pay*",), kinds=("tool",))},
    )
    assert "s3cret" not in repr(auth)


def test_without_the_section_there_is_no_authentication(load: Load) -> None:
    assert load("name: x").auth is None


ISSUER = "auth: {{oidc: {{issuer: {}, audience: a}}}}"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("auth: {proxy: {secret: ''}}", "empty_value", None),
        ("auth: {proxy: {secret: x, subject_header: 'X User'}}", "bad_format", "the name of a header"),
        ("auth: {oidc: {issuer: 'https://i.example'}}", "missing_key", "audience is required"),
        (ISSUER.format("http://issuer.example"), "bad_format", "an https:// address"),
        (ISSUER.format("http://localhost.example"), "bad_format", "an https:// address"),
        (ISSUER.format("http://127.0.0.1.example:80/x"), "bad_format", "an https:// address"),
        (ISSUER.format("http://localhost@issuer.example"), "bad_format", "an https:// address"),
        (ISSUER.format("'https://issuer.example?x'"), "bad_format", "an https:// address"),
        ("auth: {oidc: {issuer: 'https://i', audience: a, algorithms: [HS256]}}", "unknown_word", None),
        (
            "auth: {oidc: {issuer: 'https://i', audience: a, group_roles: {g: operater}}}",
            "unknown_role",
            "there is no role operater",
        ),
        ("auth: {oidc: {issuer: 'https://i', audience: a, algorithms: [none]}}", "unknown_word", None),
        ("auth: {oidc: {issuer: 'https://i', audience: a, algorithms: []}}", "empty_list", None),
    ],
)
def test_mistakes(problems: Problems, text: str, code: str, message: str | None) -> None:
    [problem] = problems(text)
    assert problem.code == code
    assert (message or "") in str(problem)


@pytest.mark.parametrize(
    "issuer",
    [
        "https://issuer.example",
        "https://issuer.example:8443/realms/x/",
        "http://localhost:9000",
        "http://127.0.0.1:9000/realm",
        "http://[::1]",
    ],
)
def test_issuers(load: Load, issuer: str) -> None:
    auth = load(ISSUER.format(f"'{issuer}'")).auth
    assert auth is not None
    assert auth.oidc is not None
    assert auth.oidc.issuer == issuer
