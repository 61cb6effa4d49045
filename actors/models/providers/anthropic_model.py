"""A Claude model, through Anthropic's own SDK: its headers, its credentials, its errors. The rest is ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import httpx2

from ....config.models import ModelSpec
from ....runtime.json_text import dump_wire, load
from ..client import ModelClient
from ..messages import Emit, ModelReply, ModelRequest
from .anthropic_codec import AnthropicCodec
from .codec import Codec
from .endpoints import endpoint
from .reading import failed_answer, read_reply, told_as

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


@attrs.frozen
class AnthropicModel:
    name: str
    key: str = attrs.field(repr=False)
    """The SDK's, too; here so that no error shows it."""
    codec: Codec
    sdk: AsyncAnthropic = attrs.field(repr=False)

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """One reply. Raises `ModelFailed`."""
        body = self.codec.body(request)
        with told_as(self.name, self.key):
            try:
                return await self._ask(body, request, emit)
            except UnicodeEncodeError:
                # The SDK does not replace lone surrogates.
                return await self._ask(load(dump_wire(body).decode()), request, emit)

    async def _ask(self, body: dict[str, Any], request: ModelRequest, emit: Emit) -> ModelReply:
        import anthropic

        # Only what the SDK insists on goes by name: the rest it would look through for nothing.
        rest = {
            name: value for name, value in body.items() if name not in ("model", "max_tokens", "messages")
        }
        try:
            async with self.sdk.messages.with_streaming_response.create(
                model=body["model"],
                max_tokens=body["max_tokens"],
                messages=body["messages"],
                stream=bool(body.get("stream")),
                extra_body=rest,
            ) as answer:
                return await read_reply(answer.http_response, self.codec, request, emit)
        except anthropic.APIStatusError as error:
            raise failed_answer(error.response, error.response.content) from None
        except anthropic.APIConnectionError as error:
            cause = error.__cause__
        # Not in the handler: what is raised while its wrapper is handled loses its own cause.
        raise cause if isinstance(cause, httpx2.HTTPError) else httpx2.ConnectError("")


def anthropic_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> AnthropicModel:
    """Imports the SDK, which takes a while. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    assert place.key is not None

    import anthropic

    sdk = anthropic.AsyncAnthropic(
        api_key=place.key, base_url=place.base_url, http_client=client.get(), max_retries=0
    )
    return AnthropicModel(spec.name, place.key, AnthropicCodec(spec), sdk)
