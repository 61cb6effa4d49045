from __future__ import annotations

import copy
import string
from typing import Any, get_args

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.models.messages.a2a_end import (
    A2AEnd,
    A2AState,
    DataArtifact,
    FileArtifact,
    LinkArtifact,
    TextArtifact,
)
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ModelTool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    unheard,
)
from stopgo.actors.models.offline.script import ScriptedCall, ScriptEntry, ScriptModel
from stopgo.actors.models.offline.script_reader import parse_script

ADD = ModelTool(
    "resources_add",
    "Add a resource",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "value": {"type": ["integer", "string"]},
            "count": {"type": "integer"},
            "options": {"type": "object", "properties": {"size": {"type": "number"}}},
            "sizes": {"type": "array", "items": {"type": "integer"}},
        },
    },
)


def request(user: str = "add test-1 value 10", **changes: Any) -> ModelRequest:
    plain = ModelRequest(
        system="You are the first node.",
        messages=(UserMessage(user),),
        tools=(ADD,),
        user=user,
        node="main",
        turn=1,
        call=1,
    )
    return attrs.evolve(plain, **changes)


def with_results(*results: ToolMessage) -> ModelRequest:
    calls = tuple(ToolCall(result.call_id, result.name, {}) for result in results)
    return request(call=2, messages=(UserMessage("go"), AssistantMessage("", calls), *results))


async def reply(text: str, asked: ModelRequest) -> ModelReply:
    return await ScriptModel(parse_script(text, "demo.yaml")).complete(asked, unheard)


EXAMPLE = r"""
replies:
  - when: {user: 'add (?P<name>\S+)', call: 1}
    tool_calls:
      - {name: resources_add, arguments: {name: '${name}', value: 1}}
  - when: {last_tool: resources_add, tool_result: '"id": "(?P<id>\d+)"'}
    text: 'made ${id}'
    delay: 0.05
    usage: {input_tokens: 10, output_tokens: 3}
  - when: {user: 'boom', attempt: 1}
    error: {status: 529, message: overloaded}
"""


async def test_a_call_and_then_a_text(autojump_clock: MockClock) -> None:
    first = await reply(EXAMPLE, request())
    assert first.tool_calls == (ToolCall("call_1_0", "resources_add", {"name": "test-1", "value": 1}),)
    assert first.stop == "tool_calls"
    began = trio.current_time()
    second = await reply(EXAMPLE, with_results(ToolMessage("c", "resources_add", '{"id": "42"}')))
    assert second == ModelReply("made 42", usage=Usage(10, 3))
    assert trio.current_time() - began == pytest.approx(0.05)


async def test_error_becomes_a_failure_with_its_status() -> None:
    with pytest.raises(ModelFailed, match="overloaded") as failed:
        await reply(EXAMPLE, request("boom"))
    assert failed.value.status == 529
    assert failed.value.retryable


