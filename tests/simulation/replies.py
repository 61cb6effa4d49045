"""The replies of a story's model: random, determined by the seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from stopgo.actors.models.messages.messages import ModelReply, ModelRequest, ToolCall, Usage
from stopgo.actors.tools.delegation import MESSAGE
from tests.crash.remote_agent import TOOL as DELEGATE


def reply_to(rng: Random, request: ModelRequest) -> ModelReply:
    usage = Usage(input_tokens=10, output_tokens=request.call)
    if "\nAgents:\n" in request.system:
        names = [line.split(":")[0][2:] for line in request.system.splitlines() if line.startswith("- ")]
        return ModelReply(rng.choice([*names * 4, "nobody"]), usage=usage)
    if rng.random() > (0.75, 0.4, 0.2, 0.1)[min(request.call, 4) - 1]:
        text = f"{request.node} is through" if rng.random() < 0.9 else ""
        return ModelReply(text, usage=usage)
    calls = [_tool_call(rng, request, index) for index in range(rng.randint(1, 3))]
    return ModelReply(rng.choice(["", "one moment"]), tuple(calls), usage=usage, stop="tool_calls")


def _tool_call(rng: Random, request: ModelRequest, index: int) -> ToolCall:
    tools = ["wipe", "wipe", "peek", "bump", "post", "drop", "view", "none_such"]
    if any(tool.name == "exit_loop" for tool in request.tools):
        tools += ["exit_loop"] * 4
    if any(tool.name == DELEGATE for tool in request.tools):
        tools += [DELEGATE] * 5
    # The same label may come again in a nested loop or another attempt; the turn is in the user's words.
    place = (*request.user.split(), request.node, request.iteration, request.call, index)
    label = ".".join(map(str, place))
    arguments: Mapping[str, Any] = {"name": label, "level": rng.randint(0, 9)}
    id, tool = rng.choice(["", f"{request.call}-{index}"]), rng.choice(tools)
    return ToolCall(id, tool, {MESSAGE: label} if tool == DELEGATE else arguments)
