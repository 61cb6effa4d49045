"""Which options Ollama knows, and where. Pure data and one rule.

Sources: `Options` and `Runner` in api/types.go of ollama/ollama, read on 2026-11-28. That chat completions
ignore the others: ollama#2963, ollama#16814.
"""

from __future__ import annotations

from collections.abc import Set

from ....config.sections.models import Api

_IN_BOTH = {"frequency_penalty", "presence_penalty", "seed", "stop", "temperature", "top_p"}
"""Settings of the runner that chat completions know, too."""
RUNNER = frozenset(
    {
        *_IN_BOTH,
        "main_gpu",
        "min_p",
        "num_batch",
        "num_ctx",
        "num_gpu",
        "num_keep",
        "num_predict",
        "num_thread",
        "repeat_last_n",
        "repeat_penalty",
        "top_k",
        "typical_p",
        "use_mmap",
    }
)
"""`Options` and `Runner` in api/types.go."""
NATIVE_ONLY = frozenset({"keep_alive", "options", "think", "truncate", *RUNNER - _IN_BOTH})
"""Options that Ollama's chat completions ignore."""
_CHAT_ONLY = frozenset(
    {"logit_bias", "max_completion_tokens", "max_tokens", "n", "reasoning_effort", "response_format"}
)
"""Members of OpenAI's chat completions; here they are `num_predict`, `think` and `format`."""


def ignored_by(api: Api) -> Set[str]:
    """Options that Ollama ignores by this API, without saying so."""
    return _CHAT_ONLY if api == "native" else NATIVE_ONLY
