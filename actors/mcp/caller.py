"""The callers' side of a connection: makes each tool call once, over the link that is open now.

1. `_reach` returns the open link, or waits for one: at most `timeout` seconds and `max_retries` attempts. If
   the file does not set these attempts, it waits at least `retry_for` seconds while an HTTP server may be
   starting. If the server wants a token, the call's
   own token is tried.
2. `_send` sends the call. The server may ask for it again with its state (repeated here, with pauses), or
   want answers of people first (`ToolInputRequired`).
3. `failures.meaning` sorts errors: an answer for the model, a call that never ran, or one with an unknown
   outcome. A call that never ran is made again, once, over the next link.

`Secrets` masks every result, error, progress message and question, because the server may quote a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio
from pydantic import ValidationError

from ...config.sections.mcp import McpServerConfig
from ...runtime.errors import Refused
from ..servers.bearer import forwarding
from ..servers.masking import Secrets
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
from .session import CurrentLink, Link
from .tool_list import list_tools
from .transports.in_flight import InFlightCall
from .wire.failures import (
    InvalidResult,
    Unsendable,
    casts_doubt,
    first_line,
    http_status,
    meaning,
    status_line,
    wanted,
)
from .wire.sdk import HEADER_MISMATCH, MODERN_PROTOCOL_VERSIONS, MCPError, types
from .wire.wire import NotOffered, addresses_required, error_result, input_required

URL_ELICITATION_REQUIRED = -32042
"""The code of MCP 2025-11-25, "URL Elicitation Required Error"."""
STATE_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each repetition of a call that the server wants again; then the call fails."""

NO_BACK_CHANNEL = "no back-channel"
"""In the error of a tool that asks during a call, as `ctx.elicit` does, which MCP 2026-07-28 does not allow
(python-sdk, exceptions.py)."""
ASKS_DURING_CALLS = "its tools ask during a call; set mode: legacy for this server"

QUOTED = "the server wants its own state back, which quotes a secret and therefore is not kept"
"""The error of a call whose server state would have to be stored with a secret in it."""


