"""One server, kept connected: a single task owns the connection, callers share its client."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import httpx2
import trio
from pydantic import ValidationError

from ...config.agent_config import MAX_STORED_BYTES
from ...config.mcp import McpServerConfig
from ...runtime.errors import leaf
from ...runtime.restart import Backoff, Streak
from ..tools.bearer import forwarding
from ..tools.masking import Secrets
from ..tools.server_status import ServerStartFailed, ServerState, ServerStatus
from .admission import Admission
from .failures import first_line, meaning, wanted
from .in_flight import Flights
from .oauth import client_credentials
from .sdk import HANDSHAKE_PROTOCOL_VERSIONS, MCPError, ServerObject
from .session import (
    NOT_SPOKEN,
    ConnectFailed,
    Line,
    Link,
    Manner,
    NoAnswer,
    client,
    connect_failure,
    is_expected,
    settle_era,
    transport,
)
from .tool_calls import ToolCalls
from .tool_list import list_tools, listen_for_changes, tells_of_changes

CLOSE_TIMEOUT = 10.0
"""Seconds that taking leave of a server may take; stopping a child has bounds of its own."""
START_RETRIES = Backoff(limit=0.5)
"""While a server that may not be up yet is waited for at the start."""
REPAIRS = Backoff(first=0.25, factor=4.0, limit=10.0, jitter=0.5, healthy=1.0)
"""While a lost connection is repaired. The first three attempts, which a call waits for by default,
bridge the restart of a server; one that dies as soon as it is up is not started over and over. After them, a
call cuts the pause short, to the `first` one."""

ADMISSIONS = Backoff(first=30.0, limit=300.0, jitter=0.5)
"""While a server wants a token and no run brings one: the cause of its refusal may have passed."""
LISTINGS = Backoff(first=1.0, limit=300.0, healthy=1.0)
"""Between one listing of changed tools and the next: some servers say that they have changed whenever they
are listed, and some cannot list them at that moment."""


class Connection:
    """Keeps one server connected.

    `run` is the connection's owner, for the SDK's client must be entered and left by one task.
    Everything else may be called from any task.
    """

    def __init__(
        self,
        config: McpServerConfig,
        report: Callable[[ServerStatus], None],
        auth: httpx2.Auth | None = None,
        *,
        most: int = MAX_STORED_BYTES,
        brought: ServerObject | None = None,
    ) -> None:
        """
        Args:
            report: called at every change of state or tools; must not wait.
            auth: of every HTTP request; sees refusals, with their headers, before anything else does.
            most: bytes of a message; a longer one is abridged.
            brought: the server itself, if the program brings it.
        """
        self._config = config
        self._report = report
        self._auth = auth
        self._most = most
        self._brought = brought
        self._log = logging.getLogger(f"stopgo.mcp.{config.name}")
        self.secrets = Secrets.of(config)
        """What the server may not be quoted with."""
        self.line = Line()
        """Where callers find the link."""
        self._attempt = trio.CancelScope()
        """Around connecting, and only around that."""
        self._manner = Manner.first(config)
        self._admission = Admission()
        self._protocol: str | None = None
        """The revision that was last spoken."""
        self.first_attempt = trio.Event()
        """Set when the first connection is made, or `started` need not wait for it any longer."""
        self._failure: ServerStartFailed | None = None
        self._stopping = trio.Event()
        self._closed = trio.Event()

    async def started(self) -> None:
        """Wait for the first connection, or, with `required: false`, for the first attempt at one.

        Raises:
            ServerStartFailed: it could not be made within `connect_timeout`.
        """
        await self.first_attempt.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Close the connection, and wait until nothing of it is left."""
        self._stopping.set()
        self._attempt.cancel()
        self._admission.close()
        self.line.wake.set()
        if self.line.link is not None:
            self.line.link.news.set()
        await self._closed.wait()

    async def authenticate(self, bearer: str) -> None:
        """Try to connect with this bearer, if the server waits for one; return when that was tried."""
        async with self._admission.turn:
            if self.line.wanted is not None:
                await self._admission.offer(bearer)

    async def run(self) -> None:
        """Own the connection: make it, repair it whenever it is lost, close it when stopped.

        Ends when stopped, or when the first connection cannot be made (`started` says why).
        """
        self._log.addFilter(self.secrets.in_log)
        try:
            if self._config.oauth is not None and self._config.url is not None:
                self._auth = client_credentials(self._config.url, self._config.oauth, self.secrets)
            if await self._connect_first():
                await self._keep_connected()
        finally:
            self._admission.close()
            self.first_attempt.set()
            self._closed.set()
            self._log.removeFilter(self.secrets.in_log)

    async def _connect_first(self) -> bool:
        """Live the first connection to its end, if it comes to be; False when there is no use in going on."""
        deadline = trio.current_time() + self._config.connect_timeout
        streak = Streak(START_RETRIES)
        reason: str | None = None
        while not self._stopping.is_set():
            began = trio.current_time()
            try:
                await self._live(deadline)
                return True
            except ConnectFailed as failure:
                delay = streak.fail(served=0)
                if self._refused(failure, began):
                    self.first_attempt.set()
                    return True
                if reason is None or not isinstance(failure, NoAnswer):
                    reason = self.secrets.mask(str(failure))
                self.line.fail(began)
                self._tell("disconnected", reason)
                if not self._config.required:
                    self.first_attempt.set()
                    return True
                if not failure.retry or trio.current_time() + delay >= deadline:
                    self._failure = ServerStartFailed(self._config.name, reason, mistake=failure.mistake)
                    return False
                await self._pause(delay)
        return False

    async def _keep_connected(self) -> None:
        streak, unknown = Streak(REPAIRS), Streak(ADMISSIONS)
        served = 0.0
        while not self._stopping.is_set():
            if self.line.wanted is not None:
                with trio.move_on_after(unknown.fail(served)):
                    await self._admission.take()
                self.secrets.learn("admission", [self._admission.bearer or ""])
            else:
                await self._rest(streak.fail(served))
            began = trio.current_time()
            try:
                await self._live(began + self._config.connect_timeout)
                served = trio.current_time() - began
            except ConnectFailed as failure:
                served = 0.0
                if not self._refused(failure, began):
                    self.line.fail(began)
                    self._admission.judge(admitted=True)
                    self._tell("disconnected", str(failure))

    def _refused(self, failure: ConnectFailed, began: float) -> bool:
        """Whether nothing but another token helps. What the server has of its own configuration is not ours
        to replace."""
        if not self._config.forwards_bearer:
            return False
        token = wanted(self._config.name, failure.status, failure.data)
        if token is None:
            return False
        self.line.fail(began, self.secrets.masked(token))
        self._admission.judge(admitted=False)
        self._tell("auth_required", str(failure))
        return True

    async def _rest(self, seconds: float) -> None:
        """Pause before the next attempt to connect; less when a call waits for it."""
        at_least = min(seconds, REPAIRS.first)
        await self._pause(at_least)
        with trio.move_on_after(seconds - at_least):
            await self.line.wake.wait()
        self.line.wake = trio.Event()

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._stopping.wait()

    async def _live(self, deadline: float) -> None:
        """One connection, from opening to closing, in the manner the server was last found to speak.

        Raises:
            ConnectFailed: it was not there and listed by `deadline`.
        """
        if self._stopping.is_set():
            return
        if self.line.wanted is None:  # else that is what it is until it does not want one
            self._tell("connecting")
        try:
            await self._live_once(deadline)
        except ConnectFailed as failure:
            spoken = self._manner
            if failure.answered or isinstance(failure, NoAnswer):
                self._manner = Manner.first(self._config)
            may_be_older = self._config.transport is None and spoken.kind == "http"
            if not may_be_older or failure.status not in NOT_SPOKEN:
                raise
            self._manner = Manner("sse", legacy=True)
            try:
                await self._live_once(deadline)
            except ConnectFailed as older:
                self._manner = Manner.first(self._config)
                first = self.secrets.mask(str(failure))  # before more follows: a secret may be cut at its end
                raise ConnectFailed(f"{first} (as an older SSE server: {older})") from older

    async def _live_once(self, deadline: float) -> None:
        link = Link(Flights(self._log), self.secrets)
        reach = (self._auth, self._most, self._brought)
        way = await transport(self._config, self._manner, link, self._log, *reach)
        opened = False
        error: BaseException | None = None
        try:
            with trio.CancelScope(deadline=deadline) as scope, forwarding(self._admission.bearer):
                self._attempt = scope
                async with client(self._config, self._manner, way, link, self._log) as link.client:
                    await settle_era(link.client, self._config)
                    link.version = link.client.protocol_version
                    link.announces = tells_of_changes(link.client)
                    link.tool_calls = ToolCalls(way.requests, link.version)
                    self.line.tools = await list_tools(link, self._config, self._log)
                    self.line.left_out = self.secrets.masked(tuple(link.left_out))
                    opened = True
                    # The scope stays, to bound the leaving: it must enclose both ends of the client.
                    scope.deadline = math.inf
                    self._attempt = trio.CancelScope()
                    await self._tend(link)
                    scope.deadline = trio.current_time() + CLOSE_TIMEOUT
        # Cancellation passes; whatever else the SDK lets out, it is the connection that has ended.
        except* Exception as group:
            error = leaf(group)
            if not is_expected(error):
                self._log.error("the connection failed unexpectedly", exc_info=error)
        if self._stopping.is_set():
            return
        if not opened:
            raise connect_failure(error, way, self._config.connect_timeout)
        how = first_line(error) if error is not None else "connection lost"
        self._tell("disconnected", way.account_of_end() or link.loss or how)

    async def _tend(self, link: Link) -> None:
        """Let calls through until the connection is lost or not wanted, and those in flight end."""

        # Next time an older server is not asked again how modern it is: some take seconds to not
        # answer that.
        self._protocol = link.version
        older = self._protocol in HANDSHAKE_PROTOCOL_VERSIONS
        self._manner = Manner(self._manner.kind, legacy=older)
        self.line.open(link)
        self._admission.judge(admitted=True)
        self.first_attempt.set()
        self._tell("connected")
        async with trio.open_nursery() as nursery:
            if link.announces and not older:
                nursery.start_soon(listen_for_changes, link)
            streak, due = Streak(LISTINGS), -math.inf
            try:
                while link.loss is None and not self._stopping.is_set():
                    if link.stale and trio.current_time() >= due:
                        link.stale = False
                        listed = await self._list_again(link)
                        due = trio.current_time() + streak.fail(served=math.inf if listed else 0)
                        link.stale = link.stale or not listed
                    else:
                        with trio.CancelScope(deadline=due if link.stale else math.inf):
                            await link.wait_for_news()
            finally:
                self.line.close(link)
            nursery.cancel_scope.cancel()
        await link.flights.landed()

    async def _list_again(self, link: Link) -> bool:
        """Whether the tools are known as they are now."""

        try:
            with trio.fail_after(self._config.timeout):
                tools = await list_tools(link, self._config, self._log)
        except (MCPError, RuntimeError, ValidationError, trio.TooSlowError) as error:
            self._log.warning("its tools may have changed, but listing them failed: %s", first_line(error))
            if isinstance(error, MCPError) and meaning(error.code, error.message, error.data) in (
                "never_ran",
                "connection_lost",
            ):
                link.lose(first_line(error))
            return False
        left_out = self.secrets.masked(tuple(link.left_out))
        if (tools, left_out) != (self.line.tools, self.line.left_out):
            self.line.tools, self.line.left_out = tools, left_out
            self._tell("connected")
        return True

    def _tell(self, state: ServerState, error: str | None = None) -> None:
        error = self.secrets.masked(error)
        # A server that stays away is said once to be away, not at every attempt.
        line = self.line
        known = line.error is not None and (state == "connecting" or error == line.error)
        if state != "connecting":
            line.error = error
        level = logging.DEBUG if known else logging.WARNING if error else logging.INFO
        tools = "1 tool" if len(line.tools) == 1 else f"{len(line.tools)} tools"
        more = f": {tools}" if state == "connected" else f": {error}" if error else ""
        self._log.log(level, "%s%s", state, more)
        self._report(
            ServerStatus(
                self._config.name, state, error, line.tools, self._protocol, line.wanted, line.left_out
            )
        )
