"""Simulations of Google Vertex: Gemini's and Anthropic's servers at other addresses.

Rules from Google's page "Use Claude models on Vertex AI", the SDK of Anthropic 2.12 (`lib/vertex`) and
anthropics/claude-code#12429.
"""

from __future__ import annotations

import json
import re
from typing import Any

import attrs

from tests.providers.servers.anthropic_messages import AnthropicMessages
from tests.providers.servers.gemini import Gemini
from tests.providers.servers.http import Request
from tests.providers.servers.talk import Json

PROJECT = "/v1/projects/p-1/locations/europe-west1"
_METHODS = {
    "streamRawPredict": True,
    "rawPredict": False,
    "streamGenerateContent": True,
    "generateContent": False,
}


def _open(server: Gemini | AnthropicMessages, request: Request, key: str, publisher: str) -> tuple[str, bool]:
    path = rf"{PROJECT}/publishers/{publisher}/models/([^/:]+):([a-zA-Z]+)"
    found = re.fullmatch(path, request.path)
    if request.method != "POST" or found is None or found[2] not in _METHODS:
        raise server.refusal(404, f"{request.path} was not found")
    if request.headers.get("authorization") != f"Bearer {key}":
        raise server.refusal(401, "Request had invalid authentication credentials.")
    if {"x-goog-api-key", "x-api-key", "anthropic-version"} & request.headers.keys():
        raise server.refusal(400, "a header of another API")
    if request.query != ("alt=sse" if found[2] == "streamGenerateContent" else ""):
        raise server.refusal(400, f"unexpected query: {request.query}")
    return found[1], _METHODS[found[2]]


@attrs.frozen
class VertexGemini(Gemini):
    name: str = "vertex"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        return _open(self, request, key, "google")

    def error(self, status: int, why: str) -> Any:
        return [super().error(status, why)]

    def error_frame(self, why: str) -> bytes:
        return b"data: " + json.dumps(self.error(503, why)[0]).encode() + b"\r\n\r\n"


@attrs.frozen
class VertexClaude(AnthropicMessages):
    name: str = "vertex_claude"
    cloud: str = "vrtx_"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        model, stream = _open(self, request, key, "anthropic")
        body = json.loads(request.body)
        if body.get("anthropic_version") != "vertex-2023-10-16":
            raise self.refusal(400, "anthropic_version: Field required")
        if body.get("stream", False) != stream:
            raise self.refusal(400, "stream: does not fit the method")
        if "model" in body:
            raise self.refusal(400, "model: Extra inputs are not permitted")
        return model, stream

    def check(self, body: Json) -> None:
        rest = {name: value for name, value in body.items() if name != "anthropic_version"}
        super().check({**rest, "model": "claude"})
