"""Keys that a provider quotes: in replies, calls and errors, whole and in pieces."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from stopgo.actors.models.messages.messages import (
    ArgumentsDelta,
    Delta,
    ModelReply,
    TextDelta,
    ToolCall,
    Verbatim,
)
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.key_mask import KeyMask, MaskedDeltas
from tests.canary import KEY

from .conftest import Heard, Kind, Provider, events, opened, request, whole

MASK = KeyMask(["sk-test1", "sk-test1-own", "ollama", "k1"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sk-test1", "***"),
        ("(sk-test1), sk-test1.", "(***), ***."),
        ("Bearer sk-test1-own!", "Bearer ***!"),
        ("key=sk-test1&x", "key=***&x"),
        (r"a\nsk-test1\n", r"a\n***\n"),
        ("a%20sk-test1%20", "a%20***%20"),
        # A part of another token is none.
        ("sk-test1-more", "sk-test1-more"),
        ("latest_sk-test1", "latest_sk-test1"),
        ("xsk-test12", "xsk-test12"),
        # A word is one only where the text says so, and what is short never.
        ("I run on ollama", "I run on ollama"),
        ("api_key: ollama", "api_key: ***"),
        ("k1", "k1"),
        ("You sent sk-test1...", "You sent ***..."),
        ("You sent sk-test1-o...", "You sent ***..."),
        ("You sent sk-te...", "You sent sk-te..."),
    ],
)
def test_keys_are_masked_as_whole_tokens(text: str, shown: str) -> None:
    assert MASK.mask(text) == shown


def test_every_part_of_a_reply_is_masked() -> None:
    call = ToolCall("sk-test1", "tell", {"sk-test1": ["it is sk-test1", 1]}, problem="sk-test1 is wrong")
    reply = ModelReply("sk-test1", (call,), verbatim=Verbatim("openai", [{"signed": "sk-test1"}]))
    found = MASK.reply(reply)
    assert "sk-test1" not in repr(found)
    # What was signed cannot be changed, so the reply is sent back in our form.
    assert (found.text, found.verbatim) == ("***", None)
    untouched = ModelReply("hello", verbatim=Verbatim("openai", ["x"]))
    assert MASK.reply(untouched) == untouched


PIECES = st.lists(
    st.sampled_from(["sk-test1", "-own", "sk-", "test1", " ", "x", "-", "s", r"\n"]), max_size=12
)


@given(PIECES, st.data())
def test_pieces_of_a_stream_are_masked_like_the_whole(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    heard: list[Delta] = []
    deltas = MaskedDeltas(MASK, heard.append)
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        deltas(TextDelta(text[begin:end]))
        deltas(ArgumentsDelta(0, "t", text[begin:end]))
    deltas.end()
    assert "".join(each.text for each in heard if isinstance(each, TextDelta)) == MASK.mask(text)
    assert "".join(each.json for each in heard if isinstance(each, ArgumentsDelta)) == MASK.mask(text)


ECHO = f"you are {KEY}, are you not"


def answer_of(kind: Kind, stream: bool) -> Any:
    arguments = f'{{"a": "{KEY}"}}'
    if kind == "openai":
        call = {
            "index": 0,
            "id": "c",
            "type": "function",
            "function": {"name": "add", "arguments": arguments},
        }
        message = {"role": "assistant", "content": ECHO, "tool_calls": [call]}
        if not stream:
            return whole({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
        first, rest = ECHO[:12], ECHO[12:]
        return events(
            {"choices": [{"delta": {"content": first}}]},
            {"choices": [{"delta": {**message, "content": rest}, "finish_reason": "tool_calls"}]},
        )
    blocks = [
        {"type": "text", "text": ECHO},
        {"type": "tool_use", "id": "c", "name": "add", "input": {"a": KEY}},
    ]
    usage = {"input_tokens": 1, "output_tokens": 1}
    return whole(
        {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "tool_use", "usage": usage}
    )


@pytest.mark.parametrize(("kind", "stream"), [("openai", False), ("openai", True), ("anthropic", False)])
async def test_key_that_a_provider_quotes_is_masked_in_text_and_calls(
    provider: Provider,
    client: ModelClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    kind: Kind,
    stream: bool,
) -> None:
    provider.answers = [answer_of(kind, stream)]
    api = {"api": "chat"} if kind == "openai" else {}
    model = opened(kind, provider.url, client, tmp_path, monkeypatch, stream=stream, **api)
    heard = Heard()
    reply = await model.complete(request(), heard)
    assert reply.text == "you are ***, are you not"
    assert [call.arguments for call in reply.tool_calls] == [{"a": "***"}]
    assert KEY not in repr((reply, heard.deltas))
