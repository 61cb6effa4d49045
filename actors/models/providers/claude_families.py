"""The settings that the families of Claude models accept, as data and rules. Pure. A model that is not
listed accepts none.

Since version 2026-10-21 of the API, which Anthropic's SDK sends, `temperature`, `top_p` and `top_k` are
refused with status 400 for every model. Models up to 4.6 still accept them with version 2023-06-01, but
`temperature` and `top_p` not together, and with thinking neither `top_k` nor a `temperature` but 1. Later
models refuse them in every version.

Sources: Anthropic's pages on API versions, on migrating to Claude 4.7 and on extended thinking; reports of
the status 400: github.com/cline/cline/issues/10572, github.com/promptfoo/promptfoo/issues/10307. Read on
2026-11-28.
"""

from __future__ import annotations

import re

from ....config.sections.models import ModelSpec
from ..codecs.json_fields import mapping
from ..messages.errors import UnacceptedSetting

SAMPLING = frozenset({"temperature", "top_p", "top_k"})
VERSION = "anthropic-version"
"""The header."""
WITH_SAMPLING = "2023-06-01"
"""The last version with `SAMPLING`."""

_TAKES_SAMPLING = re.compile(
    r"claude-(?:[123](?:[.-]\d)?-|2\.[01]|instant-|(?:haiku|sonnet|opus)-4(?:[.-][0-6])?(?:[@-]\d{8}|-latest|-v\d|$)).*"
)
"""Up to 4.6: "claude-3-5-haiku-latest", "claude-opus-4-20250514", "eu.anthropic.claude-opus-4-6-v1"."""


def takes_sampling(model: str) -> bool:
    """Whether a model is one up to 4.6. A prefix that a cloud puts before its name is ignored."""
    return _TAKES_SAMPLING.fullmatch(model[max(model.find("claude"), 0) :]) is not None


def version_for(spec: ModelSpec) -> str | None:
    """The version of the API to ask for, so that the settings of a model are accepted; None: that of the SDK.

    Raises `UnacceptedSetting`: no version accepts them.
    """
    settings = {*spec.options, *(() if spec.temperature is None else ("temperature",))}
    given = sorted(SAMPLING & settings)
    if not given:
        return None
    if spec.base_url is not None and "claude" not in spec.model.lower():
        return WITH_SAMPLING  # a model of another maker, whose server knows what it accepts
    if not takes_sampling(spec.model):
        names, verb = " and ".join(given), "is" if len(given) == 1 else "are"
        raise UnacceptedSetting(f'model "{spec.name}": {names} {verb} accepted by Claude up to 4.6 only')
    if {"temperature", "top_p"} <= settings:
        raise UnacceptedSetting(f'model "{spec.name}": Claude accepts temperature or top_p, not both')
    temperature = spec.options.get("temperature", spec.temperature)
    if _thinks(spec) and (temperature not in (None, 1) or "top_k" in settings):
        raise UnacceptedSetting(
            f'model "{spec.name}": with thinking, Claude accepts neither top_k nor another temperature than 1'
        )
    return WITH_SAMPLING


def _thinks(spec: ModelSpec) -> bool:
    return mapping(spec.options.get("thinking")).get("type") in ("enabled", "adaptive")
