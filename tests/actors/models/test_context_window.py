"""Shortening a request that is too large, and the estimate of its size."""

from __future__ import annotations

import json
from operator import mul
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common.kept_forms import AllKeptForms
from stopgo.actors.models import context_window
from stopgo.actors.models.context_window import LEFT_OUT, TooLarge, fit
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    ModelTool,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from stopgo.config.sections.models import ContextConfig

TEXT = st.builds(mul, st.text(max_size=5) | st.just("word "), st.integers(0, 3000))
TOOL = ModelTool("list", "Lists everything.", {"type": "object", "properties": {"name": {"type": "string"}}})


def request(*messages: ChatMessage, earlier: int = 0, system: str = "You help.") -> ModelRequest:
    return ModelRequest(system, messages, (TOOL,), "now", "n", 1, 1, earlier=earlier)


def estimate(request: ModelRequest) -> int:
    """The estimated tokens of a request."""
    return estimate_of_refusal(request, ContextConfig(max_input_tokens=0))


def estimate_of_refusal(request: ModelRequest, context: ContextConfig) -> int:
    with pytest.raises(TooLarge) as refused:
        fit(request, context)
    return refused.value.tokens


def trim(most: int) -> ContextConfig:
    return ContextConfig(max_input_tokens=most, strategy="trim")


def exchange(draw: Any, number: int) -> list[ChatMessage]:
    ids = [f"{number}-{index}" for index in range(draw(st.integers(0, 3)))]
    calls = tuple(ToolCall(id, "list", {"name": draw(TEXT)}) for id in ids)
    verbatim = draw(st.none() | st.builds(Verbatim, st.just("p"), st.lists(TEXT, max_size=2)))
    said = AssistantMessage(draw(TEXT) or "said", calls, verbatim)
    return [said, *(ToolMessage(id, "list", draw(TEXT), draw(st.booleans())) for id in ids)]


@st.composite
def requests(draw: Any) -> ModelRequest:
    earlier: list[ChatMessage] = []
    for _ in range(draw(st.integers(0, 4))):
        earlier.append(UserMessage(draw(TEXT)))
        if draw(st.booleans()):
            earlier += exchange(draw, len(earlier) + 10)
        if draw(st.booleans()):
            earlier.append(AssistantMessage(draw(TEXT)))
    now: list[ChatMessage] = [UserMessage(draw(TEXT))]
    for number in range(draw(st.integers(0, 4))):
        now += exchange(draw, number)
        if not isinstance(now[-1], ToolMessage):
            now.append(UserMessage(f"Iteration {number}."))
    whole = request(*earlier, *now, earlier=len(earlier), system=draw(TEXT))
    return attrs.evolve(whole, before=draw(st.integers(len(earlier), len(whole.messages))))


@given(requests(), st.integers(1, 8000))
def test_trimmed_request_follows_the_rules(whole: ModelRequest, most: int) -> None:
    size = estimate(whole)
    assert fit(whole, ContextConfig(max_input_tokens=size)) is whole
    assert estimate_of_refusal(whole, ContextConfig(max_input_tokens=size - 1)) == size
    try:
        fitted = fit(whole, trim(most))
    except TooLarge:
        smallest = estimate_of_refusal(whole, trim(most))
        assert most < smallest <= size
        assert fit(whole, trim(smallest))
        return
    assert estimate(fitted) <= most
    assert fit(fitted, trim(most)) == fitted
    if size <= most:
        assert fitted == whole
    calls = [
        call.id for each in fitted.messages if isinstance(each, AssistantMessage) for call in each.tool_calls
    ]
    assert calls == [each.call_id for each in fitted.messages if isinstance(each, ToolMessage)]
    check_what_stays(whole, fitted)
    check_nothing_is_removed_in_vain(whole, fitted, most)


