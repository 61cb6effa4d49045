"""An agent in a thread of its own, for programs that may block."""

from __future__ import annotations

import inspect
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, asynccontextmanager

import pytest
import trio

from stopgo import (
    Agent,
    AgentError,
    AsyncioAgent,
    BlockingAgent,
    JournalBusy,
    StartError,
    blocking,
    open_agent,
)
from stopgo.actors.agent import agent_reads
from stopgo.actors.agent.watch import Announced, Gap
from stopgo.actors.bridge import agent_thread
from stopgo.actors.bridge.agent_thread import READ_AHEAD, ThreadStream
from stopgo.runtime.journal.protocol import Event
from tests.actors.bridge.conftest import Gated

OF_TRIO = {
    "acting_as",
    "catalogue",
    "check_right",
    "credential_is_live",
    "delta_exchange",
    "drain",
    "draining",
    "followed_notes",
    "id_of",
    "living",
    "load",
    "member",
    "node",
    "notes",
    "principal",
    "unapproved",
}
"""Of `Agent`: for programs that share its loop."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [BlockingAgent, AsyncioAgent])
def test_it_has_the_methods_of_an_agent_with_their_parameters(kind: type) -> None:
    names = public(Agent) - OF_TRIO - {"config", "id", "started", "policy_revision"}
    assert names <= public(kind)
    for name in names - {"warnings"}:
        ours, theirs = (inspect.signature(getattr(each, name)).parameters for each in (kind, Agent))
        assert list(ours) == list(theirs), name


def test_a_turn_its_events_and_the_errors_of_an_agent(parrot: Gated) -> None:
    with blocking(parrot.opening()) as agent:
        turn = agent.start_conversation("hello")
        assert turn.result is not None
        assert turn.result.response == "hello!"
        id = turn.conversation.id
        types = []
        for event in agent.events(id):
            types.append(event.type)
            if event.type == "run.finished":
                break
        assert types[0] == "conversation.created"
        assert agent.get(id).id == id
        assert [each.id for each in agent.conversations().conversations] == [id]
        assert agent.health().ready
        assert (agent.tools(), agent.warnings) == ((), ())
        with pytest.raises(AgentError) as caught:
            agent.send("nowhere", "hi")
        assert caught.value.code == "conversation_not_found"
        with pytest.raises(AgentError) as caught:
            next(agent.events("nowhere"))
        assert caught.value.code == "conversation_not_found"


def test_failed_opening_raises_the_error_of_open_agent(parrot: Gated) -> None:
    with pytest.raises(StartError, match="unknown provider"):
        with blocking(open_agent(parrot.config())):
            pass
    with blocking(parrot.opening()):
        with pytest.raises(JournalBusy):
            with blocking(parrot.opening()):
                pass


def test_several_threads_use_it_at_once(parrot: Gated) -> None:
    with blocking(parrot.opening()) as agent, ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(agent.start_conversation, map(str, range(40))))
        assert [turn.result and turn.result.response for turn in turns] == [f"{n}!" for n in range(40)]


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Start it, and what came of it."""
    came: list[object] = []

    def run() -> None:
        try:
            came.append(work())
        except Exception as error:
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, came


def running(agent: BlockingAgent) -> int:
    """Tasks of calls and streams."""

    async def tasks(_: Agent) -> int:
        assert agent._thread._calls is not None
        return len(agent._thread._calls.child_tasks)

    return agent._thread.submit(tasks).result()


def types_of(events: Iterator[Event], begun: threading.Event) -> Iterator[str]:
    for event in events:
        yield event.type
        if event.type == "run.started":
            begun.set()


def test_end_of_the_block_ends_all_waiting_calls(gated: Gated) -> None:
    gated.grace = 0.0
    seen: list[str] = []
    begun = threading.Event()
    with blocking(gated.opening()) as agent:
        id = agent.start_conversation().conversation.id
        sender, sent = in_thread(lambda: agent.send(id, "hi"))
        reader, read = in_thread(lambda: seen.extend(types_of(agent.events(id), begun)))
        with agent.all_events() as all_events:
            watcher, watched = in_thread(lambda: len(list(all_events)))
            assert begun.wait()
    for thread in (sender, reader, watcher):
        thread.join()
    [error] = sent
    assert isinstance(error, AgentError)
    assert (error.code, error.details) == ("shutting_down", {"accepted": True})
    assert read == [None]
    assert seen == ["conversation.created", "message.added", "run.started"]
    assert isinstance(watched[0], int)
    late: tuple[Callable[[], object], ...] = (
        lambda: agent.get(id),
        lambda: next(agent.events(id)),
        lambda: agent.all_events().__enter__(),
    )
    for call in late:
        with pytest.raises(AgentError) as caught:
            call()
        assert (caught.value.code, caught.value.details) == ("shutting_down", {"accepted": False})
    gated.gate.set()
    with blocking(gated.opening()) as again:
        for event in again.events(id):
            if event.type == "run.finished":
                break


