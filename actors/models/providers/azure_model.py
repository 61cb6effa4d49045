"""Models of Azure OpenAI: OpenAI's two APIs at other addresses, with another header for the key. Two forms:

* Without a version, `RESOURCE/openai/v1/...`; `model` is the name of the deployment.
* With a date as `api-version`, `RESOURCE/openai/deployments/NAME/chat/completions`. The Responses API is not
  below the deployment.

Sources: Microsoft's pages "Azure OpenAI in Microsoft Foundry Models v1 API" and "Azure OpenAI REST API
reference"; the address of the Responses API with a date: Aider-AI/aider#4029, openai-python#2184; addresses
of projects: agno-agi/agno#9841.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import attrs

from ....config.sections.models import ModelSpec
from ..codecs.openai_codec import OpenAICodec
from ..codecs.profiles import PROFILES
from ..codecs.responses_codec import AZURE
from .client import ModelClient
from .cloud_tokens import SCOPE_AZURE, SCOPE_AZURE_V1, azure_login
from .endpoints import api_of, endpoint, is_dated
from .http_model import model_at
from .model import Model
from .openai_model import ChatModel, responses_model


def azure_model(spec: ModelSpec, environ: Mapping[str, str], client: ModelClient) -> Model:
    """A model of Azure OpenAI. Raises `ModelUnusable`."""
    place = endpoint(spec, environ)
    dated = is_dated(spec)
    headers = {"api-key": place.key} if place.key is not None else {}
    login = azure_login(SCOPE_AZURE if dated else SCOPE_AZURE_V1) if place.logs_in else None
    hints = {"DeploymentNotFound": f'deployment "{spec.model}"; a new one is found after some minutes'}
    if api_of(spec, place.base_url) == "responses":
        address = f"{place.base_url}/openai/responses" if dated else f"{place.base_url}/openai/v1/responses"
        found = responses_model(address, spec, headers, place, AZURE, client)
        return attrs.evolve(found, http=attrs.evolve(found.http, login=login, hints=hints))
    below = f"deployments/{quote(spec.model, safe='')}" if dated else "v1"
    address = f"{place.base_url}/openai/{below}/chat/completions"
    chat = model_at(address, spec, headers, place, OpenAICodec(spec, PROFILES["azure"].flavour), client)
    return ChatModel(attrs.evolve(chat, login=login, hints=hints), None)