@given(st.lists(requests(), min_size=1, max_size=3), st.integers(0, 4000))
def test_kept_sizes_are_those_of_the_messages(found: list[ModelRequest], most: int) -> None:
    """Each history goes on, and then another one takes its place."""
    forms = AllKeptForms().of("c")
    for whole in found:
        earlier = whole.messages[: whole.earlier]
        begun = request(*earlier[: whole.earlier // 2], UserMessage("now"), earlier=whole.earlier // 2)
        for each in (begun, whole, whole):
            assert _fitted(attrs.evolve(each, kept=forms), most) == _fitted(each, most)


def _fitted(request: ModelRequest, most: int) -> ModelRequest | int:
    try:
        return fit(request, trim(most))
    except TooLarge as error:
        return error.tokens


def test_sizes_of_earlier_turns_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ChatMessage] = []
    size = context_window._size

    def told(message: ChatMessage) -> int:
        seen.append(message)
        return size(message)

    monkeypatch.setattr(context_window, "_size", told)
    forms = AllKeptForms().of("c")
    past: list[ChatMessage] = [UserMessage("hi"), AssistantMessage("hello")]
    for _ in range(2):
        fit(attrs.evolve(request(*past, UserMessage("now"), earlier=2), kept=forms), trim(4000))
    assert seen == [*past, UserMessage("now"), UserMessage("now")]


def check_what_stays(whole: ModelRequest, fitted: ModelRequest) -> None:
    varies: dict[str, Any] = {"messages": (), "earlier": 0, "before": 0, "trimmed": False}
    assert attrs.evolve(fitted, **varies) == attrs.evolve(whole, **varies)
    assert fitted.trimmed == (fitted.messages != whole.messages)
    dropped = len(whole.messages) - len(fitted.messages)
    assert whole.earlier - fitted.earlier == whole.before - fitted.before == dropped
    now, kept = whole.messages[whole.earlier :], fitted.messages[fitted.earlier :]
    assert len(now) == len(kept)
    for before, after in zip(now, kept, strict=True):
        if before != after:
            assert isinstance(before, ToolMessage)
            assert after == attrs.evolve(before, content=LEFT_OUT)  # a result, its call beside it
    # The results without an answer are complete.
    assert fitted.results == whole.results
    # Earlier turns are removed as a whole, the oldest first.
    left = fitted.messages[: fitted.earlier]
    assert not left or isinstance(left[0], UserMessage)
    for old, after in zip(whole.messages[whole.earlier - len(left) : whole.earlier], left, strict=True):
        emptied = isinstance(old, ToolMessage) and after == attrs.evolve(old, content=LEFT_OUT)
        assert after == old or emptied


def check_nothing_is_removed_in_vain(whole: ModelRequest, fitted: ModelRequest, most: int) -> None:
    emptied = [
        index
        for index, (before, after) in enumerate(
            zip(whole.messages[whole.earlier :], fitted.messages[fitted.earlier :], strict=True)
        )
        if before != after
    ]
    if fitted.earlier < whole.earlier or not emptied:
        return
    back = list(fitted.messages)
    index = fitted.earlier + emptied[-1]
    back[index] = whole.messages[whole.earlier + emptied[-1]]
    assert estimate(attrs.evolve(fitted, messages=tuple(back))) > most


def test_results_are_removed_before_turns_oldest_first() -> None:
    def result(id: str) -> list[ChatMessage]:
        return [
            AssistantMessage("", (ToolCall(id, "list", {}),)),
            ToolMessage(id, "list", f"{id} " + "word " * 300),
        ]

    whole = request(
        UserMessage("first"),
        AssistantMessage("word " * 300),
        UserMessage("second"),
        UserMessage("now"),
        *result("a"),
        *result("b"),
        *result("c"),
        earlier=3,
    )
    size = estimate(whole)
    seen = []
    for most in range(size, 0, -200):
        try:
            fitted = fit(whole, trim(most))
        except TooLarge:
            break
        emptied = [
            each.call_id
            for each in fitted.messages
            if isinstance(each, ToolMessage) and each.content == LEFT_OUT
        ]
        seen.append((fitted.earlier, "".join(emptied)))
    assert list(dict.fromkeys(seen)) == [(3, ""), (3, "a"), (3, "ab"), (1, "ab")]


# ---------------------------------------------------------------------- the estimate

# Texts with about the number of tokens that tokenizers make of them.
SAMPLES = [
    ("The quick brown fox jumps over the lazy dog, and nobody asks it why it does so. " * 5, 100),
    (json.dumps([{"id": n, "name": f"server-{n}", "value": n * 37} for n in range(20)]), 360),
    ("def f(x: int) -> int:\n    return x + 1\n" * 5, 75),
    ("日本語の文章はここにあります。" * 5, 75),
    ("5b0c1a52-9d1e-4c0a-8f0e-2f6f0a1f7c11 " * 5, 140),
]


@pytest.mark.parametrize(("text", "tokens"), SAMPLES)
def test_estimate_is_rather_too_high(text: str, tokens: int) -> None:
    guessed = estimate(request(UserMessage(text))) - estimate(request(UserMessage("")))
    assert 0.8 * tokens <= guessed <= 3 * tokens


def test_every_part_of_a_request_counts() -> None:
    long = "word " * 100
    user, result = UserMessage("now"), ToolMessage("1", "list", "r")
    said = AssistantMessage("said", (ToolCall("1", "list", {}),))
    calling = AssistantMessage("said", (ToolCall("1", "list", {"a": long}),))
    base = request(user, said, result)
    bigger = [
        attrs.evolve(base, system=long),
        attrs.evolve(base, tools=(attrs.evolve(TOOL, description=long),)),
        attrs.evolve(base, tools=(attrs.evolve(TOOL, input_schema={"description": long}),)),
        attrs.evolve(base, tools=(attrs.evolve(TOOL, input_schema={"not": {"title": long}}),)),
        request(UserMessage(long), said, result),
        request(user, attrs.evolve(said, text=long), result),
        request(user, calling, result),
        request(user, attrs.evolve(said, verbatim=Verbatim("p", [long])), result),
        request(user, said, ToolMessage("1", "list", long)),
    ]
    for each in bigger:
        assert estimate(each) >= estimate(base) + 140


def test_lone_surrogate_has_a_size() -> None:
    assert estimate(request(UserMessage("\ud83d"))) > 0
