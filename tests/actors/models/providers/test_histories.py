"""Any history, sent to any provider, follows the rules of all providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.google_codec import GoogleCodec
from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES, Flavour
from stopgo.actors.models.codecs.responses_codec import ResponsesCodec
from stopgo.actors.models.codecs.thinking_text import answer_in
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelReply,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from stopgo.config.sections.models import PROVIDERS, ModelSpec, Provider
from stopgo.runtime.json_text import dump_wire, load_provider
from tests.providers.servers.responses import order_problem

from .conftest import request

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "S"}
SIGNED = {"functionCall": {"id": "fc", "name": "add", "args": {}}, "thoughtSignature": "S"}
VERBATIM = [
    None,
    Verbatim("anthropic", [THOUGHT, {"type": "tool_use", "id": "x", "name": "add", "input": {"old": 1}}]),
    Verbatim("anthropic", [THOUGHT, {"type": "text", "text": ""}, {"type": "text", "text": "kept"}]),
    Verbatim("google", [{"text": ""}, SIGNED]),
    Verbatim("google", [SIGNED, {"functionCall": {"name": "add"}}]),
    Verbatim(
        "here",
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
            {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "kept"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "x", "name": "add", "arguments": '{"old":1}'},
        ],
    ),
    Verbatim("here", [{"type": "reasoning", "id": "rs_1"}, {"type": "message", "id": "", "content": [3]}]),
    Verbatim("openrouter", {"reasoning": "hm", "tool_calls": [{"extra_content": {"s": 1}}]}),
]

# Few values, each odd in its own way: `test_tools.py` generates any id and any name, which takes much longer.
texts = st.sampled_from(["", " \n", "x", "é\ud83d\x00", "two words"])
ids = st.sampled_from(["x", "y", "call_1", "functions.add:0", "abc123XYZ", "", " ", "é", "x" * 50])
names = st.sampled_from(["add", "files.read", "", "é", "x" * 70])
arguments = st.dictionaries(
    st.sampled_from(["", "a", "é"]), st.sampled_from([0, -(10**30), "", "b"]), max_size=2
)
calls = st.lists(st.builds(ToolCall, id=ids, name=names, arguments=arguments), max_size=3).map(tuple)
messages: st.SearchStrategy[ChatMessage] = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(AssistantMessage, texts, calls, st.sampled_from(VERBATIM)),
    st.builds(ToolMessage, ids, names, texts, st.booleans()),
)
histories = st.lists(messages, max_size=10).map(lambda found: (*found, UserMessage("and now?")))


def finished(history: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """The same, with a result for each call, as a run has them."""
    done: list[ChatMessage] = []
    for message in history:
        if isinstance(message, ToolMessage):
            continue
        done.append(message)
        if isinstance(message, AssistantMessage):
            done += [
                ToolMessage(call.id, call.name, f"result {n}") for n, call in enumerate(message.tool_calls)
            ]
    return tuple(done)


def spec(provider: Provider) -> ModelSpec:
    return ModelSpec("m", provider, "m", stream=False)


def anthropic(history: tuple[ChatMessage, ...]) -> list[Mapping[str, Any]]:
    body = load_provider(dump_wire(AnthropicCodec(spec("anthropic")).body(request(*history))))
    found: list[Mapping[str, Any]] = body["messages"]
    return found


def google(history: tuple[ChatMessage, ...]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = load_provider(
        dump_wire(GoogleCodec(spec("google")).body(request(*history)))
    )["contents"]
    return found


CHATS = [each for each in PROVIDERS if PROFILES[each].kind in ("openai", "azure")]


def chat(provider: Provider, history: tuple[ChatMessage, ...]) -> list[Mapping[str, Any]]:
    codec = OpenAICodec(spec(provider), PROFILES[provider].flavour)
    found: list[Mapping[str, Any]] = load_provider(dump_wire(codec.body(request(*history))))["messages"]
    return found


def responses(history: tuple[ChatMessage, ...]) -> list[Mapping[str, Any]]:
    body = load_provider(dump_wire(ResponsesCodec(spec("openai"), "here").body(request(*history))))
    found: list[Mapping[str, Any]] = body["input"]
    return found


@given(histories, st.sampled_from(CHATS))
def test_any_history_follows_the_rules_of_every_provider(
    history: tuple[ChatMessage, ...], provider: Provider
) -> None:
    check_claude(anthropic(history))
    check_gemini(google(history))
    check_chat_completions(chat(provider, history), PROFILES[provider].flavour)
    assert order_problem(responses(history)) is None


def check_claude(found: list[Mapping[str, Any]]) -> None:
    roles = [message["role"] for message in found]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    waiting: list[str] = []
    seen: set[str] = set()
    for message in found:
        blocks = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == waiting
        assert [block["type"] for block in blocks[: len(results)]] == ["tool_result"] * len(results)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen & set(waiting)
        assert len(set(waiting)) == len(waiting)
        seen |= set(waiting)
    assert waiting == []


def check_gemini(found: list[Mapping[str, Any]]) -> None:
    roles = [content["role"] for content in found]
    assert roles == ["user", "model"] * (len(roles) // 2) + ["user"]
    waiting: list[Mapping[str, Any]] = []
    for content in found:
        parts = content["parts"]
        assert parts
        assert all(part["text"] or "thoughtSignature" in part for part in parts if "text" in part)
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert [(each["name"], each.get("id")) for each in results] == [
            (call["name"], call.get("id")) for call in waiting
        ]
        assert all(isinstance(each["response"], dict) for each in results)
        made = [part for part in parts if "functionCall" in part]
        assert not made or any("thoughtSignature" in part for part in made)
        waiting = [part["functionCall"] for part in made]
    assert waiting == []


def check_chat_completions(messages: list[Mapping[str, Any]], flavour: Flavour) -> None:
    _, *found = messages
    waiting: list[str] = []
    before = "system"
    for message in found:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
            assert role != before
            assert role == "user" or before in ("user", "tool")
            assert message["content"] or message.get("tool_calls")
            assert role == "assistant" or flavour.user_after_tool or before != "tool"
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            assert all(flavour.ids.fullmatch(id) for id in waiting)
            assert all(
                isinstance(load_provider(c["function"]["arguments"]), dict)
                for c in message.get("tool_calls", ())
            )
        before = role
    assert waiting == []
    assert before == "user"


@given(st.lists(messages, max_size=8).map(lambda found: finished((UserMessage("hi"), *found))))
def test_finished_history_is_sent_completely(history: tuple[ChatMessage, ...]) -> None:
    made = [dict(call.arguments) for m in history if isinstance(m, AssistantMessage) for call in m.tool_calls]
    blocks = [block for message in anthropic(history) for block in message["content"]]
    parts = [part for content in google(history) for part in content["parts"]]
    said = chat("openai", history)
    items = responses(history)
    assert [block["input"] for block in blocks if block["type"] == "tool_use"] == made
    assert [part["functionCall"].get("args", {}) for part in parts if "functionCall" in part] == made
    assert [load_provider(c["function"]["arguments"]) for m in said for c in m.get("tool_calls", ())] == made
    results = [m.content for m in history if isinstance(m, ToolMessage)]
    assert [block["content"] for block in blocks if block["type"] == "tool_result"] == results
    assert [
        part["functionResponse"]["response"]["output"] for part in parts if "functionResponse" in part
    ] == results
    assert [m["content"] for m in said if m["role"] == "tool"] == results
    assert [item["output"] for item in items if item.get("type") == "function_call_output"] == results
    assert [load_provider(item["arguments"]) for item in items if item.get("type") == "function_call"] == made


good_calls = st.lists(
    st.builds(ToolCall, id=st.uuids().map(lambda id: id.hex[:9]), name=st.just("add"), arguments=arguments),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call.id,
).map(tuple)


# A text with tags of reasoning, such as "[THINK]", is not an answer.
answers = st.text(max_size=8).filter(lambda text: text.strip() != "" and answer_in(text) == text)


@given(answers, good_calls)
def test_histories_keep_their_meaning_between_providers(text: str, calls: tuple[ToolCall, ...]) -> None:
    history = (UserMessage("hi"), AssistantMessage(text, calls))
    expected = ModelReply(text, calls, stop="tool_calls")
    sent = request(*history)

    claude = AnthropicCodec(spec("anthropic"))
    message = {"content": anthropic(history)[1]["content"], "stop_reason": "tool_use"}
    assert claude.reply(message, sent) == expected

    candidate = {"content": google(history)[1], "finishReason": "STOP"}
    gemini = GoogleCodec(spec("google")).reply({"candidates": [candidate]}, sent)
    assert (gemini.text, [c.arguments for c in gemini.tool_calls]) == (text, [c.arguments for c in calls])

    openai = OpenAICodec(spec("openai"), PROFILES["openai"].flavour)
    choice = {"message": chat("openai", history)[2], "finish_reason": "tool_calls"}
    assert openai.reply({"choices": [choice]}, sent) == expected

    codec = ResponsesCodec(spec("openai"), "here")
    said, *made = codec.body(sent)["input"][2 : 3 + len(calls)]
    message = {"type": "message", "content": [{"type": "output_text", "text": said["content"]}]}
    reply = codec.reply({"status": "completed", "output": [message, *made]}, sent)
    assert (reply.text, reply.tool_calls) == (text, calls)
