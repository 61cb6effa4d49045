"""Our agent as the client of a peer: what is said to it is handed on to that agent."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import yaml

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.approvals.proxy_approval import ProxyQuestion
from stopgo.actors.conversation.result import Result, Turn
from stopgo.config.load import load_config
from stopgo.runtime.journal.protocol import Event
from tests.a2a_servers.peer_process import PROGRAMS, Json, Peer, clean_environment

ONWARD = {"type": "a2a", "name": "onward", "agent": "peer"}


@contextmanager
def shared_peer(kind: str, *options: str) -> Iterator[Peer]:
    """A peer for tests that each have a run of trio of their own. It cannot be killed or started again."""
    with TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.jsonl"
        argv = [*PROGRAMS[kind], str(ledger), *options]
        with subprocess.Popen(
            argv, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            try:
                assert process.stdout is not None
                yield Peer(argv, ledger, yaml.safe_load(process.stdout.readline()))
            finally:
                process.kill()


@asynccontextmanager
async def calling(folder: Path, url: str, file: Json | None = None, **entry: Any) -> AsyncIterator[Agent]:
    """Our agent, which knows the agent at the URL as `peer`. `entry` and `file` go into its entry and its
    agent file. A second one with the same folder has the journal of the first."""
    whole = {
        "name": "caller",
        "prompt": "You help.",
        "llm": {"model": "offline:rules"},
        "data_dir": str(folder / "data"),
        "shutdown_grace": 0.2,
        "a2a": [{"name": "peer", "url": url, **entry}],
        "agent": ONWARD,
        **(file or {}),
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(whole))
    async with open_agent(load_config(folder / "agent.yaml")) as agent:
        yield agent


@attrs.define(eq=False)
class Talk:
    """A conversation with our agent."""

    agent: Agent
    turn: Turn

    @classmethod
    async def begin(cls, agent: Agent, words: str, wait: bool = True, **more: Any) -> Talk:
        start = agent.start_conversation if wait else agent.post_conversation
        return cls(agent, await start(words, **more))

    @property
    def id(self) -> str:
        return self.turn.conversation.id

    @property
    def session(self) -> str:
        """What all requests of the conversation have as `X-Session-ID`."""
        return self.turn.conversation.head.session_id

    @property
    def result(self) -> Result:
        """Of what was last said or decided."""
        assert self.turn.result is not None
        return self.turn.result

    @property
    def told(self) -> tuple[str, str]:
        """How far the turn is, and what people are told."""
        return self.result.state, self.result.response

    async def decide(self, number: int = 0, **words: Any) -> None:
        """Decide one of the questions that are pending, by its place. Without words: yes."""
        self.turn = await self.agent.decide(self.result.approvals[number], words or {"approved": True})

    async def resume(self, token: str) -> None:
        self.turn = await self.agent.resume(self.id, token=token)

    async def cancel(self) -> None:
        self.turn = await self.agent.cancel(self.id)

    async def approvals(self) -> list[Approval]:
        """All of the conversation, oldest first."""
        return list((await self.agent.get(self.id)).approvals.values())

    async def asked(self) -> ProxyQuestion:
        """The only question that is pending."""
        [approval] = self.result.approvals
        question = approval.asked
        assert isinstance(question, ProxyQuestion)
        return question

    async def events(self, *types: str) -> list[Event]:
        """Those of these types so far, in order."""
        end = (await self.agent.log_end(self.id)).last_seq
        found: list[Event] = []
        async with aclosing(self.agent.events(self.id)) as events:
            async for event in events:
                found += [event] if event.type in types else []
                if event.seq >= end:
                    break
        return found

    async def until(self, *types: str) -> Event:
        """The first event of one of these types, once it is there."""
        async with aclosing(self.agent.events(self.id)) as events:
            async for event in events:
                if event.type in types:
                    return event
        raise AssertionError(f"the conversation ended without {types}")

    async def ended(self) -> tuple[str, str]:
        """How the run ends, and what it says then."""
        body = (end := await self.until("run.finished", "run.failed", "run.cancelled")).body
        return end.type.removeprefix("run."), body.get("text") or body.get("message") or ""

    def at(self, peer: Peer) -> list[Json]:
        """The requests of the conversation that have arrived there, without those of the card."""
        return [
            line
            for line in peer.requests()
            if line["headers"].get("x-session-id") == self.session and "/.well-known/" not in line["path"]
        ]

    def sent(self, peer: Peer) -> list[str]:
        """What the messages of the conversation say that have arrived there, in whatever version."""
        bodies = [line["body"] for line in self.at(peer) if isinstance(line["body"], dict)]
        found = [body.get("params", body).get("message") for body in bodies]
        return [_words(message.get("parts") or message["content"]) for message in found if message]


def _words(parts: Sequence[Json]) -> str:
    # Over HTTP, data is one level deeper in 0.3.
    return " | ".join(
        part["text"] if "text" in part else str(part["data"].get("data", part["data"])) for part in parts
    )
