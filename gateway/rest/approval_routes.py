"""The routes of approvals: the inbox, one approval, a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import attrs

from ...actors.agent.agent import Agent
from ...actors.approvals.kinds import Approval
from ...actors.common.errors import AgentError
from ...runtime.journal.question import QuestionState
from ..contract.shapes import KINDS
from ..http import headers, query
from ..http.errors import STATUS, error_reply
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply, reply_in_parts
from . import views
from .conversation_routes import accepted, turn_reply
from .refused_request import name_conversation

STATES: tuple[QuestionState, ...] = get_args(QuestionState)


@attrs.frozen
class Approvals:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"listApprovals": self.list, "getApproval": self.get, "decideApproval": self.decide}

    def _for(self, request: HttpRequest) -> Agent:
        return self.agent.acting_as(request.principal)

    async def list(self, request: HttpRequest) -> Reply:
        args = request.args
        query.known(args, ("state", "kind", "limit", "cursor"))
        page = await self._for(request).approvals(
            state=query.word(args, "state", STATES) or "pending",
            kind=query.word(args, "kind", KINDS),
            limit=query.limit(args),
            cursor=query.text(args, "cursor"),
        )
        return await reply_in_parts(views.approvals_view(page))

    async def get(self, request: HttpRequest, uuid: str) -> Reply:
        return reply({"approval": views.approval_view(await self._named(request, uuid))})

    async def decide(self, request: HttpRequest, uuid: str) -> Reply:
        key = headers.post_key(request)
        decision = await request.json()
        token = headers.tool_token(request)
        wait = not headers.wants_async(request.headers)
        try:
            agent = self._for(request)
            decide = agent.decide if wait else agent.post_decision
            turn = await decide(uuid, decision, key=key, token=token, traceparent=request.traceparent)
        except AgentError as error:
            if error.code not in ("already_decided", "expired", "subject_changed", "void"):
                raise
            return await self._settled(request, uuid, error)
        return await (turn_reply(self.agent, request, turn) if wait else accepted(self.agent, request, turn))

    async def _named(self, request: HttpRequest, uuid: str) -> Approval:
        approval = await self._for(request).approval(uuid)
        await name_conversation(self._for(request), request, approval.stream)
        return approval

    async def _settled(self, request: HttpRequest, uuid: str, error: AgentError) -> Reply:
        """The error for a decision that came too late, with the approval as it was decided."""
        approval = await self._named(request, uuid)
        details = {**error.details, "approval": views.approval_view(approval)}
        if (successor := approval.asked.superseded_by) is not None:
            details["superseded_by"] = successor
        return error_reply(STATUS[error.code], error.code, error.message, hint=error.hint, details=details)
