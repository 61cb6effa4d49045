"""The routes about the policy of an agent and its revisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ...actors.agent.agent import Agent
from ...actors.gate.policies import StoredPolicy
from ..contract import system_shapes as s
from ..http import query
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply
from .views import timestamp


@attrs.frozen
class PolicyRoutes:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"getPolicy": self.read, "listPolicies": self.history}

    async def read(self, request: HttpRequest) -> Reply:
        agent = self.agent.acting_as(request.principal)
        query.known(request.args, ("revision",))
        wanted = query.text(request.args, "revision") or agent.policy_revision
        found = next((each for each in await agent.policies() if each.revision == wanted), None)
        if found is None:
            raise query.invalid(
                "revision", "the journal has no policy of this revision", "GET /policy/history lists them."
            )
        return reply(s.PolicyBody(**self._about(found), policy=found.content))

    async def history(self, request: HttpRequest) -> Reply:
        query.known(request.args, ())
        found = await self.agent.acting_as(request.principal).policies()
        return reply(s.PolicyHistory(revisions=[s.PolicyRevision(**self._about(each)) for each in found]))

    def _about(self, policy: StoredPolicy) -> Mapping[str, Any]:
        return {
            "revision": policy.revision,
            "since": timestamp(policy.since),
            "current": policy.revision == self.agent.policy_revision,
            "rules": len(policy.content["rules"]),
        }
