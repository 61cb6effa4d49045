"""Azure OpenAI over a real socket: addresses, credentials and errors.

Right values: Microsoft's page "Azure OpenAI in Microsoft Foundry Models v1 API" for addresses without a
version; Aider-AI/aider#4029 for the Responses API with one; microsoft/TinyTroupe#85 for the content filter.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import trio

from stopgo.actors.models.messages.messages import unheard
from stopgo.actors.models.open_model import check_model, open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.endpoints import InvalidBaseUrl, MissingBaseUrl, MissingLibrary
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import ModelSpec
from tests.canary import KEY
from tests.providers.servers.responses import events_of

from .conftest import HELLO_OPENAI, Provider, events, failure, request, whole
from .test_responses_codec import ANSWER, response

DATED = {"api-version": "2025-04-01-preview"}
SAID = events(*events_of(response(ANSWER)))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make(provider: Provider, client: ModelClient, tmp_path: Path) -> Any:
    def made(below: str = "", **more: Any) -> Model:
        more = {"api_key": KEY, "base_url": provider.url + below, **more}
        return open_model(ModelSpec("m", "azure", "my gpt", **more), folder=tmp_path, client=client)

    return made


@pytest.mark.parametrize("below", ["", "/", "/openai", "/openai/v1", "/openai/v1/", "/api/projects/p1"])
@pytest.mark.parametrize(
    ("more", "target"),
    [
        ({}, "/openai/v1/responses"),
        ({"query": {"api-version": "preview"}}, "/openai/v1/responses?api-version=preview"),
        ({"api": "chat"}, "/openai/v1/chat/completions"),
        ({"options": {"seed": 1}}, "/openai/v1/chat/completions"),
        (
            {"query": DATED},
            "/openai/deployments/my%20gpt/chat/completions?api-version=2025-04-01-preview",
        ),
        (
            {"query": DATED, "api": "responses"},
            "/openai/responses?api-version=2025-04-01-preview",
        ),
    ],
)
async def test_address_follows_the_version(
    make: Any, provider: Provider, below: str, more: dict[str, Any], target: str
) -> None:
    provider.answers = [SAID if "responses" in target else events(*HELLO_OPENAI.events)]
    await make(below, **more).complete(request(), unheard)
    (head,) = provider.heads
    assert head.startswith(f"POST {target} HTTP/1.1\r\n".encode())
    assert f"\r\napi-key: {KEY}\r\n".encode() in head
    assert b"authorization" not in head.lower()
    assert provider.bodies[0]["model"] == "my gpt"


async def test_only_an_effort_asks_for_reasoning(make: Any, provider: Provider) -> None:
    """The name of a deployment does not say whether its model reasons; a gpt-4o refuses both members."""
    provider.answers = [SAID, SAID]
    await make().complete(request(), unheard)
    await make(options={"reasoning_effort": "low"}).complete(request(), unheard)
    plain, with_effort = provider.bodies
    assert not {"reasoning", "include"} & plain.keys()
    assert with_effort["reasoning"] == {"effort": "low"}
    assert with_effort["include"] == ["reasoning.encrypted_content"]


async def test_filtered_prompt_names_the_filters(make: Any, provider: Provider) -> None:
    filters = {"hate": {"filtered": False}, "violence": {"filtered": True, "severity": "high"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": filters}
    error = {"message": "The prompt was filtered", "code": "content_filter", "innererror": inner}
    provider.answers = [whole({"error": {**error, "status": 400, "param": "prompt"}}, 400)]
    failed = await failure(make())
    assert str(failed) == "m: The prompt was filtered (filtered: violence) (status 400)"
    assert not failed.retryable


@pytest.mark.parametrize("more", [{}, {"query": DATED}])
async def test_missing_deployment_is_named(make: Any, provider: Provider, more: dict[str, Any]) -> None:
    error = {"code": "DeploymentNotFound", "message": "It does not exist."}
    provider.answers = [whole({"error": error}, 404)]
    failed = await failure(make(**more))
    assert str(failed).startswith('m: It does not exist. (status 404) (deployment "my gpt"')
    assert not failed.retryable


async def test_rate_limit_within_a_stream_is_retryable(make: Any, provider: Provider) -> None:
    """openclaw/openclaw#13445"""
    error = {"code": "rate_limit_exceeded", "message": "Too many requests."}
    provider.answers = [events({"type": "response.failed", "response": {"status": "failed", "error": error}})]
    failed = await failure(make())
    assert (failed.status, failed.retryable) == (429, True)


@pytest.mark.parametrize("below", ["/openai/deployments/x", "/openai/deployments/x/chat/completions"])
async def test_address_of_a_deployment_is_refused(make: Any, below: str) -> None:
    with pytest.raises(InvalidBaseUrl, match="is the address of a deployment: expected that of the resource"):
        make(below)


def test_address_is_needed(tmp_path: Path) -> None:
    with pytest.raises(MissingBaseUrl, match=r"the address of its resource$"):
        check_model(ModelSpec("m", "azure", "d", api_key=KEY), folder=tmp_path)


# ----------------------------------------------------------------- Entra


@pytest.fixture
def entra(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes that `azure.identity` was asked for, with a number in each token.

    It stands in for the library, which is not among the dependencies of the tests. Its interface:
    https://learn.microsoft.com/python/api/azure-identity/azure.identity.defaultazurecredential
    """
    asked: list[str] = []

    class DefaultAzureCredential:
        def __enter__(self) -> DefaultAzureCredential:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def get_token(self, scope: str) -> Any:
            asked.append(scope)
            return SimpleNamespace(token=f"token-{len(asked)}", expires_on=4_000_000_000)

    package, module = ModuleType("azure"), ModuleType("azure.identity")
    package.__path__ = []
    module.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    module.DefaultAzureCredential = DefaultAzureCredential  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure", package)
    monkeypatch.setitem(sys.modules, "azure.identity", module)
    return asked


async def test_without_a_key_ten_calls_share_one_token(
    make: Any, provider: Provider, entra: list[str]
) -> None:
    model = make(api_key=None)
    provider.answers = [SAID] * 10
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(model.complete, request(), unheard)
    assert entra == ["https://ai.azure.com/.default"]
    assert all(b"authorization: Bearer token-1\r\n" in head for head in provider.heads)
    assert not any(b"api-key" in head for head in provider.heads)


async def test_refused_token_is_renewed_once(make: Any, provider: Provider, entra: list[str]) -> None:
    model = make(api_key=None, query=DATED)
    refused = whole({"error": {"code": "401", "message": "Not token-2, please"}}, 401)
    provider.answers = [refused, events(*HELLO_OPENAI.events), refused, refused]
    assert (await model.complete(request(), unheard)).text == "hello"
    assert entra == ["https://cognitiveservices.azure.com/.default"] * 2
    failed = await failure(model)
    assert (failed.status, len(provider.heads)) == (401, 4)
    assert "token-2" not in str(failed)


async def test_without_key_and_library_the_extra_is_named(
    make: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    with pytest.raises(MissingLibrary, match=r"AZURE_OPENAI_API_KEY, .*agent-stop-and-go\[azure\]'$"):
        make(api_key=None)
    make(api_key=None, headers={"Authorization": "Bearer of-a-gateway"})
