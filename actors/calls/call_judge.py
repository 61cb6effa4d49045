"""Finds today's tool for a call, and has the gate judge the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ..arguments.arguments import Unfit
from ..gate.gate import offered
from ..gate.off_loop import judge_off_loop
from ..models.messages.messages import ToolCall
from ..run.scopes import CallScope
from ..tools.needs import Wanted
from ..tools.registry import NotFound, Resolve, Resolved, Unusable
from .ask_order import AskPosition
from .facts import CallApproval, Judgement, Missing, Sent


@attrs.frozen(eq=False)
class CallJudge:
    """Finds and judges one call of a reply."""

    scope: CallScope
    key: str
    call: ToolCall
    position: AskPosition

    async def judge(
        self, approvals: Sequence[CallApproval], sent: Sent | None
    ) -> tuple[Resolved | None, Judgement | Missing]:
        """The tool, and the judgement of its call. No tool if the call cannot be sent."""
        found = await self._find(approvals, sent)
        if isinstance(found, Missing):
            return None, found
        arguments = await self._arguments(found, approvals, sent)
        if isinstance(arguments, Missing):
            return None, attrs.evolve(arguments, tool=found.tool)
        scope, tool = self.scope, found.tool
        verdict = await judge_off_loop(tool, arguments, scope.policy_scope, scope.run.searching)
        allowed = [
            await judge_off_loop(tool, approval.shown, scope.policy_scope, scope.run.searching)
            for approval in approvals
            if approval.state == "approved" and approval.fingerprint == tool.fingerprint
        ]
        judgement = Judgement(
            tool=tool,
            verdict=verdict,
            arguments=arguments,
            fitted=not approvals and sent is None and arguments != found.arguments,
            allowed=frozenset(each.rule for each in allowed),
            lacks_token=self._lacks_token(found),
        )
        return found, judgement

    async def _arguments(
        self, found: Resolved, approvals: Sequence[CallApproval], sent: Sent | None
    ) -> Mapping[str, Any] | Missing:
        if approvals:
            return approvals[-1].arguments
        if sent is not None:
            return sent.arguments
        fit = await self.scope.services.arguments.fit(found.tool, found.arguments)
        return invalid("; ".join(fit.mistakes)) if isinstance(fit, Unfit) else fit

    def _lacks_token(self, found: Resolved) -> Wanted | None:
        needs_one = found.server.forwards_bearer and self.scope.log.run.has_token(self.key)
        return Wanted(found.server.name) if needs_one and not self.scope.token(self.key) else None

    async def _find(self, approvals: Sequence[CallApproval], sent: Sent | None) -> Resolved | Missing:
        found = await self._look_up(approvals[-1] if approvals else sent, sent)
        if isinstance(found, Unusable):
            return invalid(found.problem)
        if isinstance(found, Resolved):
            if offered(found.tool, self.scope.policy_scope):
                return found
            return Missing("not_found", str(NotFound(self.call.name)), found.tool)
        return Missing("not_found", str(found))

    async def _look_up(
        self, meant: CallApproval | Sent | None, sent: Sent | None
    ) -> Resolved | NotFound | Unusable:
        """The tool that the model calls.

        If the call has an approval or was sent, look for the tool that was shown or called, because the
        name in the model's call may have another meaning today.
        """
        call = self.call
        if meant is None:
            return await self._resolve(Resolve(call.name, call.arguments), None)
        known = Resolve(meant.tool, meant.arguments, meant.server)
        found = await self._resolve(known, meant.server)
        if isinstance(found, Resolved):
            return attrs.evolve(found, facade=meant.facade)
        if sent is not None:  # the same name on another server would be another call
            return found
        return await self._resolve(Resolve(call.name, call.arguments), meant.server)

    async def _resolve(self, wanted: Resolve, server: str | None) -> Resolved | NotFound | Unusable:
        """The answer of the registry. `server` is the tool's server, if known.

        After a restart, a server that lists its tools only with a token has listed none. Then wait for the
        token, because the tool was there when the call was made.
        """
        scope, log = self.scope, self.scope.log
        among = None if server is None else [server]
        while True:
            found = await scope.services.registry.ask(wanted)
            if not isinstance(found, NotFound):
                return found
            self.position.leave()
            token = scope.token(self.key)
            is_own = log.run.calls[self.key].own_command is not None
            if await scope.services.authorization.present(token, among if is_own else None):
                continue
            needed = scope.services.authorization.wanted(among)
            if needed is None or (server is None and (token is not None or not log.run.has_token(self.key))):
                return found
            await log.branches.credential(needed, scope.work_timers)


def invalid(problem: str) -> Missing:
    """The end of a call whose arguments are invalid."""
    return Missing("invalid", f"Invalid arguments: {problem}. Nothing was done.")
