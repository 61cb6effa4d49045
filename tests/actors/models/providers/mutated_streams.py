"""Streams of a known reply, changed within the freedom of their protocol.

A `Dialect` has a codec, and writes calls as the events of its stream. `mutated` draws calls and a way to
write them; `judge` reads the stream and says what is wrong with the result:

* a call that would be sent has the name and arguments of a call of the model, which none other has sent;
* nothing but `ModelFailed` is raised;
* a stream that is changed in ways that lose nothing gives all calls.

Run it as a program for many streams: `python -m tests.actors.models.providers.mutated_streams 100000`.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

import attrs

from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.codec import Codec
from stopgo.actors.models.codecs.converse_codec import ConverseCodec
from stopgo.actors.models.codecs.framing import Framing, JsonLines, ServerSentEvents
from stopgo.actors.models.codecs.google_codec import GoogleCodec
from stopgo.actors.models.codecs.ollama_codec import OllamaCodec
from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.codecs.responses_codec import ResponsesCodec
from stopgo.actors.models.messages.messages import ModelFailed, ModelTool
from stopgo.config.sections.models import ModelSpec

from .conftest import request

NAMES = ("add", "remove_all", "get", "get_weather", "löschen.alles")
TOOLS = tuple(ModelTool(name, "", {"type": "object"}) for name in NAMES)
TEXTS = ("", "x", "{}", '"', "\\", "grüße 🙂", '{"a":1}', "}", "a\nb", "null", "]}", "日本")


@attrs.frozen
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@attrs.frozen
class Dialect:
    name: str
    codec: Codec
    write: Callable[[Sequence[Call], Random, Loss], list[str]]
    """The events of a stream with these calls."""
    framing: type[ServerSentEvents | JsonLines] = ServerSentEvents


@attrs.define
class Loss:
    """Whether a change was drawn after which the calls cannot be told apart for certain."""

    any: bool = False


def value(random: Random, depth: int = 0) -> Any:
    match random.randrange(8 if depth < 2 else 6):
        case 0:
            return random.choice([None, True, False])
        case 1:
            return random.choice([0, 1, -1, 1.5, 10**20])
        case 6:
            return [value(random, depth + 1) for _ in range(random.randrange(3))]
        case 7:
            return {random.choice("abc"): value(random, depth + 1) for _ in range(random.randrange(3))}
        case _:
            return "".join(random.choice(TEXTS) for _ in range(random.randrange(4)))


def calls_of(random: Random) -> list[Call]:
    number = random.choice([1, 1, 2, 2, 3, 5])
    return [
        Call(
            f"call_{at}",
            random.choice(NAMES),
            {random.choice("abcd"): value(random) for _ in range(random.choice([0, 1, 1, 2, 3]))},
        )
        for at in range(number)
    ]


def split(text: str, random: Random) -> list[str]:
    """The text in pieces. Some of them are empty."""
    cuts = sorted(random.randrange(len(text) + 1) for _ in range(random.choice([0, 0, 1, 2, 5, 20])))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def json_text(call: Call, random: Random) -> str:
    text = json.dumps(
        call.arguments, ensure_ascii=random.random() < 0.5, indent=random.choice([None, None, 1])
    )
    match random.randrange(12):
        case 0 if not call.arguments:
            return random.choice(["", " ", "null"])
        case 1:
            return "{}" + text
        case 2:
            return json.dumps(text)
        case 3:
            return f"\n {text}"
        case _:
            return text


def interleaved(queues: Sequence[Sequence[Any]], random: Random) -> Iterator[Any]:
    """The entries of all queues, each in its own order."""
    left = [list(queue) for queue in queues if queue]
    while left:
        queue = random.choice(left)
        yield queue.pop(0)
        left = [each for each in left if each]


# ----------------------------------------------------------------- chat completions


def chat(calls: Sequence[Call], random: Random, loss: Loss) -> list[str]:
    mixed = random.random() < 0.4
    indexes = random.choice(["right", "right", "right", "from 1", "text", "none", "zero", "some"])
    ids = random.choice(["first", "first", "each", "some", "same", "missing", "random"])
    names = random.choice(["first", "first", "each", "parts", "some"])
    if ids in ("same", "missing") and indexes not in ("right", "from 1", "text"):
        mixed = False  # nothing tells pieces of such calls apart
    loss.any = not (
        indexes in ("right", "from 1", "text") and ids in ("first", "each", "some") and names != "some"
    )
    # Pieces with an id and no index are clear, too.
    loss.any &= not (ids == "each" and names != "some" and all(call.arguments for call in calls))
    queues: list[list[dict[str, Any]]] = []
    for at, call in enumerate(calls):
        text = json_text(call, random)
        if mixed and indexes in ("none", "zero", "some") and ids != "each":
            text = text.removeprefix("{}") or "{}"  # nothing tells it apart from an object of another call
        pieces = split(text, random)
        if random.random() < 0.1 and indexes == "right" and ids in ("first", "each"):
            pieces = ["".join(pieces[:end]) for end in range(1, len(pieces) + 1)]  # cumulative
            loss.any = True  # a doubly encoded text has no whole meaning before its end
        if random.random() < 0.3:
            pieces.insert(0, "")
        queue = []
        for number, text in enumerate(pieces):
            given: dict[str, Any] = {"function": {"arguments": text}, "type": "function"}
            first = number == 0
            sometimes = random.random() < 0.5
            if indexes in ("right", "text", "from 1") or (indexes == "some" and (first or sometimes)):
                index = at + (indexes == "from 1")
                given["index"] = str(index) if indexes == "text" else index
            elif indexes == "zero":
                given["index"] = 0
            if (first and ids != "missing") or ids == "each" or (ids == "some" and sometimes):
                given["id"] = "same" if ids == "same" else call.id
            elif ids == "random":
                given["id"] = f"random_{random.randrange(10**9)}"
            elif random.random() < 0.3:
                given["id"] = random.choice(["", None])
            if first or names == "each" or (names == "some" and sometimes):
                given["function"]["name"] = wired(call.name)
            elif random.random() < 0.2:
                given["function"]["name"] = random.choice(["", None])
            queue.append(given)
        if names == "parts" and len(queue) > 1 and not queue[0]["function"]["arguments"]:
            name = queue[0]["function"]["name"]
            cut = random.randrange(1, len(name))
            begun: dict[str, Any] = json.loads(json.dumps(queue[0]))
            begun["function"]["name"], queue[0]["function"]["name"] = name[:cut], name[cut:]
            queue.insert(0, begun)
            loss.any |= name[cut:] in NAMES or "id" not in begun or name[:cut] in NAMES
        if random.random() < 0.1 and ids not in ("missing", "random"):
            # The whole call again, as some gateways do at its end.
            again: dict[str, Any] = {
                "id": queue[0]["id"],
                "function": {"name": wired(call.name), "arguments": json.dumps(call.arguments)},
            }
            queue.append(({"index": queue[0]["index"]} if "index" in queue[0] else {}) | again)
            loss.any = True
        queues.append(queue)
    order = list(interleaved(queues, random)) if mixed else [each for queue in queues for each in queue]
    events = []
    while order:
        taken = random.choice([1, 1, 1, 2, len(order)])
        events.append(
            {"choices": [{"index": 0, "delta": {"tool_calls": order[:taken]}, "finish_reason": None}]}
        )
        order = order[taken:]
    events.insert(
        0, {"choices": [{"delta": {"role": "assistant", "content": random.choice([None, "", "hm 🙂"])}}]}
    )
    events.append({"choices": [{"delta": {}, "finish_reason": random.choice(["tool_calls", "stop"])}]})
    return [json.dumps(each, ensure_ascii=random.random() < 0.5) for each in events] + ["[DONE]"]


# ----------------------------------------------------------------- Claude


def claude(calls: Sequence[Call], random: Random, loss: Loss) -> list[str]:
    mixed = random.random() < 0.4
    reused = not mixed and random.random() < 0.2
    stops = random.random() < 0.8
    loss.any = reused and not stops
    queues = []
    for at, call in enumerate(calls):
        index = 0 if reused else at + 1
        start: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": wired(call.name), "input": {}}
        begun: dict[str, Any] = {"type": "content_block_start", "index": index, "content_block": start}
        queue = [begun]
        if random.random() < 0.1:
            queue.append(begun)
        if random.random() < 0.15:
            start["input"] = call.arguments
            pieces = []
        else:
            pieces = split(json_text(call, random), random)
        for text in pieces:
            delta = {"type": "input_json_delta", "partial_json": text}
            queue.append({"type": "content_block_delta", "index": index, "delta": delta})
        if stops:
            queue.append({"type": "content_block_stop", "index": index})
        queues.append(queue)
    if random.random() < 0.3 and not reused:
        text_block = {"type": "text", "text": random.choice(["", "hm"])}
        delta = {"type": "text_delta", "text": "🙂"}
        queues.insert(
            0,
            [
                {"type": "content_block_start", "index": 0, "content_block": text_block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
            ],
        )
    order = list(interleaved(queues, random)) if mixed else [each for queue in queues for each in queue]
    for _ in range(random.randrange(3)):
        order.insert(random.randrange(len(order) + 1), {"type": "ping"})
    events = [{"type": "message_start", "message": {"usage": {"input_tokens": 1}}}, *order]
    events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    return [json.dumps(each, ensure_ascii=random.random() < 0.5) for each in events]


# ----------------------------------------------------------------- Gemini


def gemini(calls: Sequence[Call], random: Random, loss: Loss) -> list[str]:
    parts: list[dict[str, Any]] = []
    for call in calls:
        asked: dict[str, Any] = {"id": call.id, "name": wired(call.name), "args": call.arguments}
        if not call.arguments and random.random() < 0.5:
            asked["args"] = None
        elif random.random() < 0.1:
            asked["args"] = json_text(call, random)
        parts.append({"functionCall": asked})
        if random.random() < 0.3:
            parts[-1]["thoughtSignature"] = "S"
        if random.random() < 0.1:
            parts.append({"functionCall": asked})
    for _ in range(random.randrange(3)):
        parts.insert(
            random.randrange(len(parts) + 1),
            random.choice([{"text": "hm 🙂"}, {"text": "t", "thought": True}, {}]),
        )
    events: list[dict[str, Any]] = []
    while parts:
        taken = random.choice([1, 1, 2, len(parts)])
        events.append({"candidates": [{"content": {"role": "model", "parts": parts[:taken]}}]})
        parts = parts[taken:]
    if random.random() < 0.5:
        events[-1]["candidates"][0]["finishReason"] = "STOP"
    else:
        events.append({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}})
    return [json.dumps(each, ensure_ascii=random.random() < 0.5) for each in events]


# ----------------------------------------------------------------- the Responses API


def responses(calls: Sequence[Call], random: Random, loss: Loss) -> list[str]:
    mixed = random.random() < 0.4
    indexes = random.choice(["right", "right", "gaps", "zero", "none"])
    ends = random.choice(["all", "all", "all", "arguments", "items", "none"])
    with_id = indexes == "none" or random.random() < 0.8
    begins = random.random() < 0.9
    listed = random.choice(["all", "all", "none", "null"])
    mixed &= indexes != "zero"
    loss.any = ends == "none" or (ends == "arguments" and not begins)
    if indexes == "zero":
        loss.any |= ends in ("arguments", "none") or not with_id
    queues: list[list[dict[str, Any]]] = []
    items = []
    for at, call in enumerate(calls):
        text = json_text(call, random)
        item: dict[str, Any] = {
            **({"id": f"fc_{at}"} if with_id else {}),
            "type": "function_call",
            "call_id": call.id,
            "name": wired(call.name),
            "arguments": text,
            "status": random.choice(["completed", None]),
        }
        items.append(item)
        where: dict[str, Any] = {"item_id": f"fc_{at}"} if with_id else {}
        if indexes != "none":
            where["output_index"] = {"right": at, "gaps": at * 3 + 1, "zero": 0}[indexes]
        opened = {**item, "arguments": "", "status": "in_progress"}
        queue: list[dict[str, Any]] = [{"type": "response.output_item.added", **where, "item": opened}]
        queue = queue if begins else []
        for piece in split(text, random):
            queue.append({"type": "response.function_call_arguments.delta", **where, "delta": piece})
        if ends in ("all", "arguments"):
            queue.append({"type": "response.function_call_arguments.done", **where, "arguments": text})
        if ends in ("all", "items"):
            whole = {"type": "response.output_item.done", **where, "item": item}
            queue += [whole] * random.choice([1, 1, 1, 2])
        queues.append(queue)
    events = list(interleaved(queues, random)) if mixed else [each for queue in queues for each in queue]
    for _ in range(random.randrange(3)):
        events.insert(random.randrange(len(events) + 1), {"type": "keepalive", "sequence_number": 1})
    output = {"all": items, "none": [], "null": None}[listed]
    events.append({"type": "response.completed", "response": {"status": "completed", "output": output}})
    return [json.dumps(each, ensure_ascii=random.random() < 0.5) for each in events]


# ----------------------------------------------------------------- Ollama


def ollama(calls: Sequence[Call], random: Random, loss: Loss) -> list[str]:
    """Calls in lines, of which each has whole calls."""
    ids = random.choice(["each", "each", "missing", "same"])
    asked: list[dict[str, Any]] = []
    for at, call in enumerate(calls):
        given: Any = call.arguments
        if not call.arguments and random.random() < 0.3:
            given = None
        elif random.random() < 0.3:
            given = json_text(call, random)
        one: dict[str, Any] = {"function": {"name": wired(call.name), "arguments": given}}
        if ids != "missing":
            one["id"] = call.id if ids == "each" else "same"
        if random.random() < 0.5:
            one["function"]["index"] = random.choice([at, 0])
        asked.append(one)
        if ids == "each" and random.random() < 0.1:
            asked.append(one)
    # With one id, equal calls are one.
    loss.any = ids == "same" and len({(call.name, json.dumps(call.arguments)) for call in calls}) < len(calls)
    lines: list[dict[str, Any]] = [{"message": {"role": "assistant", "content": ""}, "done": False}]
    while asked:
        taken = random.choice([1, 1, 2, len(asked)])
        lines.append(
            {"message": {"content": random.choice(["", None, "hm 🙂"]), "tool_calls": asked[:taken]}}
        )
        asked = asked[taken:]
        if random.random() < 0.3:
            lines.append({"message": {"thinking": random.choice(["", "hm", None]), "content": ""}})
    end = {"done": True, "done_reason": random.choice(["stop", "tool_calls"])}
    if random.random() < 0.3:
        lines[-1] |= end  # the last calls beside the end: rig#1308
    else:
        lines.append({"message": {"content": ""}, **end} if random.random() < 0.5 else end)
    return [json.dumps(each, ensure_ascii=random.random() < 0.5) for each in lines]


# ----------------------------------------------------------------- Converse


def converse(calls: Sequence[Call], random: Random, loss: Loss) -> list[str]:
    """The events in the frames of AWS, as JSON texts."""
    mixed = random.random() < 0.4
    reused = not mixed and random.random() < 0.2
    loss.any = reused and not all(call.arguments for call in calls)  # nothing tells where such a call ends
    queues = []
    for at, call in enumerate(calls):
        index = 0 if reused else at + 1
        use = {"toolUse": {"toolUseId": call.id, "name": wired(call.name)}}
        begun = ("contentBlockStart", {"contentBlockIndex": index, "start": use})
        queue: list[tuple[str, dict[str, Any]]] = [begun] * random.choice([1, 1, 1, 2])
        for part in split(json_text(call, random), random):
            delta = {"toolUse": {"input": part}}
            queue.append(("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
        if random.random() < 0.8:
            queue.append(("contentBlockStop", {"contentBlockIndex": index}))
        queues.append(queue)
    if random.random() < 0.3 and not reused:
        said = [
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": each}}) for each in ("", "hm 🙂")
        ]
        queues.insert(0, said)
    order = list(interleaved(queues, random)) if mixed else [each for queue in queues for each in queue]
    events = [("messageStart", {"role": "assistant"}), *order]
    events.append(("messageStop", {"stopReason": random.choice(["tool_use", "end_turn"])}))
    if random.random() < 0.8:
        events.append(("metadata", {"usage": {"inputTokens": 1}}))
    return [
        json.dumps({"event": name, "payload": payload}, ensure_ascii=random.random() < 0.5)
        for name, payload in events
    ]


# ----------------------------------------------------------------- all


def wired(name: str) -> str:
    from stopgo.actors.models.codecs.codec import wire_name

    return wire_name(name)


def spec(provider: Any) -> ModelSpec:
    return ModelSpec("m", provider, "m", max_tokens=100)


DIALECTS = (
    Dialect("chat", OpenAICodec(spec("openai_compatible"), PROFILES["openai_compatible"].flavour), chat),
    Dialect("claude", AnthropicCodec(spec("anthropic")), claude),
    Dialect("gemini", GoogleCodec(spec("google")), gemini),
    Dialect("responses", ResponsesCodec(spec("openai"), "here"), responses),
    Dialect("ollama", OllamaCodec(spec("ollama")), ollama, JsonLines),
    Dialect("converse", ConverseCodec(spec("bedrock")), converse, JsonLines),
)


def as_bytes(dialect: Dialect, events: Sequence[str], random: Random) -> list[bytes]:
    """The events as a server sends them, in chunks that may end inside a character or a line."""
    end = random.choice(["\n", "\r\n", "\r"])
    raw = b""
    if dialect.framing is JsonLines:
        line_end = end if end != "\r" else "\n\n"
        raw = line_end.join(events).encode()
        events = []
    for event in events:
        if random.random() < 0.05:
            raw += f": comment{end}{end}".encode()
        raw += f"data:{random.choice(['', ' '])}{event}{end}{end}".encode()
    if dialect.framing is ServerSentEvents or random.random() < 0.8:  # the last line may have no end
        raw += end.encode()
    chunks = []
    while raw:
        taken = random.choice([1, 3, 17, 100, len(raw)])
        chunks.append(raw[:taken])
        raw = raw[taken:]
    return chunks


def framed(framing: Framing, chunks: Iterable[bytes]) -> Iterator[str]:
    for chunk in chunks:
        yield from framing.feed(chunk)
    yield from framing.end()


def judge(dialect: Dialect, random: Random) -> str | None:
    """What is wrong with one mutated stream; None: nothing."""
    calls, loss = calls_of(random), Loss()
    events = dialect.write(calls, random, loss)
    stream = dialect.codec.stream(request(tools=TOOLS), lambda _: None)
    try:
        for event in framed(dialect.framing(), as_bytes(dialect, events, random)):
            if not stream.ended:
                stream.feed(event)
        reply = stream.reply()
    except ModelFailed as failure:
        return None if loss.any else f"failed: {failure}\n{story(calls, events)}"
    except Exception:
        return f"{traceback.format_exc()}\n{story(calls, events)}"
    left = [(call.name, json.dumps(call.arguments)) for call in calls]
    for made in reply.tool_calls:
        if made.problem is not None or made.name not in NAMES:
            continue  # the model is told that it was not sent
        sent = (made.name, json.dumps(made.arguments))
        if sent not in left:
            return f"sent {sent}\n{story(calls, events)}"
        left.remove(sent)
    if left and not loss.any:
        return f"not sent {left}: {[made.problem for made in reply.tool_calls]}\n{story(calls, events)}"
    return None


def story(calls: Sequence[Call], events: Sequence[str]) -> str:
    return "\n".join([*map(str, calls), *events])


def main(number: int, seed: int) -> int:
    faults = 0
    for at in range(number):
        for dialect in DIALECTS:
            wrong = judge(dialect, Random(f"{seed} {dialect.name} {at}"))
            if wrong is not None:
                faults += 1
                print(f"--- {dialect.name}, stream {at} of seed {seed}: {wrong}", flush=True)
                if faults >= 20:
                    return 1
    print(f"{number} streams of each of {', '.join(each.name for each in DIALECTS)}: {faults} faults")
    return faults and 1


if __name__ == "__main__":
    sys.exit(
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    )
