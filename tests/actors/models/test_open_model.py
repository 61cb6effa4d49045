from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from stopgo.actors.models.messages.errors import (
    InvalidScript,
    ModelUnusable,
    UnacceptedSetting,
    UnknownProvider,
)
from stopgo.actors.models.offline.rules_model import RulesModel
from stopgo.actors.models.offline.script import ScriptModel
from stopgo.actors.models.open_model import InvalidOptions, UnsupportedApi, check_model, open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.http_model import HttpModel
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import Api, LlmConfig, ModelSpec, Provider, resolve_model


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


@pytest.mark.parametrize(
    "name", ["background", "conversation", "input", "instructions", "previous_response_id", "store"]
)
def test_options_may_not_set_keys_of_a_stateless_conversation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidOptions, match=f"may not set {name}$"):
        open_named("openai:gpt-6-luna", tmp_path, **{name: 1})
    open_named("openai:gpt-4o", tmp_path, **{name: 1})


@pytest.mark.parametrize("provider", ["anthropic", "google", "mistral", "offline"])
def test_provider_with_one_api_has_no_choice(provider: Provider, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedApi, match=f'^model "m": {provider} has no choice of an api$'):
        check_model(ModelSpec("m", provider, "x", api="chat"), folder=tmp_path)


def test_api_of_another_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedApi, match=r"openai has no api native, only responses, chat$"):
        check_model(ModelSpec("m", "openai", "x", api="native"), folder=tmp_path)


@pytest.mark.parametrize(
    ("api", "options", "ignored"),
    [
        # ollama#16814, ollama#2963
        ("chat", {"num_ctx": 1, "keep_alive": 0, "seed": 7}, "keep_alive, num_ctx"),
        ("responses", {"think": True}, "think"),
        (None, {"num_ctx": 1, "reasoning_effort": "low"}, "reasoning_effort"),
        ("native", {"max_tokens": 9, "top_p": 0.5}, "max_tokens"),
    ],
)
def test_options_that_ollama_would_ignore_are_refused(
    api: Api | None, options: dict[str, Any], ignored: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOptions, match=f'of model "m": Ollama ignores {ignored} by `api: '):
        check_model(ModelSpec("m", "ollama", "x", api=api, options=options), folder=tmp_path)


@pytest.mark.parametrize("base_url", ["http://gpu:1/v1", "http://gpu:1", "http://gpu:1/"])
@pytest.mark.parametrize("options", [{"num_ctx": 9}, {"keep_alive": "1h"}, {"options": {"num_gpu": 1}}])
def test_options_of_ollamas_own_api_select_it(options: dict[str, Any], base_url: str, tmp_path: Path) -> None:
    spec = ModelSpec("m", "ollama", "x", base_url=base_url, options=options)
    model = open_model(spec, folder=tmp_path, client=ModelClient(max_connections=1))
    assert isinstance(model, HttpModel)
    assert str(model.url) == "http://gpu:1/api/chat"


NONE = {"reasoning": {"effort": "none"}}


@pytest.mark.parametrize(
    ("model", "options", "accepted"),
    [
        # The guide "Using GPT-6.2" and OpenAI's model pages; pydantic-ai's profiles, 2026-07.
        *((model, {}, False) for model in ("o3", "gpt-5", "gpt-5-mini", "gpt-5.3-codex", "gpt-6-astra")),
        *((model, NONE, False) for model in ("gpt-6.1-sol", "gpt-6.2-astra", "gpt-5.4-pro")),
        *((model, {}, False) for model in ("gpt-5.5", "gpt-5.6-luna", "gpt-6-luna", "gpt-6.1-terra")),
        *((model, NONE, True) for model in ("gpt-5.5", "gpt-5.6-luna", "gpt-6-luna", "gpt-6.1-terra")),
        *((model, {}, True) for model in ("gpt-5.1", "gpt-5.4", "gpt-4o", "gpt-9-new")),
        ("gpt-5.4", {"reasoning_effort": "low"}, False),
        ("gpt-5.5", {"reasoning_effort": "none"}, True),
    ],
)
def test_sampling_that_the_family_refuses_is_refused_at_the_start(
    model: str, options: dict[str, Any], accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    spec = ModelSpec("m", "openai", model, temperature=0.5, options=options)
    elsewhere = attrs.evolve(spec, base_url="http://proxy.example/v1", api="responses")
    check_model(elsewhere, folder=tmp_path)
    if accepted:
        check_model(spec, folder=tmp_path)
    else:
        with pytest.raises(UnacceptedSetting, match=f'^model "m": temperature is .*{re.escape(model)}'):
            check_model(spec, folder=tmp_path)
