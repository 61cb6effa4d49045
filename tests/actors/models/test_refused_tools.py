"""A tool that the provider refuses does not fail the turn; the user is told its name."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from stopgo.actors.models.codecs.faults import from_error, from_response
from stopgo.actors.models.messages.messages import (
    AskModel,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ModelTool,
    UserMessage,
)
from stopgo.actors.models.providers.model import model_actor
from stopgo.actors.models.providers.refused_tools import MAX_ROUNDS, RefusedTools, named_tools
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.supervision import open_supervisor

TOOLS = tuple(
    ModelTool(name, "", {}) for name in ("add", "type", "mcp__s__find.it", "move", "automation_update")
)


def named(body: Any, status: int = 400) -> list[str]:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return [tool.name for tool in named_tools(from_response(status, {}, raw, now=0), TOOLS)]


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


@pytest.mark.parametrize(
    ("body", "right"),
    [
        # anthropics/claude-code#63673
        (
            {"type": "error", **error("tools.3.custom.input_schema: JSON schema is invalid. It must match")},
            ["move"],
        ),
        # an older form of it, and the same from Bedrock
        (error("tools.0.input_schema.properties: Property keys should match pattern"), ["add"]),
        ({"message": "The model returned the following errors: tools.3.custom.name: String"}, ["move"]),
        # ogx-ai/ogx#3004
        (error("Invalid schema for function 'x': no items.", param="tools[3].function.parameters"), ["move"]),
        (error("Invalid schema for function 'move': array schema missing items.", param=None), ["move"]),
        (error("Invalid schema for function 'mcp__s__find_it_e0c7b3b2': not of type", param="tools"), []),
        # OpenHands/OpenHands#4838
        (error("Invalid 'tools[0].function.description': string too long."), ["add"]),
        # decolua/9router#3018, with several lines as in thClaws/thClaws#172
        (
            error(
                "Unknown name \"x\" at 'tools[0].function_declarations[3].parameters': Cannot find field.\n"
                "Unknown name \"x\" at 'request.tools[0].function_declarations[1]'"
            ),
            ["type", "move"],
        ),
        ([error("* GenerateContentRequest.tools[0].functionDeclarations[3].name: Invalid")], ["move"]),
        # vercel/ai#19000
        (error("Unable to submit request because `move` functionDeclaration `x` schema has"), ["move"]),
        # duolahypercho/codex-router#219
        (
            {
                "code": "invalid-argument",
                "error": "Failed to start sampling: [invalid_client_tool_schema] "
                "automation_update: tool parameter root must be an object type",
            },
            ["automation_update"],
        ),
        # FastAPI, as vLLM and Mistral answer
        ({"detail": [{"loc": ["body", "tools", 3, "function"], "msg": "Field required"}]}, ["move"]),
        # a gateway that passes the provider's JSON on as a text
        (error(json.dumps(error("tools.1.custom.input_schema: invalid"))), ["type"]),
        ("Invalid schema for function 'add': no", ["add"]),
        # errors that name no tool, or something else
        (error("JSON schema conversion failed: Pattern must start with '^' and end with '$'"), []),
        (error("messages.3.content.0: tool_use ids were found without tool_result blocks"), []),
        (error("tools.99.custom.input_schema: invalid"), []),
        (error("An assistant message with 'tool_calls' must be followed by tool messages"), []),
        (error("Unsupported value: 'temperature' does not support 0.1", param="move"), []),
        ("<html>tools", []),
        ("", []),
    ],
)
def test_tools_are_found_in_the_words_of_a_refusal(body: Any, right: list[str]) -> None:
    assert named(body) == right


def test_only_a_refusal_of_the_request_names_tools() -> None:
    words = error("tools.3.custom.input_schema: invalid")
    assert named(words, 422) == ["move"]
    assert [named(words, status) for status in (401, 429, 500)] == [[], [], []]
    in_a_stream = from_error({"code": 400, "message": "tools.3.custom.input_schema: invalid"})
    assert named_tools(in_a_stream, TOOLS) == (TOOLS[3],)


REQUEST = ModelRequest("", (UserMessage("go"),), TOOLS, "go", "n", 1, 1)


@attrs.define(eq=False)
class Strict:
    """A model that refuses requests by a rule, and records the tools that it gets."""

    refuse: Callable[[tuple[ModelTool, ...]], str | None]
    got: list[list[str]] = attrs.field(factory=list)

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self.got.append([tool.name for tool in request.tools])
        words = self.refuse(request.tools)
        if words is not None:
            raise from_response(400, {}, json.dumps(error(words)).encode(), now=0)
        return ModelReply("done")


def index_of(name: str) -> Callable[[tuple[ModelTool, ...]], str | None]:
    def refuse(tools: tuple[ModelTool, ...]) -> str | None:
        places = [n for n, tool in enumerate(tools) if tool.name == name]
        return f"tools.{places[0]}.custom.input_schema: invalid" if places else None

    return refuse


async def test_turn_goes_on_without_the_named_tool_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    model, refused = Strict(index_of("move")), RefusedTools("main")
    with caplog.at_level(logging.WARNING):
        async with open_supervisor(EventBus()) as kernel:
            ref = await kernel.start("model", model_actor(model, refused=refused))
            for _ in range(2):
                assert (await ref.ask(AskModel(REQUEST))).text == "done"
    rest = ["add", "type", "mcp__s__find.it", "automation_update"]
    assert model.got == [[tool.name for tool in TOOLS], rest, rest]
    [record] = caplog.records
    assert 'without the tool "move"' in record.getMessage()
    [warning] = refused.warnings
    assert 'model "main" does not get the tool "move"' in warning
    # A server that corrects its tool gets it back.
    corrected = attrs.evolve(REQUEST, tools=(attrs.evolve(TOOLS[3], input_schema={"type": "object"}),))
    assert refused.without(corrected) == corrected
    assert refused.warnings == ()


async def test_several_refused_tools_are_left_out_one_after_the_other() -> None:
    by_turns = [index_of("type"), index_of("add"), index_of("move")]
    model = Strict(lambda tools: next((words for each in by_turns if (words := each(tools))), None))
    async with open_supervisor(EventBus()) as kernel:
        ref = await kernel.start("model", model_actor(model))
        assert (await ref.ask(AskModel(REQUEST))).text == "done"
    assert model.got[-1] == ["mcp__s__find.it", "automation_update"]


async def test_refusal_with_another_cause_fails_and_is_not_remembered() -> None:
    refused = RefusedTools("main")
    model = Strict(lambda tools: "tools.0.custom.input_schema: invalid" if tools else "still no")
    async with open_supervisor(EventBus()) as kernel:
        ref = await kernel.start("model", model_actor(model, refused=refused))
        with pytest.raises(ModelFailed, match="still no"):
            await ref.ask(AskModel(REQUEST))
    assert len(model.got) == len(TOOLS) + 1
    assert refused.warnings == ()


async def test_rounds_are_bounded() -> None:
    model = Strict(lambda tools: "tools.0.custom.input_schema: invalid")
    many = attrs.evolve(REQUEST, tools=tuple(ModelTool(f"t{n}", "", {}) for n in range(20)))
    async with open_supervisor(EventBus()) as kernel:
        ref = await kernel.start("model", model_actor(model))
        with pytest.raises(ModelFailed):
            await ref.ask(AskModel(many))
    assert len(model.got) == MAX_ROUNDS + 1
