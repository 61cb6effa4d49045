"""Models of Google Vertex: Gemini, and Claude by the Messages API, below a project and location.

Claude's model is in the address, not in the body; the version of its API is in the body, not in a header.

Sources: Google's pages "Use Claude models on Vertex AI" and "Method: models.streamGenerateContent"; the SDK
of Anthropic, 2.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from ....config.sections.models import ModelSpec, is_claude
from ..codecs.anthropic_codec import AnthropicCodec
from ..codecs.google_codec import GoogleCodec, method
from ..messages.messages import ModelRequest
from .claude_families import version_for
from .client import ModelClient
from .cloud_tokens import google_login
from .endpoints import endpoint
from .http_model import HttpModel, model_at

_VERSION = "vertex-2023-10-16"


@attrs.frozen
class VertexClaudeCodec(AnthropicCodec):
    def body(self, request: ModelRequest) -> dict[str, Any]:
        body = {"anthropic_version": _VERSION, **AnthropicCodec.body(self, request)}
        del body["model"]
        return body


def vertex_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> HttpModel:
    """A model of Vertex. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    model = quote(spec.model, safe="@")
    if is_claude(spec.model):
        version_for(spec)  # `_VERSION` is one that accepts what it allows
        codec: AnthropicCodec | GoogleCodec = VertexClaudeCodec(spec, origin="vertex claude")
        below = f"anthropic/models/{model}:{'streamRawPredict' if spec.stream else 'rawPredict'}"
    else:
        codec = GoogleCodec(spec, origin="vertex")
        below = f"google/models/{model}:{method(spec)}"
    headers = {"authorization": f"Bearer {place.key}"} if place.key is not None else {}
    found = model_at(f"{place.base_url}/publishers/{below}", spec, headers, place, codec, client)
    return attrs.evolve(found, login=google_login() if place.logs_in else None)
