"""The address, the login and the peculiarities of each provider, and the choice of a schema dialect. Pure.

A provider is a name in `Provider` and an entry here; type checkers report a name without one. A provider that
speaks none of the formats of others is also a kind of its own, which `open_model` opens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

import attrs

from ....config.sections.models import Api, ModelSpec, is_claude
from ..messages.schema_dialects import (
    ANTHROPIC,
    GEMINI,
    LLAMA_CPP,
    OLLAMA,
    OPENAI,
    PLAIN,
    XAI,
    SchemaDialect,
)

ProviderKind: TypeAlias = Literal["here", "anthropic", "google", "openai", "azure", "bedrock", "vertex"]
"""Says what opens a model. `here`: it is in this process; `openai`: any server with the API of OpenAI."""


@attrs.frozen
class ProviderPlace:
    """Environment variables of key and URL, and the public address."""

    key_env: str | None = None
    url_env: str | None = None
    url: str | None = None
    library: str | None = None
    """Logs in to the provider if there is no key. It belongs to the extra of the provider's name."""
    needed: str = "the address of its server, with /v1"
    """What `base_url` has to be if there is no address."""


@attrs.frozen
class Flavour:
    """The differences of a server with chat completions from the others."""

    max_tokens: str = "max_tokens"
    """Name of the field for the token limit."""
    ids: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]{1,40}")
    stream_usage: bool = True
    """The server sends the usage of a stream only on request."""
    user_after_tool: bool = True
    """The server accepts a user message right after a result."""
    result_name: bool = True
    """Whether results have the name of their tool, which Gemini needs behind an address of this kind."""
    returned: tuple[str, ...] = ()
    """Fields with the model's reasoning, which the server needs back in a message with calls."""


@attrs.frozen
class ProviderProfile:
    kind: ProviderKind
    place: ProviderPlace
    dialect: SchemaDialect
    """The schemas of tools that it accepts."""
    apis: tuple[Api, ...] = ()
    """The choices for `api`, if there is more than one."""
    flavour: Flavour = Flavour()
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Headers of every request, besides that of the key."""
    telemetry_name: str | None = None
    """Its name in the conventions of OpenTelemetry, where it differs from ours."""


class Profiles(TypedDict):
    anthropic: ProviderProfile
    google: ProviderProfile
    openai: ProviderProfile
    mistral: ProviderProfile
    openrouter: ProviderProfile
    ollama: ProviderProfile
    openai_compatible: ProviderProfile
    azure: ProviderProfile
    vertex: ProviderProfile
    bedrock: ProviderProfile
    offline: ProviderProfile
    script: ProviderProfile


_OPENAIS: tuple[Api, ...] = ("responses", "chat")
_REASONING = Flavour(returned=("reasoning_details", "reasoning_content", "reasoning"))
_ANY_SERVER = LLAMA_CPP | OPENAI
"""Any server may be behind an address, often one that makes a grammar."""
_HERE = ProviderProfile("here", ProviderPlace(), PLAIN)

PROFILES: Profiles = {
    "anthropic": ProviderProfile(
        "anthropic",
        ProviderPlace("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
        ANTHROPIC,
    ),
    "google": ProviderProfile(
        "google",
        ProviderPlace("GEMINI_API_KEY", "GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"),
        GEMINI,
        telemetry_name="gcp.gemini",
    ),
    "openai": ProviderProfile(
        "openai",
        ProviderPlace("OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"),
        OPENAI,
        apis=_OPENAIS,
        flavour=Flavour(max_tokens="max_completion_tokens"),
    ),
    "mistral": ProviderProfile(
        "openai",
        ProviderPlace("MISTRAL_API_KEY", "MISTRAL_BASE_URL", "https://api.mistral.ai/v1"),
        OPENAI,
        flavour=Flavour(ids=re.compile(r"[A-Za-z0-9]{9}"), stream_usage=False, user_after_tool=False),
        telemetry_name="mistral_ai",
    ),
    "openrouter": ProviderProfile(
        "openai",
        ProviderPlace("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"),
        _ANY_SERVER,
        apis=_OPENAIS,
        flavour=_REASONING,
        # These name the program.
        headers={"HTTP-Referer": "https://github.com/agentic-platform", "X-Title": "Agent Stop and Go"},
    ),
    "ollama": ProviderProfile(
        "openai",
        ProviderPlace(None, "OLLAMA_BASE_URL", "http://localhost:11434/v1"),
        LLAMA_CPP | OLLAMA,
        apis=(*_OPENAIS, "native"),
        flavour=_REASONING,
    ),
    "openai_compatible": ProviderProfile(
        "openai", ProviderPlace(), _ANY_SERVER, apis=_OPENAIS, flavour=_REASONING
    ),
    "azure": ProviderProfile(
        "azure",
        ProviderPlace(
            "AZURE_OPENAI_API_KEY",
            "AZURE_OPENAI_ENDPOINT",
            library="azure.identity",
            needed="the address of its resource",
        ),
        OPENAI,
        apis=_OPENAIS,
        flavour=Flavour(max_tokens="max_completion_tokens", result_name=False),
    ),
    "vertex": ProviderProfile(
        "vertex",
        ProviderPlace(None, "GOOGLE_VERTEX_BASE_URL", library="google.auth.transport.requests"),
        GEMINI,
    ),
    "bedrock": ProviderProfile(
        "bedrock",
        ProviderPlace(
            "AWS_BEARER_TOKEN_BEDROCK",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            library="botocore",
            needed="the address of its region, or its region in a profile or the environment variable "
            "AWS_REGION",
        ),
        OPENAI,
    ),
    "offline": _HERE,
    "script": _HERE,
}

_OF_FAMILY: Mapping[str, SchemaDialect] = {"claude": ANTHROPIC, "gemini": GEMINI, "grok": XAI}
"""By a part of the model's name, since routers and clouds pass schemas on."""


def dialect_for(spec: ModelSpec) -> SchemaDialect:
    """The dialect for the tools of a model."""
    profile = PROFILES[spec.provider]
    if profile.kind in ("bedrock", "vertex") and is_claude(spec.model):
        return ANTHROPIC
    found = profile.dialect
    for family, dialect in _OF_FAMILY.items():
        if family in spec.model.lower() and dialect is not found:
            found |= dialect
    return found
