from __future__ import annotations

from pathlib import Path

import pytest

from stopgo.actors.models.catalog import open_model
from stopgo.actors.models.client import ModelClient
from stopgo.actors.models.errors import InvalidScript, ModelUnusable, UnknownProvider
from stopgo.actors.models.model import Model
from stopgo.actors.models.rules import RulesModel
from stopgo.actors.models.script import ScriptModel
from stopgo.config.llm import LlmConfig
from stopgo.config.resolve import resolve_model


def opened(name: str, folder: Path) -> Model:
    spec = resolve_model(name, LlmConfig(), {})
    return open_model(spec, folder=folder, client=ModelClient(max_connections=1))


def test_rules(tmp_path: Path) -> None:
    assert opened("offline:rules", tmp_path) == RulesModel()


def test_a_script_is_relative_to_the_folder_of_the_agent_file(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "hello.yaml").write_text("replies:\n- text: hello\n")
    for name in ("script:scripts/hello.yaml", f"script:{tmp_path}/scripts/hello.yaml"):
        model = opened(name, tmp_path)
        assert isinstance(model, ScriptModel)
        assert model.script.replies[0].text == "hello"


@pytest.mark.parametrize(
    "name",
    [
        "google:gemini-2.5-flash",
        "anthropic:claude-sonnet-4-5",
        "openai:gpt-5",
        "mistral:large",
        "openrouter:a/b",
        "ollama:llama3",
        "gemini-2.5-flash",
        "offline:magic",
        "offline:rules:2",
    ],
)
def test_what_does_not_run_here_is_named_beside_what_does(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownProvider) as unknown:
        opened(name, tmp_path)
    assert str(unknown.value) == f'unknown model "{name}": this version runs offline:rules and script:FILE'
    assert unknown.value.code == "unknown_provider"


def test_a_broken_script_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("replies:\n- text: '${x}'\n")
    with pytest.raises(InvalidScript, match=r"^bad\.yaml:2: ") as invalid:
        opened("script:bad.yaml", tmp_path)
    assert isinstance(invalid.value, ModelUnusable)
