from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from stopgo.actors.mcp.line_writer import LineWriter


class Pipe(trio.abc.SendStream):
    """Takes what it is given once it is free."""

    def __init__(self) -> None:
        self.free = trio.Event()
        self.text = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.free.wait()
        self.text += bytes(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.free.wait()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_lines_are_written_whole_and_in_their_order(nursery: trio.Nursery) -> None:
    writer, pipe = LineWriter(), Pipe()
    pipe.free.set()
    nursery.start_soon(writer.run, pipe)
    for number in range(3):
        writer.put(b"%d" % number)
    await writer.write(b"last")
    await wait_all_tasks_blocked()
    assert pipe.text == b"0\n1\n2\nlast\n"


async def test_a_line_is_withdrawn_until_it_is_begun(nursery: trio.Nursery) -> None:
    writer, pipe = LineWriter(), Pipe()
    nursery.start_soon(writer.run, pipe)
    begun = writer.put(b"begun")
    await wait_all_tasks_blocked()
    waiting = writer.put(b"withdrawn")
    assert not writer.withdraw(begun)
    assert writer.withdraw(waiting)
    assert not writer.withdraw(waiting)
    writer.put(b"after it")
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.write(b"cancelled")
    pipe.free.set()
    await wait_all_tasks_blocked()
    assert pipe.text == b"begun\nafter it\n"


async def test_after_the_end_nothing_is_written_and_nobody_waits(nursery: trio.Nursery) -> None:
    writer, pipe = LineWriter(), Pipe()
    scope = trio.CancelScope()
    nursery.start_soon(_run, writer, pipe, scope)
    writer.put(b"begun")
    await wait_all_tasks_blocked()
    nursery.start_soon(writer.write, b"waits")
    await wait_all_tasks_blocked()
    scope.cancel()
    await wait_all_tasks_blocked()
    writer.put(b"never")
    with trio.fail_after(1):
        await writer.write(b"too late")


async def _run(writer: LineWriter, pipe: Pipe, scope: trio.CancelScope) -> None:
    with scope:
        await writer.run(pipe)
