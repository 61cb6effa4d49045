"""Models of OpenAI and of servers with its API: by the Responses API, by chat completions or, for Ollama, by
its own.

* If the server cannot open the reasoning in a request, the request is sent once more without it: the key of
  the account or the server behind the address has changed. A second refusal fails the call.
* If the server of chat completions refuses a member of requests that only some know, the request is sent
  once more without it, and so are later ones: `refused_members`.
* If chat completions say that the model takes tools by the Responses API only, the error says what to write
  into the agent file. If the file leaves the API open, the Responses API is asked, and from its first reply
  on it alone; the log says so.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import attrs
import httpx2

from ....config.sections.models import ModelSpec
from ..codecs.ollama_codec import OllamaCodec
from ..codecs.openai_codec import OpenAICodec
from ..codecs.profiles import PROFILES
from ..codecs.refused_members import MOST, without_refused
from ..codecs.responses_codec import COMPATIBLE, OPENAI, ResponsesCodec, ResponsesFlavour, origin_of
from ..messages.messages import Emit, ModelFailed, ModelReply, ModelRequest
from .client import ModelClient
from .endpoints import CHAT_ONLY, RESPONSES_ONLY, Endpoint, api_of, endpoint, is_openais, secrets_of
from .http_model import HttpModel, model_at, with_own_headers
from .key_mask import KeyMask
from .model import Model

logger = logging.getLogger(__name__)

_ADVICE = "; name the model under `models`, with `api: responses`"


def openai_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> Model:
    """A model of a server with the API of OpenAI. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    profile = PROFILES[spec.provider]
    headers = {"authorization": f"Bearer {place.key}"} if place.key is not None else {}
    headers |= profile.headers
    api = api_of(spec, place.base_url)
    if api == "native":
        address = f"{place.base_url.removesuffix('/v1')}/api/chat"
        return model_at(address, spec, headers, place, OllamaCodec(spec), client)
    address = f"{place.base_url}/responses"
    responses = responses_model(address, spec, headers, place, _flavour(spec, place.base_url), client)
    if api == "responses":
        return responses
    flavour = profile.flavour
    if is_openais(place.base_url):
        # OpenAI documents no name in results.
        flavour = attrs.evolve(flavour, result_name=False)
    address = f"{place.base_url}/chat/completions"
    chat = model_at(address, spec, headers, place, OpenAICodec(spec, flavour), client)
    is_open = spec.api is None and not (CHAT_ONLY | RESPONSES_ONLY) & spec.options.keys()
    return ChatModel(chat, responses if is_open else None)


def responses_model(
    address: str,
    spec: ModelSpec,
    ours: Mapping[str, str],
    place: Endpoint,
    flavour: ResponsesFlavour,
    client: ModelClient,
) -> ResponsesModel:
    """A model at this address of a Responses API. `ours`: headers that those of the agent file replace."""
    said: set[str] = set()
    mask = KeyMask(secrets_of(place, spec))

    def removed(reason: str) -> None:
        # The server says it again with each later turn of the conversation.
        if reason not in said and len(said) < _MAX_REASONS:
            said.add(reason)
            logger.warning(
                "%s: the provider left reasoning of earlier replies out of a request: %s",
                spec.name,
                mask.mask(reason),
            )

    headers = {**ours, "accept": "text/event-stream"} if spec.stream else ours
    origin = origin_of(spec, address, with_own_headers(spec, headers))
    codec = ResponsesCodec(spec, origin, flavour, removed=removed)
    return ResponsesModel(model_at(address, spec, headers, place, codec, client), codec)


_MAX_REASONS = 16
"""Reasons for removed reasoning that are logged. OpenAI has five."""


def _flavour(spec: ModelSpec, base_url: str) -> ResponsesFlavour:
    if spec.provider == "openai":
        return OPENAI
    # Groq refuses members that it does not know: https://console.groq.com/docs/responses-api
    is_groq = httpx2.URL(base_url).host == "api.groq.com"
    return attrs.evolve(COMPATIBLE, stores=not is_groq)


@attrs.frozen
class ResponsesModel:
    http: HttpModel
    codec: ResponsesCodec

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return one reply. Raises `ModelFailed`."""
        with self.http.failures():
            try:
                return await self.http.ask(self.codec, request, emit)
            except ModelFailed as failure:
                plain = attrs.evolve(self.codec, plain=True)
                if not _is_about_reasoning(failure) or plain.body(request) == self.codec.body(request):
                    raise
                logger.warning(
                    "%s: the provider refused the reasoning of earlier replies, asking without it: %s",
                    self.http.name,
                    self.http.mask.mask(str(failure)),
                )
            return await self.http.ask(plain, request, emit)


def _is_about_reasoning(failure: ModelFailed) -> bool:
    if failure.status not in (400, 404):
        return False
    text = str(failure)
    return failure.provider_code == "invalid_encrypted_content" or (
        re.search(r"\brs_|encrypted content|'reasoning' (item|was provided)", text) is not None
    )


@attrs.define(eq=False)
class ChatModel:
    """A model of chat completions, until these say that it takes tools by the Responses API only."""

    chat: HttpModel
    responses: ResponsesModel | None
    """None: the agent file decides for chat completions."""
    _moved: bool = False

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return one reply. Raises `ModelFailed`."""
        if self._moved and self.responses is not None:
            return await self.responses.complete(request, emit)
        try:
            return await self._chat(request, emit)
        except ModelFailed as failure:
            if not _takes_responses_only(failure):
                raise
            refused = ModelFailed(f"{failure}{_ADVICE}", status=failure.status, usage=failure.usage)
        if self.responses is None:
            raise refused
        try:
            reply = await self.responses.complete(request, emit)
        except ModelFailed as failure:
            # What the server answers to a path that it does not have says less than the first refusal.
            raise failure if failure.retryable or failure.status is None else refused from None
        if not self._moved:
            self._moved = True
            logger.warning(
                "%s: asking by the Responses API from now on, because: %s", self.chat.name, refused
            )
        return reply

    async def _chat(self, request: ModelRequest, emit: Emit) -> ModelReply:
        for _ in range(MOST):
            codec = self.chat.codec
            try:
                return await self.chat.complete(request, emit)
            except ModelFailed as failure:
                known = without_refused(codec.flavour, failure) if isinstance(codec, OpenAICodec) else None
                if known is None:
                    raise
                logger.warning(
                    "%s: leaving out a member of requests that the provider refuses: %s",
                    self.chat.name,
                    failure,
                )
            assert isinstance(codec, OpenAICodec)
            self.chat = attrs.evolve(self.chat, codec=attrs.evolve(codec, flavour=known))
        return await self.chat.complete(request, emit)


def _takes_responses_only(failure: ModelFailed) -> bool:
    """Whether chat completions refused a model or its tools. OpenAI's sentences: "Function tools with
    reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions", "This model is only supported in
    v1/responses", "This is not a chat model"."""
    words = r"/responses\b|not supported .{0,80}in /?v1/chat/completions|not a chat model"
    return failure.status in (400, 404) and re.search(words, str(failure)) is not None