async def test_error_without_a_reply_shows_the_request() -> None:
    asked = attrs.evolve(
        with_results(ToolMessage("c", "resources_list", "x" * 5000)),
        user="sing",
        node="poet",
        turn=7,
        step="7/:2",
        message_id="tck-1" + "x" * 5000,
        prompt="The key is sk-1",
    )
    with pytest.raises(ModelFailed) as failed:
        await reply(EXAMPLE, asked)
    text = str(failed.value)
    shown = (
        "demo.yaml",
        "node='poet'",
        "call=2",
        "turn=7",
        "'sing'",
        "resources_list",
        "attempt=1",
        "step='7/:2'",
        "message_id='tck-1xx",
    )
    for part in shown:
        assert part in text
    assert "sk-1" not in text
    assert len(text) < 850
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("when", "holds", "fails"),
    [
        ("{user: 'test-[0-9]'}", request(), request("other")),
        ("{prompt: 'first node'}", request(), request(prompt="second")),
        ("{node: main}", request(), request(node="mainly")),
        ("{call: 2}", request(call=2), request()),
        ("{iteration: 3}", request(iteration=3), request()),
        ("{turn: 2}", request(turn=2), request()),
        ("{attempt: 2}", request(attempt=2), request()),
        ("{message_id: 'tck-*-?'}", request(message_id="tck-end-1"), request(message_id="tck-end-10")),
        ("{message_id: 'tck-*'}", request(message_id="tck-"), request(message_id="TCK-1")),
        ("{message_id: 'tck-[ab]'}", request(message_id="tck-b"), request(message_id="tck-c")),
        ("{message_id: '?*'}", request(message_id="x"), request()),
        ("{node: main, turn: 2}", request(turn=2), request(node="other", turn=2)),
        ("{last_tool: b}", with_results(ToolMessage("1", "a", ""), ToolMessage("2", "b", "")), request()),
        (
            "{last_tool: a}",
            with_results(ToolMessage("1", "a", "")),
            with_results(ToolMessage("1", "a", ""), ToolMessage("2", "b", "")),
        ),
        (
            "{tool_result: 'blue'}",
            with_results(ToolMessage("1", "a", "blue"), ToolMessage("2", "b", "red")),
            with_results(ToolMessage("1", "a", "green")),
        ),
    ],
)
async def test_conditions(when: str, holds: ModelRequest, fails: ModelRequest) -> None:
    script = f"replies:\n- when: {when}\n  text: 'yes'\n- text: 'no'"
    assert (await reply(script, holds)).text == "yes"
    assert (await reply(script, fails)).text == "no"


async def test_answered_results_do_not_match() -> None:
    old = with_results(ToolMessage("1", "a", "blue")).messages
    asked = request(messages=(*old, AssistantMessage("done"), UserMessage("again")))
    script = (
        "replies:\n- when: {tool_result: blue}\n  text: old\n- when: {last_tool: a}\n  text: old\n- text: new"
    )
    assert (await reply(script, asked)).text == "new"


async def test_first_matching_entry_is_used() -> None:
    script = "replies:\n- when: {call: 2}\n  text: a\n- text: b\n- text: c"
    assert (await reply(script, request())).text == "b"


async def test_groups_fill_text_and_arguments() -> None:
    script = r"""
replies:
  - when: {user: '(?P<n>\d+)( (?P<absent>zzz))?$', prompt: 'the (?P<which>\w+) node'}
    text: '${which} ${n}${absent} $${n} $5'
    tool_calls:
      - name: resources_add
        arguments:
          name: '${n}'
          value: '${n}'
          count: 'x${n}'
          options: {size: '${n}', '${n}': 1, deep: [{a: '${which}'}, true, null, 1.5]}
          sizes: ['${n}', 'n${n}']
      - {name: unknown_tool, arguments: {value: '${n}'}}
"""
    answer = await reply(script, request())
    assert answer.text == "first 10 ${n} $5"
    first, second = answer.tool_calls
    assert first.arguments == {
        "name": "10",
        "value": 10,
        "count": "x10",
        "options": {"size": 10, "${n}": 1, "deep": [{"a": "first"}, True, None, 1.5]},
        "sizes": [10, "n10"],
    }
    assert (second.id, second.arguments) == ("call_1_1", {"value": "10"})


