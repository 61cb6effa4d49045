"""Claude models through Anthropic's SDK, which handles headers, credentials and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import httpx2

from ....config.sections.models import ModelSpec
from ....runtime.json_text import Written, dump_wire, load
from ..codecs.anthropic_codec import AnthropicCodec
from ..codecs.codec import Codec
from ..messages.messages import Emit, ModelReply, ModelRequest
from .claude_families import VERSION, version_for
from .client import ModelClient
from .endpoints import endpoint, secrets_of
from .key_mask import KeyMask, masked
from .reading import failed_response, failures_of, read_reply

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


@attrs.frozen
class AnthropicModel:
    name: str
    mask: KeyMask = attrs.field(repr=False)
    codec: Codec
    version: str | None
    """The version of the API to ask for; None: that of the SDK."""
    sdk: AsyncAnthropic = attrs.field(repr=False)

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return one reply. Raises `ModelFailed`."""
        body = self.codec.body(request)
        with failures_of(self.name, lambda: self.mask):
            return await masked(self.mask, emit, lambda hear: self._try(body, request, hear))

    async def _try(self, body: dict[str, Any], request: ModelRequest, emit: Emit) -> ModelReply:
        try:
            return await self._ask(body, request, emit)
        except UnicodeEncodeError:
            # The SDK does not replace lone surrogates.
            return await self._ask(load(dump_wire(body).decode()), request, emit)

    async def _ask(self, body: dict[str, Any], request: ModelRequest, emit: Emit) -> ModelReply:
        import anthropic

        # Pass only required arguments by name, because the SDK would transform the others in vain.
        rest = {
            name: value for name, value in body.items() if name not in ("model", "max_tokens", "messages")
        }
        messages = body["messages"]  # the SDK takes no JSON
        try:
            async with self.sdk.messages.with_streaming_response.create(
                model=body["model"],
                max_tokens=body["max_tokens"],
                messages=messages.to_json() if isinstance(messages, Written) else messages,
                stream=bool(body.get("stream")),
                extra_body=rest,
                extra_headers={} if self.version is None else {VERSION: self.version},
            ) as answer:
                return await read_reply(answer.http_response, self.codec, request, emit)
        except anthropic.APIStatusError as error:
            raise failed_response(error.response, error.response.content) from None
        except anthropic.APIConnectionError as error:
            cause = error.__cause__
        # Raise outside the handler; inside, the SDK's wrapper would replace the exception's own cause.
        raise cause if isinstance(cause, httpx2.HTTPError) else httpx2.ConnectError("")


def anthropic_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> AnthropicModel:
    """A Claude model. Imports the SDK, which takes seconds. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    assert place.key is not None
    version = version_for(spec)

    import anthropic

    sdk = anthropic.AsyncAnthropic(
        api_key=place.key,
        base_url=place.base_url,
        default_headers=spec.headers,
        default_query=spec.query,
        http_client=client.get(),
        max_retries=0,
    )
    mask = KeyMask(secrets_of(place, spec))
    return AnthropicModel(spec.name, mask, AnthropicCodec(spec), version, sdk)
