"""A model behind an HTTP API with JSON bodies and event streams, by a codec; Gemini as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Protocol

import attrs
import httpx2

from ....config.sections.models import ModelSpec
from ....runtime.json_text import dump_wire
from ..codecs.codec import Codec
from ..codecs.google_codec import GoogleCodec, path
from ..messages.messages import Emit, ModelFailed, ModelReply, ModelRequest
from .client import ModelClient
from .endpoints import Endpoint, endpoint, secrets_of
from .key_mask import KeyMask, masked
from .reading import failures_of, read_reply


class ModelLogin(Protocol):
    """Credentials that are made for each request: a token that ends, a signature."""

    @property
    def secrets(self) -> Sequence[str]:
        """The secrets to mask in errors."""
        ...

    async def headers(self, url: httpx2.URL, body: bytes) -> Mapping[str, str]:
        """The headers of one request. Raises `ModelFailed`: there are no credentials."""
        ...

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Note that a request with these headers was refused with 401. Whether it is to be sent again."""
        ...


@attrs.frozen
class HttpModel:
    name: str
    url: httpx2.URL = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(repr=False)
    secrets: Sequence[str] = attrs.field(repr=False)
    """Parts of `url` and `headers` that no answer may show."""
    codec: Codec
    client: ModelClient = attrs.field(repr=False)
    login: ModelLogin | None = attrs.field(default=None, repr=False)
    """None: the headers have the credentials."""
    hints: Mapping[str, str] = attrs.field(factory=dict)
    """What an error means here, by the provider's code."""
    _mask: KeyMask = attrs.field(
        init=False, repr=False, default=attrs.Factory(lambda self: KeyMask(self.secrets), takes_self=True)
    )

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return one reply. Raises `ModelFailed`."""
        with self.failures():
            return await self.ask(self.codec, request, emit)

    def failures(self) -> AbstractContextManager[None]:
        """See `failures_of`."""
        return failures_of(self.name, lambda: self.mask)

    @property
    def mask(self) -> KeyMask:
        if self.login is None:
            return self._mask
        # The tokens of a login change, and there are none before the first request.
        return KeyMask((*self.secrets, *self.login.secrets))

    async def ask(self, codec: Codec, request: ModelRequest, emit: Emit) -> ModelReply:
        """The same with a codec for this call only. Also raises the errors that `failures` translates."""
        body = dump_wire(codec.body(request))
        response, credentials = await self._send(body)
        try:
            refused = response.status_code == HTTPStatus.UNAUTHORIZED
            if refused and self.login is not None and self.login.refused(credentials):
                await response.aclose()
                response, _ = await self._send(body)
            return await masked(self.mask, emit, lambda hear: read_reply(response, codec, request, hear))
        except ModelFailed as failure:
            if hint := self.hints.get(failure.provider_code or ""):
                failure.args = (f"{failure} ({hint})",)
            raise
        finally:
            await response.aclose()

    async def _send(self, body: bytes) -> tuple[httpx2.Response, Mapping[str, str]]:
        """Send a request; return the answer and the headers with the credentials of the request."""
        credentials = {} if self.login is None else await self.login.headers(self.url, body)
        headers = {"content-type": "application/json", **self.headers, **credentials}
        http = self.client.get()
        request = http.build_request("POST", self.url, content=body, headers=headers)
        return await http.send(request, stream=True), credentials


def model_at(
    address: str, spec: ModelSpec, ours: Mapping[str, str], place: Endpoint, codec: Codec, client: ModelClient
) -> HttpModel:
    """The model at an address. `ours`: headers that those of the agent file replace."""
    url = httpx2.URL(address).copy_merge_params(spec.query)
    headers = with_own_headers(spec, ours)
    return HttpModel(spec.name, url, headers, secrets_of(place, spec), codec, client)


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
