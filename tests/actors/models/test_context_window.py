"""What is left out of a request that is too large, and what never is."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.context_window import LEFT_OUT, TooLarge, fit
from stopgo.actors.models.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    ModelTool,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from stopgo.config.models import ContextConfig

TEXT = st.text(max_size=400) | st.integers(0, 3000).map(lambda n: "word " * n)
TOOL = ModelTool("list", "Lists everything.", {"type": "object", "properties": {"name": {"type": "string"}}})


def request(*messages: ChatMessage, earlier: int = 0, system: str = "You help.") -> ModelRequest:
    return ModelRequest(system, messages, (TOOL,), "now", "n", 1, 1, earlier=earlier)


def estimate(request: ModelRequest) -> int:
    """About how many tokens a request has."""
    with pytest.raises(TooLarge) as refused:
        fit(request, ContextConfig(max_input_tokens=0))
    return refused.value.tokens


def trim(most: int) -> ContextConfig:
    return ContextConfig(max_input_tokens=most, strategy="trim")


def whatever_fits(whole: ModelRequest, most: int) -> ModelRequest | None:
    try:
        return fit(whole, trim(most))
    except TooLarge:
        return None


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
def test_it_fits_or_is_refused(whole: ModelRequest, most: int) -> None:
    fitted = whatever_fits(whole, most)
    if fitted is None:
        return
    assert estimate(fitted) <= most
    assert fitted == fit(whole, trim(most))
    assert fit(fitted, trim(most)) == fitted
    if estimate(whole) <= most:
        assert fitted == whole


@given(requests(), st.integers(1, 8000))
def test_what_is_never_touched(whole: ModelRequest, most: int) -> None:
    fitted = whatever_fits(whole, most)
    if fitted is None:
        return
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
    # What the model is to answer is there in full.
    assert fitted.results == whole.results
    # Earlier turns go whole, the oldest first.
    left = fitted.messages[: fitted.earlier]
    assert not left or isinstance(left[0], UserMessage)
    for old, after in zip(whole.messages[whole.earlier - len(left) : whole.earlier], left, strict=True):
        emptied = isinstance(old, ToolMessage) and after == attrs.evolve(old, content=LEFT_OUT)
        assert after == old or emptied


@given(requests(), st.integers(1, 8000))
def test_calls_and_results_stay_paired(whole: ModelRequest, most: int) -> None:
    fitted = whatever_fits(whole, most)
    if fitted is None:
        return
    calls = [
        call.id for each in fitted.messages if isinstance(each, AssistantMessage) for call in each.tool_calls
    ]
    assert calls == [each.call_id for each in fitted.messages if isinstance(each, ToolMessage)]


@given(requests(), st.integers(1, 8000))
def test_no_more_is_left_out_than_must_be(whole: ModelRequest, most: int) -> None:
    fitted = whatever_fits(whole, most)
    if fitted is None:
        return
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


@given(requests(), st.integers(1, 8000))
def test_what_cannot_be_made_to_fit_says_how_large_it_is(whole: ModelRequest, most: int) -> None:
    if whatever_fits(whole, most) is not None:
        return
    with pytest.raises(TooLarge) as refused:
        fit(whole, trim(most))
    assert most < refused.value.tokens <= estimate(whole)
    assert whatever_fits(whole, refused.value.tokens) is not None


@given(requests())
def test_refusing_leaves_nothing_out(whole: ModelRequest) -> None:
    size = estimate(whole)
    assert fit(whole, ContextConfig(max_input_tokens=size)) is whole
    with pytest.raises(TooLarge) as refused:
        fit(whole, ContextConfig(max_input_tokens=size - 1))
    assert refused.value.tokens == size


def test_results_go_before_turns_and_the_oldest_first() -> None:
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

# With about as many tokens as they are cut into.
SAMPLES = [
    ("The quick brown fox jumps over the lazy dog, and nobody asks it why it does so. " * 5, 100),
    (json.dumps([{"id": n, "name": f"server-{n}", "value": n * 37} for n in range(20)]), 360),
    ("def f(x: int) -> int:\n    return x + 1\n" * 5, 75),
    ("日本語の文章はここにあります。" * 5, 75),
    ("5b0c1a52-9d1e-4c0a-8f0e-2f6f0a1f7c11 " * 5, 140),
]


@pytest.mark.parametrize(("text", "tokens"), SAMPLES)
def test_the_estimate_is_rather_too_high(text: str, tokens: int) -> None:
    guessed = estimate(request(UserMessage(text))) - estimate(request(UserMessage("")))
    assert 0.8 * tokens <= guessed <= 3 * tokens


def test_everything_that_is_sent_counts() -> None:
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


def test_half_a_surrogate_pair_has_a_size() -> None:
    assert estimate(request(UserMessage("\ud83d"))) > 0
