"""What the names of models in an agent file come to: pure, nothing is opened here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from stopgo.config.llm import LlmConfig, ModelConfig
from stopgo.config.models import ModelSpec, Prices, UnknownModel, parse_model
from stopgo.config.nodes import LlmNode, Node, RouterNode, children_of

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
