"""A model behind an HTTP API with JSON bodies and event streams, by a codec; Gemini as one."""

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
        with failures_of(self.name, self.secrets):
            return await self.ask(self.codec, request, emit)

    async def ask(self, codec: Codec, request: ModelRequest, emit: Emit) -> ModelReply:
        """The same with a codec for this call only. Also raises the errors that `failures_of` translates."""
        body = dump_wire(codec.body(request))
        headers = {"content-type": "application/json", **self.headers}
        http = self.client.get()
        response = await http.send(
            http.build_request("POST", self.url, content=body, headers=headers), stream=True
        )
        try:
            return await read_reply(response, codec, request, emit)
        finally:
            await response.aclose()


def model_at(
    address: str, spec: ModelSpec, ours: Mapping[str, str], place: Endpoint, codec: Codec, client: ModelClient
) -> HttpModel:
    """The model at an address. `ours`: headers that those of the agent file replace."""
    url = httpx2.URL(address).copy_merge_params(spec.query)
    headers = with_own_headers(spec, ours)
    return HttpModel(spec.name, url, headers, secrets_of(place.key, spec.headers), codec, client)


def with_own_headers(spec: ModelSpec, ours: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request: those of the agent file, and ours of other names."""
    own = {name.lower() for name in spec.headers}
    return {**{name: value for name, value in ours.items() if name.lower() not in own}, **spec.headers}


def google_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> HttpModel:
    """A Gemini model. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    # The key is not in the URL, because proxies log URLs.
    headers = {"x-goog-api-key": place.key} if place.key is not None else {}
    return model_at(place.base_url + path(spec), spec, headers, place, GoogleCodec(spec), client)
