"""What a name of a model says, and everything there is to know about one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import attrs

from stopgo.config.shape import about

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
    """What a model costs, in US dollars for a million tokens."""

    input: float = attrs.field(metadata=about("Of input.", minimum=0))
    output: float = attrs.field(metadata=about("Of output, thinking included.", minimum=0))
    cached_input: float | None = attrs.field(
        default=None,
        metadata=about("Of input read from the provider's cache. Default: as `input`.", minimum=0),
    )
    cache_write: float | None = attrs.field(
        default=None,
        metadata=about("Of input written to the provider's cache. Default: as `input`.", minimum=0),
    )


@attrs.frozen
class ModelSpec:
    """One model with everything about it decided: what a model actor is made of."""

    name: str
    """What nodes, logs and errors call it."""
    provider: Provider
    model: str
    """The provider's own name for it; of a script, the file."""
    base_url: str | None = attrs.field(default=None, repr=False)
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
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
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
    if not name:
        raise UnknownModel("a model has a name")
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
