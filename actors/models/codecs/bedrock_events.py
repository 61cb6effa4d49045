"""Events of Bedrock's streams, as `framing.AwsFrames` gives them; Claude's own events inside them. Pure.

Sources: the API reference of Bedrock, `InvokeModelWithResponseStream` and `ConverseStream`; Anthropic's page
on its models on Bedrock.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import attrs

from ..messages.messages import Emit, ModelRequest
from .anthropic_codec import AnthropicCodec, AnthropicStream
from .codec import event_body, not_understood
from .faults import from_error
from .json_fields import mapping, text

_VERSION = "bedrock-2023-05-31"


def aws_event(data: str) -> tuple[str, Mapping[str, Any]]:
    """Name and payload of an event. Raises `ModelFailed` for an exception or an error."""
    body = mapping(event_body(data))
    payload = mapping(body.get("payload"))
    if "event" not in body:
        raise from_error({**payload, "code": text(body.get("exception")) or text(body.get("error"))})
    return text(body["event"]), payload


@attrs.frozen
class InvokeCodec(AnthropicCodec):
    """Claude by InvokeModel. The model and whether to stream are in the address, not in the body."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        body = {"anthropic_version": _VERSION, **AnthropicCodec.body(self, request)}
        del body["model"]
        body.pop("stream", None)
        return body

    def stream(self, request: ModelRequest, emit: Emit) -> AnthropicStream:
        return InvokeStream(self, request, emit)


class InvokeStream(AnthropicStream):
    def feed(self, data: str) -> None:
        name, payload = aws_event(data)
        if name == "chunk":
            try:
                event = b64decode(text(payload.get("bytes")), validate=True)
            except ValueError:
                raise not_understood("an event is not base64", self.usage) from None
            super().feed(event.decode(errors="surrogateescape"))
