"""The models of an agent file: their names, their settings, and what each name resolves to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import attrs

from .nodes import LlmNode, Node, RouterNode, children_of
from .shape import SOME_TEXT, about

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
_BY_FAMILY: Mapping[str, Provider] = {
    r"claude-.*": "anthropic",
    r"(gpt|chatgpt)-.*|o[0-9]+(-.*)?": "openai",
}
"""Names that only this provider gives to its models, as patterns."""


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

    A bare `claude-...` is Anthropic's, `gpt-4o` and `o3` are OpenAI's, a bare name with one of the prefixes
    is its provider's, any other Gemini's.

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
    for pattern, family in _BY_FAMILY.items():
        if re.fullmatch(pattern, name):
            return family, name
    for prefix, found in _BY_PREFIX.items():
        if name.startswith(prefix) and name != prefix:
            return found, name.removeprefix(prefix)
    return "google", name


# ----------------------------------------------------------------- settings in the file

_DAY = 86_400.0
_STREAM = "Whether replies are asked for in pieces, so that they can be followed as they come."
_TIMEOUT = "Seconds a call may take, its retries included."
_MAX_CONCURRENCY = "Calls the model gets at the same time; the others wait, first come, first served."
_MAX_TOKENS = "Tokens of one reply."
_TEMPERATURE = "How much chance there is in a reply."
_OPTIONS = "Put into the body of every request as they are."


@attrs.frozen
class LlmConfig:
    """The model of every node that names none, and the defaults of all models."""

    model: str = attrs.field(
        default="google:gemini-2.5-flash",
        metadata=about(
            "The model as `provider:name`, for instance `offline:rules`, or a name out of `models`.",
            not_empty=True,
        ),
    )
    fallbacks: tuple[str, ...] = attrs.field(
        default=(),
        metadata=about("Models that are asked in its place, in order, when it fails.", items=SOME_TEXT),
    )
    stream: bool = attrs.field(default=True, metadata=about(_STREAM))
    timeout: float = attrs.field(default=60.0, metadata=about(_TIMEOUT, above=0, maximum=_DAY))
    max_concurrency: int = attrs.field(
        default=64, metadata=about(_MAX_CONCURRENCY, minimum=1, maximum=10_000)
    )
    max_tokens: int | None = attrs.field(
        default=None, metadata=about(f"{_MAX_TOKENS} Default: what the provider allows.", minimum=1)
    )
    temperature: float | None = attrs.field(
        default=None,
        metadata=about(f"{_TEMPERATURE} Default: the provider's.", minimum=0, maximum=2),
    )
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False, metadata=about(_OPTIONS))


@attrs.frozen(kw_only=True)
class ContextConfig:
    """How much of a conversation a model is sent."""

    max_input_tokens: int = attrs.field(
        metadata=about("Tokens of one request at most, by a cautious estimate.", minimum=1)
    )
    strategy: Literal["refuse", "trim"] = attrs.field(
        default="refuse",
        metadata=about(
            "What a request does that is larger: `refuse`, its node fails; `trim`, the oldest tool results "
            "are left out, then the oldest turns."
        ),
    )


@attrs.frozen(kw_only=True)
class ModelConfig:
    """A model with a name of its own; what it leaves out is as `llm` says."""

    provider: Provider = attrs.field(metadata=about("Who provides it."))
    model: str = attrs.field(metadata=about("The provider's own name for it.", not_empty=True))
    base_url: str | None = attrs.field(
        default=None,
        repr=False,
        metadata=about(
            "Address of the provider. Default: the provider's environment variable, then its public address.",
            pattern=r"https?://[^/\s]+\S*",
            meaning="an http:// or https:// address",
        ),
    )
    api_key_env: str | None = attrs.field(
        default=None,
        metadata=about(
            "Name of the environment variable that holds the key. Default: the provider's.",
            pattern="[A-Za-z_][A-Za-z0-9_]*",
            meaning="the name of an environment variable",
        ),
    )
    prices: Prices | None = attrs.field(
        default=None, metadata=about("What it costs. Default: unknown; `offline` and `script` cost nothing.")
    )
    fallbacks: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about(
            "Models that are asked in its place, in order, when it fails; `[]`: none. Default: "
            "`llm.fallbacks`.",
            items=SOME_TEXT,
        ),
    )
    stream: bool | None = attrs.field(default=None, metadata=about(_STREAM))
    timeout: float | None = attrs.field(default=None, metadata=about(_TIMEOUT, above=0, maximum=_DAY))
    max_concurrency: int | None = attrs.field(
        default=None, metadata=about(_MAX_CONCURRENCY, minimum=1, maximum=10_000)
    )
    max_tokens: int | None = attrs.field(default=None, metadata=about(_MAX_TOKENS, minimum=1))
    temperature: float | None = attrs.field(default=None, metadata=about(_TEMPERATURE, minimum=0, maximum=2))
    options: Mapping[str, Any] = attrs.field(
        factory=dict, repr=False, metadata=about(f"{_OPTIONS} They come on top of those of `llm`.")
    )
    context: ContextConfig | None = attrs.field(
        default=None, metadata=about("How much it is sent. Default: as the top-level `context` says.")
    )


# ----------------------------------------------------------------- what a name resolves to

T = TypeVar("T")

FREE = Prices(input=0.0, output=0.0)
"""Of models that nobody bills."""

Models: TypeAlias = Mapping[str, ModelConfig]
"""The models of an agent file that have names of their own."""


def resolve_model(name: str, llm: LlmConfig, models: Models) -> ModelSpec:
    """Everything about the model of this name: what it says itself, else what `llm` says.

    Raises:
        UnknownModel
    """
    named = models.get(name)
    if named is None:
        provider, model = parse_model(name)
        named = ModelConfig(provider=provider, model=model)
    return ModelSpec(
        name=name,
        provider=named.provider,
        model=named.model,
        base_url=named.base_url,
        api_key_env=named.api_key_env,
        prices=prices_of(name, models),
        stream=_or(named.stream, llm.stream),
        timeout=_or(named.timeout, llm.timeout),
        max_concurrency=_or(named.max_concurrency, llm.max_concurrency),
        max_tokens=_or(named.max_tokens, llm.max_tokens),
        temperature=_or(named.temperature, llm.temperature),
        options={**llm.options, **named.options},
    )


def prices_of(name: str, models: Models) -> Prices | None:
    """What the model of this name costs; None when nobody says."""
    named = models.get(name)
    if named is not None and named.prices is not None:
        return named.prices
    try:
        provider = parse_model(name)[0] if named is None else named.provider
    except UnknownModel:
        return None
    return FREE if provider in ("offline", "script") else None


def chain_of(model: str, fallbacks: Sequence[str] | None, llm: LlmConfig, models: Models) -> tuple[str, ...]:
    """The models a node asks, in order: its own and those asked in its place. None stands there twice, and
    what a fallback has for fallbacks does not count.
    """
    named = models.get(model)
    if fallbacks is None:
        fallbacks = llm.fallbacks if named is None or named.fallbacks is None else named.fallbacks
    return tuple(dict.fromkeys((model, *fallbacks)))


def reachable_models(node: Node, llm: LlmConfig, models: Models) -> Iterator[str]:
    """The names of all models that a node and those below it can ask, some more than once."""
    if isinstance(node, LlmNode | RouterNode) and node.model is not None:
        yield from chain_of(node.model, node.fallbacks, llm, models)
    for child in children_of(node):
        yield from reachable_models(child, llm, models)


def _or(own: T | None, default: T) -> T:
    return default if own is None else own
