from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp.transports.lines import LineWriter


class Pipe:
    """A real pipe with a capacity of one page."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        self.writer = trio.lowlevel.FdStream(writer)

    async def read(self) -> bytes:
        """Read until every line that was put has arrived."""
        text = b""
        while True:
            await wait_all_tasks_blocked()
            try:
                text += os.read(self.reader, 1 << 20)
            except BlockingIOError:
                return text


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)


async def test_lines_are_written_whole_and_in_order(pipe: Pipe, nursery: trio.Nursery) -> None:
    writer = LineWriter()
    writer.put(b"before")
    nursery.start_soon(writer.run, pipe.writer)
    await wait_all_tasks_blocked()
    lines = [b"%d" % number * size for number, size in enumerate((1, 3 * pipe.size, 5, 2 * pipe.size, 2))]
    for line in lines[:-1]:
        writer.put(line)
    nursery.start_soon(writer.write, lines[-1])
    assert await pipe.read() == b"".join(line + b"\n" for line in [b"before", *lines])
    await writer.write(b"last")
    assert await pipe.read() == b"last\n"
    await pipe.writer.aclose()


async def test_line_can_be_withdrawn_until_it_is_begun(pipe: Pipe, nursery: trio.Nursery) -> None:
    writer = LineWriter()
    nursery.start_soon(writer.run, pipe.writer)
    await wait_all_tasks_blocked()
    assert not writer.withdraw(writer.put(b"written"))
    begun = writer.put(b"x" * 2 * pipe.size)
    waiting = writer.put(b"withdrawn")
    assert not writer.withdraw(begun)
    assert writer.withdraw(waiting)
    assert not writer.withdraw(waiting)
    writer.put(b"after it")
    await wait_all_tasks_blocked()
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.write(b"cancelled")
    assert await pipe.read() == b"written\n" + b"x" * 2 * pipe.size + b"\nafter it\n"
    await pipe.writer.aclose()


async def test_line_can_be_withdrawn_from_a_full_pipe(pipe: Pipe, nursery: trio.Nursery) -> None:
    writer = LineWriter()
    nursery.start_soon(writer.run, pipe.writer)
    await wait_all_tasks_blocked()
    full = b"x" * (pipe.size - 1)
    writer.put(full)
    assert writer.withdraw(writer.put(b"withdrawn"))
    assert await pipe.read() == full + b"\n"
    await pipe.writer.aclose()


async def test_line_begun_after_a_withdrawal_is_completed(pipe: Pipe, nursery: trio.Nursery) -> None:
    writer = LineWriter()
    nursery.start_soon(writer.run, pipe.writer)
    long = b"x" * 2 * pipe.size
    for _ in range(20):  # trio decides which of two tasks goes first
        await wait_all_tasks_blocked()
        writer.put(b"x" * (pipe.size - 1))
        assert writer.withdraw(writer.put(b"withdrawn"))
        os.read(pipe.reader, pipe.size)
        await trio.lowlevel.checkpoint()
        writer.put(long)
        assert await pipe.read() == long + b"\n"
    await pipe.writer.aclose()


async def test_lines_do_not_overtake_each_other(pipe: Pipe, nursery: trio.Nursery) -> None:
    writer = LineWriter()
    nursery.start_soon(writer.run, pipe.writer)
    await wait_all_tasks_blocked()
    writer.put(b"x" * (pipe.size - 1))
    writer.put(b"second")
    os.read(pipe.reader, pipe.size)
    writer.put(b"third")
    assert await pipe.read() == b"second\nthird\n"
    await pipe.writer.aclose()


async def test_after_the_end_lines_are_dropped(
    pipe: Pipe, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    writer, scope = LineWriter(), trio.CancelScope()
    nursery.start_soon(_run, writer, pipe, scope)
    await wait_all_tasks_blocked()
    writer.put(b"x" * 2 * pipe.size)
    nursery.start_soon(writer.write, b"waits")
    await wait_all_tasks_blocked()
    scope.cancel()
    await wait_all_tasks_blocked()
    writer.put(b"never")
    await writer.write(b"too late")
    assert set(await pipe.read()) == {ord("x")}
    assert writer.withdraw(writer.put(b"never"))
    await pipe.writer.aclose()


async def test_pipe_without_a_reader_ends_the_writer(pipe: Pipe) -> None:
    writer = LineWriter()
    os.dup2(other := os.open(os.devnull, os.O_RDONLY), pipe.reader)
    os.close(other)
    line = writer.put(b"line")
    with pytest.raises(trio.BrokenResourceError):
        await writer.run(pipe.writer)
    assert writer.withdraw(line)
    await pipe.writer.aclose()


async def _run(writer: LineWriter, pipe: Pipe, scope: trio.CancelScope) -> None:
    with scope:
        await writer.run(pipe.writer)
