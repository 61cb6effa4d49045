"""An agent in a thread of its own, for programs on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest
import trio

from stopgo import Agent, AgentError, AsyncioAgent, StartError, for_asyncio, open_agent
from stopgo.actors.agent.watch import Announced
from tests.actors.bridge.conftest import Gated
from tests.waiting import LIMIT


async def until_finished(agent: AsyncioAgent, id: str) -> list[str]:
    types: list[str] = []
    async with aclosing(agent.events(id)) as events:
        async for event in events:
            types.append(event.type)
            if event.type == "run.finished":
                break
    return types


def test_a_turn_its_events_and_the_errors_of_an_agent(parrot: Gated) -> None:
    async def main() -> None:
        async with for_asyncio(parrot.opening()) as agent:
            async with agent.all_events(types=["message.added"]) as all_events:
                turn = await agent.start_conversation("hello")
                announced = await anext(aiter(all_events))
            assert isinstance(announced, Announced)
            assert announced.event.stream == turn.conversation.id
            assert turn.result is not None
            assert turn.result.response == "hello!"
            assert (await until_finished(agent, turn.conversation.id))[-1] == "run.finished"
            assert (await agent.health()).ready
            assert (await agent.tools(), await agent.warnings()) == ((), ())
            for call in (agent.send("nowhere", "hi"), anext(agent.events("nowhere"))):
                with pytest.raises(AgentError) as caught:
                    await call
                assert caught.value.code == "conversation_not_found"
            in_a_thread = await asyncio.to_thread(agent.blocking.get, turn.conversation.id)
            assert in_a_thread.id == turn.conversation.id
        with pytest.raises(AgentError) as caught:
            await agent.get(turn.conversation.id)
        assert caught.value.code == "shutting_down"
        with pytest.raises(StartError):
            async with for_asyncio(open_agent(parrot.config())):
                pass

    asyncio.run(main())


def test_a_call_that_is_cancelled_is_only_waited_for_no_longer(gated: Gated) -> None:
    async def main() -> None:
        async with for_asyncio(gated.opening()) as agent:
            id = (await agent.start_conversation()).conversation.id
            sending = asyncio.create_task(agent.send(id, "hi"))
            assert await asyncio.to_thread(gated.asked.wait)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            gated.gate.set()
            assert (await until_finished(agent, id))[-1] == "run.finished"

    asyncio.run(main())


def test_a_stream_that_was_cancelled_goes_on_where_it_was(gated: Gated) -> None:
    async def main() -> None:
        async with for_asyncio(gated.opening()) as agent:
            id = (await agent.post_conversation("hi")).conversation.id
            seen: list[int] = []
            begun = asyncio.Event()

            async def read() -> None:
                async for event in agent.events(id):
                    seen.append(event.seq)
                    begun.set()

            reading = asyncio.create_task(read())
            await begun.wait()
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            gated.gate.set()
            async for event in agent.events(id, seen[-1]):
                seen.append(event.seq)
                if event.type == "run.finished":
                    break
            assert seen == list(range(1, len(seen) + 1))

    asyncio.run(main())


def test_a_reader_in_another_task_gets_the_end_of_the_block(parrot: Gated) -> None:
    async def main() -> None:
        async with for_asyncio(parrot.opening()) as agent:
            heard = asyncio.Event()

            async def read(events: AsyncIterator[object]) -> None:
                async for _ in events:
                    heard.set()

            async with asyncio.TaskGroup() as tasks:
                async with agent.all_events(types=["conversation.created"]) as events:
                    tasks.create_task(read(events))
                    await agent.start_conversation()
                    await heard.wait()

    asyncio.run(main())


def test_several_loops_use_it_at_once(parrot: Gated) -> None:
    async def talk(agent: AsyncioAgent) -> list[str | None]:
        turns = await asyncio.gather(*(agent.start_conversation(str(n)) for n in range(10)))
        return [turn.result.response for turn in turns if turn.result]

    async def main() -> None:
        async with for_asyncio(parrot.opening()) as agent:
            others = [asyncio.to_thread(lambda: asyncio.run(talk(agent))) for _ in range(3)]
            for replies in await asyncio.gather(talk(agent), *others):
                assert replies == [f"{n}!" for n in range(10)]

    asyncio.run(main())


@asynccontextmanager
async def never(entered: threading.Event, left: threading.Event) -> AsyncIterator[Agent]:
    """An agent that does not come up."""

    try:
        entered.set()
        await trio.sleep_forever()
        raise AssertionError("it has come up")
        yield
    finally:
        left.set()


def test_an_opening_that_is_cancelled_ends_its_thread_and_the_loop_goes_on_meanwhile() -> None:
    entered, left = threading.Event(), threading.Event()

    async def open_it() -> None:
        async with for_asyncio(never(entered, left)):
            pass

    async def main() -> None:
        opening = asyncio.create_task(open_it())
        assert await asyncio.to_thread(entered.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert left.is_set()

    asyncio.run(main())
    assert not [each for each in threading.enumerate() if each.name == "stopgo agent"]


def test_a_closing_that_is_cancelled_ends_at_once(gated: Gated) -> None:
    gated.grace = 10 * LIMIT
    leaving = asyncio.Event()

    async def run_it() -> None:
        async with for_asyncio(gated.opening()) as agent:
            await agent.post_conversation("hi")
            assert await asyncio.to_thread(gated.asked.wait)
            leaving.set()

    async def main() -> None:
        running = asyncio.create_task(run_it())
        await leaving.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())


def test_a_stream_that_is_dropped_is_closed_by_its_loop(parrot: Gated) -> None:
    async def main() -> None:
        async with for_asyncio(parrot.opening()) as agent:
            thread = agent._thread

            async def tasks(_: Agent) -> int:
                assert thread._calls is not None
                return len(thread._calls.child_tasks)

            async def running() -> int:
                return await asyncio.wrap_future(thread.submit(tasks))

            id = (await agent.start_conversation("hi")).conversation.id
            before = await running()
            async for _ in agent.events(id):
                assert await running() == before + 1
                break
            while await running() > before:
                pass

    asyncio.run(main())


def test_an_agent_that_fails_fails_the_block(gated: Gated) -> None:
    gated.grace = 0.0

    async def main() -> None:
        async with for_asyncio(gated.mortal()) as agent:
            id = (await agent.post_conversation("hi")).conversation.id
            sending = asyncio.create_task(agent.send(id, "and?"))
            assert await asyncio.to_thread(gated.asked.wait)
            agent._thread.call_soon(gated.dies.set)
            await sending

    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(main())
