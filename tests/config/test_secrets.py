"""What of a tool server's entry is secret, and what is not."""

from __future__ import annotations

import pytest

from stopgo.config.sections.mcp import McpServerConfig, OAuthConfig
from stopgo.config.sections.secrets import (
    SHORTEST,
    says_secret,
    secrets_in,
    secrets_of,
    shown_address,
    weak_secrets,
)
from stopgo.config.text.interpolate import parse
from tests.config.conftest import Load

RANDOM = "aB3dE6gH9jK2mN5p"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in ("TOKEN", "GITHUB_PAT", "API_KEY", "apiKey", "--db-password", "PGPASSWORD")
        ),
        *((name, True) for name in ("X-Api-Key", "Authorization", "Cookie", "SECRET_VALUE", "ACCESS_TOKEN2")),
        *((name, False) for name in ("LOG_LEVEL", "MAX_TOKENS", "TOKEN_URL", "KEY_FILE", "PRIMARY_KEY")),
        *((name, False) for name in ("keyboard", "COMPAT", "SECRET_NAME", "AWS_ACCESS_KEY_ID", "")),
    ],
)
def test_a_name_says_whether_its_value_is_secret(name: str, secret: bool) -> None:
    assert says_secret(name) is secret


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("TOKEN", "hunter2", {"hunter2"}),
        ("TOKEN", "short", set()),
        ("TOKEN", "", set()),
        ("Authorization", "Bearer some-thing", {"some-thing"}),
        ("Authorization", "Basic YWRhOnN3b3JkZmlzaDEy", {"YWRhOnN3b3JkZmlzaDEy", "swordfish12"}),
        ("Cookie", "a=1; session=swordfish", {"a=1; session=swordfish", "swordfish"}),
        ("LEVEL", "warning", set()),
        ("REGION", "europe-west1-my-project-123456", set()),
        ("ANY", f"prefix-{RANDOM}", {f"prefix-{RANDOM}"}),
        ("CACHE", f"/nix/store/{RANDOM}{RANDOM}/bin", set()),
        ("DATABASE_URL", "postgres://ada:sword%40fish@db:5432/shop", {"sword%40fish", "sword@fish"}),
        ("URL", f"https://{RANDOM}.example.com/mcp", set()),
        ("URL", f"https://example.com/s/{RANDOM}/mcp", {RANDOM}),
        ("URL", "https://api.example/?apikey=sword%20fish&page=swordfish", {"sword%20fish", "sword fish"}),
        ("URL", "https://me-token@example.com/", {"me-token"}),
    ],
)
def test_the_secrets_in_a_value(name: str, value: str, secrets: set[str]) -> None:
    found = {each for each in secrets_in(name, value) if len(each) >= SHORTEST}
    assert {each for each in found if not each.startswith("ada:")} == secrets


def test_secrets_that_are_not_masked_everywhere_have_a_reason() -> None:
    env = {
        "PGPASSWORD": "postgres",
        "PIN_TOKEN": "12345",
        "API_KEY": "sk-1234567",
        "MODE": "quiet",
        "KEY": "",
    }
    server = McpServerConfig(name="a", command="b", env=env)
    assert dict(weak_secrets(server)) == {
        "PGPASSWORD": "it is a common word",
        "PIN_TOKEN": "it has fewer than 6 characters",
    }


def test_the_secrets_of_a_server() -> None:
    def of(**more: object) -> set[str]:
        return set(filter(None, secrets_of(McpServerConfig(name="a", **more))))  # type: ignore[arg-type]

    args = ("--port", "8080", "--token", "one-one", "--api-key=two-two", "--header", "X-Token: three", "run")
    assert of(command="a", args=args, env={"TOKEN": "four-four", "MODE": "verbose"}) == {
        "one-one",
        "two-two",
        "three",
        "four-four",
    }
    oauth = OAuthConfig(client_id="me", client_secret="five-five", issuer="https://issuer")
    assert of(url="https://host/mcp", headers={"X-Key": "six-six"}, oauth=oauth) == {"five-five", "six-six"}


def test_variable_is_secret_by_its_name(load: Load) -> None:
    text = """
    mcp_servers:
      a: {command: a, args: ["${DB_PASSWORD}", "${MODE}", "x${API_TOKEN:-none}"], env: ["X=${DB_PASSWORD}"]}
      b: {url: "https://host/${HOOK_SECRET}/mcp", headers: {X: "${UNSET_TOKEN:-from-the-file}"}}
    """
    values = {
        "DB_PASSWORD": "one-one",
        "MODE": "verbose",
        "API_TOKEN": "two-two",
        "HOOK_SECRET": "three-three",
    }
    a, b = load(text, values).mcp_servers
    assert set(filter(None, a.secrets)) == {"one-one", "two-two"}
    assert set(filter(None, b.secrets)) == {"three-three"}
    assert "one-one" not in repr(a)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("http://user:pw@host?apikey=abc&x=", "http://***@host?apikey=***&x="),
        ("http://h/mcp?key=${KEY}", "http://h/mcp?key=${KEY}"),
        ("https://${U}:${P:-pw}@h/mcp?bare#a=${Z:-pw}", "https://${U}:${P}@h/mcp?***#a=${Z}"),
        ("https://${U}:pw@h:1/${PLACE}/mcp", "https://***@h:1/${PLACE}/mcp"),
        (f"https://h/s/{RANDOM}/mcp", "https://h/s/***/mcp"),
        (f"https://{RANDOM}.example.com/a", f"https://{RANDOM}.example.com/a"),
        ("${URL:-http://u:pw@h:1/mcp?k=pw}", "${URL:-http://***@h:1/mcp?k=***}"),
        (f"https://h/${{PLACE:-{RANDOM}}}", "https://h/${PLACE}"),
        ("${URL}?key=pw", "${URL}?key=***"),
        ("http://${HOST:-127.0.0.1}:80/mcp", "http://${HOST:-127.0.0.1}:80/mcp"),
    ],
)
def test_an_address_is_shown_without_its_secrets(written: str, shown: str) -> None:
    assert shown_address(parse(written)) == shown
