"""The callers' side of a connection: one call over whatever link there is, made once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio
from pydantic import ValidationError

from ...config.mcp import McpServerConfig
from ...runtime.errors import Refused
from ..tools.masking import Secrets
from ..tools.needs import Wanted
from ..tools.tool import (
    CallTool,
    Elicitation,
    ElicitationAnswer,
    Progress,
    Tool,
    ToolAuthRequired,
    ToolChanged,
    ToolInputRequired,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from .failures import (
    InvalidResult,
    Unsendable,
    http_status,
    meaning,
    status_line,
    wanted,
)
from .in_flight import Flight
from .sdk import HEADER_MISMATCH, MODERN_PROTOCOL_VERSIONS, MCPError, types
from .session import Line, Link
from .tool_list import list_tools
from .wire import NotOffered, addresses_required, error_result, input_required

URL_ELICITATION_REQUIRED = -32042
"""The code of MCP 2025-11-25, "URL Elicitation Required Error"."""
STATE_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before a server that only wants to be asked again is; after them it is given up."""

QUOTED = "the server wants its own state back, which quotes a secret and therefore is not kept"


class Caller:
    """Makes calls to one server. May be used from any task."""

    def __init__(
        self,
        config: McpServerConfig,
        line: Line,
        authenticate: Callable[[str], Awaitable[None]],
        secrets: Secrets | None = None,
    ) -> None:
        """
        Args:
            authenticate: has a bearer tried, when the server wants one before it lets us connect.
            secrets: masked in all that a call comes back with.
        """
        self._secrets = Secrets() if secrets is None else secrets
        self._config = config
        self._authenticate = authenticate
        self._name = f'MCP server "{config.name}"'
        self._line = line
        self._log = logging.getLogger(f"stopgo.mcp.{config.name}")

    async def call(self, request: CallTool) -> ToolResult:
        """Make one call, once. While the connection is down, wait for it a bounded time.

        A call that certainly never ran, because its connection turned out to be gone already, is
        made once more over the next one.

        Raises:
            ToolUnavailable: it never ran; there is no connection, or no getting through in time.
            ToolAuthRequired: it never ran; its server wants a token, or a better one.
            ToolChanged: it never ran; the connection that is there now lists another tool by this name.
            ToolInputRequired: it did nothing yet; its server wants answers of people first.
            ToolOutcomeUnknown: it was sent, and no answer came.
        """
        secrets = self._secrets.beside(request.bearer)
        try:
            return secrets.masked(await self._call(_discreet(request, secrets)))
        except ToolInputRequired as asked:
            if secrets.masked(asked.state) != asked.state:
                return error_result(QUOTED)
            asked.requests = secrets.masked(asked.requests)
            raise
        except Refused as error:
            error.args = secrets.masked(error.args)
            if isinstance(error, ToolAuthRequired):
                error.challenge = secrets.masked(error.challenge)
            raise

    async def _call(self, request: CallTool) -> ToolResult:
        since = trio.current_time() if request.since is None else request.since
        link = await self._reach(since, request.bearer)
        try:
            return await self._call_over(link, request)
        except ToolUnavailable:
            if link is self._line.link:  # it only takes too long
                raise
            return await self._call_over(await self._reach(since, request.bearer), request)

    async def _reach(self, since: float, bearer: str | None) -> Link:
        line = self._line
        link = line.link or await line.wait(since, self._config.timeout, self._config.max_retries)
        if link is None and line.wanted is not None and bearer is not None:
            await self._authenticate(bearer)
            link = line.link
        if link is not None:
            return link
        raise self._unavailable() if line.wanted is None else self._refused(line.wanted)

    async def _call_over(self, link: Link, request: CallTool) -> ToolResult:

        if request.shown is not None:
            self._check_unchanged(request.tool, request.shown, self._line.tools)
        try:
            with link.flights.one(request, self._config.timeout) as flight:
                return await self._send(link, flight)
        except MCPError as error:
            return self._answer(link, error)
        except NotOffered as error:
            return error_result(str(error))
        except InvalidResult as error:
            return error_result(f"the server's result is not valid: {error}")
        except Unsendable as error:
            return error_result(f"the arguments cannot be sent: {error}")
        except Refused:
            raise
        except Exception as error:
            # Of a library, over something odd that the server sent: no reason to end its other calls.
            self._log.error("a call failed unexpectedly", exc_info=error)
            raise ToolOutcomeUnknown(f"{self._name} failed: {type(error).__name__}") from error
        if flight.unsent:
            raise ToolUnavailable(
                f"{self._name} took in nothing for {self._config.timeout:g} s; nothing was sent"
            )
        raise ToolOutcomeUnknown(f"{self._name} timed out after {self._config.timeout:g} s")

    async def _send(self, link: Link, flight: Flight) -> ToolResult:
        """The result, once the server has what it wants to go on.

        Raises:
            ToolInputRequired: it wants answers of people.
            NotOffered: it wants something else.
        """
        request = flight.request
        for pause in (*STATE_PAUSES, None):
            result = await self._send_once(link, request)
            if isinstance(result, ToolResult):
                return result
            if result.input_requests:
                raise input_required(result)
            if pause is not None:
                # It wants to be asked again with what it said of the state of things, and nothing else.
                flight.put_off = True
                await trio.sleep(pause)
                request = attrs.evolve(request, answers=None, state=result.request_state)
        raise NotOffered("the server does not come to an end: it wants to be asked again and again")

    async def _send_once(self, link: Link, request: CallTool) -> ToolResult | types.InputRequiredResult:

        try:
            return await link.tool_calls.call(request)
        except MCPError as mismatch:
            listed = await self._learn_headers(link, mismatch)
        if request.shown is not None:
            self._check_unchanged(request.tool, request.shown, listed)
        return await link.tool_calls.call(request)

    async def _learn_headers(self, link: Link, mismatch: MCPError) -> Sequence[Tool]:
        """Headers come from the schema that was last listed (MCP 2026-07-28, "Standard headers"): list again.

        In the eras before, the code is any server's own, and the call may have run.

        Raises:
            MCPError: the given one, when it is about something else, or that was of no use.
        """

        if mismatch.code != HEADER_MISMATCH or link.version not in MODERN_PROTOCOL_VERSIONS:
            raise mismatch
        try:
            listed = await list_tools(link, self._config, self._log)
        except (MCPError, RuntimeError, ValidationError) as error:
            raise mismatch from error
        link.refresh()  # for all others, too
        return listed

    def _check_unchanged(self, name: str, shown: Tool, listed: Sequence[Tool]) -> None:
        now = next((tool for tool in listed if tool.name == name), None)
        if now is shown or (now is not None and now.fingerprint == shown.fingerprint):
            return
        raise ToolChanged(f'the tool "{name}" has changed since the call was cleared; nothing was sent')

    def _answer(self, link: Link, error: MCPError) -> ToolResult:
        """What an error says about the call: an answer, or one of the exceptions of `call`."""
        if error.code == URL_ELICITATION_REQUIRED and (visits := addresses_required(error.data)) is not None:
            raise visits from error
        status = http_status(error.code, error.data)
        if (token := wanted(self._config.name, status, error.data)) is not None:
            raise self._refused(token) from error
        match meaning(error.code, error.message, error.data):
            case "answered":
                return error_result(error.message or f"error {error.code}")
            case "never_ran":
                self._lose(link, error.message)
                raise self._unavailable(link.loss) from error
            case "connection_lost":
                self._lose(link, error.message)
                raise ToolOutcomeUnknown(f"{self._name} connection lost: {link.loss}") from error
            case "reply_lost":
                raise ToolOutcomeUnknown(f"{self._name} connection lost: {error.message}") from error
            case "outcome_unknown":
                raise ToolOutcomeUnknown(f"{self._name} failed: {error.message}") from error

    def _lose(self, link: Link, why: str) -> None:
        link.lose(why)
        self._line.close(link)

    def _refused(self, token: Wanted) -> ToolAuthRequired:
        assert token.status is not None
        text = f"{self._name} answered {status_line(token.status)}"
        return ToolAuthRequired(text, status=token.status, challenge=token.challenge)

    def _unavailable(self, why: str | None = None) -> ToolUnavailable:
        why = why or self._line.error
        return ToolUnavailable(f"{self._name} not connected" + (f": {why}" if why else ""))


def _discreet(request: CallTool, secrets: Secrets) -> CallTool:
    """The call, with what is told of it while it lasts masked."""
    if secrets.empty:
        return request
    tell, ask = request.on_progress, request.on_elicitation

    def on_progress(progress: Progress) -> None:
        assert tell is not None
        tell(secrets.masked(progress))

    async def on_elicitation(asked: Elicitation) -> ElicitationAnswer:
        assert ask is not None
        return await ask(secrets.masked(asked))

    return attrs.evolve(
        request,
        on_progress=on_progress if tell is not None else None,
        on_elicitation=on_elicitation if ask is not None else None,
    )
