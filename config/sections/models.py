"""The models of an agent file: names, settings, and the model that each name resolves to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import attrs

from ..described.shape import SOME_TEXT, about, default
from .address import HEADERS
from .nodes import LlmNode, Node, RouterNode, children_of

Provider: TypeAlias = Literal[
    "anthropic",
    "google",
    "openai",
    "mistral",
    "openrouter",
    "ollama",
    "openai_compatible",
    "azure",
    "vertex",
    "bedrock",
    "offline",
    "script",
]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)

Api: TypeAlias = Literal["responses", "chat", "native"]
"""The two APIs of OpenAI, and Ollama's own."""

_BY_PREFIX: Mapping[str, Provider] = {
    "openai-": "openai",
    "mistral-": "mistral",
    "ollama-": "ollama",
    "openrouter-": "openrouter",
}
"""Prefixes of names without a colon, from older files. The provider's own name does not have the prefix."""
_BY_FAMILY: Mapping[str, Provider] = {
    r"claude-.*": "anthropic",
    r"(gpt|chatgpt)-.*|o[0-9]+(-.*)?": "openai",
}
"""Patterns of names that only one provider uses."""

_WITHOUT_REASONING = re.compile(r"(ft:)?(gpt-(3\.5|4|4o|4\.1|4\.5|5-chat)|chatgpt-4o)(?![.0-9a-z]).*")
"""OpenAI's models that do not reason: "gpt-4-turbo", "ft:gpt-4o-mini:org::id", "chatgpt-4o-latest".

Source: OpenAI's model pages and the guide "Reasoning models", read on 2026-11-28."""
USUAL_TIMEOUT = 60.0
"""Seconds for one call of a model, including its retries."""
_TIMEOUT_WITH_REASONING = 600.0
"""The same for a model that reasons: it may send nothing for minutes before its answer begins."""


def is_claude(model: str) -> bool:
    """Whether a model of a cloud, by the cloud's name for it, is one of Anthropic."""
    return "claude" in model.lower()


def reasons(model: str) -> bool:
    """Whether a model of OpenAI, by its own name, reasons before it answers."""
    return _WITHOUT_REASONING.fullmatch(model) is None


@attrs.frozen
class Prices:
    """Prices of a model, in US dollars per million tokens."""

    input: float = attrs.field(metadata=about("Price of input.", minimum=0))
    output: float = attrs.field(metadata=about("Price of output, including thinking.", minimum=0))
    cached_input: float | None = default(
        None, "Price of input read from the provider's cache. Default: `input`.", minimum=0
    )
    cache_write: float | None = default(
        None, "Price of input written to the provider's cache. Default: `input`.", minimum=0
    )


