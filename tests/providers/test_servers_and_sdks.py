"""The official SDKs can talk to the simulated servers and read every answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.canary import KEY
from tests.http_client import http_client
from tests.providers.servers.model_server import open_servers
from tests.providers.servers.talk import Json
from tests.providers.tools import TOOLS

CHATS = ("openai", "mistral", "openrouter", "ollama", "openai_compatible")
SENTENCE = "add ünïcode-1 with value 7; list resources then add second-2 with value 8"
RESULTS = {
    "resources_add": '{"name": "ünïcode-1", "value": 7}',
    "resources_list": '{"resources": null, "count": 0}',
}
FIRST = [
    ("resources_add", {"name": "ünïcode-1", "value": 7}),
    ("resources_list", {}),
]
SECOND = [("resources_add", {"name": "second-2", "value": 8})]


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with http_client() as client:
        yield client


@pytest.mark.parametrize("piece", [1, 113])
@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_client(http: httpx2.AsyncClient, stream: bool, piece: int) -> None:
    from anthropic import AsyncAnthropic

    tools = [{"name": name, "description": text, "input_schema": schema} for name, text, schema in TOOLS]
    messages: list[Any] = [{"role": "user", "content": SENTENCE}]
    said: list[list[tuple[str, Any]]] = []
    async with open_servers("anthropic") as servers:
        server = servers["anthropic"]
        server.piece = piece
        client = AsyncAnthropic(api_key=KEY, base_url=server.url, http_client=http, max_retries=0)
        for _ in range(3):
            asked: Any = {
                "model": server.model,
                "max_tokens": 2000,
                "messages": messages,
                "tools": tools,
                "thinking": {"type": "adaptive"},
            }
            if stream:
                async with client.messages.stream(**asked) as events:
                    message = await events.get_final_message()
            else:
                message = await client.messages.create(**asked)
            content = [block.model_dump(mode="json", exclude_unset=True) for block in message.content]
            assert [block["type"] for block in content][:2] == ["thinking", "redacted_thinking"]
            calls = [block for block in content if block["type"] == "tool_use"]
            said.append([(call["name"], call["input"]) for call in calls])
            assert message.stop_reason == ("tool_use" if calls else "end_turn")
            assert message.usage.output_tokens > 1
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": RESULTS[call["name"]]}
                for call in calls
            ]
            messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    assert said == [FIRST, SECOND, []]
    assert "ünïcode-1 = 7" in messages[-2]["content"][-1]["text"]
    assert server.refusals == []


@pytest.mark.parametrize("model", ["gemini-3-flash", "gemini-3-pro", "gemini-2.5-flash"])
@pytest.mark.parametrize("stream", [False, True])
async def test_googles_client(http: httpx2.AsyncClient, stream: bool, model: str) -> None:
    from google.genai import Client, types

    declared = [
        types.FunctionDeclaration(name=name, description=text, parameters_json_schema=schema)
        for name, text, schema in TOOLS
    ]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=SENTENCE)])]
    said: list[list[tuple[str, Any]]] = []
    async with open_servers("google") as servers:
        server = servers["google"]
        options = types.HttpOptions(base_url=server.url, httpx_async_client=http)
        client = Client(api_key=KEY, http_options=options).aio
        for _ in range(3):
            parts: list[Any] = []
            if stream:
                events = await client.models.generate_content_stream(
                    model=model, contents=contents, config=config
                )
                async for event in events:
                    content = event.candidates and event.candidates[0].content
                    parts += (content and content.parts) or []
            else:
                reply = await client.models.generate_content(model=model, contents=contents, config=config)
                assert reply.candidates is not None
                assert reply.candidates[0].content is not None
                parts += reply.candidates[0].content.parts or []
            calls = [part.function_call for part in parts if part.function_call]
            said.append([(call.name, call.args) for call in calls])
            answers = [
                types.FunctionResponse(id=call.id, name=call.name, response={"output": RESULTS[call.name]})
                for call in calls
            ]
            contents.append(types.Content(role="model", parts=parts))
            contents.append(
                types.Content(role="user", parts=[types.Part(function_response=answer) for answer in answers])
            )
    assert said == [FIRST, SECOND, []]
    text = "".join(part.text or "" for part in contents[-2].parts)
    assert "ünïcode-1 = 7" in text
    assert server.refusals == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CHATS)
async def test_openais_client(http: httpx2.AsyncClient, name: str, stream: bool) -> None:
    from openai import AsyncOpenAI

    tools: Any = [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text, schema in TOOLS
    ]
    messages: list[Any] = [{"role": "user", "content": SENTENCE}]
    said: list[list[tuple[str, Any]]] = []
    async with open_servers(name) as servers:
        server = servers[name]
        client = AsyncOpenAI(api_key=KEY, base_url=server.base_url, http_client=http, max_retries=0)
        for _ in range(3):
            asked: Any = {"model": server.model, "messages": messages, "tools": tools}
            if stream and name != "mistral":
                asked["stream_options"] = {"include_usage": True}
            if stream:
                events: Any = await client.chat.completions.create(**asked, stream=True)
                message = await joined(events)
            else:
                reply: Any = await client.chat.completions.create(**asked)
                message = reply.choices[0].message.model_dump(include={"role", "content", "tool_calls"})
                message = {key: value for key, value in message.items() if value is not None}
            calls = message.get("tool_calls", [])
            said.append(
                [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
            )
            messages.append(message)
            for call in calls:
                # Mistral's SDK and servers both omit it, and accept the message without it.
                answer = RESULTS[call["function"]["name"]]
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
    assert said == [FIRST, SECOND, []]
    assert "ünïcode-1 = 7" in messages[-1]["content"]
    assert server.refusals == []


@pytest.mark.parametrize("stream", [False, True])
async def test_openais_client_of_responses(http: httpx2.AsyncClient, stream: bool) -> None:
    from openai import AsyncOpenAI

    tools: Any = [
        {"type": "function", "name": name, "description": text, "parameters": schema, "strict": False}
        for name, text, schema in TOOLS
    ]
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": SENTENCE}]}]
    said: list[list[tuple[str, Any]]] = []
    async with open_servers("responses") as servers:
        server = servers["responses"]
        client = AsyncOpenAI(api_key=KEY, base_url=server.base_url, http_client=http, max_retries=0)
        for _ in range(3):
            asked: Any = {"model": server.model, "input": items, "tools": tools, "store": False}
            if stream:
                events: Any = await client.responses.create(**asked, stream=True)
                (response,) = [each.response async for each in events if each.type == "response.completed"]
            else:
                response = await client.responses.create(**asked)
            calls = [item for item in response.output if item.type == "function_call"]
            said.append([(call.name, json.loads(call.arguments)) for call in calls])
            output = [item.model_dump(mode="json", exclude_none=True) for item in response.output]
            items += [
                {name: value for name, value in item.items() if name != "status" or item["type"] == "message"}
                for item in output
            ]
            items += [
                {"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.name]}
                for call in calls
            ]
            assert response.usage is not None
            assert response.usage.output_tokens > 1
    assert said == [FIRST, SECOND, []]
    assert "ünïcode-1 = 7" in response.output_text
    assert server.refusals == []


async def joined(events: Any) -> Json:
    """The message that a stream of chunks adds up to."""
    text, usage = "", None
    calls: dict[int, Json] = {}
    async for event in events:
        usage = event.usage or usage
        for choice in event.choices:
            text += choice.delta.content or ""
            for delta in choice.delta.tool_calls or ():
                call = calls.setdefault(
                    delta.index, {"type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = delta.id or call["id"]
                call["function"]["name"] += delta.function.name or ""
                call["function"]["arguments"] += delta.function.arguments or ""
    assert usage is not None
    assert usage.completion_tokens > 0
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}
