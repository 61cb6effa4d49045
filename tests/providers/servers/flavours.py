"""How the servers that speak OpenAI's chat completions differ from each other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import attrs

from tests.providers.servers.seal import marked_id
from tests.providers.servers.talk import Json

_KEY = "You can find your API key at https://platform.openai.com/account/api-keys."


def _openai_error(status: int, why: str) -> Any:
    kind = {429: "rate_limit_error"}.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    return {"error": {"message": why, "type": kind, "param": None, "code": code}}


def _mistral_error(status: int, why: str) -> Any:
    if status == 401:
        return {"detail": "Unauthorized"}
    if status == 422:
        return {"object": "error", "message": {"detail": why}, "type": "invalid_request_error", "code": None}
    kind = {429: "rate_limited", 503: "service_unavailable"}.get(status, "invalid_request_error")
    return {"object": "error", "message": why, "type": kind, "param": None, "code": str(status * 10)}


def _openrouter_error(status: int, why: str) -> Any:
    return {"error": {"message": why, "code": status}, "user_id": "user_2yCanary"}


def _ollama_error(status: int, why: str) -> Any:
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    return {"error": {"message": why, "type": kind, "param": None, "code": None}}


def _vllm_error(status: int, why: str) -> Any:
    if status == 401:
        return {"error": "Unauthorized"}
    return {"object": "error", "message": why, "type": "BadRequestError", "param": None, "code": status}


def _openai_id(nonce: str, name: str, index: int) -> str:
    return f"call_{marked_id(f'{nonce}{index}')}"


def _mistral_id(nonce: str, name: str, index: int) -> str:
    return marked_id(f"{nonce}{index}")[:9]


def _openrouter_id(nonce: str, name: str, index: int) -> str:
    # As some of the models behind it number theirs: unique in a reply, not in a conversation.
    return f"functions.{name}:{index}"


def _vllm_id(nonce: str, name: str, index: int) -> str:
    return f"chatcmpl-tool-{marked_id(f'{nonce}{index}')}{marked_id(nonce)[:12]}"


@attrs.frozen
class Flavour:
    name: Literal["openai", "mistral", "openrouter", "ollama", "openai_compatible"]
    error: Callable[[int, str], Any]
    make_id: Callable[[str, str, int], str]
    id: re.Pattern[str] = re.compile(r".*", re.DOTALL)
    """Pattern of a call's id in a request."""
    tool_name: re.Pattern[str] = re.compile(r".+", re.DOTALL)
    needs_key: bool = True
    no_key: str = ""
    whole_calls: bool = False
    """A call comes in one piece when streaming."""
    usage: Literal["asked", "always", "with_stop"] = "asked"
    """When streaming: a last event without choices, if asked for or always; or with the reason to stop."""
    comments: bool = False
    """Keep-alive comments between the events."""
    stops_for_calls: str = "tool_calls"
    reasoning: str | None = None
    """Field of a message with the model's reasoning."""
    own_fields: frozenset[str] = frozenset()
    """Of the body, beyond those of OpenAI."""
    own_message_fields: frozenset[str] = frozenset()


OPENAI = Flavour(
    "openai",
    _openai_error,
    _openai_id,
    id=re.compile(r".{1,40}", re.DOTALL),
    tool_name=re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    no_key="You didn't provide an API key. You need to provide your API key in an Authorization header using "
    f"Bearer auth (i.e. Authorization: Bearer YOUR_KEY). {_KEY}",
)
MISTRAL = Flavour(
    "mistral",
    _mistral_error,
    _mistral_id,
    id=re.compile(r"[a-zA-Z0-9]{9}"),
    tool_name=re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    whole_calls=True,
    usage="with_stop",
)
OPENROUTER = Flavour(
    "openrouter",
    _openrouter_error,
    _openrouter_id,
    no_key="No auth credentials found",
    usage="always",
    comments=True,
    reasoning="reasoning",
    own_fields=frozenset({"reasoning", "provider", "transforms", "models", "usage", "plugins", "route"}),
    own_message_fields=frozenset({"reasoning", "reasoning_details"}),
)
OLLAMA = Flavour(
    "ollama",
    _ollama_error,
    _openai_id,
    needs_key=False,
    whole_calls=True,
    stops_for_calls="stop",
    reasoning="reasoning",
    own_message_fields=frozenset({"reasoning"}),
)
COMPATIBLE = Flavour(
    "openai_compatible",
    _vllm_error,
    _vllm_id,
    needs_key=False,
    reasoning="reasoning_content",
    own_fields=frozenset({"top_k", "min_p", "chat_template_kwargs"}),
    own_message_fields=frozenset({"reasoning_content"}),
)

MISTRAL_FIELDS = frozenset(
    {
        "frequency_penalty",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_mode",
        "random_seed",
        "response_format",
        "safe_prompt",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
    }
)
MISTRAL_MESSAGE_FIELDS = {
    "system": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls", "prefix"}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
}


def without_own(flavour: Flavour, body: Json) -> Json:
    """The body as OpenAI's own types know it."""
    kept = {key: value for key, value in body.items() if key not in flavour.own_fields}
    kept["messages"] = [
        {
            key: value
            for key, value in message.items()
            if key not in flavour.own_message_fields and (key, message["role"]) != ("name", "tool")
        }
        for message in body["messages"]
    ]
    return kept
