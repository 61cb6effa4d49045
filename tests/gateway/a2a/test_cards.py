"""The cards, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from a2a.client.card_resolver import parse_agent_card
from trio.testing import MockClock

from stopgo.actors.agent.lists import ListedTool
from stopgo.actors.tools.tool import Tool
from stopgo.config.sections.auth import AuthConfig, OidcConfig, TrustedProxyConfig
from stopgo.gateway.a2a.agent_card import AgentAbout, Offered, Version
from stopgo.gateway.a2a.agent_card import card as card_of
from tests.actors.world import DESTRUCTIVE, READ_ONLY, World

from .talk import Talk, furnish, talking
from .tongues import V03, V1_HTTP, Ask

TOOL = ListedTool(Tool("wipe", "", {}, "tools", hints=DESTRUCTIVE), "ask")
PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")


async def card(talk: Talk, path: str = PATHS[0]) -> Any:
    return (await talk.client.get(path)).json()


async def relist(talk: Talk) -> None:
    talk.world.relist("tools")
    await trio.testing.wait_all_tasks_blocked()


def addresses(card: Any) -> set[str]:
    own = [each["url"] for each in (*card["supportedInterfaces"], *card["additionalInterfaces"])]
    return {card["url"], *own}


async def test_sdk_parses_the_card(talk: Talk, autojump_clock: MockClock) -> None:
    found = await card(talk)
    assert await card(talk, PATHS[1]) == found
    parsed = parse_agent_card(found)
    assert parsed.name == found["name"] == "agent"
    assert {(each.protocol_binding, each.protocol_version) for each in parsed.supported_interfaces} == {
        (binding, version) for binding in ("JSONRPC", "HTTP+JSON") for version in ("1.0", "0.3")
    }
    assert parsed.capabilities.streaming
    assert parsed.capabilities.extended_agent_card


async def test_card_is_cached_until_it_changes(talk: Talk, autojump_clock: MockClock) -> None:
    for path in PATHS:
        first = await talk.client.get(path)
        assert first.headers["Cache-Control"] == "public, max-age=60"
        assert first.headers["Last-Modified"]
        etag = first.headers["ETag"]
        for known in etag, f"W/{etag}", f'"other", {etag}', "*":
            again = await talk.client.get(path, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
        talk.world.tool(f"more{path[-6:-5]}", READ_ONLY)
        await relist(talk)
        changed = await talk.client.get(path, headers={"If-None-Match": etag})
        assert changed.status_code == 200
        assert changed.headers["ETag"] != etag


async def test_skills_follow_the_tool_list(talk: Talk, autojump_clock: MockClock) -> None:
    def names(card: Any) -> set[str]:
        return {skill["id"] for skill in card["skills"]}

    before = await card(talk)
    assert names(before) == {"wipe", "slow", "files", "locked"}
    [wipe] = [skill for skill in before["skills"] if skill["id"] == "wipe"]
    # The client of fasta2a 2.1.1 refuses a card with a skill without modes (fasta2a/schema.py, `Skill`).
    modes = {"inputModes": before["defaultInputModes"], "outputModes": before["defaultOutputModes"]}
    named = {"id": "wipe", "name": "wipe", "description": "Wipe something.", "tags": ["tools"]}
    assert wipe == {**named, **modes}
    talk.world.tool("burn", DESTRUCTIVE)
    await relist(talk)
    assert names(await card(talk)) == names(before) | {"burn"}
    extended = (await talk.raw(Ask("GET", "/a2a/extendedAgentCard"))).json()
    tags = {skill["id"]: skill["tags"] for skill in extended["skills"]}
    assert tags["burn"] == ["tools", "needs approval"]
    assert tags["files"] == ["tools", "runs at once"]
    # That of 0.3 is for authenticated clients.
    for wanted in (
        Ask("GET", "/a2a/v1/card"),
        Ask("POST", "/a2a", {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}),
    ):
        refused = (await talk.raw(wanted)).json()
        assert "there is no card for authenticated clients" in str(refused)


@pytest.mark.parametrize(
    ("host", "public_url", "base"),
    [
        ("127.0.0.1", None, "{own}"),
        ("0.0.0.0", None, "{own}"),
        ("0.0.0.0", "https://agents.test/one/", "https://agents.test/one"),
    ],
)
async def test_addresses(
    tmp_path: Path, autojump_clock: MockClock, host: str, public_url: str | None, base: str
) -> None:
    world = furnish(World(tmp_path))
    if public_url is not None:
        world.settings["server"] = {"public_url": public_url}
    async with talking(world, host) as talk:
        own = str(talk.client.base_url).rstrip("/")
        for path in PATHS:
            assert addresses(await card(talk, path)) == {f"{base.format(own=own)}/a2a"}


KEY = {"apiKey": ({"location": "header", "name": "X-API-Key"}, {"in": "header", "name": "X-API-Key"})}
URL = {"openIdConnectUrl": "https://issuer.test/.well-known/openid-configuration"}
OIDC = {"openIdConnect": (URL, URL)}
ISSUER = OidcConfig(issuer="https://issuer.test/", audience="a")
SCHEMES: dict[str, tuple[AuthConfig | None, Any]] = {
    "none": (None, {}),
    "keys": (AuthConfig(api_keys=True), KEY),
    "issuer": (AuthConfig(oidc=ISSUER), OIDC),
    "both": (AuthConfig(api_keys=True, oidc=ISSUER), KEY | OIDC),
    "proxy": (AuthConfig(proxy=TrustedProxyConfig(secret="s")), {}),
}


@pytest.mark.parametrize(("auth", "schemes"), SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("versions", [("1.0", "0.3"), ("1.0",), ("0.3",)], ids=str)
def test_card_asks_for_credentials(
    auth: AuthConfig | None, schemes: Any, versions: tuple[Version, ...]
) -> None:
    """Both versions have their own fields in one object. A parser of each reads the same scheme."""
    about = AgentAbout("agent", "Helps.", "1", "http://h", (TOOL,), auth)
    public, extended = (card_of(about, Offered(versions=versions), extended=each) for each in (False, True))
    v1 = {name: {f"{name}SecurityScheme": fields} for name, (fields, _) in schemes.items()}
    v03 = {name: {"type": name, **fields} for name, (_, fields) in schemes.items()}
    written = [fields for version, fields in (("1.0", v1), ("0.3", v03)) if version in versions]
    for found in (public, extended):
        merged = {name: {key: each[name][key] for each in written for key in each[name]} for name in schemes}
        assert found.get("securitySchemes", {}) == merged
        needs: list[Any] = (
            [{"schemes": {name: {"list": []}}} for name in schemes] if "1.0" in versions else []
        )
        assert found.get("securityRequirements", []) == needs
        assert found.get("security", []) == ([{name: []} for name in schemes] if "0.3" in versions else [])
        parsed = parse_agent_card(json.loads(json.dumps(found)))
        kinds = {name: scheme.WhichOneof("scheme") for name, scheme in parsed.security_schemes.items()}
        snake = {"apiKey": "api_key_security_scheme", "openIdConnect": "open_id_connect_security_scheme"}
        assert kinds == {name: snake[name] for name in schemes}
    assert [skill["id"] for skill in extended["skills"]] == ["wipe"]
    assert [skill["id"] for skill in public["skills"]] == ["wipe" if auth is None else "talk"]
    assert public.get("supportsAuthenticatedExtendedCard", auth is not None) is (auth is not None)


async def test_agent_without_tools_has_one_skill(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with talking(World(tmp_path)) as talk:
        [skill] = (await card(talk))["skills"]
        assert skill["id"] == "talk"
        # Its addresses are those it answers at.
        for tongue in V1_HTTP, V03:
            assert (await talk.told(tongue.send("hi"))).state == "completed"
