"""A stdio server: one child process, its process group, and the messages on its pipes.

The SDK has a transport of its own. This one knows why a child died (exit code, last words on
stderr), frames in linear time, survives what is not a message, and leaves no grandchild behind,
even when this process is killed (`watcher`).
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ...config.agent_config import MAX_STORED_BYTES
from ..tools.masking import MaskedStream
from .failures import UNREACHABLE
from .in_flight import note_withdrawal
from .incoming import error_reply, parse_message
from .lines import LineFramer, LineWriter
from .message_bound import Lines, Message
from .requests import Outgoing, Requests
from .sdk import (
    REQUEST_TIMEOUT,
    JSONRPCError,
    JSONRPCRequest,
    MCPError,
    SessionMessage,
    TransportStreams,
    get_default_environment,
)
from .stderr import MAX_LINE, Stderr
from .watcher import watcher

Incoming: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
FromSession: TypeAlias = MemoryObjectReceiveStream[SessionMessage]

PROBE_TIMEOUT = 2.0
"""Seconds for an answer to `server/discover`: older servers may ignore what they do not know, and
then the SDK waits for ten. One that answers late, because it is slow to start, is still understood:
it refuses the handshake that follows, and is asked again."""
EXIT_GRACE = 2.0
"""Seconds a child gets to leave after its stdin was closed, and again after SIGTERM."""
DRAIN_GRACE = 0.5
"""Seconds to read what a child that has exited left in its pipes."""
LAST_WORDS_GRACE = 0.2
"""Seconds from the end of its output to hear how a child ended, before its callers are told."""
REAP_GRACE = 2.0
"""Seconds for the kernel to deliver a SIGKILL."""
MOST_QUOTED = 200
"""Characters of a line that is no message, in an error."""
_OURS = ("initialize", "server/discover")
"""Requests that no server makes: a program that sends them back is none."""


class StdioTransport:
    """Runs a server's command, and is what remembers how that went."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        log: logging.Logger,
        on_end: Callable[[str], None],
        stderr: MaskedStream | None = None,
        stdout: MaskedStream | None = None,
        most: int = MAX_STORED_BYTES,
    ) -> None:
        """
        Args:
            argv: the command; the first item is a path.
            env: added to the few variables that are safe to inherit; nothing else is.
            cwd: where it runs; None, where we do.
            log: gets the lines of the child's stderr.
            on_end: told why, when no further message can come, perhaps more than once.
            stderr: what the child's stderr passes before anything reads it.
            stdout: what a line on its stdout that is no message passes before it is quoted.
            most: bytes of a message; a longer one is abridged.
        """
        self._argv = list(argv)
        self._env = env
        self._cwd = cwd
        self._log = log
        self._on_end = on_end
        self._most = most
        self._writer = LineWriter()
        self._requests = Requests()
        self._stderr = Stderr(log)
        self._masked = stderr or MaskedStream([])
        self._exit_code: int | None = None
        self._told_to_go = False
        self._masked_line = stdout or MaskedStream([])
        self._garbage_seen = False
        self._first_line: str | None = None
        """What it wrote first, if that was no message, or a request of ours that came back."""
        self._heard = False
        """Whether it has sent a message of its own."""
        self._read_to_end = trio.Event()
        self._heard_to_end = trio.Event()

    def account_of_end(self) -> str | None:
        """How the child exited and what it said last; None if it had to be told to go."""
        if self._exit_code is None:
            return None
        if self._exit_code < 0:
            how = f"was killed by {_signal_name(-self._exit_code)}"
        else:
            how = f"exited with code {self._exit_code}"
        words = self.last_words()
        return f"{how}: {words}" if words else how

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return self._stderr.last_words()

    def doubt(self) -> str:
        """Why it may be no MCP server, to be read after how it failed; empty if it has sent a message."""
        name = Path(self._argv[0]).name
        if self._heard:
            return ""
        if self._first_line is not None:
            return f'; "{name}" wrote "{self._first_line}", no message of MCP: is it an MCP server?'
        return f'; is "{name}" an MCP server?' if self._exit_code == 0 else ""

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Requester`."""

        with self._requests.one(outgoing) as request:
            ticket = self._writer.put(request.body())
            try:
                return await request.result()
            except trio.Cancelled:
                if self._writer.withdraw(ticket):
                    note_withdrawal()
                else:
                    self._writer.put(request.cancellation())
                raise
            except MCPError as error:
                if self._writer.withdraw(ticket):
                    raise MCPError(UNREACHABLE, error.message, {"sent": False}) from error
                raise

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Run the child for the length of a block, and exchange messages with it.

        Leaving the block closes the child's stdin and gives it time to leave, then sends SIGTERM
        and at last SIGKILL to its whole process group. That is shielded, and bounded by the sum of
        the graces above.

        Raises:
            OSError: the command could not be run.
        """
        process = await self._spawn()
        # From here to the `try` nothing may wait: a cancellation would leave the child running.
        incoming, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writes, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pump_stdout, process, incoming)
                nursery.start_soon(self._pump_outgoing, outgoing, incoming, nursery)
                nursery.start_soon(self._pump_stdin, process, incoming)
                nursery.start_soon(self._pump_stderr, process)
                nursery.start_soon(self._watch, process, incoming)
                try:
                    await _restart_watcher()
                    yield reads, writes
                finally:
                    reads.close()
                    writes.close()
                    with trio.CancelScope(shield=True):
                        await self._stop(process)
                        watcher.remove(process.pid)
                        await _restart_watcher()
                    nursery.cancel_scope.cancel()
        finally:
            for stream in (incoming, reads, writes, outgoing):
                stream.close()

    async def _spawn(self) -> trio.Process:

        cwd = None if self._cwd is None else str(self._cwd)  # an error has it as it is given
        await trio.to_thread.run_sync(watcher.start)
        try:
            process = await trio.lowlevel.open_process(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**get_default_environment(), **self._env},
                cwd=cwd,
                # A group of its own, to be stopped as one; and Ctrl-C at our terminal reaches only us,
                # who still need the child to finish the calls in flight.
                start_new_session=True,
            )
        except OSError as error:
            if cwd is not None and error.filename == cwd:
                raise OSError(f"cwd {cwd}: {error.strerror}") from error
            # The file is there, for it was looked up; who is not is the interpreter in its first line.
            why = "its interpreter is not there" if error.errno == errno.ENOENT else error.strerror
            raise OSError(f"{self._argv[0]} cannot be run: {why}") from error
        watcher.add(process.pid)
        return process

    async def _pump_stdout(self, process: trio.Process, incoming: Incoming) -> None:
        assert process.stdout is not None
        lines = Lines(Message(self._most))
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for chunk in process.stdout:
                    for line in lines.feed(chunk):
                        await self._deliver(line, incoming)
                self._read_to_end.set()
                await self._hear_out(process)
        finally:
            self._end(incoming)

    async def _deliver(self, line: bytes, incoming: Incoming) -> None:

        if not line.strip():
            return
        message = parse_message(line)
        if message is None:
            # Said once: what prints its log to stdout would fill ours.
            level = logging.DEBUG if self._garbage_seen else logging.WARNING
            self._log.log(level, "not a message on stdout: %.200r", line)
            self._garbage_seen = True
            self._note_first(line)
            return
        if getattr(message, "method", None) in _OURS:
            self._note_first(line)
        elif self._first_line is None or not isinstance(message, JSONRPCError):
            self._heard = True  # one that echoes sends back our refusal of its echo
        if self._requests.take(message):
            return
        # Once the session is gone the pipe is only drained, so that the child can leave.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await incoming.send(SessionMessage(message))

    def _note_first(self, line: bytes) -> None:
        if self._first_line is None and not self._heard:
            masked = self._masked_line.feed(line) + self._masked_line.rest()
            self._first_line = masked.decode(errors="replace").strip()[:MOST_QUOTED]

    async def _pump_outgoing(self, outgoing: FromSession, incoming: Incoming, nursery: trio.Nursery) -> None:

        async for item in outgoing:
            if isinstance(item.message, JSONRPCRequest) and item.message.method == "server/discover":
                nursery.start_soon(self._bound_probe, item.message.id, incoming)
            body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await self._writer.write(body.encode())

    async def _pump_stdin(self, process: trio.Process, incoming: Incoming) -> None:
        assert isinstance(process.stdin, trio.lowlevel.FdStream)
        try:
            await self._writer.run(process.stdin)
        except trio.BrokenResourceError:
            await self._hear_out(process)
            self._end(incoming)  # whoever no longer listens will answer nothing more
        except trio.ClosedResourceError:
            pass  # closed by `_stop`

    async def _bound_probe(self, request_id: int | str, incoming: Incoming) -> None:
        """Answer in the server's place; if it has answered itself, the second answer is ignored."""

        await trio.sleep(PROBE_TIMEOUT)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await incoming.send(SessionMessage(error_reply(request_id, REQUEST_TIMEOUT, "no answer")))

    async def _pump_stderr(self, process: trio.Process) -> None:
        assert process.stderr is not None
        framer = LineFramer()
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for chunk in process.stderr:
                    for line in framer.feed(self._masked.feed(chunk)):
                        self._stderr.hear(line)
                    if framer.pending > MAX_LINE:
                        self._stderr.hear(framer.take_rest())
            self._stderr.hear(framer.take_rest() + self._masked.rest())
        finally:
            self._stderr.tell_left_out()
            self._heard_to_end.set()

    async def _watch(self, process: trio.Process, incoming: Incoming) -> None:
        """Notice the child's death even while a grandchild holds its pipes open."""
        await process.wait()
        self._note_exit(process)
        _signal_group(process.pid, signal.SIGKILL)
        with trio.move_on_after(DRAIN_GRACE):
            await self._read_to_end.wait()
        self._end(incoming)

    async def _hear_out(self, process: trio.Process) -> None:
        """Give one that is leaving a moment to say how."""
        with trio.move_on_after(LAST_WORDS_GRACE):
            await process.wait()
            self._note_exit(process)
            await self._heard_to_end.wait()

    def _note_exit(self, process: trio.Process) -> None:
        if not self._told_to_go:
            self._exit_code = process.returncode

    def _end(self, incoming: Incoming) -> None:
        self._on_end(self.account_of_end() or "its output ended")
        self._requests.end()
        incoming.close()

    async def _stop(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        # One whose output has ended is leaving by itself; how it does that is worth knowing.
        self._told_to_go = not self._read_to_end.is_set()
        await process.stdin.aclose()
        if await _exits_within(EXIT_GRACE, process):
            self._note_exit(process)
        else:
            self._told_to_go = True
            self._log.info("still running %g s after its input was closed: sending SIGTERM", EXIT_GRACE)
            _signal_group(process.pid, signal.SIGTERM)
            if not await _exits_within(EXIT_GRACE, process):
                self._log.warning("ignores SIGTERM: sending SIGKILL")
        _signal_group(process.pid, signal.SIGKILL)
        if not await _exits_within(REAP_GRACE, process):
            self._log.error("process %d does not die; leaving it behind", process.pid)
        with trio.move_on_after(DRAIN_GRACE):
            await self._heard_to_end.wait()
        await process.stdout.aclose()
        await process.stderr.aclose()


async def _restart_watcher() -> None:
    """Replace a watcher process that was found to have ended, at most for its time to start."""
    if watcher.lost:
        await trio.to_thread.run_sync(watcher.start)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


async def _exits_within(seconds: float, process: trio.Process) -> bool:
    with trio.move_on_after(seconds):
        await process.wait()
    return process.returncode is not None


def _signal_group(leader: int, number: signal.Signals) -> None:
    # The group lives on while anyone in it does, so until it is empty its number is not reused.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
