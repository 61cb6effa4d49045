"""One story on every kind of provider: real processes, real sockets, servers as strict as the real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.canary import KEY, TOKEN
from tests.providers.servers.model_server import Fail, ModelServer
from tests.providers.servers.threaded import servers_in_a_thread

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

ADDRESSES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GEMINI_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "mistral": "MISTRAL_BASE_URL",
    "openrouter": "OPENROUTER_BASE_URL",
    "ollama": "OLLAMA_BASE_URL",
}
KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GEMINI_API_KEY",
    "openai": "OPENAI_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "openai_compatible": "OUR_OWN_KEY",
}
THINKING: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "adaptive"}},
    "google": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
}
RESOURCES = {
    "name": "resources",
    "command": "stopgo",
    "args": ["mcp-resources", "--db", "${data_dir}/resources.db"],
}
KINDS = (*ADDRESSES, "openai_compatible")
BY_DEFAULT = {"google"}


@pytest.fixture(
    params=[pytest.param(k, marks=() if k in BY_DEFAULT else pytest.mark.providers) for k in KINDS]
)
def provider(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    with servers_in_a_thread(request.param) as servers:
        yield servers[request.param]


def config_of(provider: ModelServer, folder: Path, *, stream: bool) -> Path:
    kind = provider.dialect.name
    llm: dict[str, Any] = {
        "model": f"{kind}:{provider.model}",
        "options": THINKING.get(kind, {}),
        "stream": stream,
    }
    file: dict[str, Any] = {
        "name": "resource-manager",
        "prompt": "You manage resources.",
        "llm": llm,
        "mcp_servers": [RESOURCES],
    }
    if kind == "openai_compatible":
        llm["model"] = "ours"
        file["models"] = {
            "ours": {
                "provider": kind,
                "model": provider.model,
                "base_url": provider.base_url,
                "api_key_env": KEYS[kind],
            }
        }
    path = folder / f"agent-{stream}.yaml"
    path.write_text(yaml.safe_dump(file), encoding="utf-8")
    return path


def environment(provider: ModelServer) -> dict[str, str]:
    kind = provider.dialect.name
    env = {ADDRESSES[kind]: provider.base_url} if kind in ADDRESSES else {}
    return {**env, KEYS[kind]: KEY} if kind in KEYS else env


def decide(server: Server, turn: dict[str, Any], **decision: Any) -> dict[str, Any]:
    uuid = turn["result"]["approval"]["uuid"]
    return server.post(f"/approvals/{uuid}", decision, token=TOKEN)


def tell(server: Server, suffix: str) -> list[dict[str, Any]]:
    """The story: list, add, approve, remove by pattern, reject with a reason. All answers, in order."""
    id = server.new()
    told: list[dict[str, Any]] = []

    def say(text: str) -> dict[str, Any]:
        told.append(server.say(id, text, token=TOKEN))
        return told[-1]

    def approve(turn: dict[str, Any], **more: Any) -> str:
        told.append(decide(server, turn, approved=True, **more))
        response: str = told[-1]["result"]["response"]
        return response

    assert "resources" in say("list resources")["result"]["response"]
    assert f"tmp-1{suffix} = 1" in approve(say(f"add tmp-1{suffix} with value 1"))

    both = say(f"add tmp-2{suffix} with value 2; add kept-3{suffix} with value 3")
    assert len(both["result"]["approvals"]) == 2
    approve(both)
    assert f"kept-3{suffix} = 3" in approve(told[-1])

    assert "Removed 2" in approve(say("remove resources matching ^tmp-"))

    refused = decide(server, say(f"remove kept-3{suffix}"), approved=False, reason="not today")
    told.append(refused)
    assert refused["result"]["response"].startswith("Operation cancelled by user.")
    assert "not today" in refused["result"]["response"]

    edited = {"name": f"édité-4{suffix}", "value": 44}
    assert f"édité-4{suffix} = 44" in approve(say(f"add plain-4{suffix} with value 4"), arguments=edited)
    assert server.conversation(id)["status"] == "active"
    return told


def test_the_story(provider: ModelServer, serve: Serve, tmp_path: Path) -> None:
    env = environment(provider)
    server = serve(tmp_path / "data", config=config_of(provider, tmp_path, stream=True), env=env)
    answers: list[Any] = tell(server, "-s")
    assert {(name, value) for name, value in server.resources()} == {("kept-3-s", "3"), ("édité-4-s", "44")}
    # In the middle of a turn: what the model wants back verbatim has to outlive the process.
    asked = server.post(
        "/conversations", {"message": "list resources then add late-5 with value 5"}, status=201
    )
    assert {request.stream for request in provider.requests} == {True}
    server.run.kill()
    logs = server.log
    provider.requests.clear()

    server = serve(tmp_path / "data", config=config_of(provider, tmp_path, stream=False), env=env)
    late = decide(server, asked, approved=True)
    assert "late-5 = 5" in late["result"]["response"]
    answers += [asked, late, *tell(server, "-w"), server.get("/health/ready")]
    assert {request.stream for request in provider.requests} == {False}
    assert {request.model for request in provider.requests} == {provider.model}
    assert {(name, value) for name, value in server.resources()} == {
        ("kept-3-s", "3"),
        ("édité-4-s", "44"),
        ("late-5", "5"),
        ("kept-3-w", "3"),
        ("édité-4-w", "44"),
    }

    assert provider.refusals == []
    # The edited call is what the model is told it made.
    assert calls_in(provider.requests[-1].body)[-1] == {"name": "édité-4-w", "value": 44}
    assert leaks(server, [*answers, logs]) == []


@pytest.mark.providers
def test_a_conversation_changes_its_provider_in_the_middle_of_a_turn(serve: Serve, tmp_path: Path) -> None:
    kinds = ("google", "anthropic", "mistral", "openai")
    with servers_in_a_thread(*kinds) as providers:
        config = tmp_path / "agent.yaml"
        config.write_text(yaml.safe_dump(with_fallbacks(providers)), encoding="utf-8")
        env = {name: value for each in providers.values() for name, value in environment(each).items()}
        server = serve(tmp_path / "data", config=config, env=env)
        id = server.new()

        for turn, (calling, answering) in enumerate(pairwise(kinds)):
            for kind in kinds[:turn]:
                providers[kind].plan = [Fail(400), Fail(400)]
            providers[calling].plan = [None, Fail(400)]
            # The call is one model's, and what is said of its result is another's.
            done = decide(server, server.say(id, f"add thing-{turn} with value {turn}"), approved=True)
            assert f"thing-{turn} = {turn}" in done["result"]["response"], answering

        assert server.resources() == {(f"thing-{turn}", str(turn)): 1 for turn in range(3)}
        assert [provider.refusals for provider in providers.values()] == [[], [], [], []]
        assert [len(provider.requests) for provider in providers.values()] == [6, 5, 3, 1]


def with_fallbacks(providers: dict[str, ModelServer]) -> dict[str, Any]:
    first, *others = providers
    models = {
        kind: {"provider": kind, "model": provider.model, "options": THINKING.get(kind, {})}
        for kind, provider in providers.items()
    }
    # In the middle of another model's turn it may not think, though it is told to.
    models["anthropic"]["options"] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    return {
        "prompt": "You manage resources.",
        "llm": {"model": first, "fallbacks": others},
        "models": models,
        "mcp_servers": [RESOURCES],
    }


def calls_in(body: dict[str, Any]) -> list[Any]:
    """Arguments of the calls that a request says the model made, whoever speaks it."""
    found: list[Any] = []
    for message in body.get("messages") or body["contents"]:
        parts = message.get("content") or message.get("parts") or ()
        blocks = [part for part in parts if isinstance(part, dict)]
        found += [block["input"] for block in blocks if block.get("type") == "tool_use"]
        found += [block["functionCall"]["args"] for block in blocks if "functionCall" in block]
        found += [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    return found


def leaks(server: Server, answers: list[Any]) -> list[str]:
    """Where one of the secrets shows."""
    places = {"the log": server.log.encode(), "the answers": repr(answers).encode()}
    places |= {str(file): file.read_bytes() for file in server.data_dir.rglob("*") if file.is_file()}
    return [
        f"{secret} in {place}"
        for place, content in places.items()
        for secret in (KEY, TOKEN)
        if secret.encode() in content
    ]
