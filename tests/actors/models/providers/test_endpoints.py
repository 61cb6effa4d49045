from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.models.providers.endpoints import (
    Endpoint,
    InvalidApiKey,
    InvalidBaseUrl,
    MissingApiKey,
    MissingBaseUrl,
    api_of,
    endpoint,
)
from stopgo.config.sections.models import Api, ModelSpec, Provider

PUBLIC: dict[Provider, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC", "https://api.anthropic.com"),
    "google": ("GEMINI", "https://generativelanguage.googleapis.com"),
    "openai": ("OPENAI", "https://api.openai.com/v1"),
    "mistral": ("MISTRAL", "https://api.mistral.ai/v1"),
    "openrouter": ("OPENROUTER", "https://openrouter.ai/api/v1"),
}


def spec(provider: Provider, **more: Any) -> ModelSpec:
    return ModelSpec(f"{provider}:m", provider, "m", **more)


@pytest.mark.parametrize("provider", PUBLIC)
def test_key_and_address_of_a_public_provider(provider: Provider) -> None:
    prefix, url = PUBLIC[provider]
    key = {f"{prefix}_API_KEY": " sk-1\n"}
    assert endpoint(spec(provider), key) == Endpoint(url, "sk-1")
    moved = {**key, f"{prefix}_BASE_URL": "http://localhost:1/x/"}
    assert endpoint(spec(provider), moved) == Endpoint("http://localhost:1/x", "sk-1")
    assert endpoint(spec(provider, base_url="http://yaml"), moved) == Endpoint("http://yaml", "sk-1")


@pytest.mark.parametrize("provider", PUBLIC)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_named(provider: Provider, value: str | None) -> None:
    name = f"{PUBLIC[provider][0]}_API_KEY"
    with pytest.raises(MissingApiKey) as missing:
        endpoint(spec(provider), {} if value is None else {name: value})
    assert missing.value.code == "missing_api_key"
    assert str(missing.value) == (
        f'model "{provider}:m" needs an API key: set the environment variable {name}'
    )


def test_name_without_provider_means_google() -> None:
    with pytest.raises(
        MissingApiKey, match=r'"rules" needs .* GEMINI_API_KEY \(it names no provider, so it is'
    ):
        endpoint(ModelSpec("rules", "google", "rules"), {})
    with pytest.raises(MissingApiKey, match=r"ANTHROPIC_API_KEY$"):
        endpoint(ModelSpec("claude-x", "anthropic", "claude-x"), {})


def test_a_key_of_another_name() -> None:
    environ = {"MINE": "sk-2", "OPENAI_API_KEY": "sk-1"}
    assert endpoint(spec("openai", api_key_env="MINE"), environ).key == "sk-2"
    with pytest.raises(MissingApiKey, match="OTHER"):
        endpoint(spec("ollama", api_key_env="OTHER"), environ)


@pytest.mark.parametrize("header", ["Authorization", "api-key", "X-Api-Key", "x-goog-api-key"])
def test_header_with_a_credential_takes_the_place_of_the_key(header: str) -> None:
    assert endpoint(spec("openai", headers={header: "x"}), {}).key is None
    with pytest.raises(MissingApiKey):
        endpoint(spec("openai", headers={"X-Team": "x"}), {})
    with pytest.raises(MissingApiKey):  # the SDK needs one
        endpoint(spec("anthropic", headers={header: "x"}), {})


def test_ollama_needs_no_key() -> None:
    assert endpoint(spec("ollama"), {}) == Endpoint("http://localhost:11434/v1", None)
    moved = {"OLLAMA_BASE_URL": "http://gpu:1/v1"}
    assert endpoint(spec("ollama"), moved) == Endpoint("http://gpu:1/v1", None)


def test_compatible_server_needs_base_url_but_no_key() -> None:
    compatible = spec("openai_compatible", base_url="http://gpu:8000/v1")
    assert endpoint(compatible, {"OPENAI_API_KEY": "sk-1"}) == Endpoint("http://gpu:8000/v1", None)
    with pytest.raises(MissingBaseUrl, match=r'^model "openai_compatible:m" needs a base_url'):
        endpoint(spec("openai_compatible"), {"OPENAI_BASE_URL": "http://other"})


@pytest.mark.parametrize("key", ["sk 1", "sk-é", "sk-1\nx", "sk\x00"])
def test_invalid_key_is_not_shown(key: str) -> None:
    with pytest.raises(InvalidApiKey) as invalid:
        endpoint(spec("openai"), {"OPENAI_API_KEY": key})
    assert key not in str(invalid.value)
    assert "OPENAI_API_KEY" in str(invalid.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:1",
        "ftp://x",
        "http://",
        "http:// x",
        "http://x?a=b",
        "http://x#y",
        "http://x:port",
        "http://☃",
    ],
)
def test_invalid_addresses_are_refused(url: str) -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": url}
    with pytest.raises(InvalidBaseUrl, match="the environment variable OPENAI_BASE_URL"):
        endpoint(spec("openai"), environ)
    with pytest.raises(InvalidBaseUrl, match=r"^base_url of model"):
        endpoint(spec("openai", base_url=url), {"OPENAI_API_KEY": "sk-1"})


def test_neither_key_nor_address_is_shown() -> None:
    assert repr(Endpoint("http://user:pass@x", "sk-1")) == "Endpoint(logs_in=False)"


OWN = "https://api.openai.com/v1"
ELSEWHERE = "https://proxy.example/v1"


@pytest.mark.parametrize(
    ("provider", "model", "url", "more", "api"),
    [
        # "Deployment checklist": these refuse tools by chat completions, or forget their reasoning there.
        *(
            ("openai", model, OWN, {}, "responses")
            for model in (
                "o3",
                "gpt-5",
                "gpt-5.1-chat",
                "gpt-5.3-codex",
                "gpt-6-astra",
                "gpt-6.2-sol",
                "gpt-41",
            )
        ),
        ("openai", "gpt-6-luna", "https://eu.api.openai.com/v1", {}, "responses"),
        *(
            ("openai", model, OWN, {}, "chat")
            for model in (
                "gpt-3.5-turbo",
                "gpt-4-0613",
                "gpt-4-turbo",
                "gpt-4o",
                "gpt-4o-mini",
                "gpt-4.1-nano",
                "gpt-5-chat-latest",
                "ft:gpt-4o-mini:org::id",
                "chatgpt-4o-latest",
            )
        ),
        ("openai", "gpt-6-luna", ELSEWHERE, {}, "chat"),
        ("openai", "gpt-6-luna", "https://api.openai.com.evil.example/v1", {}, "chat"),
        ("openai", "gpt-6-luna", ELSEWHERE, {"api": "responses"}, "responses"),
        ("openai", "gpt-6-luna", OWN, {"api": "chat"}, "chat"),
        ("openai", "gpt-6-luna", OWN, {"options": {"reasoning_effort": "low"}}, "responses"),
        ("openai", "gpt-6-luna", OWN, {"options": {"seed": 7}}, "chat"),
        ("openai_compatible", "gpt-6-luna", OWN, {}, "chat"),
        ("openrouter", "openai/gpt-6-luna", ELSEWHERE, {}, "chat"),
    ],
)
def test_api_by_default(provider: Provider, model: str, url: str, more: Any, api: Api) -> None:
    assert api_of(ModelSpec("m", provider, model, **more), url) == api
