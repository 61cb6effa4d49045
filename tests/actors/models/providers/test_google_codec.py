from __future__ import annotations

import json
from typing import Any

import pytest

from stopgo.actors.models.codecs.google_codec import NO_SIGNATURE, GoogleCodec, path
from stopgo.actors.models.messages.messages import (
    ArgumentsDelta,
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ModelTool,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    Verbatim,
    unheard,
)
from stopgo.config.sections.models import ModelSpec

from .conftest import Heard, kept, request

USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 3,
    "cachedContentTokenCount": 4,
    "totalTokenCount": 18,
}
COUNTED = Usage(10, 8, 4)
SIGNED = {"functionCall": {"id": "fc1", "name": "add", "args": {"a": 1}}, "thoughtSignature": "U0lH"}
SECOND = {"functionCall": {"id": "fc2", "name": "add", "args": {"a": 2}}}
THOUGHT = {"text": "hm", "thought": True}


def codec(model: str = "gemini-3-flash", **more: Any) -> GoogleCodec:
    more.setdefault("stream", False)
    return GoogleCodec(ModelSpec("m", "google", model, **more))


def answer(*parts: dict[str, Any], finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish, **more}
    return {"candidates": [candidate], "usageMetadata": USAGE}


def read(body: object) -> ModelReply:
    return codec().reply(body, request())


def streamed(*chunks: object, heard: Heard | None = None) -> ModelReply:
    stream = codec().stream(request(), heard or unheard)
    for chunk in chunks:
        stream.feed(chunk if isinstance(chunk, str) else json.dumps(chunk))
    return stream.reply()


def contents(*history: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = codec().body(request(*history))["contents"]
    return found


# ------------------------------------------------------------------------- requests


def test_a_request() -> None:
    history = (
        UserMessage("add 1"),
        AssistantMessage("I add.", (ToolCall("x", "add", {"a": 1}), ToolCall("y", "add", {"a": 2}))),
        ToolMessage("x", "add", "1"),
        ToolMessage("y", "add", "too large", is_error=True),
    )
    call = {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": NO_SIGNATURE}
    assert codec(max_tokens=100, temperature=0.5).body(request(*history)) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "add 1"}]},
            {
                "role": "model",
                "parts": [{"text": "I add."}, call, {"functionCall": {"name": "add", "args": {"a": 2}}}],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "add", "response": {"output": "1"}}},
                    {"functionResponse": {"name": "add", "response": {"error": "too large"}}},
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "add",
                        "description": "Add two numbers.",
                        "parametersJsonSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
                    }
                ]
            }
        ],
        "generationConfig": {"maxOutputTokens": 100, "temperature": 0.5},
    }


def test_empty_fields_are_not_sent() -> None:
    body = codec().body(request(system="", tools=()))
    assert body == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_options_are_merged() -> None:
    options = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}, "safetySettings": []}
    body = codec(max_tokens=100, options=options).body(request())
    assert body["generationConfig"] == {"maxOutputTokens": 100, "thinkingConfig": {"thinkingBudget": 0}}
    assert body["safetySettings"] == []


@pytest.mark.parametrize(
    ("model", "stream", "expected"),
    [
        ("gemini-3-flash", False, "/v1beta/models/gemini-3-flash:generateContent"),
        ("gemini-3-flash", True, "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"),
        ("tunedModels/mine", False, "/v1beta/tunedModels/mine:generateContent"),
        ("a b?c#d", False, "/v1beta/models/a%20b%3Fc%23d:generateContent"),
    ],
)
def test_the_path(model: str, stream: bool, expected: str) -> None:
    assert path(ModelSpec("m", "google", model, stream=stream)) == expected


def test_adjacent_contents_of_one_role_are_joined() -> None:
    call = AssistantMessage("two", (ToolCall("1", "add", {}),))
    texts = contents(UserMessage("a"), UserMessage("b"), AssistantMessage("one"), call, UserMessage("c"))
    assert [content["role"] for content in texts] == ["user", "model", "user"]
    assert texts[0]["parts"] == [{"text": "a"}, {"text": "b"}]
    assert texts[1]["parts"][:2] == [{"text": "one"}, {"text": "two"}]
    assert texts[2]["parts"][1] == {"text": "c"}


def test_invalid_tool_names_are_translated_both_ways() -> None:
    tools = [ModelTool("2 files", "", {})]
    body = codec().body(request(tools=tools))
    told = body["tools"][0]["functionDeclarations"][0]["name"]
    reply = codec().reply(answer({"functionCall": {"name": told, "args": {}}}), request(tools=tools))
    assert reply.tool_calls[0].name == "2 files"
    assert contents(UserMessage("x"), kept(reply))[1]["parts"][0]["functionCall"]["name"] == told


# -------------------------------------------------------------------------- replies


def test_a_text() -> None:
    assert read(answer({"text": "hel"}, {"text": "lo"})).text == "hello"
    assert read(answer({"text": "hello"})) == ModelReply("hello", usage=COUNTED)


