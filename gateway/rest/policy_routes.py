"""The routes about the policy of an agent and its revisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ...actors.agent.agent import Agent
from ...actors.common.errors import no_policy
from ...actors.gate.policies import StoredPolicy
from ...actors.replay.policy_use import PolicyUse
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
            raise no_policy(wanted)
        return reply(s.PolicyBody(**self._about(found), policy=found.content))

    async def history(self, request: HttpRequest) -> Reply:
        query.known(request.args, ())
        agent = self.agent.acting_as(request.principal)
        found, uses = await agent.policies(), await agent.policy_uses()
        revisions = [self._used(each, uses.get(each.revision)) for each in found]
        return reply(s.PolicyHistory(revisions=revisions))

    def _used(self, policy: StoredPolicy, use: PolicyUse | None) -> s.UsedPolicy:
        if use is None:
            return s.UsedPolicy(**self._about(policy), verdicts=0)
        first, last = timestamp(use.first), timestamp(use.last)
        return s.UsedPolicy(**self._about(policy), verdicts=use.verdicts, first_used=first, last_used=last)

    def _about(self, policy: StoredPolicy) -> Mapping[str, Any]:
        return {
            "revision": policy.revision,
            "since": timestamp(policy.since),
            "current": policy.revision == self.agent.policy_revision,
            "rules": len(policy.content["rules"]),
        }