@attrs.frozen
class ModelSpec:
    """One model with all settings resolved, from which a model actor is made."""

    name: str
    """The name in nodes, logs and errors."""
    provider: Provider
    model: str
    """The provider's own name for the model; the file of a script."""
    api: Api | None = None
    """Default: `endpoints.api_of`."""
    base_url: str | None = attrs.field(default=None, repr=False)
    """Default: the provider's environment variable, then its public address."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. Default: the provider's."""
    api_key: str | None = attrs.field(default=None, repr=False)
    """The key itself, from a reference to a file."""
    prices: Prices | None = None
    stream: bool = True
    timeout: float = USUAL_TIMEOUT
    """Seconds for one call, including its retries."""
    max_concurrency: int = 64
    max_tokens: int | None = None
    """Maximum of one reply. Default: that of the provider or of its codec."""
    temperature: float | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """Merged into the body of every request, unchanged."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Headers of every request, which replace those of the client."""
    query: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Parameters of the address of every request."""


class UnknownModel(ValueError):
    """The name matches no provider; the text lists the providers."""


def parse_model(name: str) -> tuple[Provider, str]:
    """Provider and the provider's own name, from `provider:name` or from a bare name.

    Bare names come from older files: `claude-...` is a model of Anthropic, `gpt-4o` and `o3` are models of
    OpenAI, a name with one of the prefixes belongs to that provider, and every other name to Google.

    Raises:
        UnknownModel
    """
    if not name:
        raise UnknownModel("the name of the model is empty")
    provider, colon, model = name.partition(":")
    if colon:
        if provider not in PROVIDERS:
            raise UnknownModel(
                f'unknown provider "{provider}" in "{name}"; providers: {", ".join(PROVIDERS)}'
            )
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
_STREAM = "Whether to request replies as a stream, so that clients can follow them."
_TIMEOUT = "Seconds a call may take, including its retries."
_MAX_CONCURRENCY = "Maximum number of concurrent calls; further calls wait in order of arrival."
_MAX_TOKENS = "Maximum number of tokens of one reply."
_TEMPERATURE = "Sampling temperature."
_OPTIONS = "Members to add to the body of every request, unchanged."
_FALLBACKS = "Models to try in order when the model fails"


@attrs.frozen
class LlmConfig:
    """The model of nodes that name none, and the default settings of all models."""

    model: str = default(
        "google:gemini-2.5-flash",
        "The model as `provider:name`, for instance `offline:rules`, or a name from `models`.",
        not_empty=True,
    )
    fallbacks: tuple[str, ...] = default((), f"{_FALLBACKS}.", empty="nothing", items=SOME_TEXT)
    stream: bool = default(True, _STREAM)
    timeout: float | None = default(
        None,
        f"{_TIMEOUT} Default: {_TIMEOUT_WITH_REASONING:g} for the models of `openai` that reason, for "
        f"`azure` and for `api: responses`, {USUAL_TIMEOUT:g} for all others.",
        above=0,
        maximum=_DAY,
    )
    max_concurrency: int = default(64, _MAX_CONCURRENCY, minimum=1, maximum=10_000)
    max_tokens: int | None = default(None, f"{_MAX_TOKENS} Default: the provider's limit.", minimum=1)
    temperature: float | None = default(
        None, f"{_TEMPERATURE} Default: the provider's.", minimum=0, maximum=2
    )
    options: Mapping[str, Any] = default(attrs.Factory(dict), _OPTIONS, empty="nothing", repr=False)


@attrs.frozen(kw_only=True)
class ContextConfig:
    """How much of a conversation is sent to a model."""

    max_input_tokens: int = attrs.field(
        metadata=about("Maximum number of tokens of one request, by a cautious estimate.", minimum=1)
    )
    strategy: Literal["refuse", "trim"] = default(
        "refuse",
        "If a request is larger: `refuse`, its node fails; `trim`, the oldest tool results are left "
        "out, then the oldest turns.",
    )


@attrs.frozen(kw_only=True)
class ModelConfig:
    """A model with a name of your choice. Omitted settings come from `llm`."""

    provider: Provider = attrs.field(metadata=about("The provider."))
    model: str = attrs.field(metadata=about("The provider's own name for the model.", not_empty=True))
    api: Api | None = default(
        None,
        "API of a server of OpenAI's kind: `responses` is `BASE_URL/responses`, `chat` is "
        "`BASE_URL/chat/completions`; `native` is that of Ollama. Default: `responses` for the models of "
        "`openai` that reason, at OpenAI's own address, and for `azure` without an `api-version`; "
        "`native` if `options` need it, for instance for `num_ctx`; else `chat`.",
    )
    base_url: str | None = default(
        None,
        "Address of the provider. Default: the provider's environment variable, then its public address.",
        pattern=r"https?://[^/\s]+\S*",
        meaning="an http:// or https:// address",
        repr=False,
    )
    api_key_env: str | None = default(
        None,
        "Name of the environment variable that holds the key. Default: the provider's.",
        pattern="[A-Za-z_][A-Za-z0-9_]*",
        meaning="the name of an environment variable",
    )
    api_key: str | None = default(
        None,
        "The key, for instance `${file:/run/secrets/model_key}`. Default: that of `api_key_env`.",
        pattern="[!-~]+",
        meaning="an API key",
        repr=False,
    )
    prices: Prices | None = default(
        None, "Prices of the model. Default: unknown; `offline` and `script` are free."
    )
    fallbacks: tuple[str, ...] | None = default(
        None, f"{_FALLBACKS}; `[]`: none. Default: `llm.fallbacks`.", empty="none", items=SOME_TEXT
    )
    stream: bool | None = default(None, _STREAM)
    timeout: float | None = default(None, _TIMEOUT, above=0, maximum=_DAY)
    max_concurrency: int | None = default(None, _MAX_CONCURRENCY, minimum=1, maximum=10_000)
    max_tokens: int | None = default(None, _MAX_TOKENS, minimum=1)
    temperature: float | None = default(None, _TEMPERATURE, minimum=0, maximum=2)
    options: Mapping[str, Any] = default(
        attrs.Factory(dict),
        f"{_OPTIONS} They are added to those of `llm` and override them.",
        empty="nothing",
        repr=False,
    )
    headers: Mapping[str, str] = default(
        attrs.Factory(dict),
        "Headers of every request, for instance of a gateway; write keys as `${VAR}`. They replace those "
        "that the agent would send. A model with an `Authorization`, `api-key`, `x-api-key` or "
        "`x-goog-api-key` here needs no other key, except Claude.",
        empty="nothing",
        **HEADERS,
        repr=False,
    )
    query: Mapping[str, str] = default(
        attrs.Factory(dict),
        "Parameters of the address of every request, for instance `api-version`.",
        empty="nothing",
        repr=False,
    )
    context: ContextConfig | None = default(
        None, "How much is sent to the model. Default: the top-level `context`."
    )
    images: bool = default(
        True,
        "Whether the model is shown the pictures in messages and in results of tools. With `false`, it "
        "gets a line of text in place of each.",
    )


# ----------------------------------------------------------------- names to models

T = TypeVar("T")

FREE = Prices(input=0.0, output=0.0)
"""Of `offline` and `script` models."""

Models: TypeAlias = Mapping[str, ModelConfig]
"""The named models of an agent file."""


def resolve_model(name: str, llm: LlmConfig, models: Models) -> ModelSpec:
    """The model of this name with its own settings and, where it has none, those of `llm`.

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
        api=named.api,
        base_url=named.base_url,
        api_key_env=named.api_key_env,
        api_key=named.api_key,
        prices=prices_of(name, models),
        stream=_or(named.stream, llm.stream),
        timeout=_or(_or(named.timeout, llm.timeout), _usual_timeout(named)),
        max_concurrency=_or(named.max_concurrency, llm.max_concurrency),
        max_tokens=_or(named.max_tokens, llm.max_tokens),
        temperature=_or(named.temperature, llm.temperature),
        options={**llm.options, **named.options},
        headers=named.headers,
        query=named.query,
    )


