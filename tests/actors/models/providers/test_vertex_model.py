"""Vertex over a real socket: addresses, bodies, credentials by Google's own library, and errors.

Right values: Google's pages "Use Claude models on Vertex AI" and "Deployments and endpoints", and the client
`AnthropicVertex` of Anthropic's SDK 2.12.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from stopgo.actors.models.messages.errors import UnacceptedSetting
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ToolMessage,
    UserMessage,
    Verbatim,
    unheard,
)
from stopgo.actors.models.open_model import check_model, open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.endpoints import MissingBaseUrl, MissingLibrary, endpoint, vertex_host
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import ModelSpec
from tests.canary import KEY

from .conftest import HELLO_ANTHROPIC, Provider, events, failure, request, whole

CLAUDE, GEMINI = "claude-sonnet-4-5@20250929", "gemini-3-flash"
PLACE = "/v1/projects/p-1/locations/europe-west1"
SAID = {"candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}]}
Make = Callable[..., Model]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROJECT", "LOCATION", "QUOTA_PROJECT"):
        monkeypatch.delenv(f"GOOGLE_CLOUD_{name}", raising=False)
    for name in ("GOOGLE_VERTEX_BASE_URL", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make(provider: Provider, client: ModelClient, tmp_path: Path) -> Make:
    def made(model: str = GEMINI, **more: Any) -> Model:
        more = {"api_key": KEY, "base_url": provider.url + PLACE, **more}
        return open_model(ModelSpec("m", "vertex", model, **more), folder=tmp_path, client=client)

    return made


@pytest.mark.parametrize(
    ("model", "stream", "target"),
    [
        (CLAUDE, True, f"anthropic/models/{CLAUDE}:streamRawPredict"),
        (CLAUDE, False, f"anthropic/models/{CLAUDE}:rawPredict"),
        (GEMINI, True, f"google/models/{GEMINI}:streamGenerateContent?alt=sse"),
        (GEMINI, False, f"google/models/{GEMINI}:generateContent"),
    ],
)
async def test_address_names_publisher_model_and_method(
    make: Make, provider: Provider, model: str, stream: bool, target: str
) -> None:
    said = (HELLO_ANTHROPIC.events, HELLO_ANTHROPIC.whole) if model == CLAUDE else ([SAID], SAID)
    provider.answers = [events(*said[0]) if stream else whole(said[1])]
    found = await make(model, stream=stream).complete(request(), unheard)
    assert found.text == "hello"
    (head,) = provider.heads
    assert head.startswith(f"POST {PLACE}/publishers/{target} HTTP/1.1\r\n".encode())
    assert f"\r\nauthorization: Bearer {KEY}\r\n".encode() in head
    assert not any(name in head.lower() for name in (b"x-goog-api-key", b"x-api-key", b"anthropic-version"))


async def test_body_of_claude_has_its_version_and_no_model(make: Make, provider: Provider) -> None:
    provider.answers = [events(*HELLO_ANTHROPIC.events)]
    beta = {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    await make(CLAUDE, headers=beta, temperature=0.5).complete(request(), unheard)
    (body,) = provider.bodies
    assert (body["anthropic_version"], body["stream"]) == ("vertex-2023-10-16", True)
    assert not {"model", "anthropic_beta"} & body.keys()
    assert b"\r\nanthropic-beta: interleaved-thinking-2025-05-14\r\n" in provider.heads[0]


async def test_temperature_is_refused_for_claude_after_4_6(make: Make) -> None:
    with pytest.raises(UnacceptedSetting, match=r"up to 4\.6 only"):
        make("claude-opus-4-8", temperature=0.5)


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
@pytest.mark.parametrize("origin", ["anthropic", "bedrock claude", "google", "vertex", "vertex claude"])
async def test_signatures_go_to_their_own_service_only(
    make: Make, provider: Provider, model: str, origin: str
) -> None:
    parts = [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"text": "ok", "thoughtSignature": "s1"},
    ]
    content = parts[1:] if origin in ("google", "vertex") else parts[:1]
    past = AssistantMessage("ok", verbatim=Verbatim(origin, content))
    provider.answers = [events(*HELLO_ANTHROPIC.events) if model == CLAUDE else events(SAID)]
    await make(model).complete(request(UserMessage("a"), past, UserMessage("b")), unheard)
    known = origin == ("vertex claude" if model == CLAUDE else "vertex")
    assert ("s1" in json.dumps(provider.bodies[0])) == known


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
async def test_errors_in_a_list_are_read(make: Make, provider: Provider, model: str) -> None:
    """Google's streaming methods answer with a JSON array unless asked for events, also when they fail."""
    error = {"code": 429, "message": "Resource exhausted.", "status": "RESOURCE_EXHAUSTED"}
    provider.answers = [
        whole([{"error": error}], 429),
        events({"error": error}),
        whole([{"error": {**error, "code": 404, "message": "no such model"}}], 404),
    ]
    for _ in range(2):
        limited = await failure(make(model))
        assert (limited.status, limited.retryable) == (429, True)
        assert "Resource exhausted." in str(limited)
    missing = await failure(make(model))
    assert (missing.status, missing.retryable) == (404, False)


