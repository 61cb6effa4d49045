"""Which models a node can name, and what a name comes to: pure, nothing is opened here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import attrs

Provider: TypeAlias = Literal[
    "anthropic",
    "google",
    "openai",
    "mistral",
    "openrouter",
    "ollama",
    "openai_compatible",
    "offline",
    "script",
]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)

_BY_PREFIX: Mapping[str, Provider] = {
    "openai-": "openai",
    "mistral-": "mistral",
    "ollama-": "ollama",
    "openrouter-": "openrouter",
}
"""Names of older files, without a colon; the prefix is not part of the provider's own name."""


@attrs.frozen
class Prices:
    """Dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None
    """Read from the provider's cache. Default: as `input`."""
    cache_write: float | None = None
    """Written to the provider's cache. Default: as `input`."""


@attrs.frozen
class ModelSpec:
    """One model with everything about it decided: what a model actor is made of."""

    name: str
    """What nodes, logs and errors call it."""
    provider: Provider
    model: str
    """The provider's own name for it; of a script, the file."""
    base_url: str | None = None
    """Default: the provider's environment variable, then its public address."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. Default: the provider's."""
    prices: Prices | None = None
    stream: bool = True
    timeout: float = 60.0
    """Seconds for one call, its retries included."""
    max_concurrency: int = 64
    max_tokens: int | None = None
    """Of one reply. Default: the provider's, or what its codec says."""
    temperature: float | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Merged into the body of every request as they are."""


class UnknownModel(ValueError):
    """The name fits no provider; the text says which there are."""


def parse_model(name: str) -> tuple[Provider, str]:
    """Provider and the provider's own name in `provider:name`, or in a bare name of older files.

    A bare `claude-...` is Anthropic's, a bare name with one of the prefixes its provider's, any other
    Gemini's.

    Raises:
        UnknownModel
    """
    provider, colon, model = name.partition(":")
    if colon:
        if provider not in PROVIDERS:
            raise UnknownModel(f'unknown provider "{provider}" in "{name}": there are {", ".join(PROVIDERS)}')
        if not model:
            raise UnknownModel(f'"{name}" names no model: expected {provider}:NAME')
        return provider, model
    if name.startswith("claude-"):
        return "anthropic", name
    for prefix, found in _BY_PREFIX.items():
        if name.startswith(prefix) and name != prefix:
            return found, name.removeprefix(prefix)
    return "google", name
