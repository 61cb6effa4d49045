"""Two hundred runs at once against a provider that turns half of the requests away."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import attrs
import httpx2
import trio
from trio.testing import MockClock

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.conversation.result import Result
from tests.actors.world import PATIENCE, READ_ONLY, World, answer, wall

RUNS = 200
PLACES = 10
SECONDS = 0.5
"""Each reply takes so long."""
IN_A_ROW = 5
"""A call that was turned away so often is taken."""


@attrs.define(eq=False)
class Busy:
    """Speaks chat completions; turns requests away by the throw of a coin."""

    random: Random = attrs.field(factory=lambda: Random(4))
    answered: Counter[int] = attrs.field(factory=Counter)
    now: int = 0
    most: int = 0
    first_tries: list[tuple[str, int]] = attrs.field(factory=list)
    """The callers and the numbers of their calls, in order of arrival."""
    tries: Counter[tuple[str, int]] = attrs.field(factory=Counter)

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(await request.aread())
        messages = body["messages"]
        user = next(each["content"] for each in messages if each["role"] == "user")
        call = user, sum(each["role"] == "assistant" for each in messages) + 1
        if call not in self.tries:
            self.first_tries.append(call)
        self.tries[call] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            turned_away = self.random.random() < 0.5 and self.tries[call] <= IN_A_ROW
            await trio.sleep(SECONDS)
        finally:
            self.now -= 1
        if turned_away:
            self.answered[429] += 1
            return httpx2.Response(429, json={"error": {"message": "slow down", "type": "rate_limit"}})
        self.answered[200] += 1
        return self.reply(call)

    def reply(self, call: tuple[str, int]) -> httpx2.Response:
        message: dict[str, Any] = {"role": "assistant", "content": f"done: {call[0]}"}
        if call[1] == 1:
            function = {"name": "list", "arguments": "{}"}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"index": 0, "id": "c1", "type": "function", "function": function}]
        reason = "tool_calls" if call[1] == 1 else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        reply = {"id": "r", "created": 1, "model": "m", "object": "chat.completion.chunk"}
        chunks = [
            {**reply, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**reply, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**reply, "choices": [], "usage": usage},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


async def test_calls_finish_within_the_concurrency_limit(tmp_path: Path, autojump_clock: MockClock) -> None:
    busy, world = Busy(), World(tmp_path)
    world.tool("list", READ_ONLY)
    world.settings["llm"] = {"model": "busy", "max_concurrency": PLACES}
    world.settings["models"] = {
        "busy": {"provider": "openai_compatible", "model": "m", "base_url": "http://provider.test/v1"}
    }
    results: list[Result] = []
    async with open_agent(
        world.config(),
        journal=world.journal,
        wall=wall,
        open_server=world.open_server,
        model_transport=httpx2.MockTransport(busy.handle),
    ) as agent:

        async def run(number: int) -> None:
            results.append(answer(await agent.start_conversation(f"run {number}")))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for number in range(RUNS):
                    nursery.start_soon(run, number)
    assert Counter(result.state for result in results) == {"finished": RUNS}
    assert {result.response for result in results} == {f"done: run {number}" for number in range(RUNS)}
    assert world.called("list") == RUNS
    assert busy.answered[200] == 2 * RUNS
    assert busy.answered[429] > RUNS
    assert busy.most == PLACES
    # A caller that was served queues behind all that were not.
    assert [number for _, number in busy.first_tries] == [1] * RUNS + [2] * RUNS
