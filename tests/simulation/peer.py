"""The other agent of a story: its replies, and the failures of its connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from stopgo.actors.log.words import events as e
from stopgo.actors.tools.delegation import MESSAGE
from stopgo.runtime.journal.protocol import Event
from tests.crash.remote_agent import TOOL, Finds, Job, RemoteAgent, Trouble

if TYPE_CHECKING:
    from .world import World

FINDS: Sequence[Finds] = ("by key", "by key", "by list", "not")
TROUBLE: Sequence[Trouble | None] = (*(None,) * 11, "away", "lost")
QUESTIONS = ("pq", "rs")
"""The names of the questions of the first round, and of the second."""


@attrs.define(eq=False)
class Peer:
    """The texts that it gets begin with the name of the conversation."""

    world: World
    agent: RemoteAgent = attrs.field(init=False)
    _exchanges: Counter[str] = attrs.field(factory=Counter)
    """Their number, by subject."""

    def __attrs_post_init__(self) -> None:
        rng = self.world.plan.rng("peer")
        finds: Finds = rng.choice(FINDS)
        self.agent = RemoteAgent(self, self._job, finds, self._trouble)

    def _job(self, text: str) -> Job:
        rng = self.world.plan.rng("job", text)
        most = rng.choices([0, 1, 2], weights=[3, 5, 2])[0]
        rounds = [names[: rng.choice([1, 1, 2])] for names in QUESTIONS[:most]]
        return Job(
            rounds,
            named=any(len(names) > 1 for names in rounds) or rng.random() < 0.8,
            refuses_edits=rng.random() < 0.3,
            elsewhere={name: rng.random() < 0.5 for name in "pqrs" if rng.random() < 0.3},
            elsewhere_after=rng.choice([0.5, 5.0, 100.0, 1000.0]),
            forgotten=rng.random() < 0.04,
            tells=rng.random() < 0.8,
            errs=rng.random() < 0.2,
            says_rejected=rng.random() < 0.8,
            seconds=rng.choice([0.0, 0.1, 0.1, 2.0, 30.0, 200.0]),
        )

    def _trouble(self, text: str) -> Trouble | None:
        self._exchanges[text] += 1
        rng = self.world.plan.rng("trouble", text, self._exchanges[text])
        trouble = rng.choice(TROUBLE)
        self.world.tell(f"the peer is told {text!r}{f': {trouble}' if trouble else ''}")
        return trouble

    def check(self, conversation: str, events: Sequence[Event]) -> list[str]:
        """Violations in the tasks of a conversation: at most one task is started for each intent."""
        begun = Counter(
            task.text for task in self.agent.tasks.values() if conversation_of(task.text) == conversation
        )
        meant = Counter(
            event.body["arguments"][MESSAGE]
            for event in events
            if event.type == e.ToolStarted.type and event.body["tool"] == TOOL
        )
        return [f"{text!r} was begun too often" for text in begun if begun[text] > meant[text]]

    # ------------------------------------------------------- what the agent has to do with

    @property
    def wrongs(self) -> list[str]:
        return self.world.wrongs

    @property
    def life(self) -> int:
        return self.world.number

    @property
    def alive(self) -> bool:
        return not self.world.journal_is_dead

    def wall(self) -> float:
        return self.world.wall()

    def note(self, tool: str, label: str) -> None:
        self.world.tell(f"the peer does: {tool} {label}")
        if tool == TOOL and self.world.life.peer_denied:
            self.world.wrongs.append(f"{label!r} was begun, which a rule of today denies")
        if tool == TOOL and self.world.halted:
            self.world.wrongs.append(f"{label!r} was begun while the agent was halted")

    def check_forwarded(self, bearer: str | None, what: str) -> None:
        if trio.current_time() > self.world.closing:
            self.world.wrongs.append(f"the peer was told {what!r} during the shutdown")
        conversation = conversation_of(what)
        if not (bearer is None or bearer.startswith(f"token of {conversation} ")):
            self.world.wrongs.append(f"the peer was passed {bearer!r} by {conversation}")


def conversation_of(text: str) -> str:
    """The name of the conversation in which an agent got this text."""
    return text.split(".")[0].split()[0]
