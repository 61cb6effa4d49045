"""A simulation of Azure OpenAI: OpenAI's servers at other addresses.

Rules from Microsoft's pages "Azure OpenAI in Microsoft Foundry Models v1 API" and "Azure OpenAI REST API
reference", Aider-AI/aider#4029, and the answers in microsoft/TinyTroupe#85.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

from tests.providers.servers.chat import Chat
from tests.providers.servers.flavours import OPENAI
from tests.providers.servers.http import Request
from tests.providers.servers.responses import Responses
from tests.providers.servers.talk import Frame, Heard, Json, Refusal, Said

VERSION = "2025-04-01-preview"
DEPLOYMENT = "my-deployment"


def _refusal(status: int, code: str, why: str) -> Refusal:
    return Refusal(status, {"error": {"code": code, "message": why}}, why)


def _open(request: Request, key: str) -> None:
    if request.headers.get("api-key") != key:
        why = "Access denied due to invalid subscription key or wrong API endpoint."
        raise _refusal(401, "401", why)
    if "authorization" in request.headers:
        raise _refusal(401, "401", "two credentials")


@attrs.frozen
class AzureChat(Chat):
    """Chat completions of a deployment, with a version."""

    flavour: Any = OPENAI

    @property
    def name(self) -> str:
        return "azure"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        path = f"/openai/deployments/{DEPLOYMENT}/chat/completions"
        if (request.method, request.path) != ("POST", path):
            raise _refusal(404, "DeploymentNotFound", "The API deployment for this resource does not exist.")
        if request.query != f"api-version={VERSION}":
            raise _refusal(404, "404", "Resource not found")
        _open(request, key)
        body = json.loads(request.body)
        return DEPLOYMENT, bool(body.get("stream"))

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        filters = {"hate": {"filtered": False, "severity": "safe"}}
        first = {
            "choices": [],
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filters}],
        }
        yield Frame("begin", b"data: " + json.dumps({**first, "model": "", "id": ""}).encode() + b"\n\n")
        *frames, done = super().frames(said, heard)
        yield from frames
        # The asynchronous filter speaks late, and says nothing that is part of the text.
        late = {"index": 0, "delta": None, "finish_reason": None, "content_filter_results": filters}
        yield Frame("end", b"data: " + json.dumps({"choices": [late]}).encode() + b"\n\n")
        yield done


@attrs.frozen
class AzureResponses(Responses):
    """The Responses API without a version."""

    name: str = "azure_responses"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        if (request.method, request.path) != ("POST", "/openai/v1/responses"):
            raise _refusal(404, "404", "Resource not found")
        if request.query:
            raise _refusal(400, "BadRequest", "API version not supported")
        _open(request, key)
        body = json.loads(request.body)
        return body.get("model", ""), bool(body.get("stream"))

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        return attrs.evolve(super().hear(body, model, stream), wants_usage="include" in body)

    def body(self, said: Said, heard: Heard) -> Json:
        found = super().body(said, heard)
        if not heard.wants_usage:
            # A client cannot send back reasoning that is not encrypted.
            for item in found["output"]:
                item.pop("encrypted_content", None)
        return found
