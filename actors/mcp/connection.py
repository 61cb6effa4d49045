"""One server, kept connected: a single task owns the connection, callers share its client."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

import trio

from stopgo.actors.mcp.bearer import forwarding
from stopgo.actors.mcp.command import CommandNotFound, find_command
from stopgo.actors.mcp.content import error_result, result_from_wire, unsendable, validation_text
from stopgo.actors.mcp.failures import meaning, worth_retrying
from stopgo.actors.mcp.link import ConnectFailed, Link, NoAnswer
from stopgo.actors.mcp.listing import list_tools, repaired
from stopgo.actors.mcp.status import ServerStartFailed, ServerState, ServerStatus
from stopgo.actors.mcp.stdio import StdioTransport
from stopgo.actors.tools import (
    CallTool,
    Tool,
    ToolChanged,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from stopgo.config.model import McpServerConfig
from stopgo.runtime.errors import leaf
from stopgo.runtime.restart import Backoff, Streak

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage

CLOSE_TIMEOUT = 10.0
"""Seconds that taking leave of a server may take; stopping a child has bounds of its own."""
START_RETRIES = Backoff(limit=0.5)
"""While a server that may not be up yet is waited for at the start."""
REPAIRS = Backoff(healthy=10.0, jitter=0.5)
"""While a lost connection is repaired."""


class Connection:
    """Keeps one server connected and makes calls to it.

    `run` is the connection's owner, for the SDK's client must be entered and left by one task.
    Everything else may be called from any task.
    """

    def __init__(self, config: McpServerConfig, report: Callable[[ServerStatus], None]) -> None:
        self._config = config
        self._report = report
        self._log = logging.getLogger(f"stopgo.mcp.{config.name}")
        self._link: Link | None = None
        """The one that takes calls."""
        self._linked = trio.Event()
        self._down_since = -math.inf
        self._attempt = trio.CancelScope()
        """Around connecting, and only around that."""
        self._mode: Literal["auto", "legacy"] = "auto"
        self._first = trio.Event()
        self._failure: ServerStartFailed | None = None
        self._stopping = trio.Event()
        self._closed = trio.Event()
        self.tools: tuple[Tool, ...] = ()
        """What the server last listed."""

    async def started(self) -> None:
        """Wait for the first connection.

        Raises:
            ServerStartFailed: it could not be made within `connect_timeout`.
        """
        await self._first.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Close the connection, and wait until nothing of it is left."""
        self._stopping.set()
        self._attempt.cancel()
        if self._link is not None:
            self._link.news.set()
        await self._closed.wait()

    async def call(self, request: CallTool) -> ToolResult:
        """Make one call, once. While the connection is down, wait for it a bounded time.

        A call that certainly never ran, because its connection turned out to be gone already, is
        made once more over the next one.

        Raises:
            ToolUnavailable: it never ran; there is no connection.
            ToolChanged: it never ran; the connection that is there now lists another tool by this name.
            ToolOutcomeUnknown: it was sent, and no answer came.
        """
        if (problem := unsendable(request.tool, request.arguments)) is not None:
            return error_result(f"the arguments cannot be sent: {problem}")
        link = await self._reach()
        try:
            return await self._call_over(link, request)
        except ToolUnavailable:
            return await self._call_over(await self._reach(), request)

    async def run(self) -> None:
        """Own the connection: make it, repair it whenever it is lost, close it when stopped.

        Ends when stopped, or when the first connection cannot be made (`started` says why).
        """
        try:
            # Seconds, on a busy machine: neither the event loop nor the server should pay for it.
            await trio.to_thread.run_sync(_import_sdk)
            if await self._connect_first():
                await self._keep_connected()
        finally:
            self._first.set()
            self._closed.set()

    # ------------------------------------------------------------- the owner's side

    async def _connect_first(self) -> bool:
        """Live the first connection to its end; False when it never came to be."""
        deadline = trio.current_time() + self._config.connect_timeout
        streak = Streak(START_RETRIES)
        reason: str | None = None
        while not self._stopping.is_set():
            try:
                await self._live(deadline)
                return True
            except ConnectFailed as failure:
                delay = streak.fail(served=0)
                if reason is None or not isinstance(failure, NoAnswer):
                    reason = str(failure)
                self._tell("disconnected", reason)
                if not failure.retry or trio.current_time() + delay >= deadline:
                    self._failure = ServerStartFailed(self._config.name, reason)
                    return False
                await self._pause(delay)
        return False

    async def _keep_connected(self) -> None:
        streak = Streak(REPAIRS)
        served = 0.0
        while not self._stopping.is_set():
            await self._pause(streak.fail(served))
            began = trio.current_time()
            try:
                await self._live(began + self._config.connect_timeout)
                served = trio.current_time() - began
            except ConnectFailed as failure:
                served = 0.0
                self._tell("disconnected", str(failure))

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._stopping.wait()

    async def _live(self, deadline: float) -> None:
        """One connection, from opening to closing.

        Raises:
            ConnectFailed: it was not there and listed by `deadline`.
        """
        if self._stopping.is_set():
            return
        self._tell("connecting")
        link = Link()
        transport, account = self._transport(link)
        opened = False
        error: BaseException | None = None
        try:
            with trio.CancelScope(deadline=deadline) as scope:
                self._attempt = scope
                async with self._client(transport, link) as link.client:
                    self.tools = await list_tools(link.client, self._config.name, self._log)
                    opened = True
                    # The scope stays, to bound the leaving: it must enclose both ends of the client.
                    scope.deadline = math.inf
                    self._attempt = trio.CancelScope()
                    await self._tend(link)
                    scope.deadline = trio.current_time() + CLOSE_TIMEOUT
        # Cancellation passes; whatever else the SDK lets out, it is the connection that has ended.
        except* Exception as group:
            error = leaf(group)
            if not _is_expected(error):
                self._log.error("the connection failed unexpectedly", exc_info=error)
        if not opened:
            self._mode = "auto"
            if not self._stopping.is_set():
                raise self._connect_failure(error, account())
        elif not self._stopping.is_set():
            self._tell("disconnected", account() or link.loss or _reason(error))

    def _transport(
        self, link: Link
    ) -> tuple[AbstractAsyncContextManager[TransportStreams], Callable[[], str | None]]:
        """The way to the server, and who can say afterwards how that ended."""
        if self._config.url is not None:
            from stopgo.actors.mcp.http import streamable_http

            return streamable_http(
                self._config.url, max_connections=self._config.max_concurrency
            ), lambda: None
        assert self._config.command is not None
        try:
            command = find_command(self._config.command, search_path=self._config.env.get("PATH"))
        except CommandNotFound as error:
            raise ConnectFailed(str(error)) from error
        stdio = StdioTransport(
            [command, *self._config.args],
            env=self._config.env,
            log=self._log,
            on_end=lambda: link.lose("its output ended"),
        )
        return stdio.open(), stdio.account_of_end

    def _client(self, transport: AbstractAsyncContextManager[TransportStreams], link: Link) -> Client:
        from mcp import Client
        from mcp_types import Implementation, ToolListChangedNotification

        async def on_message(message: IncomingMessage) -> None:
            if isinstance(message, ToolListChangedNotification):
                link.stale = True
                link.news.set()

        return Client(
            repaired(transport, lambda: link.client.protocol_version, self._log),
            mode=self._mode,
            client_info=Implementation(name="stopgo", version=version("agent-stop-and-go")),
            message_handler=on_message,
            cache=None,
        )

    async def _tend(self, link: Link) -> None:
        """Let calls through until the connection is lost or not wanted, and those in flight end."""
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        # Next time an older server is not asked again how modern it is: some take ten seconds to
        # not answer that.
        older = link.client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        self._mode = "legacy" if older else "auto"
        self._link = link
        self._linked.set()
        self._first.set()
        self._tell("connected")
        try:
            while link.loss is None and not self._stopping.is_set():
                if link.stale:
                    link.stale = False
                    await self._list_again(link.client)
                else:
                    await link.wait_for_news()
        finally:
            self._unlink(link)
        while link.calls:
            await link.wait_for_news()

    def _unlink(self, link: Link) -> None:
        """Let no further call over this connection."""
        if self._link is link:
            self._link = None
            self._linked = trio.Event()
            self._down_since = trio.current_time()

    async def _list_again(self, client: Client) -> None:
        from mcp import MCPError
        from pydantic import ValidationError

        try:
            with trio.fail_after(self._config.timeout):
                self.tools = await list_tools(client, self._config.name, self._log)
        except (MCPError, RuntimeError, ValidationError, trio.TooSlowError) as error:
            self._log.warning("its tools have changed, but listing them failed: %s", _reason(error))
        else:
            self._tell("connected")

    def _tell(self, state: ServerState, error: str | None = None) -> None:
        level = logging.WARNING if error else logging.INFO
        self._log.log(level, "%s%s", state, f": {error}" if error else "")
        self._report(ServerStatus(self._config.name, state, error, self.tools))

    def _connect_failure(self, error: BaseException | None, account: str | None) -> ConnectFailed:
        from mcp import MCPError

        if account is not None:
            return ConnectFailed(account)
        if error is None:
            return NoAnswer(f"no answer within {self._config.connect_timeout:g} s")
        retry = isinstance(error, MCPError) and worth_retrying(error.code)
        return ConnectFailed(_reason(error), retry=retry)

    # ------------------------------------------------------------ the callers' side

    async def _reach(self) -> Link:
        if self._link is not None:
            return self._link
        # Counted from the loss, not from the call: after a long absence, a queue of callers is
        # refused at once and not one after the other.
        with trio.CancelScope(deadline=self._down_since + self._config.timeout):
            while self._link is None:
                await self._linked.wait()
        if self._link is None:
            raise self._unavailable()
        return self._link

    async def _call_over(self, link: Link, request: CallTool) -> ToolResult:
        from mcp import MCPError
        from pydantic import ValidationError

        if request.shown is not None:
            self._check_unchanged(request.tool, request.shown)
        link.calls += 1
        try:
            with trio.move_on_after(self._config.timeout), forwarding(request.bearer):
                return result_from_wire(await link.client.call_tool(request.tool, dict(request.arguments)))
        except MCPError as error:
            return self._answer(link, error)
        except ValidationError as error:
            return error_result(f"the server's result is not valid: {validation_text(error)}")
        except RuntimeError as error:
            return error_result(f"the server's result is not valid: {_first_line(error)}")
        finally:
            link.calls -= 1
            if link.loss is not None or self._stopping.is_set():
                link.news.set()
        raise ToolOutcomeUnknown(f"timed out after {self._config.timeout:g} s")

    def _check_unchanged(self, name: str, shown: Tool) -> None:
        listed = next((tool for tool in self.tools if tool.name == name), None)
        if listed is shown or (listed is not None and listed.fingerprint == shown.fingerprint):
            return
        raise ToolChanged(f'the tool "{name}" has changed since the call was cleared; nothing was sent')

    def _answer(self, link: Link, error: MCPError) -> ToolResult:
        """What an error says about the call: an answer, or one of the exceptions of `call`."""
        match meaning(error.code, error.message, error.data):
            case "answered":
                return error_result(error.message or f"error {error.code}")
            case "never_ran":
                link.lose(error.message)
                self._unlink(link)
                raise self._unavailable() from error
            case "connection_lost":
                link.lose(error.message)
                self._unlink(link)
                raise ToolOutcomeUnknown(f"connection lost: {error.message}") from error
            case "outcome_unknown":
                raise ToolOutcomeUnknown(error.message) from error

    def _unavailable(self) -> ToolUnavailable:
        return ToolUnavailable(f'MCP server "{self._config.name}" not connected')


def _import_sdk() -> None:
    """Load what every connection needs, and what a configuration without servers does without."""
    import_module("mcp")


def _is_expected(error: BaseException) -> bool:
    """Whether that is how connections fail; anything else wants to be looked into."""
    import httpx2
    from mcp import MCPError

    return isinstance(error, MCPError | RuntimeError | ValueError | OSError | httpx2.HTTPError)


def _reason(error: BaseException | None) -> str:
    return "connection lost" if error is None else _first_line(error)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
