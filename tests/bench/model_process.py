"""A provider of nothing but canned answers, each after 50 ms: its CPU is not that of who asks."""

from __future__ import annotations

import json
from typing import Any

import h11
import trio

LATENCY = 0.05
TEXT = "The resources are in order: three servers run, one database waits for its owner. "
WORDS = [f"{word} " for word in (TEXT * 2).split()]
CALL = {"name": "resources_list", "arguments": '{"pattern": "^test-[0-9]+$"}'}


def chat() -> list[dict[str, Any]]:
    def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    call = {"index": 0, "id": "call_1", "type": "function", "function": CALL}
    usage = {"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 50}}
    return [*(piece({"content": word}) for word in WORDS), piece({"tool_calls": [call]}, "tool_calls"), usage]


def chat_words() -> list[dict[str, Any]]:
    *words, call, usage = chat()
    call["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    return [*words, call, usage]


def chat_whole(*, calls: bool = True) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(WORDS)}
    if calls:
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": CALL}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 900, "completion_tokens": 50}}


def gemini(parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 50}}


GEMINI_CALL = {"functionCall": {"name": CALL["name"], "args": json.loads(CALL["arguments"])}}


def claude() -> list[dict[str, Any]]:
    def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        begin = {"type": "content_block_start", "index": index, "content_block": start}
        pieces = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        return [begin, *pieces, {"type": "content_block_stop", "index": index}]

    texts = [{"type": "text_delta", "text": word} for word in WORDS]
    call = {"type": "tool_use", "id": "toolu_1", "name": CALL["name"], "input": {}}
    json_delta = {"type": "input_json_delta", "partial_json": CALL["arguments"]}
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 900, "output_tokens": 1}}},
        *block(0, {"type": "text", "text": ""}, texts),
        *block(1, call, [json_delta]),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 50}},
        {"type": "message_stop"},
    ]


def claude_whole() -> dict[str, Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": CALL["name"], "input": json.loads(CALL["arguments"])}
    content = [{"type": "text", "text": "".join(WORDS)}, call]
    usage = {"input_tokens": 900, "output_tokens": 50}
    return {"type": "message", "content": content, "stop_reason": "tool_use", "usage": usage}


def whole(body: object) -> bytes:
    raw = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


def stream(events: list[dict[str, Any]], *, done: bool = False) -> bytes:
    """Everything at once, one chunk for each event."""
    data = [json.dumps(event) for event in events] + ["[DONE]"] * done
    named = [f"event: {event['type']}\n" if "type" in event else "" for event in events] + [""] * done
    lines = [f"{name}data: {each}\n\n".encode() for name, each in zip(named, data, strict=True)]
    chunks = b"".join(f"{len(line):x}\r\n".encode() + line + b"\r\n" for line in lines)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n\r\n"


ANSWERS = {
    ("chat", True): stream(chat(), done=True),
    ("chat", False): whole(chat_whole()),
    ("words", True): stream(chat_words(), done=True),
    ("words", False): whole(chat_whole(calls=False)),
    ("gemini", True): stream(
        [*(gemini([{"text": word}], None) for word in WORDS), gemini([GEMINI_CALL], "STOP")]
    ),
    ("gemini", False): whole(gemini([{"text": "".join(WORDS)}, GEMINI_CALL], "STOP")),
    ("claude", True): stream(claude()),
    ("claude", False): whole(claude_whole()),
}


def answer(path: str, body: bytes) -> bytes:
    if "models/" in path:
        return ANSWERS["gemini", "alt=sse" in path]
    streamed = b'"stream":true' in body
    if path.startswith("/words/") or (path.startswith("/turns/") and b'"role":"tool"' in body):
        return ANSWERS["words", streamed]
    return ANSWERS["claude" if path.endswith("/messages") else "chat", streamed]


async def serve(stream: trio.SocketStream) -> None:
    connection = h11.Connection(h11.SERVER)
    path, body = "", b""
    while True:
        event = connection.next_event()
        match event:
            case h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            case h11.Request():
                path, body = event.target.decode(), b""
            case h11.Data():
                body += bytes(event.data)
            case h11.EndOfMessage():
                await trio.sleep(LATENCY)
                await stream.send_all(answer(path, body))
                connection = h11.Connection(h11.SERVER)
            case _:
                return


async def main() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    await trio.serve_listeners(serve, [listener])


if __name__ == "__main__":
    trio.run(main)
