"""Websocket clients that break the rules of RFC 6455, or keep to them and flood the server."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat

import psutil
import pytest
import trio

from tests.e2e.conftest import Server

from .raw_websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Frame,
    RawSocket,
    close_frame,
    frame,
    raw_websocket,
)

MAX_MESSAGE = 2**16
MEMORY = 2**24
"""Limit of the growth of the server, in bytes, whatever one client sends."""

BAD_TEXTS = {
    "a byte that UTF-8 has not": b"\xff",
    "half a character": b"\xc3",
    "a continuation byte alone": b"a\x80",
    "an overlong slash": b"\xc0\xaf",
    "a surrogate": b"\xed\xa0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
}
KAPPA = "κόσμε".encode()

# Each row: the bytes after the handshake, and the codes that may close the connection. 1002: protocol error,
# 1007: not UTF-8, 1009: message too big.
ABUSE: dict[str, tuple[bytes, set[int]]] = {
    **{f"text with {name}": (frame(TEXT, text), {1007}) for name, text in BAD_TEXTS.items()},
    **{
        f"{name}, in fragments": (
            b"".join(
                [
                    frame(TEXT, KAPPA, fin=False),
                    *(frame(CONTINUATION, bytes([byte]), fin=False) for byte in text),
                    frame(CONTINUATION, b""),
                ]
            ),
            {1007},
        )
        for name, text in BAD_TEXTS.items()
    },
    "reason of a close frame that is not UTF-8": (close_frame(1000, b"\xff"), {1007, 1002}),
    **{f"reserved bit {bit}": (frame(TEXT, b"a", rsv=bit), {1002}) for bit in (1, 2, 4)},
    **{f"reserved bit {bit} of a ping": (frame(PING, b"a", rsv=bit), {1002}) for bit in (1, 2, 4)},
    **{f"opcode {code:x}": (frame(code, b"a"), {1002}) for code in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "a frame without a mask": (frame(TEXT, b"a", masked=False), {1002}),
    "a close frame without a mask": (frame(CLOSE, b"\x03\xe8", masked=False), {1002}),
    "a ping that is too long": (frame(PING, b"x" * 126), {1002}),
    "a close frame that is too long": (close_frame(1000, b"x" * 124), {1002}),
    "a ping in fragments": (frame(PING, b"a", fin=False) + frame(CONTINUATION, b"b"), {1002}),
    "a close frame in fragments": (frame(CLOSE, b"\x03\xe8", fin=False), {1002}),
    "a continuation of nothing": (frame(CONTINUATION, b"a"), {1002}),
    "a continuation of nothing, to be continued": (frame(CONTINUATION, b"a", fin=False), {1002}),
    "a message inside another": (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), {1002}),
    "a message of 64 KiB and a byte": (frame(TEXT, b"x" * (MAX_MESSAGE + 1)), {1009}),
    "bytes of 64 KiB and one": (frame(BINARY, b"\xff" * (MAX_MESSAGE + 1)), {1009}),
    "fragments of 64 KiB and a byte": (
        frame(TEXT, b"x" * MAX_MESSAGE, fin=False) + frame(CONTINUATION, b"x"),
        {1009},
    ),
    "a long length of a short frame": (
        struct.pack("!BBQ", 0x81, 0x80 | 127, 2**63) + b"mask" + b"x" * 100,
        {1002, 1009},
    ),
    "a length of 2**63 - 1": (frame(TEXT, b"x" * (MAX_MESSAGE + 1), length=2**63 - 1), {1009}),
    "a length of 1 GiB": (frame(TEXT, b"x" * (MAX_MESSAGE + 1), length=2**30), {1009}),
    "a length of 1 GiB of a continuation": (
        frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"x" * MAX_MESSAGE, length=2**30),
        {1009},
    ),
    "a length in more bytes than it takes": (struct.pack("!BBH", 0x81, 0x80 | 126, 5) + bytes(9), {1002}),
    "a close frame of one byte": (frame(CLOSE, b"\x03"), {1002}),
    **{
        f"close code {code}": (close_frame(code), {1002})
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    },
    "not a frame": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", {1002}),
    "zeros": (bytes(1000), {1002}),
    "ones": (b"\xff" * 1000, {1002}),
}
SMOKE = {
    "text with half a character",
    "reserved bit 4",
    "opcode b",
    "a frame without a mask",
    "a ping that is too long",
    "a continuation of nothing",
    "fragments of 64 KiB and a byte",
    "a length of 1 GiB",
    "close code 1005",
}


@asynccontextmanager
async def abuse_of(server: Server, receive_buffer: int | None = None) -> AsyncIterator[RawSocket]:
    """A websocket that receives no events. Afterwards other clients are served, and the log has no error."""
    id = server.new()
    process = psutil.Process(server.run.process.pid)
    before, log = process.memory_info().rss, len(server.log)
    async with raw_websocket(server.run.url, f"/conversations/{id}/ws?after=1", receive_buffer) as raw:
        yield raw
    assert server.get("/health")["status"] == "ok"
    async with raw_websocket(server.run.url, f"/conversations/{id}/ws") as other:
        first = await other.frame()
        assert first is not None
        assert first.json["type"] == "conversation.created"
    assert process.memory_info().rss - before < MEMORY
    assert not [word for word in ("Traceback", " ERROR ", "internal error") if word in server.log[log:]]


def marked(names: object) -> list[object]:
    """The rows as parameters. Rows that are not in `SMOKE` run with `make streams` only."""
    assert isinstance(names, dict)
    assert names.keys() >= SMOKE or not names.keys() & SMOKE
    marks = [pytest.mark.streams]
    return [pytest.param(*row, id=name, marks=[] if name in SMOKE else marks) for name, row in names.items()]


async def closing(raw: RawSocket, *, answers: bool = True) -> Frame:
    """The close frame of the server, which has to be the last one."""
    while (found := await raw.frame()) is not None and found.opcode != CLOSE:
        assert found.opcode in (TEXT, PONG)
    assert found is not None, "the connection ended without a close frame"
    if answers:  # and leaves, or the server would wait for that
        await raw.send(close_frame(found.code if found.payload else None))
        with suppress(trio.BrokenResourceError):  # the server was faster
            await raw.stream.send_eof()
    assert await raw.rest() == b""
    return found


@pytest.mark.parametrize(("data", "codes"), marked(ABUSE))
async def test_a_broken_rule_ends_the_connection(shared_server: Server, data: bytes, codes: set[int]) -> None:
    async with abuse_of(shared_server) as raw:
        await raw.send(data)
        assert (await closing(raw)).code in codes


@pytest.mark.streams
@pytest.mark.parametrize(("data", "codes"), marked(ABUSE))
async def test_the_same_byte_by_byte(shared_server: Server, data: bytes, codes: set[int]) -> None:
    """The server may notice the mistake before the frame is complete."""
    async with abuse_of(shared_server) as raw:
        raw.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data[:300]:
            await raw.send(bytes([byte]))
        await raw.send(data[300:])
        assert (await closing(raw)).code in codes


FINE: dict[str, bytes] = {
    "text": frame(TEXT, KAPPA),
    "text that is no JSON, empty": frame(TEXT),
    "bytes": frame(BINARY, b"\xff\x00"),
    "a message of 64 KiB": frame(TEXT, b"x" * MAX_MESSAGE),
    "fragments of 64 KiB": frame(BINARY, b"x" * 1000, fin=False)
    + frame(CONTINUATION, b"x" * (MAX_MESSAGE - 1000)),
    "a character in three fragments": frame(TEXT, KAPPA[:1], fin=False)
    + frame(CONTINUATION, b"", fin=False)
    + frame(CONTINUATION, KAPPA[1:]),
    "pings between fragments": frame(TEXT, b"a", fin=False)
    + frame(PONG, b"unsolicited")
    + frame(CONTINUATION, b"b", fin=False)
    + frame(PONG)
    + frame(CONTINUATION, b"c"),
    "unsolicited pongs": frame(PONG, b"x" * 125) * 100,
    "a thousand messages": frame(TEXT, b"hello") * 1000,
    "a thousand fragments": frame(TEXT, b"a", fin=False)
    + frame(CONTINUATION, b"b", fin=False) * 1000
    + frame(CONTINUATION),
}


@pytest.mark.streams
@pytest.mark.parametrize("data", FINE.values(), ids=FINE.keys())
async def test_correct_messages_are_ignored(shared_server: Server, data: bytes) -> None:
    """The connection stays open: pings before and after are answered, then the close frame."""
    async with abuse_of(shared_server) as raw:
        await raw.send(frame(PING, b"before") + data + frame(PING, b"x" * 125))
        for payload in (b"before", b"x" * 125):
            assert await raw.frame() == Frame(PONG, payload)
        await raw.send(close_frame())
        assert (await closing(raw)).code == 1000


@pytest.mark.parametrize(
    ("code", "answer"),
    [(code, code) for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)]
    + [(None, None)],
)
@pytest.mark.streams
async def test_a_close_frame_is_answered(shared_server: Server, code: int | None, answer: int | None) -> None:
    """Bytes behind it are ignored."""
    async with abuse_of(shared_server) as raw:
        await raw.send(close_frame(code, b"bye" if code else b"") + frame(3, b"a") + b"\xff" * 100)
        assert (await closing(raw)).code in (answer or 1005, 1000)


async def flood(raw: RawSocket, data: bytes) -> None:
    """Send as fast as the server receives, until it ends the connection."""
    with suppress(trio.BrokenResourceError):
        for piece in repeat(data):
            await raw.stream.send_all(piece)


@pytest.mark.streams
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "never reads"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame(TEXT, b"hello") * 100, id="messages"),
        pytest.param(frame(TEXT, b"x" * MAX_MESSAGE), id="large messages"),
        pytest.param(frame(PING, b"x" * 125) * 100, id="pings"),
        pytest.param(frame(PONG, b"x" * 125) * 100, id="pongs"),
        pytest.param(frame(CONTINUATION, fin=False) * 100, id="endless fragments of nothing"),
    ],
)
async def test_a_flood_does_not_delay_others(shared_server: Server, data: bytes, reads: bool) -> None:
    """The memory is bounded, too, when the client does not read the answers to its pings."""
    async with abuse_of(shared_server, None if reads else 4096) as raw:
        if data[0] == CONTINUATION:
            await raw.send(frame(TEXT, fin=False))
        async with trio.open_nursery() as nursery:
            if reads:
                nursery.start_soon(raw.rest)
            nursery.start_soon(flood, raw, data)
            for _ in range(10):
                await trio.to_thread.run_sync(shared_server.get, "/health")
            nursery.cancel_scope.cancel()


@pytest.mark.streams
async def test_an_endless_message_is_refused(shared_server: Server) -> None:
    async with abuse_of(shared_server) as raw:
        await raw.send(frame(TEXT, b"a", fin=False))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, raw, frame(CONTINUATION, b"x" * 100, fin=False) * 10)
            assert (await closing(raw, answers=False)).code == 1009
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("frames", [b"", frame(TEXT, b"x" * 100)[:20]], ids=["nothing", "half a frame"])
async def test_a_half_closed_connection_ends(shared_server: Server, frames: bytes) -> None:
    async with abuse_of(shared_server) as raw:
        await raw.send(frames)
        await raw.stream.send_eof()
        assert {each.opcode for each in await raw.frames()} <= {CLOSE}


@pytest.mark.streams
async def test_half_a_frame_delays_no_event(shared_server: Server) -> None:
    id = shared_server.new()
    async with raw_websocket(shared_server.run.url, f"/conversations/{id}/ws?after=1") as raw:
        await raw.send(frame(TEXT, b"x" * 100)[:20])
        shared_server.post(f"/conversations/{id}/complete")
        found = await raw.frame()
        assert found is not None
        assert found.json["type"] == "conversation.completed"


@pytest.mark.streams
async def test_a_reset_connection_is_no_error(shared_server: Server) -> None:
    async with abuse_of(shared_server) as raw:
        await raw.send(frame(PING) + frame(TEXT, b"x" * 100)[:20])
        raw.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.streams
async def test_an_unanswered_close_frame_ends_too(shared_server: Server) -> None:
    """The server ends the connection of a client that neither answers nor disconnects."""
    async with abuse_of(shared_server) as raw:
        await raw.send(frame(3, b"a"))
        assert (await closing(raw, answers=False)).code == 1002