async def test_other_text_stays_text() -> None:
    script = r"""
replies:
  - when: {user: 'value (?P<v>\S+)'}
    tool_calls: [{name: resources_add, arguments: {value: '${v}', count: '${v}'}}]
"""
    answer = await reply(script, request("value ten"))
    assert answer.tool_calls[0].arguments == {"value": "ten", "count": "ten"}
    answer = await reply(script, request("value 007"))
    assert answer.tool_calls[0].arguments == {"value": "007", "count": 7}


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("{}", A2AEnd("completed")),
        *((f"{{state: {state}}}", A2AEnd(state)) for state in get_args(A2AState)),
        ("{artifact: {text: 'a ${n}'}}", A2AEnd("completed", TextArtifact(("a 10",)))),
        (
            "{state: failed, artifact: {text: ['${n}, ', '$${n}']}}",
            A2AEnd("failed", TextArtifact(("10, ", "${n}"))),
        ),
        (
            "{artifact: {file: {name: '${n}.txt', media_type: text/plain, text: 'the ${n}'}}}",
            A2AEnd("completed", FileArtifact("the 10", "10.txt", "text/plain")),
        ),
        ("{artifact: {file: {text: ''}}}", A2AEnd("completed", FileArtifact(""))),
        (
            "{artifact: {file: {name: a, media_type: image/png, url: 'http://a/${n}'}}}",
            A2AEnd("completed", LinkArtifact("http://a/10", "a", "image/png")),
        ),
        (
            "{artifact: {data: {a: ['${n}', {b: null}], '${n}': 1.5}}}",
            A2AEnd("completed", DataArtifact({"a": ["10", {"b": None}], "${n}": 1.5})),
        ),
    ],
)
async def test_how_a_reply_ends_its_task(said: str, end: A2AEnd) -> None:
    script = rf"replies: [{{when: {{user: '(?P<n>\d+)$'}}, a2a: {said}}}]"
    assert await reply(script, request()) == ModelReply(a2a=end)


@pytest.mark.repeat(20)
async def test_equal_requests_get_equal_replies() -> None:
    model = ScriptModel(parse_script(EXAMPLE, "demo.yaml"))
    requests = [request(f"add r-{number}") for number in range(20)]
    alone = [await model.complete(each, unheard) for each in requests]
    together: dict[int, ModelReply] = {}

    async def one(number: int) -> None:
        together[number] = await model.complete(requests[number], unheard)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert [together[number] for number in range(20)] == alone


async def test_changing_a_reply_does_not_change_the_next() -> None:
    model = ScriptModel(parse_script(EXAMPLE, "demo.yaml"))
    first = await model.complete(request(), unheard)
    assert isinstance(first.tool_calls[0].arguments, dict)
    first.tool_calls[0].arguments.clear()
    second = await model.complete(request(), unheard)
    assert second.tool_calls[0].arguments == {"name": "test-1", "value": 1}


GROUPS = {"a": "one", "b": "${a} $${ two"}
_PARTS = st.sampled_from(
    [("${a}", GROUPS["a"]), ("${b}", GROUPS["b"]), ("$${", "${"), ("$ ", "$ ")]
) | st.text(st.characters(exclude_characters="$"), max_size=5).map(lambda text: (text, text))
"""Pieces of a scripted text, each with its result."""
_VALUES = st.recursive(
    (st.none() | st.booleans() | st.integers()).map(lambda value: (value, value))
    | st.lists(_PARTS, max_size=4).map(
        lambda parts: tuple(map("".join, zip(*parts, strict=True))) if parts else ("", "")
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(
            lambda pairs: ([each[0] for each in pairs], [each[1] for each in pairs])
        )
        | st.dictionaries(st.sampled_from(string.ascii_lowercase), inner, max_size=3).map(
            lambda pairs: (
                {key: each[0] for key, each in pairs.items()},
                {key: each[1] for key, each in pairs.items()},
            )
        )
    ),
    max_leaves=10,
)


@given(_VALUES)
def test_reply_fills_in_a_copy_at_every_depth(pair: tuple[Any, Any]) -> None:
    value, filled = pair
    before = copy.deepcopy(value)
    entry = ScriptEntry(tool_calls=(ScriptedCall("t", {"x": value}),))
    for _ in range(2):
        assert entry.reply(request(), GROUPS).tool_calls[0].arguments == {"x": filled}
    assert value == before


async def test_slow_pattern_fails_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopgo.actors.models.offline.script.PATIENCE", 0.01)
    script = ScriptModel(parse_script("replies: [{when: {user: '^(a|aa)+$'}, text: x}]", "s.yaml"))
    with pytest.raises(ModelFailed, match=r"a pattern in s\.yaml takes too long"):
        await script.complete(request("a" * 100 + "!"), lambda _: None)
