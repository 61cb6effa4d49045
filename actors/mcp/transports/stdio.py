"""The transport to a stdio server: one child process, its process group, and the messages on its pipes.

The SDK has a stdio transport, too. This one reports why a child died (exit code, end of stderr), splits lines
in linear time, tolerates output that is not a message, and leaves no grandchild behind, even if this process
is killed (`watcher`). Its tasks, each of which ends with the block of `open`:

| task | what it does |
|---|---|
| `_pump_stdout` | gives each message to the open request that waits for it, or else to the session |
| `_pump_outgoing` | encodes the session's messages; starts `_bound_probe` for `server/discover` |
| `_pump_stdin` | writes the lines of the session and of tool calls, in order (`LineWriter`) |
| `_pump_stderr` | masks, logs and remembers the child's stderr |
| `_watch` | notices the child's exit, even while a grandchild keeps the pipes open |

The end is reported to `on_end` once the output has ended, with the exit code if that arrives soon enough.
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
from anyio.streams.memory import MemoryObjectReceiveStream

from ....config.sections.agent_config import MAX_STORED_BYTES
from ...servers.masking import MaskedStream
from ..wire.failures import UNREACHABLE
from ..wire.incoming import error_reply, parse_message, split_batch
from ..wire.message_bound import BoundedLines, BoundedMessage
from ..wire.requests import Outgoing, Requests
from ..wire.sdk import (
    REQUEST_TIMEOUT,
    JSONRPCError,
    JSONRPCRequest,
    MCPError,
    SessionMessage,
    TransportStreams,
    get_default_environment,
)
from ..wire.sdk_shims import Incoming
from .in_flight import note_withdrawal
from .lines import LineFramer, LineWriter
from .stderr import MAX_LINE, Stderr
from .watcher import watcher

FromSession: TypeAlias = MemoryObjectReceiveStream[SessionMessage]

PROBE_TIMEOUT = 2.0
"""Seconds for an answer to `server/discover`: older servers may ignore unknown requests, and the SDK would
wait for ten. A server that answers late, because it starts slowly, still works: it refuses the handshake that
follows, and is asked again."""
EXIT_GRACE = 2.0
"""Seconds for a child to exit after its stdin is closed, and again after SIGTERM, if so much time is left."""
LEAST_GRACE = 0.25
"""The same if no time is left, because we were cancelled."""
DRAIN_GRACE = 0.5
"""Seconds to read the rest of the output of a child that has exited."""
EXIT_CODE_GRACE = 0.2
"""Seconds to wait for the exit code after the output has ended, before calls fail."""
REAP_GRACE = 2.0
"""Seconds for the kernel to deliver a SIGKILL."""
MOST_QUOTED = 200
"""Characters of a line that is not a message, in an error."""
_CLIENT_REQUESTS = ("initialize", "server/discover")
"""Requests that only clients make: a program that sends them back is not an MCP server."""


class StdioTransport:
    """Runs a server's command, and reports afterwards how it ended."""

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
        max_message: int = MAX_STORED_BYTES,
    ) -> None:
        """
        Args:
            argv: the command; the first item is a path.
            env: added to the few variables that are safe to inherit; the child gets no others.
            cwd: its working directory; None: ours.
            log: receives the lines of the child's stderr.
            on_end: called with the reason when no further message can arrive, perhaps more than once.
            stderr: masks the child's stderr.
            stdout: masks a line of stdout that is not a message, before it is quoted.
            max_message: bytes of a message; a longer one is abridged.
        """
        self._argv = list(argv)
        self._env = env
        self._cwd = cwd
        self._log = log
        self._on_end = on_end
        self._max_message = max_message
        self._writer = LineWriter()
        self._requests = Requests()
        self._stderr = Stderr(log)
        self._masked = stderr or MaskedStream([])
        self._exit_code: int | None = None
        self._stopped_by_us = False
        self._masked_line = stdout or MaskedStream([])
        self._garbage_seen = False
        self._first_line: str | None = None
        """Its first line, if that was not a message, or was a request of ours that came back."""
        self._spoke_mcp = False
        """The child has sent a message of its own."""
        self._stdout_ended = trio.Event()
        self._stderr_ended = trio.Event()

    def exit_report(self) -> str | None:
        """Return how the child exited, with the end of its stderr; None if we stopped it, or it runs."""
        if self._exit_code is None:
            return None
        if self._exit_code < 0:
            how = f"was killed by {_signal_name(-self._exit_code)}"
        else:
            how = f"exited with code {self._exit_code}"
        tail = self.stderr_tail()
        return f"{how}: {tail}" if tail else how

    def stderr_tail(self) -> str:
        """Return the end of the child's stderr."""
        return self._stderr.tail()

    def not_mcp_hint(self) -> str:
        """Return a suffix for errors, whether this is an MCP server; empty after its first message."""
        name = Path(self._argv[0]).name
        if self._spoke_mcp:
            return ""
        if self._first_line is not None:
            return f'; "{name}" wrote "{self._first_line}", no message of MCP: is it an MCP server?'
        return f'; is "{name}" an MCP server?' if self._exit_code == 0 else ""

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Requester`."""

        with self._requests.open(outgoing) as request:
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

        Leaving the block closes the child's stdin and gives it time to exit, then sends SIGTERM, then
        SIGKILL, to its whole process group. That is shielded; a deadline around the block, such as the end of
        a shutdown, shortens the graces above.

        Raises:
            OSError: the command could not be run.
        """
        process = await self._spawn()
        # No checkpoint from here to the `try`: a cancellation would leave the child running.
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
                    left = trio.current_effective_deadline() - trio.current_time()
                    with trio.CancelScope(shield=True):
                        await self._stop(process, grace=min(EXIT_GRACE, max(left / 3, LEAST_GRACE)))
                        watcher.remove(process.pid)
                        await _restart_watcher()
                    nursery.cancel_scope.cancel()
        finally:
            for stream in (incoming, reads, writes, outgoing):
                stream.close()

    async def _spawn(self) -> trio.Process:

        cwd = None if self._cwd is None else str(self._cwd)  # a text, to compare with `error.filename`
        await trio.to_thread.run_sync(watcher.start)
        try:
            process = await trio.lowlevel.open_process(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**get_default_environment(), **self._env},
                cwd=cwd,
                # A group of its own, so that it can be stopped as a whole, and Ctrl-C at our terminal does
                # not reach the child, which must finish the in-flight calls.
                start_new_session=True,
            )
        except OSError as error:
            if cwd is not None and error.filename == cwd:
                raise OSError(f"cwd {cwd}: {error.strerror}") from error
            # The file itself exists, because it was looked up.
            why = "its interpreter does not exist" if error.errno == errno.ENOENT else error.strerror
            raise OSError(f"{self._argv[0]} cannot be run: {why}") from error
        watcher.add(process.pid)
        return process

    async def _pump_stdout(self, process: trio.Process, incoming: Incoming) -> None:
        assert process.stdout is not None
        lines = BoundedLines(BoundedMessage(self._max_message))
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for chunk in process.stdout:
                    for line in lines.feed(chunk):
                        for message in split_batch(line):
                            await self._deliver(message, incoming)
                self._stdout_ended.set()
                await self._wait_for_exit(process)
        finally:
            self._end(incoming)

    async def _deliver(self, line: bytes, incoming: Incoming) -> None:

        if not line.strip():
            return
        message = parse_message(line)
        if message is None:
            # Once, because a program that logs to stdout would fill our log.
            level = logging.DEBUG if self._garbage_seen else logging.WARNING
            self._log.log(level, "not a message on stdout: %.200r", line)
            self._garbage_seen = True
            self._note_first(line)
            return
        if getattr(message, "method", None) in _CLIENT_REQUESTS:
            self._note_first(line)
        elif self._first_line is None or not isinstance(message, JSONRPCError):
            self._spoke_mcp = True  # an error may be an echo of our refusal of its echo
        if self._requests.take(message):
            return
        # After the session has ended, the pipe is still drained, so that the child can exit.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await incoming.send(SessionMessage(message))

    def _note_first(self, line: bytes) -> None:
        if self._first_line is None and not self._spoke_mcp:
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
            await self._wait_for_exit(process)
            self._end(incoming)  # a child that no longer reads will not answer
        except trio.ClosedResourceError:
            pass  # closed by `_stop`

    async def _bound_probe(self, request_id: int | str, incoming: Incoming) -> None:
        """Answer the probe after `PROBE_TIMEOUT`; if the server has answered, this answer is ignored."""

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
                        self._stderr.add(line)
                    if framer.pending > MAX_LINE:
                        self._stderr.add(framer.take_rest())
            self._stderr.add(framer.take_rest() + self._masked.rest())
        finally:
            self._stderr.log_dropped()
            self._stderr_ended.set()

    async def _watch(self, process: trio.Process, incoming: Incoming) -> None:
        """Notice the child's exit even while a grandchild holds its pipes open."""
        await process.wait()
        self._note_exit(process)
        _signal_group(process.pid, signal.SIGKILL)
        with trio.move_on_after(DRAIN_GRACE):
            await self._stdout_ended.wait()
        self._end(incoming)

    async def _wait_for_exit(self, process: trio.Process) -> None:
        """Wait briefly for the exit code and the rest of stderr."""
        with trio.move_on_after(EXIT_CODE_GRACE):
            await process.wait()
            self._note_exit(process)
            await self._stderr_ended.wait()

    def _note_exit(self, process: trio.Process) -> None:
        if not self._stopped_by_us:
            self._exit_code = process.returncode

    def _end(self, incoming: Incoming) -> None:
        self._on_end(self.exit_report() or "its output ended")
        self._requests.end()
        incoming.close()

    async def _stop(self, process: trio.Process, grace: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        # A child whose output has ended is exiting by itself, so its exit code is worth reporting.
        self._stopped_by_us = not self._stdout_ended.is_set()
        await process.stdin.aclose()
        if await _exits_within(grace, process):
            self._note_exit(process)
        else:
            self._stopped_by_us = True
            self._log.info("still running %.2g s after its input was closed: sending SIGTERM", grace)
            _signal_group(process.pid, signal.SIGTERM)
            if not await _exits_within(grace, process):
                self._log.warning("still running %.2g s after SIGTERM: sending SIGKILL", grace)
        _signal_group(process.pid, signal.SIGKILL)
        if not await _exits_within(REAP_GRACE, process):
            self._log.error("process %d still runs after SIGKILL; leaving it behind", process.pid)
        with trio.move_on_after(DRAIN_GRACE):
            await self._stderr_ended.wait()
        await process.stdout.aclose()
        await process.stderr.aclose()


async def _restart_watcher() -> None:
    """Start the watcher process again if it has ended. Waits until it has started."""
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
    # A process group exists, and its number is not reused, until its last process has ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
