"""The pieces of calls as servers of chat completions send them, and the calls that they make."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.messages.messages import ModelReply, ModelTool, unheard
from stopgo.config.sections.models import ModelSpec

from .conftest import ADD, request

SUB = ModelTool("sub", "Subtract.", ADD.input_schema)
GET_WEATHER = ModelTool("get_weather", "Weather.", ADD.input_schema)
ONE, TWO = '{"a": 1}', '{"a": 2}'


def piece(
    index: Any = None, id: str | None = None, name: str | None = None, json: Any = None
) -> dict[str, Any]:
    fields = {"index": index, "id": id, "function": {"name": name, "arguments": json}}
    return {key: value for key, value in fields.items() if value is not None}


def streamed(*pieces: dict[str, Any], finish: str | None = "tool_calls") -> ModelReply:
    codec = OpenAICodec(ModelSpec("m", "openai_compatible", "m"), PROFILES["openai_compatible"].flavour)
    stream = codec.stream(request(tools=(ADD, SUB, GET_WEATHER)), unheard)
    for each in pieces:
        stream.feed(json.dumps({"choices": [{"delta": {"tool_calls": [each]}}]}))
    stream.feed(json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}))
    stream.feed("[DONE]")
    return stream.reply()


def made(reply: ModelReply) -> list[tuple[str, Any]]:
    """The calls that would be sent."""
    return [(call.name, call.arguments) for call in reply.tool_calls if call.problem is None]


BOTH = [("add", {"a": 1}), ("sub", {"a": 2})]
ADD_1 = [("add", {"a": 1})]


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        pytest.param(
            [
                piece(0, "x", "add", ""),
                piece(1, "y", "sub", '{"a"'),
                piece(0, json=ONE),
                piece(1, json=": 2}"),
            ],
            BOTH,
            id="interleaved by index",
        ),
        pytest.param(
            # Repeated by Fireworks: SillyTavern/SillyTavern#5948.
            [piece(0, "x", "add", ""), piece(0, "x", "add", '{"a": '), piece(0, "x", "add", "1}")],
            ADD_1,
            id="id and name in each piece",
        ),
        pytest.param(
            [piece(None, "x", "add", ""), piece(None, "x", "add", '{"a": '), piece(None, "x", "add", "1}")],
            ADD_1,
            id="id and name in each piece, no index",
        ),
        pytest.param(
            [
                piece(None, "x", "add", '{"a": '),
                piece(None, "y", "sub", '{"a": '),
                piece(None, "x", json="1}"),
                piece(None, "y", json="2}"),
            ],
            BOTH,
            id="interleaved by id, no index",
        ),
        pytest.param(
            # openai/openai-python#3246.
            [piece(None, "x", "add", '{"a": '), piece(json="1}"), piece(None, "y", "sub", TWO)],
            BOTH,
            id="no index, and no id in later pieces",
        ),
        pytest.param(
            # su-kaka/gcli2api#406, ollama/ollama#15457.
            [piece(0, "x", "add", ONE), piece(0, "y", "sub", ""), piece(0, None, None, TWO)],
            BOTH,
            id="all calls numbered 0",
        ),
        pytest.param(
            [piece(0, "", "add", ONE), piece(0, "", "add", TWO)],
            [("add", {"a": 1}), ("add", {"a": 2})],
            id="all calls numbered 0 and without ids",
        ),
        pytest.param(
            [piece(23, "x", "add", ""), piece(23, json=ONE), piece(23, "y", "sub", ""), piece(23, json=TWO)],
            BOTH,
            id="the number of the tool as index",  # sgl-project/sglang#23081
        ),
        pytest.param(
            [piece(1, "x", "add", ""), piece(1, json=ONE), piece(2, "y", "sub", TWO)],
            BOTH,
            id="indexes from 1",
        ),
        pytest.param(
            [piece(0, "x", "add", '{"a"'), piece(1, "y", None, ": "), piece(2, "z", "", "1}")],
            ADD_1,
            id="another index and id in each piece",
        ),
        pytest.param(
            [piece("0", "x", "add", ""), piece("1", "y", "sub", TWO), piece("0", json=ONE)],
            BOTH,
            id="indexes as texts",
        ),
        pytest.param(
            [piece(0, "x", "add", '{"a": '), piece(1, "x", None, "1"), piece(2, json="}")],
            ADD_1,
            id="pieces numbered, not calls",
        ),
        pytest.param(
            [piece(0, "x", "add", ""), piece(0, "y", None, '{"a": '), piece(0, "z", None, "1}")],
            ADD_1,
            id="another id in each piece",  # vllm-project/vllm#10782
        ),
        pytest.param(
            [piece(0, "x", "add", ""), piece(0, "", "", '{"a": '), piece(0, "", "", "1}")],
            ADD_1,
            id="empty id and name in later pieces",
        ),
        pytest.param(
            [piece(0, "x", "get_"), piece(0, "x", "weather", ""), piece(0, json=ONE)],
            [("get_weather", {"a": 1})],
            id="name in parts",
        ),
        pytest.param(
            [piece(0, "x", "get"), piece(0, "x", "get_weather", ""), piece(0, json=ONE)],
            [("get_weather", {"a": 1})],
            id="name that grows",
        ),
        pytest.param(
            [piece(0, "x"), piece(0, None, "add", ""), piece(0, json=ONE)], ADD_1, id="name after the id"
        ),
        pytest.param([piece(0, json=ONE), piece(0, "x", "add", "")], ADD_1, id="name after the arguments"),
        pytest.param(
            # QuantumNous/new-api#6278.
            [piece(0, "x", "add", ""), piece(0, json=ONE), piece(1, "x", "add", ONE)],
            ADD_1,
            id="the call again under another index",
        ),
        pytest.param(
            [piece(None, "x", "add", ONE), piece(None, "x", "add", ONE)], ADD_1, id="the call again, no index"
        ),
        pytest.param(
            [piece(0, None, "add", ONE), piece(0, None, "add", ONE)], ADD_1, id="the call again, no id"
        ),
        pytest.param([piece(name="add", json=ONE)] * 2, ADD_1 * 2, id="two calls without ids and indexes"),
        pytest.param(
            # HKUDS/nanobot#3943.
            [piece(0, "x", "add", ""), piece(0, json=ONE), piece(1, "x", "add", TWO)],
            [("add", {"a": 1}), ("add", {"a": 2})],
            id="one id for two calls",
        ),
        pytest.param(
            # vercel/ai#3953.
            [piece(0, "x", "add", ""), piece(0, json=ONE), piece(0, "", "add", "")],
            ADD_1,
            id="an empty piece at the end",
        ),
        pytest.param(
            [piece(0, "x", "add", each) for each in ('{"a"', '{"a": 1', ONE, ONE)], ADD_1, id="cumulative"
        ),
        pytest.param(
            [piece(None, "x", "add", each) for each in ("{}", '{"a"', '{"a": 1', ONE)],
            ADD_1,
            id="cumulative after an empty object",
        ),
        pytest.param([piece(0, "x", "add", "{}"), piece(0, json=ONE)], ADD_1, id="an empty object first"),
        pytest.param([piece(0, "x", "add", "null")], [("add", {})], id="the text null"),
        pytest.param([piece(0, "x", "add", {"a": 1})], ADD_1, id="arguments as an object"),
        pytest.param(
            [piece(None, "x", "add", ONE), piece(None, "y", "add", json.dumps(TWO)[:-1]), piece(json='"')],
            [("add", {"a": 1}), ("add", {"a": 2})],
            id="encoded twice, beside another call of the tool",
        ),
        pytest.param([piece(0, "x", "add", "")], [("add", {})], id="no arguments"),
        pytest.param(
            [piece(0, "x", "add", "{}"), piece(1, "y", "sub", "{}"), piece(1, json=TWO)],
            [("add", {}), ("sub", {"a": 2})],
            id="an empty object first, beside a call without arguments",
        ),
        pytest.param(
            [piece(0, "x", "add", '{"a": "\\ud83d'), piece(0, json='\\ude42"}')],
            [("add", {"a": "\U0001f642"})],
            id="a character in two pieces",
        ),
    ],
)
def test_pieces_of_one_call_are_one_call(pieces: list[dict[str, Any]], calls: list[tuple[str, Any]]) -> None:
    reply = streamed(*pieces)
    assert made(reply) == calls
    assert len(reply.tool_calls) == len(calls)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [piece(None, "x", "add", ""), piece(None, "y", "sub", ""), piece(json=ONE)],
            id="either may own it",
        ),
        pytest.param(
            [
                *(piece(None, "x", "add", '{"a": "'), piece(None, "y", "sub", '{"a": "'), piece(json="z")),
                *(piece(None, "x", json='"}'), piece(None, "y", json='"}')),
            ],
            id="either may own a part of a text",
        ),
        pytest.param(
            [piece(0, "x", "add", ""), piece(0, "y", "add", '{"a": '), piece(0, "z", "add", "1}")],
            id="another id and the name in each piece",
        ),
        pytest.param(
            [piece(0, "x", "add", ""), piece(1, "", "", ONE + TWO)], id="two objects of a stray index"
        ),
        pytest.param(
            [piece(0, "x", "add", '{"a": "'), piece(1, "x", "add", "{}"), piece(0, json='"}')],
            id="the index changes back",
        ),
        pytest.param(
            [piece(name="add", json='{"a": "'), piece(name="add", json="{}"), piece(json='"}')],
            id="the name again, no id and no index",
        ),
        pytest.param(
            [piece(0, "x", "add", '{"a": '), piece(0, "y", "add", '{"b": 1}'), piece(0, "z", "add", "}")],
            id="a part that is an object, with another id",
        ),
        pytest.param([piece(0, "x", "add", '{"a": 1')], id="cut"),
        pytest.param([piece(0, "x", None, ONE)], id="no name"),
        pytest.param([piece(0, "x", "add", ONE + TWO)], id="two objects"),
    ],
)
def test_unclear_pieces_are_no_call_and_are_told(pieces: list[dict[str, Any]]) -> None:
    reply = streamed(*pieces)
    assert made(reply) == []
    assert reply.tool_calls


def test_empty_arguments_beside_another_id_are_not_sent() -> None:
    reply = streamed(piece(0, "x", "add", ""), piece(0, "y", "add", ONE))
    assert made(reply) == ADD_1
    assert [call.problem is None for call in reply.tool_calls] == [False, True]


def test_call_without_arguments_is_not_sent_beside_a_damaged_one() -> None:
    assert made(streamed(piece(0, "x", "add", ""), piece(1, "y", "sub", '{"a": '))) == []
    assert made(streamed(piece(0, "x", "add", ""), piece(1, "y", "sub", TWO))) == [
        ("add", {}),
        ("sub", {"a": 2}),
    ]


def test_call_without_arguments_needs_the_end_of_the_reply() -> None:
    assert made(streamed(piece(0, "x", "add", ""), finish=None)) == []
    assert made(streamed(piece(0, "x", "add", ONE), finish=None)) == ADD_1


def test_name_with_two_meanings_is_no_tool() -> None:
    tools = [ModelTool(name, "", ADD.input_schema) for name in ("go", "gogo_on", "gogogo_on")]
    codec = OpenAICodec(ModelSpec("m", "ollama", "m"), PROFILES["ollama"].flavour)
    stream = codec.stream(request(tools=tools), unheard)
    for each in (piece(0, "x", "go"), piece(0, "x", "gogo_on", "{}")):
        stream.feed(json.dumps({"choices": [{"delta": {"tool_calls": [each]}}]}))
    stream.feed(json.dumps({"choices": [{"finish_reason": "stop"}]}))
    (call,) = stream.reply().tool_calls
    assert call.name not in {tool.name for tool in tools}


def test_pieces_without_index_take_time_in_proportion() -> None:
    pieces = [piece(None, "x", "add", ONE), piece(None, "y", "sub", '{"a": "')]
    reply = streamed(*pieces, *itertools.repeat(piece(json="}" * 10), 3000), piece(json='"}'))
    assert made(reply) == [("add", {"a": 1}), ("sub", {"a": "}" * 30_000})]