def test_calls() -> None:
    reply = read(answer({"text": "so"}, SIGNED, SECOND))
    assert reply.text == "so"
    assert reply.tool_calls == (ToolCall("fc1", "add", {"a": 1}), ToolCall("fc2", "add", {"a": 2}))
    assert reply.stop == "tool_calls"


@pytest.mark.parametrize(
    "call", [{"name": "add"}, {"name": "add", "args": {}}, {"name": "add", "args": None}]
)
def test_a_call_without_id_or_arguments(call: dict[str, Any]) -> None:
    (found, other) = read(answer({"functionCall": call}, {"functionCall": call})).tool_calls
    assert (found.arguments, found.problem) == ({}, None)
    assert found.id
    assert found.id != other.id


def test_arguments_that_are_no_object() -> None:
    assert read(answer({"functionCall": {"name": "add", "args": [1]}})).tool_calls[0].problem is not None


def test_thoughts_are_not_for_the_user() -> None:
    assert read(answer(THOUGHT, {"text": "x"})).text == "x"


def test_a_reply_that_was_cut() -> None:
    assert read(answer({"text": "half"}, finish="MAX_TOKENS")).stop == "max_tokens"
    assert read(answer(SIGNED, finish="MAX_TOKENS")).stop == "max_tokens"
    with pytest.raises(ModelFailed, match="token limit was reached before") as failed:
        read(answer(THOUGHT, finish="MAX_TOKENS"))
    assert failed.value.usage == COUNTED


@pytest.mark.parametrize(
    ("body", "sentence", "retryable"),
    [
        (answer({"text": "so"}, finish="SAFETY"), r"the reply was blocked \(SAFETY\)", False),
        (answer(finish="RECITATION", finishMessage="a song"), r"blocked \(RECITATION: a song\)", False),
        (answer(finish="BLOCKLIST"), "BLOCKLIST", False),
        (answer(finish="PROHIBITED_CONTENT"), "PROHIBITED_CONTENT", False),
        (answer(finish="SPII"), "SPII", False),
        (answer(finish="MALFORMED_FUNCTION_CALL"), "a mistake", True),
        (answer(finish="MALFORMED_RESPONSE"), "a mistake", True),
        (answer(finish="UNEXPECTED_TOOL_CALL"), "a mistake", True),
        (answer(finish="TOO_MANY_TOOL_CALLS"), "a mistake", True),
        (answer(finish="MISSING_THOUGHT_SIGNATURE"), "reports a missing signature", False),
        # Empty answers: BerriAI/litellm#24442, livekit/agents#4066.
        (answer(finish="OTHER"), 'the answer is empty: .*"OTHER"', False),
        (answer(finish=None), "the answer is empty", False),
        (answer(finish="STOP"), "the answer is empty", False),
        (answer(THOUGHT), "the answer is empty", False),
        ({"candidates": [{"finishReason": "STOP"}], "usageMetadata": USAGE}, "the answer is empty", False),
        ({"candidates": [], "usageMetadata": USAGE}, "the answer is empty", False),
        ({"usageMetadata": USAGE}, "the answer is empty", False),
        (
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE},
            r"the prompt was blocked \(PROHIBITED_CONTENT\)",
            False,
        ),
    ],
)
def test_unusable_answers_fail(body: object, sentence: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed, match=sentence) as failed:
        read(body)
    assert failed.value.retryable is retryable
    assert failed.value.usage == COUNTED


@pytest.mark.parametrize("reason", ["OTHER", "NEW_REASON", None])
def test_unknown_reason_with_text_is_an_answer(reason: str | None) -> None:
    assert read(answer({"text": "x"}, finish=reason)).text == "x"


@pytest.mark.parametrize("reason", ["NEW_REASON", None])
def test_unknown_reason_with_calls_is_an_answer(reason: str | None) -> None:
    assert read(answer(SIGNED, finish=reason)).stop == "tool_calls"


def test_calls_with_finish_reason_other_are_not_made() -> None:
    with pytest.raises(ModelFailed, match="for an unknown reason") as failed:
        read(answer(SIGNED, finish="OTHER"))
    assert failed.value.retryable


@pytest.mark.parametrize("wrapped", [True, False])
def test_an_error_with_status_200(wrapped: bool) -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(ModelFailed, match=r"overloaded \(status 503\)") as failed:
        read([error] if wrapped else error)
    assert failed.value.retryable


# --------------------------------------------------------------------- sent back


def test_verbatim_reply_is_sent_back_unchanged() -> None:
    parts: list[dict[str, Any]] = [
        THOUGHT,
        {"text": "so"},
        SIGNED,
        SECOND,
        {"newThing": {"x": 1}},
        {"text": "", "thoughtSignature": "S"},
    ]
    reply = read(answer(*parts))
    assert json.loads(json.dumps(reply.verbatim and reply.verbatim.content)) == parts
    results = (ToolMessage("fc1", "add", "1"), ToolMessage("fc2", "add", "2"))
    _, model, user = contents(UserMessage("x"), kept(reply), *results)
    assert model == {"role": "model", "parts": parts}
    assert [part["functionResponse"]["id"] for part in user["parts"]] == ["fc1", "fc2"]


