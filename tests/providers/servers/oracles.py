"""The types of the official SDKs as oracles: a request that does not fit them cannot come from an SDK."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

STRICT = ConfigDict(extra="forbid")

Problem = tuple[str, str, Any]
"""The place (`messages.0.content`), pydantic's name of the mistake, and the value."""


def anthropic_problem(body: Mapping[str, Any]) -> Problem | None:
    """The first mistake in a Messages request by anthropic's types."""
    whole, blocks = _anthropic()
    kind = "stream" if body.get("stream") else "plain"
    # Current SDKs have no sampling parameters any more; the servers still take them.
    kept = {name: value for name, value in body.items() if name not in {"temperature", "top_p", "top_k"}}
    problem = _problem(whole[kind], [kept])
    if problem is not None:
        return problem
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    found = (_problem(blocks, content) for content in contents)
    return next((problem for problem in found if problem is not None), None)


@cache
def _anthropic() -> tuple[Mapping[str, TypeAdapter[Any]], TypeAdapter[Any]]:
    from anthropic.types import ContentBlockParam
    from anthropic.types.message_create_params import (
        MessageCreateParamsNonStreaming,
        MessageCreateParamsStreaming,
    )

    whole = {
        "plain": TypeAdapter[Any](list[MessageCreateParamsNonStreaming], config=STRICT),
        "stream": TypeAdapter[Any](list[MessageCreateParamsStreaming], config=STRICT),
    }
    # `MessageParam` also accepts objects that the SDK parsed, whose classes allow everything.
    return whole, TypeAdapter[Any](list[ContentBlockParam], config=STRICT)


def openai_problem(body: Mapping[str, Any]) -> Problem | None:
    """The mistake in a chat completion request by openai's types."""
    return _problem(_openai()["stream" if body.get("stream") else "plain"], [body])


@cache
def _openai() -> Mapping[str, TypeAdapter[Any]]:
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsNonStreaming,
        CompletionCreateParamsStreaming,
    )

    return {
        "plain": TypeAdapter[Any](list[CompletionCreateParamsNonStreaming], config=STRICT),
        "stream": TypeAdapter[Any](list[CompletionCreateParamsStreaming], config=STRICT),
    }


def responses_problem(body: Mapping[str, Any]) -> Problem | None:
    """The mistake in a request of the Responses API by openai's types."""
    return _problem(_responses()["stream" if body.get("stream") else "plain"], [body])


@cache
def _responses() -> Mapping[str, TypeAdapter[Any]]:
    from openai.types.responses.response_create_params import (
        ResponseCreateParamsNonStreaming,
        ResponseCreateParamsStreaming,
    )

    return {
        "plain": TypeAdapter[Any](list[ResponseCreateParamsNonStreaming], config=STRICT),
        "stream": TypeAdapter[Any](list[ResponseCreateParamsStreaming], config=STRICT),
    }


def google_problem(body: Mapping[str, Any]) -> Problem | None:
    """The mistake in a generateContent request by google-genai's types."""
    return _problem(_google(), [body])


@cache
def _google() -> TypeAdapter[Any]:
    from google.genai import types
    from pydantic.alias_generators import to_camel

    class GenerateContentRequest(BaseModel):
        """The SDK has no class for the body itself, only for all that is in it."""

        model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

        contents: list[types.Content]
        system_instruction: types.Content | None = None
        tools: list[types.Tool] | None = None
        tool_config: types.ToolConfig | None = None
        safety_settings: list[types.SafetySetting] | None = None
        generation_config: types.GenerationConfig | None = None
        cached_content: str | None = None

    return TypeAdapter(list[GenerateContentRequest])


def _problem(judge: TypeAdapter[Any], value: object) -> Problem | None:
    try:
        _drain(judge.validate_python(value))
    except ValidationError as error:
        return _told(error)
    return None


def _told(error: ValidationError) -> Problem:
    """Every member of a union complains; the one that was meant has the least to say."""
    by_member: dict[str, list[Any]] = {}
    for detail in error.errors(include_url=False):
        members = [part for part in detail["loc"] if isinstance(part, str) and part.endswith("Param")]
        by_member.setdefault(members[0] if members else "", []).append(detail)
    detail = min(by_member.values(), key=len)[0]
    where = ".".join(str(part) for part in detail["loc"][1:] if not str(part).endswith("Param"))
    return where, detail["type"], detail["input"]


def _drain(value: Any) -> None:
    """pydantic looks into an `Iterable` only when it is read."""
    if isinstance(value, Mapping):
        for each in value.values():
            _drain(each)
    elif isinstance(value, list | tuple) or type(value).__name__ == "ValidatorIterator":
        for each in value:
            _drain(each)
