"""Our agent delegates to agents that others wrote, over real sockets, whatever version they speak."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from stopgo.actors.agent.agent import Agent
from tests.a2a_servers.caller import ONWARD, Talk, calling, shared_peer
from tests.a2a_servers.peer_process import Json, Peer
from tests.waiting import until

pytestmark = pytest.mark.agents

PEERS: dict[str, Sequence[str]] = {
    "sdk-1.0-JSONRPC": ("sdk",),
    "sdk-1.0-HTTP+JSON": ("sdk", "--binding", "HTTP+JSON"),
    "sdk-0.3-JSONRPC": ("sdk", "--version", "0.3"),
    "sdk-0.3-HTTP+JSON": ("sdk", "--version", "0.3", "--binding", "HTTP+JSON"),
    "sdk-1.0-polled": ("sdk", "--no-streaming"),
    "js-1.0-JSONRPC": ("js",),
    "js-1.0-HTTP+JSON": ("js", "--binding", "HTTP+JSON"),
    "js-0.3-JSONRPC": ("js", "--version", "0.3"),
    "js-0.3-HTTP+JSON": ("js", "--version", "0.3", "--binding", "HTTP+JSON"),
    "older": ("older",),
}
YES: Json = {"approved": True}
NO: Json = {"approved": False}
CANCELLED = "Operation cancelled by user."
KNOW_MORE = [name for name in PEERS if name != "older"]
"""Those that know what the dialect from before 0.3 has not."""


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    with shared_peer(*PEERS[request.param]) as found:
        yield found


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """That of the peer."""
    found: str = request.node.callspec.params["peer"]
    return found


def peers(*names: str) -> pytest.MarkDecorator:
    """Each of these peers, started once for all tests."""
    found = [
        pytest.param(name, id=name, marks=[pytest.mark.npm] if name.startswith("js") else [])
        for name in names or PEERS
    ]
    return pytest.mark.parametrize("peer", found, indirect=True, scope="module")


@attrs.frozen
class Story:
    words: str
    end: str
    """What people are told in the end."""
    steps: Sequence[tuple[str, Json]] = ()
    """What is asked, and what a person says to it."""
    sent: Sequence[str] = ()
    """Of what they say, as the peer gets it."""
    state: str = "finished"


STORIES = [
    Story("echo a  b", "echo: a  b"),
    Story("ask", "done", [("May I?", YES)], ["approved"]),
    Story("ask", f"{CANCELLED}\n\nnot done", [("May I?", NO)], ["rejected"]),
    Story("ask twice", "done", [("May I?", YES), ("Really?", YES)], ["approved", "approved"]),
    Story(
        "ask twice",
        f"{CANCELLED}\n\nnot done",
        [("May I?", YES), ("Really?", NO)],
        ["approved", "rejected"],
    ),
    Story(
        "ask",
        f"{CANCELLED}\n\nnot done",
        [("May I?", {**NO, "reason": "it is in use"})],
        ["rejected | it is in use"],
    ),
    Story("slow 0.1", "slow: all of it is over"),
    Story("fail", "it broke", state="failed"),
    Story("dance", "what is 'dance'?", state="failed"),
]
LATER_STORIES = [
    Story("say hi", "say: hi"),
    Story("reject", "The agent's task is rejected: I will not", state="failed"),
]
"""Of versions from 0.3 on."""


@peers()
async def test_stories(peer: Peer, name: str, tmp_path: Path) -> None:
    """Side by side, each in a conversation of its own."""
    stories = STORIES if name == "older" else [*STORIES, *LATER_STORIES]
    async with calling(tmp_path, peer.url) as agent, trio.open_nursery() as nursery:
        for story in stories:
            nursery.start_soon(follow, agent, peer, story)


async def follow(agent: Agent, peer: Peer, story: Story) -> None:
    talk = await Talk.begin(agent, story.words)
    bound = set()
    for question, words in story.steps:
        assert talk.result.state == "waiting", (story, talk.told)
        asked = await talk.asked()
        assert (asked.kind, asked.remote_agent_name, asked.agents) == ("proxy", "peer", ("peer",))
        assert asked.description == f"**PROXY APPROVAL — A2A Agent: peer**\n\n> {question}"
        bound.add((asked.remote_task_id, asked.remote_message))
        await talk.decide(**words)
    assert talk.told == (story.state, story.end), story
    assert talk.sent(peer) == [story.words, *story.sent], story
    if story.steps:
        [accepted] = await talk.events("tool.accepted")
        assert {task for task, _ in bound} == {accepted.body["remote_task"]}
        assert len(bound) == len(story.steps)


PIPELINE = {
    "type": "sequential",
    "name": "pipeline",
    "agents": [
        {**ONWARD, "output_key": "first"},
        {**ONWARD, "name": "after", "prompt": "echo after {first}"},
    ],
}


DECIDED: Sequence[tuple[dict[int, Json], str]] = [
    ({0: YES, 1: YES}, "echo: after i1 approved, i2 approved"),
    ({1: YES, 0: YES}, "echo: after i1 approved, i2 approved"),
    ({0: YES, 1: NO}, CANCELLED),
    ({1: NO, 0: YES}, CANCELLED),
]
"""What is said to which of the two, in this order; and the end."""


@peers(*KNOW_MORE)
async def test_a_question_for_each_item(peer: Peer, tmp_path: Path) -> None:
    """One no ends the pipeline."""
    async with calling(tmp_path, peer.url, {"agent": PIPELINE}) as agent, trio.open_nursery() as nursery:
        for decided, end in DECIDED:
            nursery.start_soon(decide_both, agent, peer, decided, end)


async def decide_both(agent: Agent, peer: Peer, decided: dict[int, Json], end: str) -> None:
    talk = await Talk.begin(agent, "ask items")
    asked: list[Any] = [each.asked for each in await talk.approvals()]
    assert [(each.tool_name, each.tool_args, each.remote_item, each.remote_kind) for each in asked] == [
        ("rm", {"path": "/x"}, "i1", "tool"),
        ("mv", {"from": "/y", "to": "/z"}, "i2", "tool"),
    ]
    both = talk.result.approvals
    for number, words in decided.items():
        assert talk.result.state == "waiting"
        talk.turn = await agent.decide(both[number], words)
    assert talk.told == ("finished", end)
    assert len(await talk.approvals()) == 2
    answers = [f"{{'id': 'i{number + 1}', {str(said)[1:]}" for number, said in decided.items()]
    assert [each for each in talk.sent(peer) if "echo" not in each] == ["ask items", *answers]


@peers()
async def test_credentials(peer: Peer, tmp_path: Path) -> None:
    async with calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "login")
        for token in ("bad", "worse", "good"):
            assert (talk.result.state, talk.result.code) == ("auth_required", "auth_required")
            assert talk.result.auth == {"server": "a2a:peer", "status": 401}
            await talk.resume(token)
        assert talk.told == ("finished", "hello good")
        first, *more = talk.sent(peer)
        assert (first, len(more)) == ("login", 3)


BYTES = b64encode(bytes(range(256)))
BINARY = "application/octet-stream"
LINK = "https://files.example/a.pdf"
SPOILT = {"sdk-0.3-HTTP+JSON": ("bytes.bin", b64encode(BYTES)), "js-0.3-HTTP+JSON": (None, BYTES)}
"""Names and contents of files, where the SDKs do not send them as they are: test_peers.py shows it."""


@peers(*KNOW_MORE)
async def test_files_and_data(peer: Peer, name: str, tmp_path: Path) -> None:
    """All of it is stored; what people and models are told is text."""
    filename, content = SPOILT.get(name, ("bytes.bin", BYTES))
    async with calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "file")
        result = (await talk.events("tool.finished"))[-1].body["result"]
        text, file, data, link = result["parts"]
        assert text == {"type": "text", "text": "a text"}
        uri = f"file:///{filename or 'file'}"
        assert file["resource"] == {"uri": uri, "blob": content.decode(), "mimeType": BINARY}
        assert json.loads(data["text"]) == result["structured"] == {"rows": [1, 2, 3]}
        assert (link["type"], link["uri"], link["mimeType"]) == ("resource_link", LINK, "application/pdf")
        words = [
            "a text",
            f"[file {filename or 'without a name'}, {BINARY}]",
            f"[file at {LINK}]",
        ]
        assert talk.told == ("finished", "\n".join(words))


@peers("sdk-1.0-JSONRPC", "older")
async def test_of_a_long_answer_the_beginning_is_kept(peer: Peer, tmp_path: Path) -> None:
    async with calling(tmp_path, peer.url, {"tools": {"max_stored_bytes": 4096}}) as agent:
        talk = await Talk.begin(agent, f"echo {'long ' * 1000}")
        state, told = talk.told
        [kept] = (await talk.events("tool.finished"))[-1].body["result"]["parts"]
        note = "[cut here: the answer is longer than 4096 bytes; parts left out or cut: 1]"
        assert (state, told) == ("finished", f"{kept['text']}\n{note}")
        assert f"echo: {'long ' * 1000}".startswith(kept["text"])
        assert 2000 < len(kept["text"]) < 4096


@peers()
async def test_a_cancellation_travels_on(peer: Peer, name: str, tmp_path: Path) -> None:
    async with calling(tmp_path, peer.url) as agent:
        talk = await at_work(peer, name, await Talk.begin(agent, slow(name, "600"), wait=False))
        await talk.cancel()
        assert talk.told == ("cancelled", "The run was cancelled.")
        assert await talk.ended() == ("cancelled", "")
        assert len(talk.sent(peer)) == 1
        [end] = await talk.events("tool.finished")
        if name == "older":
            assert end.body["result"]["content"] == "slow: all of it is over"
        else:
            assert end.body["result"]["content"] == "The task is canceled."
            await peer.noted(cancelled=(await talk.until("tool.accepted")).body["remote_task"])


def slow(name: str, seconds: str) -> str:
    """Nobody can cancel what an agent of the older dialect works on: it has no name until it is done."""
    return "slow 0.5" if name == "older" else f"slow {seconds}"


async def at_work(peer: Peer, name: str, talk: Talk) -> Talk:
    """The same, once the peer works on it."""
    if name == "older":
        await until(lambda: bool(talk.sent(peer)))
    else:
        await talk.until("tool.accepted")
    return talk


LOST = (
    'The outcome is unknown: agent "peer": this process stopped before the agent had answered. '
    "The call was not repeated."
)


@peers()
async def test_we_start_again_while_it_works(peer: Peer, name: str, tmp_path: Path) -> None:
    """The task is followed; without the name of one, nobody knows. In either case nothing is sent again."""
    async with calling(tmp_path, peer.url) as agent:
        talk = await at_work(peer, name, await Talk.begin(agent, "slow 0.5", wait=False))
    async with calling(tmp_path, peer.url) as talk.agent:
        end = ("failed", LOST) if name == "older" else ("finished", "slow: all of it is over")
        assert await talk.ended() == end
        assert talk.sent(peer) == ["slow 0.5"]
        assert (await Talk.begin(talk.agent, "echo still")).told == ("finished", "echo: still")


@peers()
async def test_we_start_again_while_it_waits(peer: Peer, tmp_path: Path) -> None:
    async with calling(tmp_path, peer.url) as agent:
        talk = await Talk.begin(agent, "ask")
    async with calling(tmp_path, peer.url) as talk.agent:
        assert (await talk.agent.approvals()).approvals == talk.result.approvals
        await talk.decide()
        assert talk.told == ("finished", "done")
        assert talk.sent(peer) == ["ask", "approved"]


TWO_MODELS = {
    "llm": {"model": "script:replies.yaml"},
    "agent": {
        "type": "parallel",
        "name": "both",
        "agents": [{"type": "llm", "name": name, "prompt": "You help."} for name in ("one", "two")],
    },
}
REPLIES = [
    *(
        {
            "when": {"call": 1, "node": node},
            "tool_calls": [{"name": "a2a_peer", "arguments": {"message": words}}],
        }
        for node, words in (("one", "ask"), ("two", "ask twice"))
    ),
    {"when": {"tool_result": "(?s)(?P<result>.*)"}, "text": "told: ${result}"},
]


@peers("sdk-1.0-JSONRPC", "js-1.0-JSONRPC", "older")
async def test_models_delegate_side_by_side(peer: Peer, tmp_path: Path) -> None:
    """Each branch has a task and a question of its own, and goes on with the answer to that."""
    (tmp_path / "replies.yaml").write_text(json.dumps({"replies": REPLIES}))
    async with calling(tmp_path, peer.url, TWO_MODELS, description="Does what it is told.") as agent:
        [listed] = agent.tools()
        assert listed.tool.description == "Delegate task to A2A agent 'peer'. Does what it is told."
        talk = await Talk.begin(agent, "go")
        asked = {each.asked.node: each for each in await talk.approvals()}
        talk.turn = await agent.decide(asked["two"].id, YES)
        assert len(talk.result.approvals) == 2
        talk.turn = await agent.decide(asked["one"].id, NO)
        await talk.decide()
        assert talk.told == ("finished", f"{CANCELLED}\n\ntold: not done\ntold: done")
        assert sorted(talk.sent(peer)) == ["approved", "approved", "ask", "ask twice", "rejected"]