def test_plain_reply_keeps_no_verbatim() -> None:
    assert read(answer({"text": "x"})).verbatim is None
    assert read(answer({"text": "x"}, {"functionCall": {"name": "add", "args": {"a": 1}}})).verbatim is None


def test_edited_arguments_replace_those_of_the_model() -> None:
    reply = read(answer(SIGNED, SECOND))
    one, two = reply.tool_calls
    edited = AssistantMessage("", (ToolCall(one.id, one.name, {"a": 7}), two), reply.verbatim)
    parts = contents(UserMessage("x"), edited)[1]["parts"]
    assert parts == [{**SIGNED, "functionCall": {"id": "fc1", "name": "add", "args": {"a": 7}}}, SECOND]
    assert reply.verbatim is not None
    assert reply.verbatim.content == [SIGNED, SECOND]


def test_unsigned_call_gets_the_substitute_signature() -> None:
    foreign = Verbatim("anthropic", [{"type": "thinking"}])
    calls = (ToolCall("1", "add", {}), ToolCall("2", "add", {}))
    first, second = contents(UserMessage("x"), AssistantMessage("", calls, foreign))[1]["parts"]
    assert first["thoughtSignature"] == NO_SIGNATURE
    assert "thoughtSignature" not in second


def test_empty_texts_are_not_sent_back() -> None:
    reply = read(answer({"text": ""}, SIGNED))
    assert contents(UserMessage("x"), kept(reply))[1]["parts"] == [SIGNED]


def test_verbatim_with_other_calls_is_not_sent() -> None:
    message = AssistantMessage("", (ToolCall("1", "add", {}),), Verbatim("google", [SIGNED, SECOND]))
    (part,) = contents(UserMessage("x"), message)[1]["parts"]
    assert part["functionCall"] == {"name": "add", "args": {}}


# -------------------------------------------------------------------------- streams


def test_a_text_in_pieces() -> None:
    heard = Heard()
    last = answer({"text": "lo"})
    reply = streamed(answer({"text": "Hel"}, finish=None), last, heard=heard)
    assert reply == ModelReply("Hello", usage=COUNTED)
    assert heard.deltas == [TextDelta("Hel"), TextDelta("lo")]


def test_parts_are_joined_and_signatures_keep_their_part() -> None:
    heard = Heard()
    reply = streamed(
        answer({"text": "h", "thought": True}, finish=None),
        answer({"text": "m", "thought": True}, finish=None),
        answer({"text": "a"}, finish=None),
        answer({"text": "b"}, SIGNED, finish=None),
        answer(SECOND, finish=None),
        answer({"text": "", "thoughtSignature": "S"}),
        heard=heard,
    )
    assert reply.verbatim is not None
    late = {"text": "", "thoughtSignature": "S"}
    assert reply.verbatim.content == [THOUGHT, {"text": "ab"}, SIGNED, SECOND, late]
    assert heard.deltas == [
        TextDelta("a"),
        TextDelta("b"),
        ArgumentsDelta(0, "add", '{"a":1}'),
        ArgumentsDelta(1, "add", '{"a":2}'),
    ]


def test_signed_text_is_not_joined() -> None:
    reply = streamed(answer({"text": "a", "thoughtSignature": "S"}, finish=None), answer({"text": "b"}))
    assert reply.text == "ab"
    assert reply.verbatim is not None
    assert reply.verbatim.content == [{"text": "a", "thoughtSignature": "S"}, {"text": "b"}]


def test_stream_ends_with_a_reason() -> None:
    with pytest.raises(ModelFailed, match="ended before it was complete") as failed:
        streamed(answer({"text": "x"}, SIGNED, finish=None))
    assert failed.value.retryable
    assert failed.value.usage == COUNTED
    with pytest.raises(ModelFailed, match="ended before"):
        streamed()


def test_a_reason_in_every_event() -> None:
    assert streamed(answer({"text": "a"}), answer({"text": "b"})).text == "ab"


def test_a_blocked_prompt() -> None:
    with pytest.raises(ModelFailed, match=r"the prompt was blocked \(SAFETY\)"):
        streamed({"promptFeedback": {"blockReason": "SAFETY"}})


@pytest.mark.parametrize("wrapped", [True, False])
def test_an_error_in_the_middle(wrapped: bool) -> None:
    error = {"error": {"code": 500, "message": "boom"}}
    with pytest.raises(ModelFailed, match="boom") as failed:
        streamed(answer({"text": "x"}, finish=None), [error] if wrapped else error)
    assert failed.value.retryable
