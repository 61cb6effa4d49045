"""A websocket client that can break every rule of RFC 6455: frames built by hand on a plain connection."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""The answer of the server to that key (the example of RFC 6455, section 1.3)."""
UPGRADE = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}


@attrs.frozen
class Frame:
    opcode: int
    payload: bytes
    fin: bool = True
    rsv: int = 0

    @property
    def code(self) -> int:
        """Of a close frame; 1005 when it has none."""
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else 1005

    @property
    def reason(self) -> str:
        return self.payload[2:].decode()

    @property
    def json(self) -> Any:
        return json.loads(self.payload)


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    masked: bool = True,
    length: int | None = None,
) -> bytes:
    """A frame as a client sends it. `length` is declared in place of the true one."""
    size = len(payload) if length is None else length
    first, mask_bit = fin << 7 | rsv << 4 | opcode, masked << 7
    if size < 126:
        head = struct.pack("!BB", first, mask_bit | size)
    elif size < 2**16:
        head = struct.pack("!BBH", first, mask_bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, mask_bit | 127, size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(a ^ b for a, b in zip(payload, cycle(mask), strict=False))


def close_frame(code: int | None = 1000, reason: bytes = b"") -> bytes:
    return frame(CLOSE, b"" if code is None else struct.pack("!H", code) + reason)


def taken(data: bytearray) -> Frame | None:
    """Take a frame of the server off the front of `data`, if one is complete."""
    if len(data) < 2:
        return None
    assert not data[1] & 0x80, "a server does not mask"
    size, start = data[1], 2
    if size >= 126:
        width = {126: 2, 127: 8}[size]
        start += width
        if len(data) < start:
            return None
        size = int.from_bytes(data[2:start], "big")
    if len(data) < start + size:
        return None
    found = Frame(data[0] & 0xF, bytes(data[start : start + size]), bool(data[0] & 0x80), data[0] >> 4 & 7)
    del data[: start + size]
    return found


def request(target: str, headers: dict[str, str], method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@attrs.define(eq=False)
class RawSocket:
    """A connection to the server whose every byte the test chooses."""

    stream: trio.SocketStream
    head: str = ""
    """Status line and headers of the answer, once `answered`."""
    data: bytearray = attrs.field(factory=bytearray)
    """Received bytes that were not parsed yet."""
    ended: bool = False

    async def send(self, data: bytes) -> None:
        """Send `data`; a connection that the server has closed is no error."""
        with suppress(trio.BrokenResourceError):
            await self.stream.send_all(data)

    async def answered(self) -> int:
        """The status of the answer."""
        while b"\r\n\r\n" not in self.data:
            assert await self.more(), f"no answer: {bytes(self.data)!r}"
        head, _, rest = bytes(self.data).partition(b"\r\n\r\n")
        self.head, self.data = head.decode("latin-1"), bytearray(rest)
        return int(self.head.split()[1])

    async def more(self, size: int = 2**16) -> bool:
        """Receive more `data`; False at the end of the connection, be it orderly or a reset."""
        try:
            data = await self.stream.receive_some(size)
        except trio.BrokenResourceError:
            data = b""
        self.data += data
        self.ended = self.ended or not data
        return bool(data)

    async def rest(self) -> bytes:
        """Receive until the connection ends; all that was not parsed."""
        while await self.more():
            pass
        return bytes(self.data)

    async def frame(self) -> Frame | None:
        """The next frame; None at the end of the connection."""
        while (found := taken(self.data)) is None:
            if not await self.more():
                return None
        return found

    async def frames(self) -> list[Frame]:
        """The frames until the connection ends."""
        return [each async for each in self]

    async def __aiter__(self) -> AsyncIterator[Frame]:
        while (each := await self.frame()) is not None:
            yield each

    async def shake_hands(self, target: str, headers: dict[str, str] | None = None) -> None:
        await self.send(request(target, {**UPGRADE, **(headers or {})}))
        assert await self.answered() == 101, self.head + bytes(self.data).decode()
        assert f"sec-websocket-accept: {ACCEPT.lower()}" in self.head.lower()


async def connected(url: str, receive_buffer: int | None = None) -> RawSocket:
    """Connect to a server. `receive_buffer`: bytes that the system holds for a client that does not read."""
    where = urlsplit(url)
    sock = trio.socket.socket()
    if receive_buffer is not None:  # has to be set before the connection is
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await sock.connect((where.hostname, where.port))
    return RawSocket(trio.SocketStream(sock))


@asynccontextmanager
async def raw_socket(url: str, receive_buffer: int | None = None) -> AsyncIterator[RawSocket]:
    raw = await connected(url, receive_buffer)
    try:
        yield raw
    finally:
        await trio.aclose_forcefully(raw.stream)


@asynccontextmanager
async def raw_websocket(url: str, target: str, receive_buffer: int | None = None) -> AsyncIterator[RawSocket]:
    """A websocket whose handshake is done."""
    async with raw_socket(url, receive_buffer) as raw:
        await raw.shake_hands(target)
        yield raw
