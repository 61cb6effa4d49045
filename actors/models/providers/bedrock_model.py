"""Models of Amazon Bedrock, by three APIs:

* Claude after 4.6 by Anthropic's Messages API. AWS recommends it, and Anthropic calls the others legacy.
* Claude up to 4.6, and Claude by the ARN of a profile, by InvokeModel, because the Messages API of Bedrock is
  documented for later models and for names only.
* All others by Converse, also Claude by the ARN of an application's profile, which does not name its model.

A key is a bearer token; without one, requests are signed (`aws_login`).

Sources: the guide of Bedrock, "Inference using Anthropic Messages API", and its API reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import attrs
import httpx2

from ....config.sections.models import ModelSpec, is_claude
from ..codecs.anthropic_codec import AnthropicCodec
from ..codecs.bedrock_events import InvokeCodec
from ..codecs.codec import Codec
from ..codecs.converse_codec import ConverseCodec
from .aws_login import AwsLogin
from .claude_families import VERSION, WITH_SAMPLING, takes_sampling, version_for
from .client import ModelClient
from .endpoints import MissingBaseUrl, aws_region, endpoint
from .http_model import HttpModel, model_at

_CLAUDE = "bedrock claude"
"""The origin of thoughts."""


def bedrock_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> HttpModel:
    """A model of Bedrock. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    headers = {"authorization": f"Bearer {place.key}"} if place.key is not None else {}
    below = f"/model/{quote(spec.model, safe='')}"
    codec: Codec
    if not is_claude(spec.model):
        codec, below = ConverseCodec(spec), f"{below}/converse{'-stream' if spec.stream else ''}"
    elif spec.model.startswith("arn:") or takes_sampling(spec.model):
        version_for(spec)
        codec, below = (
            InvokeCodec(spec, _CLAUDE),
            f"{below}/invoke{'-with-response-stream' if spec.stream else ''}",
        )
    else:
        version_for(spec)
        codec, below = AnthropicCodec(spec, _CLAUDE), "/anthropic/v1/messages"
        headers[VERSION] = WITH_SAMPLING
    hints = {
        "AccessDeniedException": "the account needs access to the model, and the permissions "
        "bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream",
        "ExpiredTokenException": "log in to AWS again",
        "InvalidSignatureException": "check the clock of this machine, and the secret key",
    }
    found = model_at(f"{place.base_url}{below}", spec, headers, place, codec, client)
    login = _login(spec, place.base_url, environ) if place.logs_in else None
    return attrs.evolve(found, login=login, hints=hints)


def _login(spec: ModelSpec, base_url: str, environ: Mapping[str, str]) -> AwsLogin:
    region = aws_region(spec, base_url, environ)
    if not region:
        raise MissingBaseUrl(f'model "{spec.name}" needs a region: set the environment variable AWS_REGION')
    is_mantle = httpx2.URL(base_url).host.startswith("bedrock-mantle.")
    return AwsLogin("bedrock-mantle" if is_mantle else "bedrock", region)
