"""An answer that has arrived counts when the task cannot be read; without one, the outcome is unknown."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.a2a.agent_link import AgentLink, Contact, Lost, RequestNotSent
from stopgo.actors.a2a.arrived import Arrived
from stopgo.actors.a2a.exchange import Exchange
from stopgo.actors.a2a.outgoing import context_of
from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.client_codec import Interface
from stopgo.actors.a2a.wire.task import (
    Artifact,
    ArtifactUpdate,
    ClientRequest,
    GetTask,
    ListTasks,
    Message,
    Part,
    Send,
    State,
    Status,
    StatusUpdate,
    StreamItem,
    Subscribe,
    Task,
    TaskPage,
    Text,
)
from stopgo.actors.tools.delegation import Delegate, Delegated, Hop, RemoteInputRequired, RemoteTask
from stopgo.actors.tools.tool import ToolAuthRequired, ToolOutcomeUnknown
from stopgo.config.sections.a2a import RemoteAgentConfig

CONFIG = RemoteAgentConfig(name="peer", url="http://peer.test", reconnect_timeout=20, timeout=600)
BEGIN = Delegate(agent="peer", text="find", key="k", hop=Hop(session_id="s"))
UNREADABLE: dict[str, Exception] = {
    # mastra#4415, a2a-python#759: the id is a stub, or the store is that of another process
    "no such task": A2AError("TASK_NOT_FOUND", "Task not found"),
    # everruns#1720: the address takes only messages
    "no such method": RequestNotSent("it answers: Method not found", stale=True),
    "HTTP 400": RequestNotSent("it answers HTTP 400"),
    "HTTP 401": ToolAuthRequired("HTTP 401", status=401),
    "no connection": RequestNotSent("it cannot be reached", again=True),
    "no answer": Lost("the connection broke"),
}


def artifact(*texts: str, id: str = "a") -> Artifact:
    return Artifact(id=id, parts=tuple(map(Text, texts)))


def task(state: State, *artifacts: Artifact, said: str = "") -> Task:
    return Task(id="t", context="c", status=status(state, said), artifacts=artifacts)


def status(state: State, said: str = "") -> Status:
    return Status(state, message=word(said) if said else None)


def word(text: str) -> Message:
    return Message(id="m", role="agent", parts=(Text(text),))


def update(state: State, said: str = "") -> StatusUpdate:
    return StatusUpdate(task="t", context="c", status=status(state, said))


def chunk(*texts: str, id: str = "a", append: bool = False) -> ArtifactUpdate:
    return ArtifactUpdate(task="t", context="c", artifact=artifact(*texts, id=id), append=append)


def thought(text: str) -> ArtifactUpdate:
    part = Text(text, metadata={"adk_thought": True})
    return ArtifactUpdate(task="t", context="c", artifact=Artifact(id="a", parts=(part,)), append=True)


@attrs.define
class Link:
    """To an agent that answers a message with some items, and a look at the task in its own way."""

    items: Sequence[StreamItem | Exception]
    read: Task | Exception
    streaming: bool = True
    sent: int = 0

    async def contact(self, *, again: bool = False) -> Contact:
        return Contact(Interface("http://peer.test", "JSONRPC", "1.0"), self.streaming, idempotent=False)

    def without_streams(self) -> None:
        raise AssertionError

    async def stream(self, request: ClientRequest, *_: Any) -> AsyncGenerator[StreamItem, None]:
        if isinstance(request, Subscribe):
            raise A2AError("UNSUPPORTED_OPERATION", "no")
        self.sent += 1
        for item in self.items:
            if isinstance(item, Exception):
                raise item
            yield item

    async def ask(self, request: ClientRequest, *_: Any) -> Task | Message | TaskPage:
        match request:
            case GetTask():
                if isinstance(self.read, Exception):
                    raise self.read
                return self.read
            case ListTasks(artifacts=True):
                assert isinstance(self.items[-1], Task)
                return TaskPage(tasks=self.items, next="", page_size=2, total=1)  # type: ignore[arg-type]
            case Send():
                self.sent += 1
                [item] = self.items
                assert isinstance(item, Task | Message)
                return item
            case _:
                raise AssertionError(request)


async def outcome(link: Link, request: Delegate = BEGIN) -> Delegated:
    log = logging.getLogger("stopgo.a2a.peer")
    return await Exchange(CONFIG, cast(AgentLink, link), request, log, 1000).run()


ENDED: dict[str, tuple[Sequence[StreamItem], str, bool]] = {
    "a task with artifacts": ([task("completed", artifact("fine books"))], "fine books", False),
    "a task with a status message": ([task("completed", said="fine books")], "fine books", False),
    "a failed task": ([task("failed", said="no books")], "no books", True),
    "artifacts and a final status": (
        [task("submitted"), chunk("fine books"), update("completed")],
        "fine books",
        False,
    ),
    "no task at first": ([chunk("fine books"), update("completed")], "fine books", False),
    "pieces of a text": (
        [task("working"), chunk("fine"), chunk(" books", append=True), update("completed")],
        "fine books",
        False,
    ),
    # google/adk-python#4686: the reasoning of a model is not part of the text that follows it.
    "pieces of reasoning and of a text": (
        [
            thought("Hm"),
            thought("…"),
            chunk("fine", append=True),
            chunk(" books", append=True),
            update("completed"),
        ],
        "fine books",
        False,
    ),
    "two artifacts": ([chunk("one"), chunk("two", id="b"), update("completed")], "one\ntwo", False),
    "an artifact anew": ([chunk("draft"), chunk("fine books"), update("completed")], "fine books", False),
    "a final status with a message": (
        [update("working"), update("completed", "fine books")],
        "fine books",
        False,
    ),
    "a rejected task": ([update("rejected", "not mine")], "The agent's task is rejected: not mine", True),
    # A2A 1.0.1, section 4.1.3: a final state does not change.
    "a later state": ([chunk("fine books"), update("completed"), update("working")], "fine books", False),
    # A stream has one message or a task (section 3.1.2). Some begin with a task and end with a message.
    "a message at the end": ([task("submitted"), word("fine books")], "fine books", False),
}


@pytest.mark.parametrize("error", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize(("items", "content", "is_error"), ENDED.values(), ids=ENDED)
async def test_ended_task_that_cannot_be_read_is_the_answer(
    items: Sequence[StreamItem], content: str, is_error: bool, error: Exception, autojump_clock: object
) -> None:
    link = Link(items, error)
    result = (await outcome(link)).result
    assert (result.content, result.is_error, link.sent) == (content, is_error, 1)


@pytest.mark.parametrize("error", UNREADABLE.values(), ids=UNREADABLE)
async def test_ended_task_in_a_response_is_the_answer(error: Exception, autojump_clock: object) -> None:
    link = Link([task("completed", artifact("fine books"))], error, streaming=False)
    assert (await outcome(link)).result.content == "fine books"


async def test_answer_survives_a_stream_that_breaks_after_it(autojump_clock: object) -> None:
    items: list[StreamItem | Exception] = [chunk("fine books"), update("completed"), Lost("it broke")]
    assert (await outcome(Link(items, UNREADABLE["no such task"]))).result.content == "fine books"


async def test_answer_found_by_its_context_counts(autojump_clock: object) -> None:
    """The message was lost, and the agent lists the task that it started."""
    found = attrs.evolve(task("completed", artifact("fine books")), context="")
    request = attrs.evolve(BEGIN, lost=True)
    link = Link([attrs.evolve(found, context=context_of(request))], UNREADABLE["no such task"])
    assert (await outcome(link, request)).result.content == "fine books"
    assert link.sent == 0


NOTHING: dict[str, Sequence[StreamItem | Exception]] = {
    "a task that works": [task("working")],
    "artifacts without a final status": [task("working"), chunk("fine"), Lost("the connection broke")],
    "a message before a state": [task("submitted"), word("I look."), update("working")],
}


@pytest.mark.parametrize("items", NOTHING.values(), ids=NOTHING)
async def test_outcome_without_an_answer_is_unknown(
    items: Sequence[StreamItem | Exception], autojump_clock: object
) -> None:
    with pytest.raises(ToolOutcomeUnknown):
        await outcome(Link(items, UNREADABLE["no such task"]))


async def test_question_that_arrived_is_asked(autojump_clock: object) -> None:
    with pytest.raises(RemoteInputRequired) as asked:
        await outcome(Link([update("input-required", "Which?")], UNREADABLE["no such method"]))
    assert [item.description for item in asked.value.items] == ["Which?"]


READ: dict[str, tuple[Task, str]] = {
    "another answer": (task("completed", artifact("better books")), "better books"),
    "a status only": (task("completed"), "fine books"),  # a store of states, not of artifacts
    "a failure": (task("failed", said="no disk"), "no disk"),
    "a copy that stands still": (task("working"), "fine books"),
    "another task": (attrs.evolve(task("completed"), id="u"), "fine books"),
}


@pytest.mark.parametrize(("read", "content"), READ.values(), ids=READ)
async def test_task_that_can_be_read_counts(read: Task, content: str, autojump_clock: object) -> None:
    link = Link([chunk("fine books"), update("completed")], read)
    assert (await outcome(link)).result.content == content


# Section 4.2.2: `append` adds the parts to those of the artifact. The stores of a2a-sdk and of strands-agents
# 1.62.0 (multiagent/a2a/executor.py: an update for each delta of the model) keep each as a part of its own.
PIECES: dict[str, tuple[list[StreamItem], tuple[str, ...], str]] = {
    "each is a part": ([chunk("fine"), chunk(" books", append=True)], ("fine", " books"), "fine books"),
    "the first in a task": (
        [task("working", artifact("fi", "ne")), chunk(" books", append=True)],
        ("fi", "ne", " books"),
        "fine books",
    ),
    "some were missed": (
        [chunk("fine"), chunk(" boo", append=True)],
        ("fine", " boo", "ks"),
        "fine books",
    ),
    "no pieces": ([chunk("fine", "books")], ("fine", "books"), "fine\nbooks"),
}


@pytest.mark.parametrize(("items", "kept", "content"), PIECES.values(), ids=PIECES)
async def test_text_that_came_in_pieces_is_read_as_one(
    items: list[StreamItem], kept: tuple[str, ...], content: str, autojump_clock: object
) -> None:
    link = Link([*items, update("completed")], task("completed", artifact(*kept)))
    assert (await outcome(link)).result.content == content


PARTS = st.lists(st.text(max_size=400), max_size=4)
ITEMS = st.lists(
    st.builds(
        lambda id, texts, append: chunk(*texts, id=id, append=append),
        st.text(max_size=2),
        PARTS,
        st.booleans(),
    )
    | st.builds(update, st.sampled_from(["working", "completed", "failed"]))
    | st.builds(word, st.text(max_size=5)),
    max_size=60,
)


@given(items=ITEMS, most=st.integers(0, 3000))
def test_what_is_kept_is_bounded(items: list[StreamItem], most: int) -> None:
    arrived = Arrived(most)
    for item in items:
        arrived.take(item)
    found = arrived.instead_of_read(RemoteTask("t", "c"))
    parts: list[Part] = [part for each in (found.artifacts if found else ()) for part in each.parts]
    assert sum(len(json.dumps(part.text)) for part in parts if isinstance(part, Text)) <= most + 5000
