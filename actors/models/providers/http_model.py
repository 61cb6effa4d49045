"""Models behind HTTP APIs with JSON bodies and event streams: Gemini and all chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import httpx2

from ....config.models import ModelSpec
from ....runtime.json_text import dump_wire
from ..client import ModelClient
from ..messages import Emit, ModelReply, ModelRequest
from .codec import Codec
from .endpoints import Endpoint, endpoint, secrets_of
from .google_codec import GoogleCodec, path
from .openai_codec import FLAVOURS, OpenAICodec
from .reading import failures_of, read_reply


@attrs.frozen
class HttpModel:
    name: str
    url: httpx2.URL = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(repr=False)
    secrets: Sequence[str] = attrs.field(repr=False)
    """Parts of `headers`, kept here so that errors can be cleared of them."""
    codec: Codec
    client: ModelClient = attrs.field(repr=False)

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return one reply. Raises `ModelFailed`."""
        body = dump_wire(self.codec.body(request))
        headers = {"content-type": "application/json", **self.headers}
        with failures_of(self.name, self.secrets):
            http = self.client.get()
            response = await http.send(
                http.build_request("POST", self.url, content=body, headers=headers), stream=True
            )
            try:
                return await read_reply(response, self.codec, request, emit)
            finally:
                await response.aclose()


def _model(
    spec: ModelSpec, address: str, key: Mapping[str, str], place: Endpoint, codec: Codec, client: ModelClient
) -> HttpModel:
    own = {name.lower() for name in spec.headers}
    headers = {**{name: value for name, value in key.items() if name.lower() not in own}, **spec.headers}
    url = httpx2.URL(address).copy_merge_params(spec.query)
    return HttpModel(spec.name, url, headers, secrets_of(place.key, spec.headers), codec, client)


def google_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> HttpModel:
    """A Gemini model. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    # The key is not in the URL, because proxies log URLs.
    headers = {"x-goog-api-key": place.key} if place.key is not None else {}
    return _model(spec, place.base_url + path(spec), headers, place, GoogleCodec(spec), client)


OPENAI = "api.openai.com"
"""OpenAI's own host, which documents no name in results."""
_TITLE = {"HTTP-Referer": "https://github.com/agentic-platform", "X-Title": "Agent Stop and Go"}
"""Headers that name the program to OpenRouter."""


def openai_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> HttpModel:
    """A model with the API of chat completions. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    headers = {"authorization": f"Bearer {place.key}"} if place.key is not None else {}
    if spec.provider == "openrouter":
        headers |= _TITLE
    flavour = FLAVOURS[spec.provider]
    address = f"{place.base_url}/chat/completions"
    if httpx2.URL(address).host == OPENAI:
        flavour = attrs.evolve(flavour, result_name=False)
    return _model(spec, address, headers, place, OpenAICodec(spec, flavour), client)
