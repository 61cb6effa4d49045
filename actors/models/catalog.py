"""Which models there are: from a name in the configuration to a model."""

from __future__ import annotations

from pathlib import Path

from stopgo.actors.models.errors import UnknownProvider
from stopgo.actors.models.model import Model
from stopgo.actors.models.rules import RulesModel
from stopgo.actors.models.script import ScriptModel
from stopgo.actors.models.script_reader import load_script


def open_model(name: str, *, folder: Path) -> Model:
    """The model called `provider:name`; a script's file is looked up from `folder`.

    Reads the script, so for start-up only. Raises `UnknownProvider` or `InvalidScript`.
    """
    provider, _, rest = name.partition(":")
    if name == "offline:rules":
        return RulesModel()
    if provider == "script" and rest:
        return ScriptModel(load_script(folder / rest))
    raise UnknownProvider(f'unknown model "{name}": this version runs offline:rules and script:FILE')
