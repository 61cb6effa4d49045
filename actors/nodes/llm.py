"""Llm: ask the model and settle the calls of its reply, until it answers with text."""

from __future__ import annotations

from ...config.sections.nodes import LlmNode
from ...runtime.context import Behaviour, Context
from ..approvals.decided import CANCELLED
from ..calls.runner import EXIT_LOOP, CallEnd
from ..common.errors import NodeFailed
from ..gate.gate import PolicyScope, descend
from ..log.words import keys
from ..log.words.outcomes import NodeEnd, Replied
from ..models.messages.messages import ModelTool
from ..run.offers import Offer
from ..run.scopes import Execute, RunScope
from ..tools.needs import Wanted
from ..tools.tokens import Token
from .ask_model import ask_model
from .history import earlier_turns, exchange, newest_pictures, this_turn
from .node import execute_once, fill
from .node_calls import run_calls

EXIT_TOOL = ModelTool(
    EXIT_LOOP,
    "Exit the current loop. Call this only when instructed to do so.",
    {"type": "object", "properties": {}},
)


def llm(spec: LlmNode, scope: RunScope) -> Behaviour[Execute]:
    async def behaviour(ctx: Context[Execute]) -> None:
        await execute_once(ctx, _Llm(spec, scope).execute)

    return behaviour


class _Llm:
    def __init__(self, spec: LlmNode, scope: RunScope) -> None:
        self._spec = spec
        self._scope = scope
        self._called = 0

    async def execute(self, execute: Execute) -> NodeEnd:
        spec, scope = self._spec, self._scope
        policy_scope = descend(execute.policy_scope, spec)
        system = fill(spec.prompt, scope, execute)
        earlier = earlier_turns(scope, spec)
        messages = newest_pictures([*earlier, *this_turn(scope, spec, execute)], first=True)
        before = len(messages)
        said = ""
        """The last text beside calls. Some models answer there, and end with an empty reply."""
        for number in range(1, spec.max_turns + 1):
            await self._unlock(number, execute, policy_scope)
            offer = scope.services.offers().at(policy_scope)
            reply = await ask_model(
                scope,
                execute,
                spec,
                call=number,
                system=system,
                routing=offer.line,
                messages=tuple(messages),
                earlier=len(earlier),
                before=before,
                tools=self._tools(offer),
            )
            asked = reply.tool_calls
            if not asked:
                return NodeEnd(reply.text if reply.text.strip() or self._has_value(execute) else said)
            said = reply.text if reply.text.strip() else said
            self._bound(len(asked))
            key = keys.reply(execute.key, number)
            ends = await run_calls(scope, spec, execute, policy_scope, key, asked)
            stop = self._stop(reply, ends, policy_scope)
            # Earlier versions continued a loop after a rejection; a recorded next step means this run did.
            if stop is not None and not (
                stop.rejected and keys.reply(execute.key, number + 1) in scope.log.run.steps
            ):
                return stop
            messages.extend(exchange(scope, keys.reply(execute.key, number)))
            messages = newest_pictures(messages)
        raise NodeFailed(
            "limit_reached", f'node "{spec.name}" stopped after {spec.max_turns} model calls (max_turns)'
        )

    def _has_value(self, execute: Execute) -> bool:
        """Whether the node would replace a value by what may be no more than a remark about its calls."""
        return bool(execute.session.get(self._spec.output_key or ""))

    async def _unlock(self, number: int, execute: Execute, policy_scope: PolicyScope) -> None:
        """Wait for a token while a server lists no tools without one, because the model would not be offered
        them."""
        log, authorization = self._scope.log, self._scope.services.authorization
        if keys.reply(execute.key, number) in log.run.steps or self._wanted(number, policy_scope) is None:
            return
        await authorization.present(self._token())
        while (wanted := self._wanted(number, policy_scope)) is not None:
            await log.branches.credential(wanted, execute.work_timers)
            await authorization.present(self._token())

    def _wanted(self, number: int, policy_scope: PolicyScope) -> Wanted | None:
        """Return the credential to wait for before a model call. Before the first call, it is that of a
        required server at this policy scope. If the run has lost its token in a restart, it is that of any
        server at this policy_scope, because the model may already have been offered its tools."""
        authorization, token = self._scope.services.authorization, self._scope.log.run.token
        if token and self._token() is None:
            return authorization.wanted(policy_scope.servers)
        return authorization.wanted(policy_scope.servers, required=True) if number == 1 else None

    def _token(self) -> Token | None:
        log = self._scope.log
        return self._scope.services.tokens.get(log.state.id, log.run.driving_command)

    def _tools(self, offer: Offer) -> tuple[ModelTool, ...]:
        if not self._spec.can_exit_loop:
            return offer.tools
        return (*(tool for tool in offer.tools if tool.name != EXIT_LOOP), EXIT_TOOL)

    def _bound(self, calls: int) -> None:
        self._called += calls
        limit = self._spec.max_tool_calls
        if limit is not None and self._called > limit:
            raise NodeFailed(
                "limit_reached",
                f'node "{self._spec.name}" stopped: it asked for {self._called} tool calls, and may make'
                f" {limit} (max_tool_calls)",
            )

    def _stop(self, reply: Replied, ends: list[CallEnd], policy_scope: PolicyScope) -> NodeEnd | None:
        """Return the end of the node if a call of this reply ends it, otherwise None."""
        no = next((end for end in ends if end.rejected), None)
        rejected = no is not None and policy_scope.ends_on_reject
        exits = any(call.name == EXIT_LOOP and call.problem is None for call in reply.tool_calls)
        exited = self._spec.can_exit_loop and exits
        if not rejected and not exited:
            return None
        if no is not None and rejected:
            return NodeEnd(no.content if no.expired else CANCELLED, rejected=True, exited=exited)
        return NodeEnd(reply.text, exited=True)
