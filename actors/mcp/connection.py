"""The owner of the connections to one server.

One task, `ServerConnection.run`, makes, serves, repairs and closes the connections, because one task must
enter and leave the SDK's client. Callers share the client through `current` (`CurrentLink`).

    connecting --> connected --> disconnected --> connecting (repair, with delays)
        |
        +--> auth_required --> connecting (with the token of a run, or after a delay)

* Start: `_connect_first` retries until `connect_timeout`, then fails the start. With `required: false`, one
  failed attempt is enough to go on.
* Repair: `_keep_connected` waits between attempts (`REPAIRS`). A waiting call shortens the wait.
* Admission: if the server refuses connections without a token, a run's token is tried (`admission.py`).
* Dialect: each connection speaks the dialect that the server was last found to speak. If a POST is refused as
  an older server would refuse it, the older HTTP transport is tried at once (`_run_one`).
* Mode: a command that ends when it is asked which protocol it speaks is started once more, with the
  handshake, and remembered (`modes.py`).
* Tools: `_serve_calls` lists them again when the server announces a change, with delays (`LISTINGS`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import httpx2
import trio
from pydantic import ValidationError

from ...config.sections.agent_config import MAX_STORED_BYTES
from ...config.sections.mcp import McpServerConfig
from ...config.sections.secrets import weak_secrets
from ...runtime.errors import leaf
from ...runtime.restart import Backoff, Streak
from ..servers.bearer import forwarding
from ..servers.masking import WEAK_SECRET, Secrets
from ..servers.server_status import ServerStartFailed, ServerState, ServerStatus
from .admission import Admission
from .modes import Modes
from .session import (
    NOT_SPOKEN,
    ConnectFailed,
    CurrentLink,
    Link,
    NoReply,
    SessionDialect,
    client,
    connect_failure,
    is_expected,
    transport_for,
    verify_modern,
)
from .tool_list import list_tools, listen_for_changes, tells_of_changes
from .transports.in_flight import InFlightCalls
from .transports.oauth import client_credentials
from .wire.failures import first_line, meaning, wanted
from .wire.sdk import HANDSHAKE_PROTOCOL_VERSIONS, MCPError, ServerObject
from .wire.tool_calls import ToolCalls

CLOSE_TIMEOUT = 10.0
"""Seconds to close a connection; a child process has limits of its own (stdio.py)."""
START_RETRIES = Backoff(limit=0.5)
"""Delays between attempts during the start, while the server may still be starting."""
REPAIRS = Backoff(first=0.25, factor=4.0, limit=10.0, jitter=0.5, healthy=1.0)
"""Delays between attempts to repair a lost connection. The first three attempts, for which a call waits by
default, bridge the restart of a server. A server that dies as soon as it is up is not restarted in a tight
loop. After the first three attempts, a waiting call shortens the delay to the `first` one."""

ADMISSIONS = Backoff(first=30.0, limit=300.0, jitter=0.5)
"""Delays between attempts without a new token at a server that wants one: the cause of the refusal may have
passed."""
LISTINGS = Backoff(first=1.0, limit=300.0, healthy=1.0)
"""Delays between listings of changed tools: some servers announce a change whenever they are listed, and some
cannot list their tools at that moment."""


class ServerConnection:
    """Keeps one server connected. Except for `run`, all methods may be called from any task."""

    def __init__(
        self,
        config: McpServerConfig,
        report: Callable[[ServerStatus], None],
        auth: httpx2.Auth | None = None,
        *,
        max_message: int = MAX_STORED_BYTES,
        brought: ServerObject | None = None,
        modes: Modes | None = None,
    ) -> None:
        """
        Args:
            report: called at every change of state or tools; must not block.
            auth: used for every HTTP request; sees refusals first, with their headers.
            max_message: bytes of a message; a longer one is abridged.
            brought: the server itself, if the program brings it.
            modes: remembers the mode of a command; None: each start asks for it.
        """
        self._config = config
        self._report = report
        self._auth = auth
        self._max_message = max_message
        self._brought = brought
        self._modes = modes
        self._unasked = False
        """The present start is the one after a command ended when it was asked."""
        self._log = logging.getLogger(f"stopgo.mcp.{config.name}")
        self.secrets = Secrets.of(config)
        """Masked in everything that quotes the server."""
        self.current = CurrentLink()
        self._attempt = trio.CancelScope()
        """Encloses connecting, and nothing else."""
        self._dialect = SessionDialect.first(config)
        self._admission = Admission()
        self._protocol: str | None = None
        """The protocol version of the last connection."""
        self.first_attempt = trio.Event()
        """Set when `started` need not wait any longer."""
        self._failure: ServerStartFailed | None = None
        self._stopping = trio.Event()
        self._closed = trio.Event()

    async def started(self) -> None:
        """Wait for the first connection, or, with `required: false`, for the first attempt.

        Raises:
            ServerStartFailed: no connection was made within `connect_timeout`.
        """
        await self.first_attempt.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Close the connection, and wait until it is closed."""
        self._stopping.set()
        self._attempt.cancel()
        self._admission.close()
        self.current.wake.set()
        if self.current.link is not None:
            self.current.link.changed.set()
        await self._closed.wait()

    async def authenticate(self, bearer: str) -> None:
        """If the server wants a token, try to connect with this one; return when the attempt has ended."""
        async with self._admission.turn:
            if self.current.wanted is not None:
                await self._admission.offer(bearer)

    async def run(self) -> None:
        """Connect, repair lost connections, and close the connection when stopped.

        Returns when stopped, or when the first connection cannot be made (then `started` raises).
        """
        self._log.addFilter(self.secrets.in_log)
        for name, reason in weak_secrets(self._config):
            self._log.info(WEAK_SECRET, name, reason)
        try:
            if self._config.oauth is not None and self._config.url is not None:
                self._auth = client_credentials(self._config.url, self._config.oauth, self.secrets)
            if self._asks and self._modes is not None and await self._modes.is_legacy(self._config):
                self._dialect = SessionDialect("stdio", legacy=True)
            if await self._connect_first():
                await self._keep_connected()
        finally:
            self._admission.close()
            self.first_attempt.set()
            self._closed.set()
            self._log.removeFilter(self.secrets.in_log)

    @property
    def _asks(self) -> bool:
        """Whether the next attempt asks a command which protocol it speaks."""
        spoken = self._dialect
        return spoken.kind == "stdio" and not spoken.legacy and self._config.mode == "auto"

    async def _connect_first(self) -> bool:
        """Make and serve the first connection; return False if the start has failed or was stopped."""
        deadline = trio.current_time() + self._config.connect_timeout
        streak = Streak(START_RETRIES)
        reason: str | None = None
        while not self._stopping.is_set():
            began = trio.current_time()
            try:
                await self._run_one(deadline)
                return True
            except ConnectFailed as failure:
                delay = streak.fail(served=0)
                if self._refused(failure, began):
                    self.first_attempt.set()
                    return True
                if reason is None or not isinstance(failure, NoReply):
                    reason = self.secrets.mask(str(failure))
                self.current.fail(began)
                self._report_state("disconnected", reason)
                if not self._config.required:
                    self.first_attempt.set()
                    return True
                if not failure.retry or trio.current_time() + delay >= deadline:
                    self._failure = ServerStartFailed(self._config.name, reason, mistake=failure.mistake)
                    return False
                await self._pause(delay)
        return False

    async def _keep_connected(self) -> None:
        repairs, admissions = Streak(REPAIRS), Streak(ADMISSIONS)
        served = 0.0
        while not self._stopping.is_set():
            if self.current.wanted is not None:
                with trio.move_on_after(admissions.fail(served)):
                    await self._admission.take()
                self.secrets.learn("admission", [self._admission.bearer or ""])
            else:
                await self._pause_before_repair(repairs.fail(served))
            began = trio.current_time()
            try:
                await self._run_one(began + self._config.connect_timeout)
                served = trio.current_time() - began
            except ConnectFailed as failure:
                served = 0.0
                if not self._refused(failure, began):
                    may_be_starting = failure.retry and self._config.url is not None
                    self.current.fail(began, may_be_starting=may_be_starting)
                    self._admission.judge(admitted=True)
                    self._report_state("disconnected", str(failure))

    def _refused(self, failure: ConnectFailed, began: float) -> bool:
        """Whether the server wants another token that a run can bring. Credentials in the server's own
        configuration are never replaced by a run's token."""
        if not self._config.forwards_bearer:
            return False
        token = wanted(self._config.name, failure.status, failure.data)
        if token is None:
            return False
        self.current.fail(began, self.secrets.masked(token))
        self._admission.judge(admitted=False)
        self._report_state("auth_required", str(failure))
        return True

    async def _pause_before_repair(self, seconds: float) -> None:
        """Pause before the next attempt to connect; a waiting call shortens the pause."""
        at_least = min(seconds, REPAIRS.first)
        await self._pause(at_least)
        with trio.move_on_after(seconds - at_least):
            await self.current.wake.wait()
        self.current.wake = trio.Event()

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._stopping.wait()

    async def _run_one(self, deadline: float) -> None:
        """Run one connection from opening to closing, in the dialect that the server was last found to speak.

        Raises:
            ConnectFailed: the connection was not open, with its tools listed, by `deadline`.
        """
        if self._stopping.is_set():
            return
        if self.current.wanted is None:  # otherwise the state stays "auth_required" until it is admitted
            self._report_state("connecting")
        try:
            await self._run_in_dialect(deadline)
        except ConnectFailed as failure:
            spoken = self._dialect
            if failure.died and self._asks:
                await self._start_with_handshake(deadline)
                return
            if failure.refused or isinstance(failure, NoReply):
                self._dialect = SessionDialect.first(self._config)
            may_be_older = self._config.transport is None and spoken.kind == "http"
            if not may_be_older or failure.status not in NOT_SPOKEN:
                raise
            self._dialect = SessionDialect("sse", legacy=True)
            try:
                await self._run_in_dialect(deadline)
            except ConnectFailed as older:
                self._dialect = SessionDialect.first(self._config)
                # Mask it alone, because a secret that is cut off is recognized only at the end of a text.
                first = self.secrets.mask(str(failure))
                raise ConnectFailed(f"{first} (as an older SSE server: {older})") from older

    async def _start_with_handshake(self, deadline: float) -> None:
        """Start a command once more, which ended when it was asked which protocol it speaks."""
        self._dialect, self._unasked = SessionDialect("stdio", legacy=True), True
        try:
            await self._run_in_dialect(deadline)
        except ConnectFailed:
            self._dialect, self._unasked = SessionDialect.first(self._config), False
            raise

    async def _run_in_dialect(self, deadline: float) -> None:
        link = Link(InFlightCalls(self._log), self.secrets)
        transport = await transport_for(
            self._config, self._dialect, link, self._log, self._auth, self._max_message, self._brought
        )
        opened = False
        error: BaseException | None = None
        try:
            with trio.CancelScope(deadline=deadline) as scope, forwarding(self._admission.bearer):
                self._attempt = scope
                async with client(self._config, self._dialect, transport, link, self._log) as link.client:
                    await verify_modern(link.client, self._config)
                    link.version = link.client.protocol_version
                    link.announces_changes = tells_of_changes(link.client)
                    link.tool_calls = ToolCalls(transport.requests, link.version, self._config.structured)
                    self.current.tools = await list_tools(link, self._config, self._log)
                    self.current.left_out = self.secrets.masked(tuple(link.left_out))
                    if self._unasked and self._modes is not None:
                        await self._modes.remember_legacy(self._config)
                    self._unasked = False
                    opened = True
                    # One scope bounds opening and closing, because it must enclose both ends of the client.
                    scope.deadline = math.inf
                    self._attempt = trio.CancelScope()
                    await self._serve_calls(link)
                    scope.deadline = trio.current_time() + CLOSE_TIMEOUT
        # Cancellation passes; any other exception of the SDK means that this connection has ended.
        except* Exception as group:
            error = leaf(group)
            if not is_expected(error):
                self._log.error("the connection failed unexpectedly", exc_info=error)
        if self._stopping.is_set():
            return
        if not opened:
            failure = connect_failure(error, transport, self._config.connect_timeout)
            failure.died = transport.exit_report() is not None and link.version is None
            raise failure
        how = first_line(error) if error is not None else "connection lost"
        why = transport.exit_report() or link.loss or how
        if self.current.error != self.secrets.masked(why):  # else `_serve_calls` has reported it
            self._report_state("disconnected", why)

    async def _serve_calls(self, link: Link) -> None:
        """Admit calls until the connection is lost or stopped; then wait for the in-flight calls to end."""
        # Remember the era: some older servers take seconds to ignore the question which one they speak.
        self._protocol = link.version
        older = self._protocol in HANDSHAKE_PROTOCOL_VERSIONS
        self._dialect = SessionDialect(self._dialect.kind, legacy=older)
        self.current.open(link)
        self._admission.judge(admitted=True)
        self.first_attempt.set()
        self._report_state("connected")
        async with trio.open_nursery() as nursery:
            if link.announces_changes and not older:
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
                            await link.wait_for_change()
            finally:
                self.current.close(link)
            if link.loss is not None and link.in_flight.any:  # they may take long
                self._report_state("disconnected", link.loss)
            nursery.cancel_scope.cancel()
        await link.in_flight.wait_until_none()

    async def _list_again(self, link: Link) -> bool:
        """List the tools again; return whether that succeeded."""
        link.listing = True
        try:
            with trio.fail_after(self._config.timeout):
                tools = await list_tools(link, self._config, self._log)
        except (MCPError, RuntimeError, ValidationError, trio.TooSlowError) as error:
            self._log.warning("its tools may have changed, but listing them failed: %s", first_line(error))
            lost = isinstance(error, MCPError) and meaning(error.code, error.message, error.data) in (
                "never_ran",
                "connection_lost",
            )
            if lost or link.doubtful:
                link.lose(first_line(error))
            return False
        finally:
            link.listing = False
        link.doubtful = False
        left_out = self.secrets.masked(tuple(link.left_out))
        if (tools, left_out) != (self.current.tools, self.current.left_out):
            self.current.tools, self.current.left_out = tools, left_out
            self._report_state("connected")
        return True

    def _report_state(self, state: ServerState, error: str | None = None) -> None:
        error = self.secrets.masked(error)
        current = self.current
        # A server that stays away is logged once, not at every attempt.
        known = current.error is not None and (state == "connecting" or error == current.error)
        if state != "connecting":
            current.error = error
        level = logging.DEBUG if known else logging.WARNING if error else logging.INFO
        tools = "1 tool" if len(current.tools) == 1 else f"{len(current.tools)} tools"
        more = f": {tools}" if state == "connected" else f": {error}" if error else ""
        self._log.log(level, "%s%s", state, more)
        self._report(
            ServerStatus(
                self._config.name,
                state,
                error,
                current.tools,
                self._protocol,
                current.wanted,
                current.left_out,
            )
        )
