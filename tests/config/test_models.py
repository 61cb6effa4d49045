"""Models in an agent file: names, what they come to, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.models import (
    PROVIDERS,
    ModelSpec,
    Prices,
    UnknownModel,
    chain_of,
    parse_model,
    prices_of,
    reachable_models,
    resolve_model,
)
from stopgo.config.sections.nodes import LlmNode, ParallelNode
from stopgo.config.text.errors import ConfigError

from .conftest import Load, Problems, placed

FILE = """
llm:
  model: fast
  fallbacks: [careful, "ollama:qwen3"]
  timeout: 20
  temperature: 0.5
  options: {seed: 7, metadata: {user: "${WHO}", tags: [a, 1, null]}}
models:
  fast: {provider: openai, model: gpt-5-mini, prices: {input: 0.25, output: 2, cached_input: 0.025}}
  careful:
    provider: anthropic
    model: claude-opus-4-5
    fallbacks: []
    timeout: 50
    stream: false
    max_concurrency: 2
    max_tokens: 900
    temperature: 0
    options: {seed: 8}
    context: {max_input_tokens: 5000, strategy: trim}
  local: {provider: openai_compatible, model: m, base_url: "http://127.0.0.1:${PORT}/v1", api_key_env: MY_KEY}
agent:
  type: parallel
  name: all
  agents:
    - {type: llm, name: a}
    - {type: llm, name: b, model: careful}
    - {type: llm, name: c, model: "mistral:x", fallbacks: [local, local, "mistral:x"]}
    - {type: router, name: d, fallbacks: [careful], agents: [{type: llm, name: e, fallbacks: []}]}
