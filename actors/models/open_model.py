"""Open a model by its configuration."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

from ...config.sections.models import ModelSpec
from .codecs.ollama_options import ignored_by
from .codecs.profiles import PROFILES
from .messages.errors import ModelUnusable, UnknownProvider
from .offline.rules_model import RulesModel
from .offline.script import ScriptModel
from .offline.script_reader import load_script
from .providers.client import ModelClient
from .providers.endpoints import RESPONSES_ONLY, api_of, endpoint, is_openais
from .providers.model import Model
from .providers.openai_families import check_sampling

_OURS = frozenset({"contents", "messages", "model", "stream", "system", "systemInstruction", "tools"})
"""Keys of a request body that the run sets, not the agent file."""


class UnsupportedApi(ModelUnusable):
    """`api` is set to one that the provider does not have."""

    code = "unsupported_api"


_OUR_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that belong to the body and the connection."""


class InvalidOptions(ModelUnusable):
    """`options` or `headers` set a key that the run sets."""

    code = "invalid_options"


def open_model(spec: ModelSpec, *, folder: Path, client: ModelClient) -> Model:
    """Open the model of a spec. A script's path is relative to `folder`; API keys are environment variables.

    For startup only, because it reads the script or imports the provider's libraries. Raises `ModelUnusable`.
    """
    _check(spec)
    match PROFILES[spec.provider].kind:
        case "here":
            return _open_offline(spec, folder)
        case "openai":
            from .providers.openai_model import openai_model

            return openai_model(spec, os.environ, client)
        case "azure":
            from .providers.azure_model import azure_model

            return azure_model(spec, os.environ, client)
        case "bedrock":
            from .providers.bedrock_model import bedrock_model

            return bedrock_model(spec, os.environ, client)
        case "vertex":
            from .providers.vertex_model import vertex_model

            return vertex_model(spec, os.environ, client)
        case "google":
            from .providers.http_model import google_model

            return google_model(spec, os.environ, client)
        case "anthropic":
            from .providers.anthropic_model import anthropic_model

            return anthropic_model(spec, os.environ, client)


def check_model(spec: ModelSpec, *, folder: Path) -> None:
    """Raise `ModelUnusable` if `open_model` would, without importing the provider's libraries."""
    _check(spec)
    if PROFILES[spec.provider].kind == "here":
        _open_offline(spec, folder)


def _check(spec: ModelSpec) -> None:
    profile = PROFILES[spec.provider]
    if spec.api is not None and spec.api not in (known := profile.apis):
        has = f"has no api {spec.api}, only {', '.join(known)}" if known else "has no choice of an api"
        raise UnsupportedApi(f'model "{spec.name}": {spec.provider} {has}')
    _refuse(spec, "options", _OURS & spec.options.keys())
    _refuse(spec, "headers", _OUR_HEADERS & {name.lower() for name in spec.headers})
    if profile.kind == "here":
        return
    base_url = endpoint(spec, os.environ).base_url
    api = api_of(spec, base_url)
    if spec.provider == "ollama" and (ignored := ignored_by(api) & spec.options.keys()):
        names = ", ".join(sorted(ignored))
        raise InvalidOptions(f'options of model "{spec.name}": Ollama ignores {names} by `api: {api}`')
    if api == "responses":
        _refuse(spec, "options", RESPONSES_ONLY & spec.options.keys())
        if is_openais(base_url):
            check_sampling(spec)


def _refuse(spec: ModelSpec, section: str, wrong: Set[str]) -> None:
    if wrong:
        raise InvalidOptions(f'{section} of model "{spec.name}" may not set {", ".join(sorted(wrong))}')


def _open_offline(spec: ModelSpec, folder: Path) -> Model:
    if spec.provider == "script":
        return ScriptModel(load_script(folder / spec.model))
    if spec.model != "rules":
        raise UnknownProvider(f'unknown model "{spec.name}": the only offline model is offline:rules')
    return RulesModel()
