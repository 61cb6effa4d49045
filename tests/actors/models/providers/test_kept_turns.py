"""A request with the kept wire form of earlier turns is, byte for byte, the one that is built anew."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common.kept_forms import AllKeptForms, KeptForms
from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.bedrock_events import InvokeCodec
from stopgo.actors.models.codecs.codec import Codec
from stopgo.actors.models.codecs.converse_codec import ConverseCodec
from stopgo.actors.models.codecs.google_codec import GoogleCodec
from stopgo.actors.models.codecs.ollama_codec import OllamaCodec
from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.codecs.responses_codec import COMPATIBLE, ResponsesCodec
from stopgo.actors.models.codecs.turns import KeptTurns
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from stopgo.actors.models.providers.vertex_model import VertexClaudeCodec
from stopgo.actors.tools.pictures import Picture
from stopgo.config.sections.models import ModelSpec, Provider
from stopgo.runtime.json_text import dump_wire

from .conftest import ADD, request
from .test_histories import CHATS, VERBATIM, calls, ids, names, texts


def spec(provider: Provider, **options: object) -> ModelSpec:
    return ModelSpec("m", provider, "m", options=options)


MANUAL = {"type": "enabled", "budget_tokens": 1024}
CODECS: list[Codec] = [
    AnthropicCodec(spec("anthropic")),
    AnthropicCodec(spec("anthropic", thinking=MANUAL)),
    VertexClaudeCodec(spec("vertex"), origin="anthropic"),
    InvokeCodec(spec("bedrock"), origin="anthropic"),
    ConverseCodec(spec("bedrock")),
    GoogleCodec(spec("google")),
    OllamaCodec(spec("ollama")),
    ResponsesCodec(spec("openai"), "here"),
    ResponsesCodec(spec("openai"), "here", plain=True),
    ResponsesCodec(spec("openai"), "here", COMPATIBLE),
    *(OpenAICodec(spec(provider), PROFILES[provider].flavour) for provider in CHATS),
]
SIGNED = {"reasoningText": {"text": "hm", "signature": "S"}}
PICTURE = Picture("image/png", "AAAA")

verbatim = st.sampled_from([*VERBATIM, Verbatim("bedrock converse", [{"reasoningContent": SIGNED}])])
pictures = st.sampled_from([(), (PICTURE,)])
replies: st.SearchStrategy[ChatMessage] = st.one_of(
    st.builds(AssistantMessage, texts, calls, verbatim),
    st.builds(ToolMessage, ids, names, texts, st.booleans(), pictures),
)
turns = st.builds(
    lambda user, found: [user, *found], st.builds(UserMessage, texts, pictures), st.lists(replies, max_size=4)
)


@attrs.frozen
class Step:
    """A request of the next turn, and what is different this time."""

    turn: Sequence[ChatMessage]
    tools: bool
    trimmed: bool
    more: Sequence[ChatMessage]
    """Messages of the turn that are already there."""
    dropped: int
    """Earlier messages that are left out."""
    without_pictures: bool
    forgotten: bool
    codec: int = 0


steps = st.lists(
    st.builds(
        Step,
        turns,
        st.booleans(),
        st.booleans(),
        st.lists(replies, max_size=2),
        st.sampled_from([0, 0, 0, 0, 1, 2]),
        st.sampled_from([False, False, False, True]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=2,
    max_size=6,
)


@given(st.sampled_from(CODECS), steps)
def test_requests_with_kept_turns_are_those_built_anew(codec: Codec, found: list[Step]) -> None:
    forms = AllKeptForms().of("c")
    past: list[ChatMessage] = []
    for step in found:
        if step.forgotten:
            forms.end()
            forms = AllKeptForms().of("c")
        asked = _request(past, step)
        assert dump_wire(codec.body(attrs.evolve(asked, kept=forms))) == dump_wire(codec.body(asked))
        past += step.turn


def _request(past: Sequence[ChatMessage], step: Step) -> ModelRequest:
    earlier = past[step.dropped :]
    messages = [*earlier, step.turn[0], *step.more]
    asked = attrs.evolve(
        request(tools=(ADD,) if step.tools else ()),
        messages=tuple(messages),
        earlier=len(earlier),
        before=len(earlier) + 1,
        trimmed=step.trimmed,
    )
    return asked.without_pictures() if step.without_pictures else asked


# ----------------------------------------------------------------- that it is kept, and when it is not


def _long(number: int) -> list[ChatMessage]:
    call = ToolCall(f"call_{number}", "add", {"a": number})
    return [
        UserMessage(f"question {number}"),
        AssistantMessage("", (call,)),
        ToolMessage(call.id, "add", "3"),
        AssistantMessage(f"answer {number}"),
    ]


def _asked(forms: KeptForms, past: Sequence[ChatMessage]) -> ModelRequest:
    messages = (*past, UserMessage("and now?"))
    return attrs.evolve(request(), messages=messages, earlier=len(past), before=len(messages), kept=forms)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_a_turn_is_written_once(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = AllKeptForms().of("c")
    past = [message for number in range(20) for message in _long(number)]
    codec.body(_asked(forms, past))
    added: list[ChatMessage] = []
    monkeypatch.setattr(KeptTurns, "extend", _telling(added))
    codec.body(_asked(forms, [*past, *_long(20)]))
    assert added == _long(20)


def _telling(added: list[ChatMessage]):  # type: ignore[no-untyped-def]
    extend = KeptTurns.extend

    def told(self: KeptTurns, messages: Sequence[ChatMessage], strip: bool) -> None:
        added.extend(messages)
        extend(self, messages, strip)

    return told


def test_an_equal_reply_that_is_written_differently_is_not_taken_for_the_kept_one() -> None:
    """1 == True, and a person may have edited the arguments."""
    forms, codec = AllKeptForms().of("c"), AnthropicCodec(spec("anthropic"))
    past = [message for number in range(4) for message in _long(number)]
    codec.body(_asked(forms, past))
    past[5] = AssistantMessage("", (ToolCall("call_1", "add", {"a": True}),))
    assert past[5] == _long(1)[1]
    assert re.search(
        rb'"id":"call_1","name":"add","input":{"a":true}', dump_wire(codec.body(_asked(forms, past)))
    )


def test_forms_end_with_the_activation_and_have_a_bound() -> None:
    every = AllKeptForms(most=100)
    one, two = every.of("one"), every.of("two")
    one.keep("a", 1, 60)
    two.keep("a", 2, 30)
    one.keep("b", 3, 30)  # `two` has not been used for longest
    assert (two.take("a", int), every.size) == (None, 90)
    two.keep("a", 4, 40)
    assert (one.take("a", int), one.take("b", int), every.size) == (None, None, 40)
    again = every.of("two")
    two.keep("b", 5, 10)  # of an activation that has ended
    assert (two.take("a", int), two.take("b", int), every.size) == (None, None, 0)
    again.keep("a", 6, 101)
    assert (again.take("a", int), every.size) == (None, 0)
