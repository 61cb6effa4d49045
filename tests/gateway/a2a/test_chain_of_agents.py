"""A chain of agents with `auth:`: tokens and keys at each hop, and decisions that pass through relays.

Three agents, each with an HTTP server, and a tool server. The first two need API keys; the last one and the
tool server need none, and record the headers that arrive.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from stopgo.actors.access.principal import Grant, Principal
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.gateway.app import make_app
from stopgo.gateway.auth.verifiers import BearerVerifier
from stopgo.gateway.http.http_server import bind, open_server
from stopgo.gateway.http.identity import Identity
from tests.actors.mcp.conftest import HttpPeer, serving_peer
from tests.canary import TOKEN
from tests.gateway.keyring import Keyring
from tests.http_client import http_client

Json = dict[str, Any]
JWT = "eyJhbGciOiJub25lIn0.eyJhdWQiOiJ1cyJ9.c2ln"  # its audience is "us"
PERSON, LIE = b"key:front", b"alice@x.y"
"""The name that the middle agent passes on, and one of the same length."""
ASKER, APPROVER = f"{TOKEN}-asker", f"{TOKEN}-approver"
REPLIES = [
    {"when": {"call": 1}, "tool_calls": [{"name": "slow", "arguments": {}}]},
    {"when": {"call": 2}, "tool_calls": [{"name": "echo", "arguments": {}}]},
    {"when": {"call": 3}, "tool_calls": [{"name": "slow", "arguments": {}}]},
    {"when": {"call": 4}, "text": "done"},
]


def beside(key: str, token: str | None) -> dict[str, str]:
    """The headers of a client that adds its key to those of before."""
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    return {"X-API-Key": key, **bearer}


def instead(key: str, token: str | None) -> dict[str, str]:
    """The headers of a client whose bearer token is the key."""
    tool = {} if token is None else {"X-Tool-Authorization": f"Bearer {token}"}
    return {"Authorization": f"Bearer {key}", **tool}


@attrs.define(eq=False)
class Hop:
    """A served agent, and the headers of its requests."""

    agent: Agent
    keys: Keyring
    url: str = ""
    seen: list[Mapping[str, str]] = attrs.field(factory=list)

    async def post(self, path: str, body: Json, headers: Mapping[str, str]) -> Json:
        async with http_client(base_url=self.url) as client:
            response = await client.post(path, json=body, headers=headers)
        answer: Json = response.json()
        assert response.status_code in (200, 201), answer
        return answer

    async def decide(self, turn: Json, name: str, token: str | None, **words: Any) -> Json:
        [asked] = turn["result"]["approvals"]
        headers = beside(self.keys.texts[name], token)
        return await self.post(f"/approvals/{asked['uuid']}", {"approved": True, **words}, headers)

    async def decisions(self) -> list[tuple[Any, Any]]:
        """Pairs of the principal that decided and the name that it claimed."""
        page = await self.agent.approvals(state="decided")
        given = [each.decision for each in page.approvals if each.decision is not None]
        return [(each.get("decided_by"), each.get("claimed_by")) for each in given]


@attrs.frozen(eq=False)
class Chain:
    first: Hop
    middle: Hop
    last: Hop
    tools: HttpPeer

    def seen(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        """The headers of all POST requests, with the number of the hop."""
        hops = (self.first.seen, self.middle.seen, self.last.seen, self.tools.seen)
        for number, seen in enumerate(hops):
            yield from ((number, headers) for headers in seen)

    def keys_at(self) -> dict[int, set[str]]:
        """The API keys that arrived at each hop, in any header."""
        keys = [*self.first.keys.texts.values(), *self.middle.keys.texts.values()]
        found: dict[int, set[str]] = {}
        for number, headers in self.seen():
            found.setdefault(number, set()).update(
                key for key in keys if any(key in value for value in headers.values())
            )
        return found

    def tokens_at(self, hop: int) -> list[str]:
        """The bearer tokens that arrived at a hop, without repetitions in a row."""
        found = [headers.get("authorization", "none") for number, headers in self.seen() if number == hop]
        return [each.removeprefix("Bearer ") for each, _ in groupby(found)]


def loaded(folder: Path, file: Json, environ: Mapping[str, str]) -> AgentConfig:
    folder.mkdir()
    (folder / "replies.yaml").write_text(json.dumps({"replies": REPLIES}))
    (folder / "agent.yaml").write_text(json.dumps({"llm": {"model": "script:replies.yaml"}, **file}))
    return load_config(folder / "agent.yaml", environ=environ, data_dir=folder / "data")


@asynccontextmanager
async def hop(
    folder: Path,
    file: Json,
    keys: Keyring,
    key: str = "",
    tokens: BearerVerifier | None = None,
    person: bytes = PERSON,
) -> AsyncIterator[Hop]:
    """Serve an agent. `person` replaces `PERSON` in the requests, as if their sender had written it."""
    config = loaded(folder, file, {"NEXT_KEY": key})
    async with open_agent(config) as agent:
        found = Hop(agent, keys)
        authenticator = None if config.auth is None else keys.authenticator(config.auth, tokens)
        app = make_app(agent, authenticator=authenticator)

        async def recording(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            if scope["type"] == "http" and scope["method"] == "POST":
                found.seen.append({name.decode(): value.decode() for name, value in scope["headers"]})

            async def received() -> Any:
                message: Any = await receive()
                if message["type"] == "http.request":
                    message = {**message, "body": message["body"].replace(PERSON, person)}
                return message

            await app(scope, received, send)

        async with open_server(recording, bind("127.0.0.1", 0)) as server:
            found.url = server.url
            yield found


@pytest.fixture
def tools() -> Iterator[HttpPeer]:
    peer = HttpPeer()
    peer.slow.set()
    with serving_peer(peer):
        yield peer


def delegating(name: str, url: str, *nodes: str, **entry: Any) -> Json:
    """An agent file with one node after the other, all of which call the same agent."""
    agents = [{"type": "a2a", "name": each, "agent": name, "prompt": "go"} for each in nodes]
    tree = {"type": "sequential", "name": "root", "agents": agents}
    return {"a2a": [{"name": name, "url": f"{url}/a2a", **entry}], "agent": tree}


@pytest.fixture
async def chain(tmp_path: Path, tools: HttpPeer) -> AsyncIterator[Chain]:
    keyrings: list[Keyring] = []
    for roles in ({"ann": "operator", "boss": "approver"}, {"front": "relay"}, {}):
        folder = tmp_path / f"keys{len(keyrings)}"
        folder.mkdir()
        keyrings.append(Keyring.of(folder, roles))
    front, middle, _ = keyrings
    auth = {"auth": {"api_keys": True}}
    tree = {
        "mcp_servers": [{"name": "tools", "url": tools.url}],
        "approval": {"rules": [{"tool": "echo", "then": "ask"}]},
    }
    async with AsyncExitStack() as stack:
        last = await stack.enter_async_context(hop(tmp_path / "last", tree, keyrings[2]))
        file = delegating("last", last.url, "onward") | auth
        second = await stack.enter_async_context(hop(tmp_path / "middle", file, middle))
        file = delegating("middle", second.url, "once", "again", api_key="${NEXT_KEY}") | auth
        first = await stack.enter_async_context(hop(tmp_path / "first", file, front, middle.texts["front"]))
        yield Chain(first, second, last, tools)


@pytest.mark.parametrize("quorum", [1, 2])
async def test_middle_agent_that_lies_about_the_person(tmp_path: Path, tools: HttpPeer, quorum: int) -> None:
    """The name is recorded as a claim of the relay, and counts towards no quorum."""
    rings: list[Keyring] = []
    for roles in ({"ann": "operator", "boss": "approver"}, {"front": "relay"}, {"middle": "relay"}):
        (folder := tmp_path / f"keys{len(rings)}").mkdir()
        rings.append(Keyring.of(folder, roles))
    auth = {"auth": {"api_keys": True}}
    rule = {"tool": "echo", "then": "ask", "quorum": quorum}
    file = {"mcp_servers": [{"name": "tools", "url": tools.url}], "approval": {"rules": [rule]}} | auth
    async with AsyncExitStack() as stack:
        last = await stack.enter_async_context(hop(tmp_path / "last", file, rings[2], person=LIE))
        file = delegating("last", last.url, "onward", api_key="${NEXT_KEY}") | auth
        key = rings[2].texts["middle"]
        middle = await stack.enter_async_context(hop(tmp_path / "middle", file, rings[1], key))
        file = delegating("middle", middle.url, "once", api_key="${NEXT_KEY}") | auth
        key = rings[1].texts["front"]
        first = await stack.enter_async_context(hop(tmp_path / "first", file, rings[0], key))
        turn = await first.post("/conversations", {"message": "go"}, beside(rings[0].texts["ann"], None))
        await first.decide(turn, "boss", None)
        echoed = [name for name, _ in tools.calls].count("echo")
        [asked] = (await last.agent.approvals(state=None)).approvals
        if quorum == 1:
            assert await last.decisions() == [("key:middle", LIE.decode())]
            assert echoed == 1
        else:
            assert (asked.state, asked.votes, echoed) == ("pending", (), 0)


def leaks(folder: Path, *secrets: str) -> list[Path]:
    files = (file for file in folder.glob("*/data/**/*") if file.is_file())
    return [file for file in files if any(secret.encode() in file.read_bytes() for secret in secrets)]


@pytest.mark.parametrize("headers", [beside, instead])
@pytest.mark.parametrize("brought", [None, APPROVER], ids=["no token", "a token of its own"])
async def test_tokens_travel_and_keys_stay(
    chain: Chain, tmp_path: Path, brought: str | None, headers: Callable[..., dict[str, str]]
) -> None:
    first, middle, tools = chain.first, chain.middle, chain.tools
    keys, ann, boss, front = first.keys.texts, *first.keys.texts.values(), middle.keys.texts["front"]
    turn = await first.post("/conversations", {"message": "go"}, headers(ann, ASKER))
    assert tools.calls == [("slow", f"Bearer {ASKER}")]
    [asked] = turn["conversation"]["approvals"]
    assert (asked["kind"], asked["path"]) == ("proxy", ["middle", "last"])
    assert (asked["tool_name"], asked["server"]) == ("echo", "a2a:middle")

    # The last agent has no `auth:`, so there the token of the decision drives the rest of the task.
    turn = await first.decide(turn, "boss", brought, decided_by="somebody")
    token = brought or ASKER
    assert tools.calls[1:3] == [("echo", f"Bearer {token}"), ("slow", f"Bearer {token}")]
    # The next task is called with the token of the requester again.
    assert tools.calls[3:] == [("slow", f"Bearer {ASKER}")]
    turn = await first.decide(turn, "boss", None)
    assert (turn["result"]["state"], turn["result"]["response"]) == ("finished", "done")
    assert tools.calls[4:] == [("echo", f"Bearer {ASKER}"), ("slow", f"Bearer {ASKER}")]

    assert chain.keys_at() == {0: {ann, boss}, 1: {front}, 2: set(), 3: set()}
    expected = [ASKER] if brought is None else [ASKER, APPROVER, ASKER]
    assert chain.tokens_at(1) == chain.tokens_at(2) == expected
    assert leaks(tmp_path, TOKEN, *keys.values(), front) == []

    assert await first.decisions() == [("key:boss", "somebody"), ("key:boss", None)]
    assert await middle.decisions() == [("key:front", "key:boss")] * 2
    assert await chain.last.decisions() == [("key:front", None)] * 2


class AnyToken:
    """Takes every token of the issuer for one of Ann."""

    async def verify(self, token: str) -> Identity:
        return Identity(Principal(id="ann", grants=(Grant("operator", "operator"),)))


FORWARDED = {
    "to the tool server": (["tools"], [JWT]),
    "elsewhere": (["other"], [None]),
    "nowhere": ([], [None]),
}


@pytest.mark.parametrize(("names", "arrives"), FORWARDED.values(), ids=FORWARDED)
async def test_token_of_the_issuer_goes_to_the_named_servers_only(
    tmp_path: Path, tools: HttpPeer, names: Sequence[str], arrives: Sequence[str | None]
) -> None:
    (keys := tmp_path / "keys").mkdir()
    oidc = {"issuer": "https://issuer.test", "audience": "us"}
    other = {"name": "other", "url": "http://127.0.0.1:1/mcp", "required": False}
    file: Json = {
        "auth": {"oidc": oidc, "forward_credential": list(names)},
        "mcp_servers": [{"name": "tools", "url": tools.url}, other],
        "approval": {"rules": [{"tool": "echo", "then": "ask"}]},
    }
    async with hop(tmp_path / "agent", file, Keyring.of(keys, {}), tokens=AnyToken()) as found:
        await found.post("/conversations", {"message": "go"}, {"Authorization": f"Bearer {JWT}"})
    assert tools.calls == [("slow", each and f"Bearer {each}") for each in arrives]
    assert leaks(tmp_path, JWT) == []


async def test_call_of_an_agent_that_refuses_the_key_fails(chain: Chain) -> None:
    """It does not wait for a bearer token, which would not help."""
    chain.middle.keys.revoke("front")
    headers = beside(chain.first.keys.texts["ann"], ASKER)
    turn = await chain.first.post("/conversations", {"message": "go"}, headers)
    assert turn["result"]["state"] == "failed"
    assert "it refuses the API key (HTTP 401)" in turn["result"]["response"]
    assert chain.tools.calls == []
