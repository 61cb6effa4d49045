"""Which models there are: from everything there is to know about one to the model."""

from __future__ import annotations

from pathlib import Path

from stopgo.actors.models.client import ModelClient
from stopgo.actors.models.errors import UnknownProvider
from stopgo.actors.models.model import Model
from stopgo.actors.models.rules import RulesModel
from stopgo.actors.models.script import ScriptModel
from stopgo.actors.models.script_reader import load_script
from stopgo.config.models import ModelSpec


def open_model(spec: ModelSpec, *, folder: Path, client: ModelClient) -> Model:
    """The model that `spec` describes; a script's file is looked up from `folder`.

    Reads the script, so for start-up only. Raises `UnknownProvider` or `InvalidScript`.
    """
    if spec.provider == "offline" and spec.model == "rules":
        return RulesModel()
    if spec.provider == "script":
        return ScriptModel(load_script(folder / spec.model))
    raise UnknownProvider(f'unknown model "{spec.name}": this version runs offline:rules and script:FILE')