def test_running_call_ends_with_the_agent(parrot: Gated) -> None:
    with blocking(parrot.opening()) as agent:
        thread = agent._thread

        @asynccontextmanager
        async def late(_: Agent) -> AsyncIterator[AsyncIterator[int]]:
            yield numbers()

        async def numbers() -> AsyncIterator[int]:
            await thread._agent_ended.wait()
            await trio.lowlevel.checkpoint()
            yield 1
            await trio.sleep_forever()

        async def fail(_: Agent) -> None:
            await thread._agent_ended.wait()
            raise ZeroDivisionError

        stream = ThreadStream(thread, late)
        stream.opened.result()
        failing = thread.submit(fail)
    assert stream.take().result() == [1]
    assert stream.take().result() == []
    stream.raise_error()
    with pytest.raises(AgentError) as caught:
        failing.result()
    assert caught.value.code == "shutting_down"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_call_takes_the_call_back(gated: Gated) -> None:
    def interrupt() -> None:
        gated.asked.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with blocking(gated.opening()) as agent:
        id = agent.start_conversation().conversation.id
        before = running(agent)
        _, _ = in_thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            agent.send(id, "hi")
        assert any(running(agent) == before for _ in range(10_000))
        gated.gate.set()
        assert "run.finished" in (event.type for event in agent.events(id))


def test_an_error_of_the_program_leaves_the_block_as_it_is(parrot: Gated) -> None:
    with pytest.raises(ZeroDivisionError):
        with blocking(parrot.opening()):
            raise ZeroDivisionError
    assert not [each for each in threading.enumerate() if each.name == "stopgo agent"]


def test_a_reader_that_does_not_read_is_read_ahead_for_only_so_far(parrot: Gated) -> None:
    with blocking(parrot.opening()) as agent:
        id = agent.start_conversation().conversation.id
        for number in range(READ_AHEAD // 2):
            agent.send(id, str(number))
        stream = ThreadStream(agent._thread, lambda trio_agent: aclosing(trio_agent.events(id)))
        stream.opened.result()
        first = stream.take().result()
        agent.send(id, "one more")
        assert len(stream._items) <= READ_AHEAD
        seen = [event.seq for event in first]
        last = agent.get(id).last_seq
        assert last > 2 * READ_AHEAD
        while seen[-1] < last:
            taken = stream.take().result()
            assert 0 < len(taken) <= READ_AHEAD
            seen += [event.seq for event in taken]
        assert seen == list(range(1, last + 1))
        stream.close()


def test_a_watcher_that_does_not_read_gets_a_gap(parrot: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_reads, "BUFFER", 10)
    monkeypatch.setattr(agent_thread, "READ_AHEAD", 10)
    with blocking(parrot.opening()) as agent:
        with agent.all_events(types=["message.added"]) as events:
            id = agent.start_conversation().conversation.id
            for number in range(30):
                agent.send(id, str(number))
            assert isinstance(next(events), Announced)
            assert any(isinstance(next(events), Gap) for _ in range(30))


def test_a_stream_that_is_dropped_leaves_nothing_behind(parrot: Gated) -> None:
    with blocking(parrot.opening()) as agent:
        id = agent.start_conversation("hi").conversation.id
        before = running(agent)
        events = agent.events(id)
        next(events)
        assert running(agent) == before + 1
        del events
        # Its cancellation is on the way.
        assert any(running(agent) == before for _ in range(10_000))


def test_the_thread_of_the_agent_does_not_wait_for_itself(parrot: Gated) -> None:
    async def call(_: Agent) -> None:
        agent.start_conversation("hi")

    with blocking(parrot.opening()) as agent:
        with pytest.raises(RuntimeError, match="its own thread"):
            agent._thread.submit(call).result()
        assert agent.conversations().conversations == ()


def test_an_agent_that_fails_fails_all_that_wait_and_its_block(
    gated: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    gated.grace = 0.0
    with ExitStack() as stack:
        agent = stack.enter_context(blocking(gated.mortal()))
        id = agent.start_conversation().conversation.id
        sender, sent = in_thread(lambda: agent.send(id, "hi"))
        begun = threading.Event()
        reader, read = in_thread(lambda: len(list(types_of(agent.events(id), begun))))
        assert gated.asked.wait()
        assert begun.wait()
        agent._thread.call_soon(gated.dies.set)
        for thread in (sender, reader):
            thread.join()
        [error] = sent
        assert isinstance(error, AgentError)
        assert error.code == "shutting_down"
        assert isinstance(read[0], int)
        agent._thread.ended.result()
        with pytest.raises(AgentError) as caught:
            agent.get(id)
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(OSError, match="the disk is gone"):
            stack.close()
    assert "the agent has stopped: the disk is gone" in caplog.text
