"""Attributes of spans: those of the conventions, never a secret; prompts and the like only if wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import attrs
import pytest

from stopgo.gateway.auth.key_changes import new_key
from stopgo.gateway.auth.key_file import KeyFile
from tests.canary import KEY, TOKEN
from tests.e2e.chains import Json, echo_server
from tests.e2e.conftest import Server, Servers
from tests.providers.servers.model_server import Fail, ModelServer
from tests.providers.servers.talk import Heard, Said, SaidCall
from tests.providers.servers.threaded import servers_in_a_thread
from tests.telemetry.exported import Span
from tests.telemetry.receiver import QUICK, Receiver, receiving

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRACE, CLIENT = "c" * 32, "d" * 16
CONTENT = (
    "canary-prompt",
    "canary-message",
    "canary-argument",
    "canary-edited",
    "canary-answer",
    "canary-reason",
)
NEVER = ("canary-header", "canary-query", "canary-why", KEY, TOKEN)


def answered(heard: Heard) -> Said:
    """A call of a destructive tool, one of a harmless tool after that, and an answer."""
    tool = ("wipe", "echo", None)[heard.step]
    if tool is None:
        return Said("canary-answer", tokens_in=30, tokens_out=3, tokens_cached=8)
    return Said(calls=(SaidCall(tool, {"text": "canary-argument"}),), tokens_in=20, tokens_out=2)


@attrs.frozen
class Told:
    """A story that was told to an agent."""

    receiver: Receiver
    server: Server
    conversation: Json
    api_key: str

    @property
    def spans(self) -> list[Span]:
        return self.receiver.trace(TRACE)

    @property
    def exported(self) -> bytes:
        return b"".join(self.receiver.exports)


@pytest.fixture(scope="module", params=[None, "true"])
def told(
    request: pytest.FixtureRequest, serve_module: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    """A call that a person edits, one that runs, and a rejected one. One of the two models always fails."""
    tmp_path = tmp_path_factory.mktemp("told")
    (tmp_path / "data").mkdir()
    with KeyFile.in_directory(tmp_path / "data").changing() as stored:
        key, api_key = new_key(stored, "tests", ("admin",), "someone", now=0.0)
        stored.append(key)
    with servers_in_a_thread("openai", "google") as models, receiving() as receiver:
        first, second = models["openai"], models["google"]
        first.always = Fail(400, why=f"canary-why {KEY}")
        second.answered = answered
        config = tmp_path / "agent.yaml"
        config.write_text(json.dumps(agent_with(first, second)))
        env = {
            **QUICK,
            "OPENAI_API_KEY": KEY,
            "GEMINI_API_KEY": KEY,
            "LEDGER": str(tmp_path / "ledger"),
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={KEY}",
            **({} if request.param is None else {CAPTURE: request.param}),
        }
        server = serve_module(tmp_path / "data", config=config, env=env, options=["--traces", receiver.url])
        server.client.headers |= {
            "traceparent": f"00-{TRACE}-{CLIENT}-01",
            "X-API-Key": api_key,
            "Authorization": f"Bearer {TOKEN}",
            "X-Other": "canary-header",
        }
        turn = server.post("/conversations?q=canary-query", {"message": "canary-message"}, status=201)
        decision = {"approved": True, "arguments": {"text": "canary-edited"}}
        path = f"/approvals/{turn['result']['approval']['uuid']}"
        turn = server.post(path, decision)
        assert turn["result"]["response"] == "canary-answer"
        id = turn["conversation"]["id"]
        uuid = server.say(id, "canary-message")["result"]["approval"]["uuid"]
        server.post(f"/approvals/{uuid}", {"approved": False, "reason": "canary-reason"})
        conversation = server.conversation(id)
        server.run.interrupt()
        assert receiver.violations == []
        yield Told(receiver, server, conversation, api_key)


def agent_with(first: ModelServer, second: ModelServer) -> Json:
    return {
        "name": "teller",
        "prompt": "canary-prompt",
        "auth": {"api_keys": True},
        "llm": {"model": "one", "fallbacks": ["two"]},
        "models": {
            "one": {"provider": "openai", "model": first.model, "base_url": first.base_url},
            "two": {"provider": "google", "model": second.model, "base_url": second.base_url},
        },
        "mcp_servers": [echo_server("tools", SECRET="${OPENAI_API_KEY}")],
    }


def test_content_is_exported_only_if_wanted(told: Told, request: pytest.FixtureRequest) -> None:
    wanted = request.node.callspec.params["told"] == "true"
    for text in CONTENT:
        assert (text.encode() in told.exported) is wanted, text
    for text in (*NEVER, told.api_key):
        assert text.encode() not in told.exported, text
    calls = [span for span in told.spans if span.name == "execute_tool wipe"]
    assert {span["gen_ai.tool.call.arguments"] for span in calls} == (
        {'{"text":"canary-edited"}', '{"text":"canary-argument"}'} if wanted else {None}
    )
    if wanted:
        chats = (span for span in told.spans if is_chat(span))
        answer = next(span for span in chats if span["gen_ai.usage.input_tokens"] == 30)
        [message] = json.loads(answer["gen_ai.output.messages"])
        assert message == {
            "role": "assistant",
            "parts": [{"type": "text", "content": "canary-answer"}],
            "finish_reason": "stop",
        }
        [instruction] = json.loads(answer["gen_ai.system_instructions"])
        assert instruction["content"].startswith("canary-prompt")


def is_chat(span: Span) -> bool:
    return bool(span["gen_ai.operation.name"] == "chat")


def test_spans_follow_the_conventions(told: Told) -> None:
    spans, conversation = told.spans, told.conversation
    assert {span["gen_ai.conversation.id"] for span in spans} == {conversation["id"]}
    runs = [span for span in spans if span["gen_ai.operation.name"] == "invoke_agent"]
    assert {(run.name, run["gen_ai.agent.name"], run.kind) for run in runs} == {
        ("invoke_agent teller", "teller", "internal")
    }
    usage = conversation["usage"]
    for name in ("input_tokens", "output_tokens"):
        assert sum(run[f"gen_ai.usage.{name}"] for run in runs) == usage[name]
        assert sum(span[f"gen_ai.usage.{name}"] for span in spans if is_chat(span)) == usage[name]

    chats = [span for span in spans if is_chat(span)]
    failed = [span for span in chats if span.failed]
    assert {(span["gen_ai.provider.name"], span["error.type"], span.kind) for span in failed} == {
        ("openai", "400", "client")
    }
    answered = [span for span in chats if not span.failed]
    assert {(span["gen_ai.provider.name"], span["gen_ai.request.model"]) for span in answered} == {
        ("gcp.gemini", "gemini-3-flash")
    }
    assert [span.name for span in answered] == ["chat gemini-3-flash"] * len(answered)
    reasons = [span["gen_ai.response.finish_reasons"] for span in sorted(answered, key=lambda s: s.start)]
    assert reasons[:3] == [["tool_calls"], ["tool_calls"], ["stop"]]

    ids = {each["tool_call"]["id"] for each in conversation["messages"] if "tool_call" in each}
    tools = [span for span in spans if span["gen_ai.operation.name"] == "execute_tool"]
    assert {(span["gen_ai.tool.name"], span["mcp.method.name"], span.kind) for span in tools} == {
        ("wipe", "tools/call", "client"),
        ("wipe", None, "client"),  # rejected, so it was not sent
        ("echo", "tools/call", "client"),
    }
    assert {span["gen_ai.tool.call.id"] for span in tools} <= ids
    asked, rejected = (
        next(span for span in spans if span.name == "ask wipe"),
        next(span for span in tools if span["stopgo.call.outcome"] == "rejected"),
    )
    assert (rejected["stopgo.rule"], rejected["error.type"]) == ("destructiveHint: true", "rejected")
    assert rejected["stopgo.policy"] == asked["stopgo.policy"] == runs[0]["stopgo.policy"] is not None
    requests = [span for span in spans if span.kind == "server"]
    assert {(span["http.request.method"], span["http.route"]) for span in requests} == {
        ("POST", "/conversations"),
        ("POST", "/conversations/{id}/messages"),
        ("POST", "/approvals/{uuid}"),
        ("GET", "/conversations/{id}"),
    }
    assert {span["http.response.status_code"] for span in requests} == {200, 201}