"""


def resolve(config: AgentConfig, name: str) -> ModelSpec:
    return resolve_model(name, config.llm, config.models)


def chains(config: AgentConfig) -> dict[str, tuple[str, ...]]:
    assert isinstance(config.agent, ParallelNode)
    return {
        node.name: chain_of(node.model, node.fallbacks, config.llm, config.models)
        for node in config.agent.agents
        if node.name != "d" and isinstance(node, LlmNode)
    }


@pytest.fixture
def config(load: Load) -> AgentConfig:
    return load(FILE, {"WHO": "me", "PORT": "1234"})


def test_named_model_inherits_defaults(config: AgentConfig) -> None:
    options = {"seed": 7, "metadata": {"user": "me", "tags": ["a", 1, None]}}
    assert resolve(config, "fast") == ModelSpec(
        name="fast",
        provider="openai",
        model="gpt-5-mini",
        prices=Prices(input=0.25, output=2.0, cached_input=0.025),
        timeout=20.0,
        temperature=0.5,
        options=options,
    )
    assert resolve(config, "careful") == ModelSpec(
        name="careful",
        provider="anthropic",
        model="claude-opus-4-5",
        stream=False,
        timeout=50.0,
        max_concurrency=2,
        max_tokens=900,
        temperature=0.0,
        options={**options, "seed": 8},
    )
    local = resolve(config, "local")
    assert (local.base_url, local.api_key_env) == ("http://127.0.0.1:1234/v1", "MY_KEY")
    assert "127.0.0.1" not in repr(local)  # an address may hold a password
    assert config.models["careful"].context is not None
    assert config.models["careful"].context.strategy == "trim"


def test_other_names_are_providers_models(config: AgentConfig) -> None:
    found = resolve(config, "mistral:large")
    assert (found.name, found.provider, found.model) == ("mistral:large", "mistral", "large")
    assert (found.timeout, found.max_concurrency, found.prices) == (20.0, 64, None)
    with pytest.raises(UnknownModel, match='unknown provider "nobody"'):
        resolve(config, "nobody:x")


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        *((f"{provider}:a:b/c", provider, "a:b/c") for provider in PROVIDERS),
        ("claude-opus-4-5", "anthropic", "claude-opus-4-5"),
        ("openai-gpt-5", "openai", "gpt-5"),
        *((name, "openai", name) for name in ("gpt-4o", "gpt-5", "chatgpt-4o-latest", "o3", "o4-mini")),
        *((name, "google", name) for name in ("o", "o3mini", "gpt", "olmo-3", "omni-o3")),
        ("mistral-large-latest", "mistral", "large-latest"),
        ("ollama-qwen3", "ollama", "qwen3"),
        ("openrouter-x/y", "openrouter", "x/y"),
        ("gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("openai-", "google", "openai-"),
    ],
)
def test_provider_and_model_in_a_name(name: str, provider: str, model: str) -> None:
    assert parse_model(name) == (provider, model)


@pytest.mark.parametrize("name", ["", "nobody:x", "openai:", ":x"])
def test_a_name_of_nobody(name: str) -> None:
    with pytest.raises(UnknownModel):
        parse_model(name)


def test_fallbacks_are_the_nodes_the_models_or_the_default_ones(config: AgentConfig) -> None:
    assert chains(config) == {
        "a": ("fast", "careful", "ollama:qwen3"),
        "b": ("careful",),
        "c": ("mistral:x", "local"),
    }
    reached = dict.fromkeys(reachable_models(config.agent, config.llm, config.models))
    assert list(reached) == ["fast", "careful", "ollama:qwen3", "mistral:x", "local"]


def test_model_option_replaces_fallbacks_too(load: Load) -> None:
    config = load(FILE, {"WHO": "me", "PORT": "1234"}, model="openai:x")
    reached = set(reachable_models(config.agent, config.llm, config.models))
    assert reached == {"openai:x"}
    text = FILE.replace("fallbacks: []\n    timeout", "fallbacks: [local]\n    timeout")
    config = load(text, {"WHO": "me", "PORT": "1234"}, model="careful")
    assert set(reachable_models(config.agent, config.llm, config.models)) == {"careful", "local"}


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (
            "llm: {model: 'opnai:gpt-5'}",
            "unknown_model",
            '1:14: llm.model: there is no model "opnai:gpt-5" (did you mean "openai:gpt-5"?)',
        ),
        (
            "llm: {fallbacks: [gemini-2.5-pro, 'openai:']}",
            "unknown_model",
            '1:35: llm.fallbacks[1]: there is no model "openai:" (write openai:NAME)',
        ),
        ("llm: {fallbacks: ['']}", "empty_value", "1:19: llm.fallbacks[0]: must not be empty"),
        ("llm: {model: ''}", "empty_value", "1:14: llm.model: must not be empty"),
        (
            "llm: {model: '${SECRET:-offline:rules}:x'}",
            "unknown_model",
            '1:14: llm.model: there is no model "${SECRET:-offline:rules}:x" (providers: anthropic, google, '
            "openai, mistral, openrouter, ollama, openai_compatible, azure, vertex, bedrock, "
            "offline, script)",
        ),
        (
            "models:\n  m: {provider: google, model: x, fallbacks: ['xyz:y']}",
            "unknown_model",
            '2:47: models.m.fallbacks[0]: there is no model "xyz:y" (providers: anthropic, google, openai, '
            "mistral, openrouter, ollama, openai_compatible, azure, vertex, bedrock, "
            "offline, script)",
        ),
        (
            "agent:\n  {type: llm, name: a, fallbacks: ['nobody:${SECRET}']}",
            "unknown_model",
            '2:36: agent.fallbacks[0]: there is no model "nobody:${SECRET}" (providers: anthropic, google, '
            "openai, mistral, openrouter, ollama, openai_compatible, azure, vertex, bedrock, "
            "offline, script)",
        ),
        (
            "models:\n  openai:x: {provider: openai, model: x}",
            "bad_name",
            '2:3: models.openai:x: "openai:x" has a colon, so it means a provider and its model '
            "(choose a name without a colon)",
        ),
        (
            "models: {m: {provider: opnai, model: x}}",
            "unknown_word",
            "1:24: models.m.provider: expected anthropic, google, openai, mistral, openrouter, ollama, "
            "openai_compatible, azure, vertex, bedrock, offline or script, "
            'found "opnai" (did you mean "openai"?)',
        ),
        ("models: {m: {provider: openai}}", "missing_key", "1:13: models.m: model is required"),
        ("models: {m: {provider: openai, model: x, prices: {input: 1}}}", "missing_key", None),
        ("models: {m: {provider: openai, model: x, prices: {input: -1, output: 0}}}", "out_of_range", None),
        ("models: {m: {provider: openai, model: x, base_url: localhost}}", "bad_format", None),
        ("models: {m: {provider: openai, model: x, api_key_env: sk-1}}", "bad_format", None),
        ("context: {strategy: trim}", "missing_key", "1:10: context: max_input_tokens is required"),
        ("llm: {options: {a: '${NOWHERE}'}}", "variable_unset", None),
        (
            "llm: {model: 'openai:x', fallbacks: [offline:rules, y]}\nlimits: {max_cost_usd: 1}",
            "prices_missing",
            '2:24: limits.max_cost_usd: there are no prices for "openai:x", "y" (name the model under '
            "`models` and give its prices)",
        ),
        (
            "llm: {model: 'openai:x'}\nlimits: {conversation: {max_cost_usd: 1}}",
            "prices_missing",
            '2:39: limits.conversation.max_cost_usd: there are no prices for "openai:x" (name the model '
            "under `models` and give its prices)",
        ),
    ],
)
def test_mistake_is_reported(problems: Problems, text: str, code: str, expected: str | None) -> None:
    found = problems(text, {"SECRET": "sk-123"})
    assert [problem.code for problem in found] == [code]
    assert "sk-1" not in str(found[0])
    assert expected is None or placed(found[0]) == expected


def test_wrong_default_is_reported_once(problems: Problems) -> None:
    tree = "agent: {type: parallel, name: p, agents: [{type: llm, name: a}, {type: llm, name: b}]}"
    assert len(problems(f"llm: {{model: 'no:x'}}\n{tree}")) == 1


def test_limits_in_dollars_need_prices(load: Load) -> None:
    priced = "models: {m: {provider: openai, model: x, prices: {input: 1, output: 2}}}"
    config = load(f"llm: {{model: m, fallbacks: [offline:rules]}}\n{priced}\nlimits: {{max_cost_usd: 0.5}}")
    assert config.limits.max_cost_usd == 0.5
    assert prices_of("m", config.models) == Prices(input=1, output=2)
    assert prices_of("script:x", config.models) == Prices(input=0, output=0)
    assert prices_of("openai:x", config.models) is None
    assert prices_of("mine:x", config.models) is None


def test_a_program_may_have_providers_of_its_own(tmp_path: Any) -> None:
    from stopgo.config.load import load_config

    path = tmp_path / "agent.yaml"
    path.write_text("llm: {model: 'mine:x', fallbacks: ['mine:y']}")
    assert load_config(path, environ={}, own_providers={"mine"}).llm.model == "mine:x"


def test_a_name_that_is_nearly_one_of_the_file_is_warned_of(load: Load) -> None:
    models = "models: {fast: {provider: openai, model: x}, gemini-pro: {provider: google, model: x}}"
    assert load(f"llm: {{model: fsat, fallbacks: [gemini-pr, claude-fast]}}\n{models}").warnings == (
        'llm.model: "fsat" counts as a model of Google (did you mean "fast"?)',
    )


def test_unlikely_google_model_is_warned_of(load: Load) -> None:
    assert load(
        "llm: {model: grok-3, fallbacks: [gemma-3, gpt-5, 'openrouter:x', '${X:-x}', offline]}"
    ).warnings == (
        'llm.model: "grok-3" counts as a model of Google (write "google:grok-3" if it is one)',
        'llm.fallbacks[4]: "offline" counts as a model of Google (write offline:NAME)',
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("", "--model: must not be empty"),
        ("opnai:x", '--model: there is no model "opnai:x" (did you mean "openai:x"?)'),
    ],
)
def test_wrong_model_option_is_not_reported_in_the_file(load: Load, model: str, said: str) -> None:
    file = "agent: {type: sequential, name: a, agents: [{type: llm, name: b}, {type: llm, name: c}]}\nprot: 1"
    with pytest.raises(ConfigError) as caught:
        load(file, model=model)
    blamed = [str(problem) for problem in caught.value.problems]
    assert blamed[0] == said
    assert [line.partition(":")[0] for line in blamed].count("--model") == len(blamed) - 1
    assert "unknown key" in blamed[-1]


@pytest.mark.parametrize(
    ("model", "seconds"),
    [
        ("openai:gpt-6-luna", 600.0),
        ("o3", 600.0),
        ("openai:gpt-4o", 60.0),
        ("claude-opus-4-5", 60.0),
        ("chosen", 600.0),
        ("quick", 5.0),
    ],
)
def test_models_that_reason_have_more_time(load: Load, model: str, seconds: float) -> None:
    # The guide "Reasoning models": such a model may send nothing for minutes.
    config = load(
        "models:\n"
        "  chosen: {provider: openai_compatible, model: m, api: responses, base_url: 'http://h/v1'}\n"
        "  quick: {provider: openai, model: gpt-6-luna, timeout: 5}\n"
    )
    assert resolve(config, model).timeout == seconds
    assert resolve(load("llm: {timeout: 7}"), "o3").timeout == 7.0


def test_unknown_api_is_reported(problems: Problems) -> None:
    (problem,) = problems("models: {m: {provider: openai, model: x, api: response}}")
    assert placed(problem) == (
        '1:47: models.m.api: expected responses, chat or native, found "response" (did you mean "responses"?)'
    )
