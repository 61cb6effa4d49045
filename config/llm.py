"""What an agent file says about models: the defaults of all, and models with names of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from stopgo.config.models import Prices, Provider
from stopgo.config.shape import SOME_TEXT, about

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
