"""Whole programs: how they end, by themselves, by Ctrl-C after a fork; and a web application on asyncio."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stopgo import AgentError, AsyncioAgent, for_asyncio
from tests.actors.bridge.conftest import Gated
from tests.http_client import http_client
from tests.waiting import LIMIT

HEAD = """
import os, signal, threading
from contextlib import ExitStack
from pathlib import Path

import trio

from stopgo import AgentConfig, AgentError, LlmNode, ModelReply, blocking, open_agent

asked = threading.Event()


class Slow:
    async def complete(self, request, emit):
        asked.set()
        print("asked", flush=True)
        await trio.sleep(float(request.user))
        print("replied", flush=True)
        return ModelReply("done")


def opening(grace):
    node = LlmNode(name="slow", prompt="", model="my:slow")
    config = AgentConfig(agent=node, data_dir=Path("data"), shutdown_grace=grace)
    return open_agent(config, open_model=lambda name, *, folder: Slow())

"""


def start(folder: Path, program: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(HEAD + program)
    command = [sys.executable, "-W", "error", "program.py"]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("grace", "signals"), [(1, 1), (10 * LIMIT, 2)])
def test_ctrl_c_ends_the_waiting_and_then_the_agent(tmp_path: Path, grace: float, signals: int) -> None:
    program = f"""
def interrupt():
    asked.wait()
    for _ in range({signals}):
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # does not wake the thread that waits
        while not agent._thread._stop.is_set():
            pass

with blocking(opening({grace})) as agent:
    threading.Thread(target=interrupt).start()
    agent.start_conversation("100000")
"""
    with start(tmp_path, program) as process:
        _, errors = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "stopgo agent" not in errors


def test_a_program_that_ends_without_closing_the_agent_gives_it_its_grace(tmp_path: Path) -> None:
    program = """
agent = ExitStack()
agent.enter_context(blocking(opening(60))).post_conversation("0.5")
"""
    with start(tmp_path, program) as process:
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert output == "asked\nreplied\n"


def test_a_loop_that_breaks_down_leaves_no_call_without_an_end(tmp_path: Path) -> None:
    program = """
from stopgo.actors.bridge import agent_thread

class Broken(agent_thread.ProcessClock):
    def current_time(self):
        if asked:
            raise ZeroDivisionError
        return super().current_time()

class Asked:
    async def complete(self, request, emit):
        asked.append(True)
        await trio.sleep(1)

asked = []
Slow = Asked
agent_thread.ProcessClock = Broken
with blocking(opening(1)) as agent:
    try:
        agent.start_conversation("hi")
    except AgentError as error:
        print(error.code, type(error.__cause__).__name__, flush=True)
"""
    with start(tmp_path, program) as process:
        output, errors = process.communicate()
    assert output == "shutting_down TrioInternalError\n"
    assert process.returncode == 1
    assert "the agent has stopped: internal error in Trio" in errors


def test_a_child_after_a_fork_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    program = """
with blocking(opening(1)) as agent:
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), agent.health().ready, flush=True)
    else:
        try:
            agent.health()
        except AgentError as error:
            print(error.code, flush=True)
"""
    with start(tmp_path, program) as process:
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert output == "shutting_down\n0 True\n"


# ------------------------------------------------------------- a web application


def application(gated: Gated) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with for_asyncio(gated.opening()) as agent:
            app.state.agent = agent
            yield

    async def say(request: Request) -> Response:
        agent: AsyncioAgent = request.app.state.agent
        body = await request.json()
        try:
            start = agent.start_conversation if body.get("wait", True) else agent.post_conversation
            turn = await start(body["message"])
        except AgentError as error:
            return JSONResponse({"code": error.code}, status_code=400)
        return JSONResponse({"id": turn.conversation.id, "response": turn.result and turn.result.response})

    async def events(request: Request) -> Response:
        agent: AsyncioAgent = request.app.state.agent

        async def lines() -> AsyncGenerator[str, None]:
            async for event in agent.events(request.path_params["id"]):
                yield f"{event.type}\n"

        return StreamingResponse(lines(), media_type="text/plain")

    def status(request: Request) -> Response:  # in a thread of Starlette's
        agent: AsyncioAgent = request.app.state.agent
        return JSONResponse({"ready": agent.blocking.health().ready})

    async def tasks(request: Request) -> Response:
        thread = request.app.state.agent._thread

        async def count(_: object) -> int:
            return len(thread._calls.child_tasks)

        return JSONResponse(await asyncio.wrap_future(thread.submit(count)))

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/say", say, methods=["POST"]),
            Route("/events/{id}", events),
            Route("/status", status),
            Route("/tasks", tasks),
        ],
    )


def test_a_web_application_on_asyncio_serves_an_agent(gated: Gated) -> None:
    async def visit() -> None:
        stop = asyncio.Event()
        config = Config()
        listening = socket.create_server(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config.bind, config.errorlog = [f"fd://{listening.detach()}"], None
        config.graceful_timeout = 1.0
        serving = asyncio.create_task(
            serve(application(gated), config, shutdown_trigger=stop.wait)  # type: ignore[arg-type]
        )
        async with http_client(base_url=address) as client:
            assert (await client.get("/status")).json() == {"ready": True}
            refused = await client.post("/say", json={"message": ""})
            assert refused.json() == {"code": "message_required"}
            before = (await client.get("/tasks")).json()
            started = (await client.post("/say", json={"message": "hi", "wait": False})).json()
            # A client that goes away half-way takes its stream with it, and nothing else.
            async with client.stream("GET", f"/events/{started['id']}") as stream:
                lines = stream.aiter_lines()
                assert await anext(lines) == "conversation.created"
            while (await client.get("/tasks")).json() > before:
                pass
            gated.gate.set()
            async with client.stream("GET", f"/events/{started['id']}") as stream:
                async for line in stream.aiter_lines():
                    if line == "run.finished":
                        break
            body = (await client.post("/say", json={"message": "hello"})).json()
            assert body["response"] == "hello!"
        stop.set()
        await serving

    asyncio.run(visit())
