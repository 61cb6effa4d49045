"""Members of requests that only some servers of chat completions know. Pure.

A server that checks its requests strictly refuses each of them because of one member that we add by
ourselves. So a refusal that names such a member leads to a `Flavour` without it, for the following requests,
too. The words of a refusal decide: DeepSeek names `reasoning_content` where it is missing.

Sources: `stream_options`: pi#596, opencode#4698 (Databricks); `max_tokens` and `max_completion_tokens`:
OpenAI's "Unsupported parameter" for models that reason, which gateways pass on; reasoning in messages and
`name`: Groq's "property 'reasoning_content' is unsupported"; DeepSeek's guide "Thinking mode".
"""

from __future__ import annotations

import re

import attrs

from ..messages.messages import ModelFailed
from .profiles import Flavour

_REFUSES = re.compile(
    r"unsupported|not supported|not permitted|not allowed|forbidden|extra_forbidden|additional propert"
    r"|unrecogni[sz]ed|unknown|unexpected",
    re.IGNORECASE,
)
_NAME = re.compile(r"property .?name\b|messages[\w.\[\]'\", :-]{0,60}\bname\b")
MOST = 5
"""Members that can be left out."""


def without_refused(flavour: Flavour, failure: ModelFailed) -> Flavour | None:
    """The flavour without the member that a refusal names; None: it names none that can be left out."""
    if failure.status not in (400, 422) or not _REFUSES.search(failure.answer):
        return None
    answer = failure.answer
    if flavour.stream_usage and "stream_options" in answer:
        return attrs.evolve(flavour, stream_usage=False)
    if flavour.max_tokens in answer and "max_completion_tokens" in answer:
        other = "max_tokens" if flavour.max_tokens == "max_completion_tokens" else "max_completion_tokens"
        return attrs.evolve(flavour, max_tokens=other)
    for member in flavour.returned:
        if re.search(rf"\b{member}\b", answer):
            return attrs.evolve(flavour, returned=tuple(each for each in flavour.returned if each != member))
    if flavour.result_name and _NAME.search(answer):
        return attrs.evolve(flavour, result_name=False)
    return None
