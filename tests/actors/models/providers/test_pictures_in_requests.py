"""Where each provider gets the pictures in results of tools and in messages of users.

Sources: docs.anthropic.com, "Tool use", on `tool_result`, and vellum-ai/vellum-assistant#18387 for errors;
ai.google.dev, "Function calling", and google-gemini/gemini-cli#19436 for models before Gemini 3;
All-Hands-AI/OpenHands#7700 and MoonshotAI/kimi-code#626 for chat completions; OpenAI's guide "Function
calling" for the Responses API. For users: docs.anthropic.com, "Vision"; ai.google.dev, "Image understanding";
OpenAI's guide "Images and vision".
"""

from __future__ import annotations

from typing import Any

import attrs

from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.converse_codec import ConverseCodec
from stopgo.actors.models.codecs.google_codec import GoogleCodec
from stopgo.actors.models.codecs.ollama_codec import OllamaCodec
from stopgo.actors.models.codecs.openai_codec import GO_ON, OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.codecs.responses_codec import COMPATIBLE, ResponsesCodec
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from stopgo.actors.tools.pictures import Picture
from stopgo.config.sections.models import ModelSpec, Provider
from tests.providers.servers.oracles import responses_problem

from .conftest import request

PICTURE = Picture("image/png", "iVBORw0K")
SHOT = ToolMessage("a1", "shot", "the screen", pictures=(PICTURE,))
HISTORY: tuple[ChatMessage, ...] = (
    UserMessage("go"),
    AssistantMessage("", (ToolCall("a1", "shot", {}), ToolCall("b2", "list", {}))),
    SHOT,
    ToolMessage("b2", "list", "nothing"),
)
FAILED = (*HISTORY[:2], attrs.evolve(SHOT, is_error=True), HISTORY[3])
LABEL = "Pictures in the result of shot:"
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}
URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}


def claude(history: tuple[ChatMessage, ...]) -> list[dict[str, Any]]:
    body = AnthropicCodec(ModelSpec("m", "anthropic", "claude")).body(request(*history))
    content: list[dict[str, Any]] = body["messages"][-1]["content"]
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in content]


def chat(provider: Provider, *more: ChatMessage) -> list[dict[str, Any]]:
    codec = OpenAICodec(ModelSpec("m", provider, "m"), PROFILES[provider].flavour)
    messages: list[dict[str, Any]] = codec.body(request(*HISTORY, *more, system=""))["messages"]
    return messages[2:]


def test_claude_gets_a_picture_inside_the_result() -> None:
    first, second = claude(HISTORY)
    assert first["content"] == [{"type": "text", "text": "the screen"}, BLOCK]
    assert second["content"] == "nothing"


def test_claude_gets_the_picture_of_an_error_after_all_results() -> None:
    first, second, label, picture = claude(FAILED)
    assert (first["content"], first["is_error"], second["content"]) == ("the screen", True, "nothing")
    assert (label, picture) == ({"type": "text", "text": LABEL}, BLOCK)


def test_gemini_gets_a_picture_beside_the_responses() -> None:
    body = GoogleCodec(ModelSpec("m", "google", "gemini")).body(request(*HISTORY))
    *responses, label, picture = body["contents"][-1]["parts"]
    assert [part["functionResponse"]["name"] for part in responses] == ["shot", "list"]
    assert label == {"text": LABEL}
    assert picture == {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}}


def test_chat_gets_a_picture_in_a_user_message_after_all_results() -> None:
    assert [message["role"] for message in chat("openai")] == ["tool", "tool", "user"]
    assert chat("openai")[-1]["content"] == [{"type": "text", "text": LABEL}, URL]
    assert chat("openai", UserMessage("more"))[-1]["content"] == [
        {"type": "text", "text": LABEL},
        URL,
        {"type": "text", "text": "more"},
    ]


def test_mistral_gets_a_message_of_the_assistant_before_the_picture() -> None:
    *_, before, last = chat("mistral")
    assert before == {"role": "assistant", "content": GO_ON}
    assert last["role"] == "user"


INPUT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0K", "detail": "auto"}


def test_responses_have_a_picture_inside_the_result() -> None:
    body = ResponsesCodec(ModelSpec("m", "openai", "gpt-6-luna"), "here").body(request(*HISTORY))
    assert responses_problem(body) is None
    first, second = body["input"][-2:]
    assert first["output"] == [{"type": "input_text", "text": "the screen"}, INPUT_IMAGE]
    assert second["output"] == "nothing"


def test_compatible_server_has_a_picture_in_a_user_message_after_all_results() -> None:
    codec = ResponsesCodec(ModelSpec("m", "ollama", "qwen3"), "here", COMPATIBLE)
    *_, first, second, last = codec.body(request(*HISTORY, UserMessage("more")))["input"]
    assert (first["output"], second["output"]) == ("the screen", "nothing")
    more = {"type": "input_text", "text": "more"}
    assert last == {"role": "user", "content": [{"type": "input_text", "text": LABEL}, INPUT_IMAGE, more]}


ASKED = UserMessage("[image: image/png, 6 bytes]", (PICTURE,))
SAID = {"type": "text", "text": "[image: image/png, 6 bytes]"}


def test_picture_of_a_user_is_before_the_text() -> None:
    assert claude((ASKED,)) == [BLOCK, SAID]
    google = GoogleCodec(ModelSpec("m", "google", "gemini")).body(request(ASKED))
    inline = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}}
    assert google["contents"] == [{"role": "user", "parts": [inline, {"text": SAID["text"]}]}]
    assert chat("mistral", AssistantMessage("well"), ASKED)[-1] == {"role": "user", "content": [URL, SAID]}
    body = ResponsesCodec(ModelSpec("m", "openai", "gpt-6-luna"), "here").body(request(ASKED))
    assert responses_problem(body) is None
    assert body["input"][-1]["content"] == [INPUT_IMAGE, {"type": "input_text", "text": SAID["text"]}]
    ollama = OllamaCodec(ModelSpec("m", "ollama", "gemma3")).body(request(ASKED))
    assert ollama["messages"][-1] == {"role": "user", "content": SAID["text"], "images": [PICTURE.data]}
    converse = ConverseCodec(ModelSpec("m", "bedrock", "nova")).body(request(ASKED))
    inside = {"image": {"format": "png", "source": {"bytes": PICTURE.data}}}
    assert converse["messages"][-1]["content"] == [inside, {"text": SAID["text"]}]


def test_pictures_of_results_are_before_those_of_the_user() -> None:
    assert claude((*HISTORY, ASKED))[2:] == [BLOCK, SAID]
    assert chat("openai", ASKED)[-1]["content"] == [{"type": "text", "text": LABEL}, URL, URL, SAID]