async def test_calls_of_gemini_without_ids_are_answered(make: Make, provider: Provider) -> None:
    call = {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "s1"}
    asked = {"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]}
    provider.answers = [events(asked), events(SAID)]
    model = make()
    reply = await model.complete(request(), unheard)
    (wanted,) = reply.tool_calls
    history = (
        UserMessage("hi"),
        AssistantMessage(reply.text, reply.tool_calls, reply.verbatim),
        ToolMessage(wanted.id, "add", "2"),
    )
    await model.complete(request(*history), unheard)
    contents = provider.bodies[1]["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[1]["parts"] == [call]


# ----------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("us", "https://aiplatform.us.rep.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ("evil.example/", "https://evil.example%2F-aiplatform.googleapis.com"),
    ],
)
def test_host_follows_the_location(location: str, host: str) -> None:
    assert vertex_host(location) == host


@pytest.mark.parametrize(
    ("base_url", "environ", "address"),
    [
        (None, {}, "https://aiplatform.googleapis.com/v1/projects/p/locations/global"),
        (
            None,
            {"GOOGLE_CLOUD_LOCATION": "eu"},
            "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu",
        ),
        (None, {"GOOGLE_VERTEX_BASE_URL": "http://x/"}, "http://x/v1/projects/p/locations/global"),
        ("http://x/v1beta1", {}, "http://x/v1beta1/projects/p/locations/global"),
        ("http://x/v1/projects/q/locations/r", {}, "http://x/v1/projects/q/locations/r"),
    ],
)
def test_address_is_completed_from_the_environment(
    base_url: str | None, environ: dict[str, str], address: str
) -> None:
    spec = ModelSpec("m", "vertex", GEMINI, base_url=base_url, api_key=KEY)
    assert endpoint(spec, {"GOOGLE_CLOUD_PROJECT": "p", **environ}).base_url == address


def test_project_is_needed(tmp_path: Path) -> None:
    with pytest.raises(MissingBaseUrl, match="GOOGLE_CLOUD_PROJECT"):
        check_model(ModelSpec("m", "vertex", GEMINI, api_key=KEY), folder=tmp_path)


# ----------------------------------------------------------------- Google's library


@pytest.fixture
async def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery) -> list[Any]:
    """A service account whose tokens this process gives. The list: what to answer the next requests with."""
    answers: list[Any] = []
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(65536)
            status, body = answers.pop(0)
            raw = json.dumps(body).encode()
            head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(raw)}\r\nconnection: close\r\n"
            await stream.send_all(f"{head}content-type: application/json\r\n\r\n".encode() + raw)

    nursery.start_soon(trio.serve_listeners, serve, listeners)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "account.json"
    described = {
        "type": "service_account",
        "client_email": "a@b.example",
        "private_key": key.decode(),
        "token_uri": f"http://127.0.0.1:{port}/token",
    }
    file.write_text(json.dumps(described))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "payer")
    return answers


def token(number: int) -> tuple[int, Any]:
    return 200, {"access_token": f"ya29.token-{number}", "expires_in": 3599, "token_type": "Bearer"}


async def test_without_a_key_ten_calls_share_one_token(
    make: Make, provider: Provider, account: list[Any]
) -> None:
    account += [token(1)]
    model = make(api_key=None)
    provider.answers = [events(SAID)] * 10
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(model.complete, request(), unheard)
    assert account == []
    assert all(b"\r\nauthorization: Bearer ya29.token-1\r\n" in head for head in provider.heads)
    assert all(b"\r\nx-goog-user-project: payer\r\n" in head for head in provider.heads)


async def test_refused_token_is_renewed_once(make: Make, provider: Provider, account: list[Any]) -> None:
    account += [token(1), token(2)]
    refused = whole([{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "bad token"}}], 401)
    provider.answers = [refused, events(*HELLO_ANTHROPIC.events)]
    assert (await make(CLAUDE, api_key=None).complete(request(), unheard)).text == "hello"
    assert b"Bearer ya29.token-2\r\n" in provider.heads[1]


async def test_refused_login_is_told_and_not_retried(
    make: Make, provider: Provider, account: list[Any]
) -> None:
    account += [(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})]
    failed = await failure(make(api_key=None))
    assert re.search(r"no access token: .*Invalid JWT Signature\.", str(failed))
    assert (failed.retryable, provider.heads) == (False, [])


async def test_without_key_and_library_the_extra_is_named(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", None)
    monkeypatch.setitem(sys.modules, "google.auth.transport", None)
    with pytest.raises(MissingLibrary, match=r"set `api_key`, .*agent-stop-and-go\[vertex\]'$"):
        make(api_key=None)
    make(api_key=None, headers={"Authorization": "Bearer of-a-gateway"})