class ToolCaller:
    """Makes the calls to one server. It may be used from any task."""

    def __init__(
        self,
        config: McpServerConfig,
        current: CurrentLink,
        authenticate: Callable[[str], Awaitable[None]],
        secrets: Secrets | None = None,
    ) -> None:
        """
        Args:
            authenticate: tries to connect with a bearer token, if the server wants one for that.
            secrets: masked in everything that a call returns.
        """
        self._secrets = Secrets() if secrets is None else secrets
        self._config = config
        self._authenticate = authenticate
        self._name = f'MCP server "{config.name}"'
        self._current = current
        self._log = logging.getLogger(f"stopgo.mcp.{config.name}")

    async def call(self, request: CallTool) -> ToolResult:
        """Make one call. While there is no connection, wait for one, for a bounded time.

        If the connection was already gone, and the call certainly never ran, it is made again, once, over the
        next connection.

        Raises:
            ToolUnavailable: the call never ran: there is no connection, or nothing was sent in time.
            ToolAuthRequired: the call never ran: the server wants a token, or a better one.
            ToolChanged: the call never ran: the server now lists another tool by this name.
            ToolInputRequired: the call did nothing yet: the server wants answers of people first.
            ToolOutcomeUnknown: the call was sent, and no answer came.
        """
        secrets = self._secrets.beside(request.bearer)
        try:
            return secrets.masked(await self._call(_masked_callbacks(request, secrets)))
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
            if link is self._current.link:  # the link is open; the call only took too long
                raise
            return await self._call_over(await self._reach(since, request.bearer), request)

    async def _reach(self, since: float, bearer: str | None) -> Link:
        current = self._current
        config = self._config
        retry_for = 0.0 if config.max_retries else config.retry_for
        link = current.link or await current.wait(since, config.timeout, config.attempts, retry_for)
        if link is None and current.wanted is not None and bearer is not None:
            await self._authenticate(bearer)
            link = current.link
        if link is not None:
            return link
        raise self._unavailable() if current.wanted is None else self._refused(current.wanted)

    async def _call_over(self, link: Link, request: CallTool) -> ToolResult:
        if request.shown is not None:
            self._check_unchanged(request.tool, request.shown, await self._listed(link, request.bearer))
        try:
            with link.in_flight.track(request, self._config.timeout, self._config.longest) as call:
                return self._hinted(link, await self._send(link, call))
        except MCPError as error:
            return self._hinted(link, self._result_of(link, error))
        except NotOffered as error:
            return error_result(str(error))
        except InvalidResult as error:
            return error_result(f"the server's result is not valid: {error}")
        except Unsendable as error:
            return error_result(f"the arguments cannot be sent: {error}")
        except Refused:
            raise
        except Exception as error:
            # A library failed on something odd that the server sent; other calls must not end with this one.
            self._log.error("a call failed unexpectedly", exc_info=error)
            raise ToolOutcomeUnknown(f"{self._name} failed: {type(error).__name__}") from error
        if call.unsent:
            raise ToolUnavailable(
                f"{self._name} read nothing for {self._config.timeout:g} s; nothing was sent"
            )
        raise ToolOutcomeUnknown(f"{self._name} timed out after {call.timed_out_after}")

    async def _listed(self, link: Link, bearer: str | None) -> Sequence[Tool]:
        """Return the tools that the server lists now: again, if it has announced a change since. A server
        that refuses the token of the call for the list will refuse the call, too.

        Raises:
            ToolUnavailable: it does not list them.
        """
        if not link.is_outdated:
            return self._current.tools
        try:
            with forwarding(bearer), trio.fail_after(self._config.timeout):
                return await list_tools(link, self._config, self._log)
        except (MCPError, RuntimeError, ValidationError, trio.TooSlowError) as error:
            if isinstance(error, MCPError) and http_status(error.code, error.data) in (401, 403):
                return self._current.tools
            text = f"{self._name}: its tools may have changed, and listing them failed; nothing was sent"
            raise ToolUnavailable(f"{text} ({first_line(error)})") from error

    async def _send(self, link: Link, call: InFlightCall) -> ToolResult:
        """Send the call, again with the server's state if the server asks for that; return the result.

        Raises:
            ToolInputRequired: the server wants answers of people.
            NotOffered: the server wants something else.
        """
        request = attrs.evolve(call.request, on_progress=call.on_progress)
        for pause in (*STATE_PAUSES, None):
            result = await self._send_once(link, request)
            if isinstance(result, ToolResult):
                return result
            if result.input_requests:
                raise input_required(result)
            if pause is not None:
                # The server wants nothing but its own state back.
                call.reached_server = True
                await trio.sleep(pause)
                request = attrs.evolve(request, answers=None, state=result.request_state)
        raise NotOffered("the server kept asking for another retry; giving up")

    async def _send_once(self, link: Link, request: CallTool) -> ToolResult | types.InputRequiredResult:

        try:
            return await link.tool_calls.call(request)
        except MCPError as mismatch:
            listed = await self._learn_headers(link, mismatch)
        if request.shown is not None:
            self._check_unchanged(request.tool, request.shown, listed)
        return await link.tool_calls.call(request)

    async def _learn_headers(self, link: Link, mismatch: MCPError) -> Sequence[Tool]:
        """After a header mismatch, list the tools again; return them.

        Headers come from the schema that was last listed (MCP 2026-07-28, "Standard headers"). In older
        versions the code has no meaning of its own, and the call may have run.

        Raises:
            MCPError: the given error, if it is another one, or if listing the tools failed.
        """

        if mismatch.code != HEADER_MISMATCH or link.version not in MODERN_PROTOCOL_VERSIONS:
            raise mismatch
        try:
            listed = await list_tools(link, self._config, self._log)
        except (MCPError, RuntimeError, ValidationError) as error:
            raise mismatch from error
        link.refresh()  # so that other calls see the new list too
        return listed

    def _check_unchanged(self, name: str, shown: Tool, listed: Sequence[Tool]) -> None:
        now = next((tool for tool in listed if tool.name == name), None)
        if now is shown or (now is not None and now.fingerprint == shown.fingerprint):
            return
        raise ToolChanged(f'the tool "{name}" has changed since the call was cleared; nothing was sent')

    def _result_of(self, link: Link, error: MCPError) -> ToolResult:
        """Turn an error into an answer for the model, or raise one of the exceptions of `call`."""
        if error.code == URL_ELICITATION_REQUIRED and (asked := addresses_required(error.data)) is not None:
            raise asked from error
        status = http_status(error.code, error.data)
        if (token := wanted(self._config.name, status, error.data)) is not None:
            raise self._refused(token) from error
        match meaning(error.code, error.message, error.data):
            case "answered":
                if casts_doubt(0, error.message):
                    link.doubt()
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

    def _hinted(self, link: Link, result: ToolResult) -> ToolResult:
        """Add to the error of a tool that could not ask a question how to let it ask."""
        asked_in_vain = result.is_error and NO_BACK_CHANNEL in result.content
        if not asked_in_vain or link.version not in MODERN_PROTOCOL_VERSIONS:
            return result
        self._log.warning("a tool could not ask a question: %s", ASKS_DURING_CALLS)
        return attrs.evolve(result, content=f"{result.content}\n[Note: {ASKS_DURING_CALLS}]")

    def _lose(self, link: Link, why: str) -> None:
        link.lose(why)
        self._current.close(link)

    def _refused(self, token: Wanted) -> ToolAuthRequired:
        assert token.status is not None
        text = f"{self._name} answered {status_line(token.status)}"
        return ToolAuthRequired(text, status=token.status, challenge=token.challenge)

    def _unavailable(self, why: str | None = None) -> ToolUnavailable:
        why = why or self._current.error
        return ToolUnavailable(f"{self._name} not connected" + (f": {why}" if why else ""))


def _masked_callbacks(request: CallTool, secrets: Secrets) -> CallTool:
    """Return the call with secrets masked in its progress and questions."""
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
