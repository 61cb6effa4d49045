"""Open a model by its configuration."""

from __future__ import annotations

import os
from pathlib import Path

from ...config.models import ModelSpec
from .client import ModelClient
from .errors import ModelUnusable, UnknownProvider
from .model import Model
from .offline.rules_model import RulesModel
from .providers.endpoints import endpoint
from .script import ScriptModel
from .script_reader import load_script

_OURS = frozenset({"contents", "messages", "model", "stream", "system", "systemInstruction", "tools"})
"""Keys of a request body that the run sets, not the agent file."""


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
    _check_options(spec)
    match spec.provider:
        case "offline" | "script":
            return _open_offline(spec, folder)
        case "openai" | "mistral" | "openrouter" | "ollama" | "openai_compatible":
            from .providers.http_model import openai_model

            return openai_model(spec, os.environ, client)
        case "google":
            from .providers.http_model import google_model

            return google_model(spec, os.environ, client)
        case "anthropic":
            from .providers.anthropic_model import anthropic_model

            return anthropic_model(spec, os.environ, client)


def check_model(spec: ModelSpec, *, folder: Path) -> None:
    """Raise `ModelUnusable` if `open_model` would, without importing the provider's libraries."""
    _check_options(spec)
    if spec.provider in ("offline", "script"):
        _open_offline(spec, folder)
    else:
        endpoint(spec, os.environ)


def _check_options(spec: ModelSpec) -> None:
    headers = {name.lower() for name in spec.headers}
    for section, wrong in (("options", _OURS & spec.options.keys()), ("headers", _OUR_HEADERS & headers)):
        if wrong:
            raise InvalidOptions(f'{section} of model "{spec.name}" may not set {", ".join(sorted(wrong))}')


def _open_offline(spec: ModelSpec, folder: Path) -> Model:
    if spec.provider == "script":
        return ScriptModel(load_script(folder / spec.model))
    if spec.model != "rules":
        raise UnknownProvider(f'unknown model "{spec.name}": the only offline model is offline:rules')
    return RulesModel()
