"""The simulated servers refuse the same requests as the real ones: a table of requests with one mistake
each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from stopgo.actors.models.messages.messages import ModelTool
from tests.canary import KEY
from tests.providers.servers.http import Request
from tests.providers.servers.model_server import DIALECTS, judge
from tests.providers.servers.talk import Heard, Json, Refusal, Said, SaidCall

Spoil: TypeAlias = Callable[[Json], object]
"""Makes one thing of a good request wrong."""

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TWO_CALLS = Said("Well", (SaidCall("add", {"a": 1}), SaidCall("add", {"a": 2})), "Hm …", nonce="n")


def heard(model: str) -> Heard:
    return Heard(model, "", 0, (), (), 0)


def claude() -> Json:
    content = DIALECTS["anthropic"].body(TWO_CALLS, heard("claude-sonnet-5-5"))["content"]
    ids = [block["id"] for block in content if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": id, "content": "3"} for id in ids]
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 4000,
        "system": [{"type": "text", "text": "You add.", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "adaptive"},
        "tools": [{"name": "add", "description": "Adds", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ],
    }


def gemini() -> Json:
    model = "gemini-3-flash"
    content = DIALECTS["google"].body(TWO_CALLS, heard(model))["candidates"][0]["content"]
    calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    results = [
        {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "3"}}}
        for call in calls
    ]
    return {
        "systemInstruction": {"parts": [{"text": "You add."}]},
        "tools": [{"functionDeclarations": [{"name": "add", "parametersJsonSchema": SCHEMA}]}],
        "generationConfig": {"maxOutputTokens": 1000, "temperature": 0.5},
        "contents": [
            {"role": "user", "parts": [{"text": "add"}]},
            content,
            {"role": "user", "parts": results},
        ],
    }


def chat(name: str, model: str) -> Json:
    message = DIALECTS[name].body(TWO_CALLS, heard(model))["choices"][0]["message"]
    answer = {"role": "assistant", "content": "Well", "tool_calls": message["tool_calls"]}
    if name != "mistral":
        answer["tool_calls"] = [{**call, "type": "function"} for call in message["tool_calls"]]
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": "You add."},
            {"role": "user", "content": "add"},
            answer,
            *({"role": "tool", "tool_call_id": c["id"], "content": "3"} for c in message["tool_calls"]),
        ],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}],
    }


def openai() -> Json:
    return chat("openai", "gpt-5.2")


def mistral() -> Json:
    return chat("mistral", "mistral-large-latest")


GOOD: dict[str, Callable[[], Json]] = {
    "anthropic": claude,
    "google": gemini,
    "openai": openai,
    "mistral": mistral,
    "openrouter": lambda: chat("openrouter", "moonshotai/kimi-k2"),
    "ollama": lambda: chat("ollama", "qwen3:8b"),
    "openai_compatible": lambda: chat("openai_compatible", "Qwen/Qwen3-8B"),
}


def model_of(name: str, body: Json) -> str:
    model: str = body.get("model", "gemini-3-flash")
    return model


@pytest.mark.parametrize("name", GOOD)
def test_a_good_request_is_accepted(name: str) -> None:
    body = GOOD[name]()
    judge(DIALECTS[name], body, model_of(name, body))


def at(path: str, value: Any) -> Spoil:
    """Set the value at a place like `messages.1.content`; `...` deletes it."""

    def spoil(body: Any) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for step in way:
            body = body[step]
        if value is ...:
            del body[last]
        else:
            body[last] = value

    return spoil


def swap(first: str, second: str) -> Spoil:
    def spoil(body: Any) -> None:
        *way, one = [int(part) if part.isdigit() else part for part in first.split(".")]
        for step in way:
            body = body[step]
        other = int(second)
        body[one], body[other] = body[other], body[one]

    return spoil


def add(path: str, value: Any) -> Spoil:
    def spoil(body: Any) -> None:
        for step in path.split("."):
            body = body[int(step) if step.isdigit() else step]
        body.append(value)

    return spoil


def move_signature(body: Json) -> None:
    parts = body["contents"][1]["parts"]
    del parts[2]["thoughtSignature"]
    parts[3]["thoughtSignature"] = "skip_thought_signature_validator"


def fail_silently(body: Json) -> None:
    body["messages"][2]["content"][0] |= {"content": "", "is_error": True}


USER = {"role": "user", "content": "well?"}
MANY = [{"type": "text", "text": str(number), "cache_control": {"type": "ephemeral"}} for number in range(5)]
CLAUDE: list[tuple[str, Spoil]] = [
    ("first message must use", at("messages.0", ...)),
    ("does not support assistant message prefill", at("messages.2", ...)),
    ("unexpected `tool_use_id`", at("messages.1", USER)),
    ("unexpected `tool_use_id`", at("messages.2.content.1.tool_use_id", "toolu_unknown")),
    ("without `tool_result` blocks immediately after", at("messages.2.content.1", ...)),
    ("without `tool_result` blocks immediately after", at("messages.2", USER)),
    (
        "without `tool_result` blocks immediately after",
        lambda body: body["messages"][2]["content"].insert(0, {"type": "text", "text": "first"}),
    ),
    ("must contain non-whitespace text", at("messages.1.content.2.text", " \n")),
    ("must contain non-whitespace text", at("messages.0.content", [{"type": "text", "text": ""}])),
    ("must have non-empty content", at("messages.0.content", "")),
    ("`thinking` or `redacted_thinking` blocks in the latest", at("messages.1.content.0", ...)),
    ("`thinking` or `redacted_thinking` blocks in the latest", at("messages.1.content.1", ...)),
    ("`thinking` or `redacted_thinking` blocks in the latest", swap("messages.1.content.0", "1")),
    ("Invalid `signature` in `thinking`", at("messages.1.content.0.thinking", "Hm …!")),
    ("Invalid `signature` in `thinking`", at("messages.1.content.0.signature", "c2lnbmVk")),
    ("Field required", at("messages.1.content.0.signature", ...)),
    ("Invalid `data`", at("messages.1.content.1.data", "ZGF0YQ==")),
    ("tool_use.id: String should match", at("messages.1.content.3.id", "functions.add:0")),
    ("must be unique", at("tools", [claude()["tools"][0]] * 2)),
    ("tools.0.custom.name", at("tools.0.name", "add numbers")),
    ("input_schema.type", at("tools.0.input_schema", {})),
    ("anyOf at the top level", at("tools.0.input_schema", {"type": "object", "anyOf": [{}]})),
    ("It must match JSON Schema", at("tools.0.input_schema", {"type": "object", "properties": []})),
    ("Property keys should match", at("tools.0.input_schema.properties", {"$top": {}})),
    ("must define tools", at("tools", ...)),
    ("content cannot be empty if `is_error`", fail_silently),
    ("temperatur", at("temperatur", 1)),
    ("Extra inputs are not permitted", at("messages.1.content.2.extra", 1)),
    ("Extra inputs are not permitted", at("messages.2.content.0.name", "add")),
    ("max_tokens: Field required", at("max_tokens", ...)),
    ("max_tokens: must be greater", at("max_tokens", 0)),
    (
        "must be greater than `thinking.budget_tokens`",
        at("thinking", {"type": "enabled", "budget_tokens": 4000}),
    ),
    ("A maximum of 4 blocks with cache_control", at("messages.0.content", MANY)),
    ("system: text content blocks", at("system.0.text", "")),
]
ENABLED = {"type": "enabled", "budget_tokens": 1024}
GEMINI: list[tuple[str, Spoil]] = [
    ("must not be empty", at("contents.1.parts", [])),
    ("contents is not specified", at("contents", [])),
    ("valid role", at("contents.0.role", "assistant")),
    ("end with a user role", at("contents.2", ...)),
    ("function response turn comes immediately after", at("contents.1", ...)),
    ("number of function response parts", at("contents.2.parts.1", ...)),
    ("number of function response parts", at("contents.2.parts", [{"text": "well?"}])),
    ("function call turn comes immediately after a user turn", at("contents.0.role", "model")),
    ("does not match call", at("contents.2.parts.0.functionResponse.id", "fc-other")),
    ("does not match call", at("contents.2.parts.0.functionResponse.name", "subtract")),
    ("missing a thought_signature", at("contents.1.parts.2.thoughtSignature", ...)),
    ("Corrupted thought signature", at("contents.1.parts.2.thoughtSignature", "c2lnbmVk")),
    ("missing a thought_signature", move_signature),
    ("must be an object", at("contents.2.parts.0.functionResponse.response", ...)),
    ("response", at("contents.2.parts.0.functionResponse.response", "3")),
    ("must have a text parameter", at("contents.0.parts.0.text", "")),
    ("required oneof field", at("contents.0.parts", [{}])),
    ("is already set", at("tools.0.functionDeclarations.0.parameters", {"type": "OBJECT"})),
    ("Invalid function name", at("tools.0.functionDeclarations.0.name", "2add")),
    ("Duplicate function", at("tools.0.functionDeclarations", [{"name": "add"}, {"name": "add"}])),
    ('Unknown name "content"', at("content", [])),
    ('Unknown name "type" at', at("contents.0.parts.0.type", "text")),
    ("max_output_tokens", at("generationConfig.maxOutputTokens", 0)),
    ("temperature", at("generationConfig.temperature", 2.5)),
    ("system_instruction", at("systemInstruction.parts", [])),
]
OPENAI: list[tuple[str, Spoil]] = [
    ("at the top level", at("tools.0.function.parameters", {"type": "object", "not": {}})),
    (
        "array schema missing items",
        at("tools.0.function.parameters", {"type": "object", "properties": {"a": {"type": "array"}}}),
    ),
    ("must be a response to a preceeding message", at("messages.2", ...)),
    ("must be a response to a preceeding message", at("messages.3.tool_call_id", "call_x")),
    ("did not have response messages", at("messages.4", ...)),
    ("did not have response messages", at("messages.4", USER)),
    ("Unknown parameter: 'top_k'", at("top_k", 3)),
    ("reasoning_content'", at("messages.2.reasoning_content", "x")),
    ("string too long", at("messages.2.tool_calls.0.id", "call_" + 36 * "x")),
    ("Function name was", at("tools.0.function.name", "add.numbers")),
    ("Function name was", at("tools.0.function.name", 65 * "a")),
    ("Function name was", at("messages.2.tool_calls.0.function.name", "add numbers")),
    ("is not a JSON object", at("messages.2.tool_calls.0.function.arguments", '{"a": ')),
    ("arguments", at("messages.2.tool_calls.0.function.arguments", {"a": 1})),
    ("too short - 'tools'", at("tools", [])),
    ("too short - 'messages.2.tool_calls'", at("messages.2.tool_calls", [])),
    ("expected a string, got null", at("messages", [USER, {"role": "assistant", "content": None}, USER])),
    ("max_completion_tokens", at("max_tokens", 100)),
    ("'temperature' does not support", at("temperature", 0.5)),
    ("must not be empty", at("messages.1.content", "")),
]
MISTRAL: list[tuple[str, Spoil]] = [
    ("with a length of 9", at("messages.2.tool_calls.0.id", "call_1")),
    ("with a length of 9", at("messages.2.tool_calls.0.id", "abcdefgh_")),
    ("Unexpected role 'user' after role 'tool'", add("messages", USER)),
    ("Not the same number of function calls", at("messages.4", ...)),
    ("Unexpected role 'tool' after role 'user'", at("messages.2", ...)),
    ("Expected last role User or Tool", at("messages", [USER, {"role": "assistant", "content": "x"}])),
    ("Extra inputs are not permitted", at("max_completion_tokens", 100)),
    ("Extra inputs are not permitted", at("stream_options", {"include_usage": True})),
    ("Extra inputs are not permitted", at("messages.1.name", "me")),
    ("Extra inputs are not permitted", at("messages.2.reasoning_content", "x")),
    (
        "either content or tool_calls",
        at("messages", [USER, {"role": "assistant", "content": ""}, USER]),
    ),
]
TABLE = [
    pytest.param(name, words, spoil, id=f"{name}-{number}-{words}")
    for name, rows in (("anthropic", CLAUDE), ("google", GEMINI), ("openai", OPENAI), ("mistral", MISTRAL))
    for number, (words, spoil) in enumerate(rows)
]


@pytest.mark.parametrize(("name", "words", "spoil"), TABLE)
def test_invalid_requests_are_refused_as_by_the_provider(name: str, words: str, spoil: Spoil) -> None:
    body = copy.deepcopy(GOOD[name]())
    spoil(body)

    with pytest.raises(Refusal) as caught:
        judge(DIALECTS[name], body, model_of(name, body))

    assert words in str(caught.value)
    assert caught.value.status in {400, 422}
    assert words in str(caught.value.body) or name == "mistral"


def test_claude_with_thinking_enabled_needs_thoughts_first() -> None:
    body = claude() | {"thinking": ENABLED}
    judge(DIALECTS["anthropic"], body, "claude-sonnet-5-5")
    body["messages"][1]["content"] = [
        {"type": "tool_use", "id": "call_1", "name": "add", "input": {}},
    ]
    body["messages"][2]["content"] = [{"type": "tool_result", "tool_use_id": "call_1", "content": "3"}]

    with pytest.raises(Refusal, match="Expected `thinking` or `redacted_thinking`, but found `tool_use`"):
        judge(DIALECTS["anthropic"], body, "claude-sonnet-5-5")
    judge(DIALECTS["anthropic"], body | {"thinking": {"type": "adaptive"}}, "claude-sonnet-5-5")


def test_gemini_gets_the_substitute_signature_only_in_this_turn() -> None:
    body = gemini()
    body["contents"][1]["parts"][2]["thoughtSignature"] = "skip_thought_signature_validator"
    judge(DIALECTS["google"], body, "gemini-3-flash")

    del body["contents"][1]["parts"][2]["thoughtSignature"]
    with pytest.raises(Refusal):
        judge(DIALECTS["google"], body, "gemini-3-flash")
    judge(DIALECTS["google"], body, "gemini-2.5-flash")

    body["contents"] += [
        {"role": "model", "parts": [{"text": "6"}]},
        {"role": "user", "parts": [{"text": "more"}]},
    ]
    judge(DIALECTS["google"], body, "gemini-3-flash")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"$top": {"type": "integer"}}},
        {"properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}},
        {"properties": {"ids": {"type": "array"}}},
        {
            "properties": {"id": {"type": "string"}},
            "oneOf": [{"required": ["id"]}],
            "not": {"maxProperties": 9},
        },
    ],
)
@pytest.mark.parametrize("name", GOOD)
def test_plain_schema_is_accepted_by_every_provider(name: str, schema: Json) -> None:
    description, shown = ModelTool("add", "Adds", schema).plain
    body = GOOD[name]()
    [tool] = body["tools"]
    told = tool.get("function") or tool.get("functionDeclarations", [tool])[0]
    [key] = told.keys() & {"input_schema", "parameters", "parametersJsonSchema"}
    told |= {"description": description, key: shown}
    judge(DIALECTS[name], body, model_of(name, body))


KEYS = {
    "anthropic": ("x-api-key", "", "/v1/messages"),
    "google": ("x-goog-api-key", "", "/v1beta/models/gemini-3-flash:generateContent"),
    "openai": ("authorization", "Bearer ", "/v1/chat/completions"),
    "mistral": ("authorization", "Bearer ", "/v1/chat/completions"),
    "openrouter": ("authorization", "Bearer ", "/v1/chat/completions"),
}


@pytest.mark.parametrize("name", KEYS)
def test_wrong_key_is_refused(name: str) -> None:
    header, prefix, path = KEYS[name]
    more = {"anthropic-version": "2023-06-01"}

    def opened(headers: dict[str, str]) -> tuple[str, bool]:
        return DIALECTS[name].open(Request("POST", path, "", headers | more, b'{"model": "m"}'), KEY)

    assert not opened({header: prefix + KEY})[1]
    for wrong in ({}, {header: prefix + "other"}, {header: ""}):
        with pytest.raises(Refusal) as caught:
            opened(wrong)
        assert caught.value.status in {400, 401, 403}