def _usual_timeout(model: ModelConfig) -> float:
    slow = (
        model.api == "responses"
        or model.provider == "azure"  # where the name says nothing about the model
        or (model.provider == "openai" and reasons(model.model))
    )
    return _TIMEOUT_WITH_REASONING if slow else USUAL_TIMEOUT


def prices_of(name: str, models: Models) -> Prices | None:
    """The prices of the model of this name; None if they are unknown."""
    named = models.get(name)
    if named is not None and named.prices is not None:
        return named.prices
    try:
        provider = parse_model(name)[0] if named is None else named.provider
    except UnknownModel:
        return None
    return FREE if provider in ("offline", "script") else None


def chain_of(model: str, fallbacks: Sequence[str] | None, llm: LlmConfig, models: Models) -> tuple[str, ...]:
    """The models that a node asks, in order and each once: its own, then the fallbacks.

    Fallbacks of fallbacks do not count.
    """
    named = models.get(model)
    if fallbacks is None:
        fallbacks = llm.fallbacks if named is None or named.fallbacks is None else named.fallbacks
    return tuple(dict.fromkeys((model, *fallbacks)))


def reachable_models(node: Node, llm: LlmConfig, models: Models) -> Iterator[str]:
    """The names of all models that a node and the nodes below it can ask, with repetitions."""
    if isinstance(node, LlmNode | RouterNode) and node.model is not None:
        yield from chain_of(node.model, node.fallbacks, llm, models)
    for child in children_of(node):
        yield from reachable_models(child, llm, models)


def _or(own: T | None, default: T) -> T:
    return default if own is None else own
