"""Which families of OpenAI's models accept `temperature` and `top_p`. Pure data and one rule.

Models that reason accept them with the effort `none` only, if they have that effort at all; else each request
is refused with status 400. A family that is not listed is left to the server.

Sources: OpenAI's model pages and the guides "Reasoning models" and "Using GPT-6.2"; pydantic-ai's measured
profiles (2026-07). Read on 2026-11-28.
"""

from __future__ import annotations

import re

from ....config.sections.models import ModelSpec
from ..codecs.json_fields import mapping
from ..messages.errors import UnacceptedSetting

SAMPLING = ("temperature", "top_p")

_NEVER = re.compile(
    r"o\d.*|gpt-5(-(mini|nano))?(-\d{4}.*)?|gpt-.*-(codex|pro).*|gpt-6-astra.*|gpt-6\.(1-sol|2-).*"
)
"""They always reason."""
_WITH_NONE = re.compile(r"gpt-5\.[1-6](?!.*-chat).*|gpt-6-(sol|luna).*|gpt-6\.1-terra.*")
"""They accept them with the effort `none`..."""
_NONE_BY_DEFAULT = re.compile(r"gpt-5\.[1-4](?!.*-chat).*")
"""...and these have it by default."""


def check_sampling(spec: ModelSpec) -> None:
    """Raise `UnacceptedSetting` if the model would refuse each request for its sampling."""
    given = [name for name in SAMPLING if name in spec.options]
    if spec.temperature is not None and "temperature" not in given:
        given.insert(0, "temperature")
    if not given:
        return
    names, verb = " and ".join(given), "is" if len(given) == 1 else "are"
    if _NEVER.fullmatch(spec.model):
        raise UnacceptedSetting(f'model "{spec.name}": {names} {verb} not accepted by {spec.model}')
    default = "none" if _NONE_BY_DEFAULT.fullmatch(spec.model) else "medium"
    effort = mapping(spec.options.get("reasoning")).get("effort") or spec.options.get("reasoning_effort")
    if _WITH_NONE.fullmatch(spec.model) and (effort or default) != "none":
        raise UnacceptedSetting(
            f'model "{spec.name}": {names} {verb} accepted by {spec.model} without reasoning only '
            "(options: {reasoning: {effort: none}})"
        )
