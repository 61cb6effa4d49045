from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stopgo.actors.models.client import ModelClient
from stopgo.actors.models.errors import InvalidScript, ModelUnusable, UnknownProvider
from stopgo.actors.models.model import Model
from stopgo.actors.models.offline.rules_model import RulesModel
from stopgo.actors.models.open_model import InvalidOptions, open_model
from stopgo.actors.models.script import ScriptModel
from stopgo.config.models import LlmConfig, ModelSpec, resolve_model


def open_named(name: str, folder: Path, **options: Any) -> Model:
    spec = resolve_model(name, LlmConfig(options=options), {})
    return open_model(spec, folder=folder, client=ModelClient(max_connections=1))


def test_rules(tmp_path: Path) -> None:
    assert open_named("offline:rules", tmp_path) == RulesModel()


def test_script_path_is_relative_to_the_agent_file(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "hello.yaml").write_text("replies:\n- text: hello\n")
    for name in ("script:scripts/hello.yaml", f"script:{tmp_path}/scripts/hello.yaml"):
        model = open_named(name, tmp_path)
        assert isinstance(model, ScriptModel)
        assert model.script.replies[0].text == "hello"


@pytest.mark.parametrize("name", ["offline:magic", "offline:rules:2"])
def test_unknown_offline_model_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownProvider) as unknown:
        open_named(name, tmp_path)
    assert str(unknown.value) == f'unknown model "{name}": the only offline model is offline:rules'
    assert unknown.value.code == "unknown_provider"


def test_invalid_script_is_refused_on_opening(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("replies:\n- text: '${x}'\n")
    with pytest.raises(InvalidScript, match=r"^bad\.yaml:2:9: ") as invalid:
        open_named("script:bad.yaml", tmp_path)
    assert isinstance(invalid.value, ModelUnusable)


@pytest.mark.parametrize("name", ["messages", "contents", "system", "tools", "model", "stream"])
def test_options_may_not_set_keys_of_the_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptions, match=f'^options of model "ollama:x" may not set {name}$'):
        open_named("ollama:x", tmp_path, **{name: 1}, seed=7)
    open_named("ollama:x", tmp_path, seed=7)


def test_headers_of_the_connection_may_not_be_set(tmp_path: Path) -> None:
    spec = ModelSpec("ollama:x", "ollama", "x", headers={"X-Team": "a", "Accept-Encoding": "gzip"})
    with pytest.raises(InvalidOptions, match=r"^headers of model .* may not set accept-encoding$"):
        open_model(spec, folder=tmp_path, client=ModelClient(max_connections=1))
