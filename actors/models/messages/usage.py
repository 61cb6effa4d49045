"""Tokens of model calls and their cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from ....config.sections.agent_config import UsageLimits
from ....config.sections.models import Prices
from ...common.stored_json import converter
from .messages import Usage

_PER = 1_000_000
"""Tokens that a price is for."""
_DIGITS = 9
"""Decimal places of dollars. A token costs at least some billionths of a dollar."""


@attrs.frozen
class StepUsage:
    """The usage of one model call, as events record it."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    """None: the cost is unknown, or there is none."""


class Spent(NamedTuple):
    """The usage of several model calls: those of a step, a run or a conversation."""

    input_tokens: int = 0
    """Tokens sent, cached ones included, as the provider counts them."""
    output_tokens: int = 0
    """Tokens generated, thinking included."""
    cached_tokens: int = 0
    """Input tokens read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens written to the provider's cache."""
    cost_usd: float | None = None
    """US dollars of the calls with a known cost; None: there are no such calls."""
    unpriced: bool = False
    """Whether the cost of a call is unknown."""

    def plus(self, usage: StepUsage) -> Spent:
        """The sum with one more call."""
        cost = usage.cost_usd
        tokens = usage.input_tokens + usage.output_tokens
        return Spent(
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
            self.cached_tokens + usage.cached_tokens,
            self.cache_write_tokens + usage.cache_write_tokens,
            self.cost_usd if cost is None else round((self.cost_usd or 0.0) + cost, _DIGITS),
            self.unpriced or (cost is None and tokens > 0),
        )

    @property
    def usage(self) -> StepUsage:
        """The sum as the usage of one call, for events."""
        return StepUsage(**self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The JSON form: with the cost if that of all calls is known, with cached tokens if there are any."""
        said: dict[str, Any] = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        if self.cached_tokens:
            said["cached_tokens"] = self.cached_tokens
        if self.cache_write_tokens:
            said["cache_write_tokens"] = self.cache_write_tokens
        if self.cost_usd is not None and not self.unpriced:
            said["cost_usd"] = self.cost_usd
        return said


NOTHING = Spent()
converter.register_structure_hook(Spent, lambda used, _: Spent(*used))


def spent_by(usage: Usage, prices: Prices | None) -> Spent:
    """The usage of one call of a model. `prices`: None if they are unknown."""
    tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
    if not any(tokens):
        return NOTHING
    return Spent(*tokens, None if prices is None else _cost(usage, prices), prices is None)


def reached(used: Spent, limits: UsageLimits) -> tuple[str, str] | None:
    """The first limit that is reached: the usage in words, and the limit's key with its value."""
    tokens = limits.max_input_tokens
    if tokens is not None and used.input_tokens >= tokens:
        return f"{used.input_tokens} input tokens", f"max_input_tokens: {tokens}"
    tokens = limits.max_output_tokens
    if tokens is not None and used.output_tokens >= tokens:
        return f"{used.output_tokens} output tokens", f"max_output_tokens: {tokens}"
    dollars, cost = limits.max_cost_usd, used.cost_usd or 0.0
    if dollars is not None and cost >= dollars:
        return f"{cost:.6g} US dollars", f"max_cost_usd: {dollars:.6g}"
    return None


def _cost(usage: Usage, prices: Prices) -> float:
    cached = prices.input if prices.cached_input is None else prices.cached_input
    written = prices.input if prices.cache_write is None else prices.cache_write
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    dollars = (
        fresh * prices.input
        + usage.cached_tokens * cached
        + usage.cache_write_tokens * written
        + usage.output_tokens * prices.output
    )
    return round(dollars / _PER, _DIGITS)


def stored(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Spent]:
    """Split a stored record into the rest and its usage. Records of old versions have two counts in place of
    `used`."""
    rest = dict(body)
    counts = (rest.pop("input_tokens", 0), rest.pop("output_tokens", 0))
    used = rest.pop("used", None)
    return rest, Spent(*(counts if used is None else used))
