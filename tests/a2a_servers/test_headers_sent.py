"""What the requests of our agent bring to the agents it delegates to, and what they do not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stopgo.actors.log.words.events import Origin
from tests.a2a_servers.caller import Talk, calling, shared_peer
from tests.a2a_servers.peer_process import Json, Peer
from tests.canary import KEY, TOKEN

pytestmark = pytest.mark.agents

PEERS: dict[str, Sequence[str]] = {
    "1.0": ("sdk",),
    "1.0-HTTP+JSON": ("sdk", "--binding", "HTTP+JSON"),
    "0.3-polled": ("sdk", "--version", "0.3", "--no-streaming"),
    "older": ("older",),
}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module", params=PEERS)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    with shared_peer(*PEERS[request.param]) as found:
        yield found


async def whole_turn(talk: Talk, peer: Peer) -> list[Json]:
    """The headers of all requests of a turn with a question, after the answer to that."""
    await talk.decide()
    assert talk.told == ("finished", "done")
    return [line["headers"] for line in talk.at(peer)]


def values(headers: Sequence[Json], name: str) -> set[str | None]:
    return {each.get(name) for each in headers}


def written(folder: Path, secret: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


async def test_the_bearer_and_the_session_arrive_unchanged(
    peer: Peer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    before = len(peer.requests())
    async with calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "ask", token=TOKEN, session_id="a-session")
        headers = await whole_turn(talk, peer)
        # FR-030: on all outbound calls, also when the card is read
        cards = [line["headers"] for line in peer.requests(method="GET") if "/.well-known/" in line["path"]]
        assert before or values(cards, "x-session-id") == {"a-session"}
        assert len(headers) >= 2
        assert values(headers, "authorization") == {f"Bearer {TOKEN}"}
        assert values(headers, "x-session-id") == {"a-session"}
        # A decision may bring another token, which counts from then on; the session goes on.
        talk.turn = await agent.send(talk.id, "ask", token=f"{TOKEN}-2")
        talk.turn = await agent.decide(talk.result.approvals[0], {"approved": True}, token=f"{TOKEN}-3")
        assert talk.told == ("finished", "done")
        later = [line["headers"] for line in talk.at(peer)[len(headers) :]]
        assert values(later, "authorization") == {f"Bearer {TOKEN}-2", f"Bearer {TOKEN}-3"}
        assert later[-1]["authorization"] == f"Bearer {TOKEN}-3"
        assert values(later, "x-session-id") == {"a-session"}
        assert written(tmp_path, TOKEN) == []
    assert written(tmp_path, TOKEN) == []
    assert TOKEN not in caplog.text


async def test_without_a_token_none_is_invented(peer: Peer, tmp_path: Path) -> None:
    async with calling(tmp_path, peer.url) as agent:
        headers = await whole_turn(await Talk.begin(agent, "ask"), peer)
        assert values(headers, "authorization") == {None}
        assert values(headers, "traceparent") == {None}


ENTRIES: dict[str, tuple[Json, str | None]] = {
    "not forwarded": ({"forward_bearer": False}, None),
    "its own": ({"headers": {"Authorization": "Bearer ${PEER_KEY}"}}, f"Bearer {KEY}"),
}
"""Of the peer in the agent file, and what arrives."""


@pytest.mark.parametrize("kept", ENTRIES)
async def test_a_bearer_that_stays_here(
    peer: Peer, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_KEY", KEY)
    entry, arrives = ENTRIES[kept]
    async with calling(tmp_path, peer.url, **entry) as agent:
        headers = await whole_turn(await Talk.begin(agent, "ask", token=TOKEN), peer)
        assert values(headers, "authorization") == {arrives}
        # Nor does a person's token help where the peer wants one: only the agent file can.
        talk = await Talk.begin(agent, "login", token=TOKEN)
        text = 'The outcome is unknown: agent "peer" needs a bearer token. The call was not repeated.'
        assert talk.told == ("failed", text)
        assert written(tmp_path, TOKEN) == written(tmp_path, KEY) == []


async def test_configured_headers_and_the_trace_arrive(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_KEY", KEY)
    before = len(peer.requests())
    entry: Json = {"headers": {"X-Team": "us"}, "api_key": "${PEER_KEY}"}
    async with calling(tmp_path, peer.url, **entry) as agent:
        talk = await Talk.begin(agent, "ask", origin=Origin(("first", "second"), TRACE), token=TOKEN)
        headers = await whole_turn(talk, peer)
        for name, value in {
            "x-api-key": KEY,
            "x-team": "us",
            "authorization": f"Bearer {TOKEN}",
        }.items():
            assert values(headers, name) == {value}, name
        # A look before a decision belongs to no trace.
        assert values(headers, "traceparent") == {TRACE, None}
        paths = re.findall(r"'urn:agent-stop-and-go:path:v1': {'agents': (\[.*?\])}", str(talk.at(peer)))
        assert paths == [str(["first", "second", agent.id])] * 2
    cards = [line["headers"] for line in peer.requests()[before:] if "/.well-known/" in line["path"]]
    assert values(cards, "x-api-key") == {KEY}
    assert values(cards, "authorization") == {None}
    assert written(tmp_path, KEY) == written(tmp_path, TOKEN) == []
