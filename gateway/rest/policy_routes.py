"""The routes about the policy of an agent and its revisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from ...actors.access.rights import may
from ...actors.agent.agent import Agent
from ...actors.common.errors import no_policy
from ...actors.common.stored_json import to_json
from ...actors.gate.policies import StoredPolicy
from ...actors.replay.call_page import MOST_CALLS
from ...actors.replay.policy_use import PolicyUse
from ...actors.replay.recorded_call import RecordedCall
from ...actors.tools.verdict_facts import VerdictFacts
from ..contract import system_shapes as s
from ..http import query
from ..http.errors import RequestError
from ..http.event_stream import StreamBody, stream_reply
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply
from .policy_report_view import report_view
from .rules_replay import pasted, replay_frames
from .views import timestamp


@attrs.frozen
class PolicyRoutes:
    agent: Agent
    _replays: trio.Lock = attrs.field(factory=trio.Lock)
    """Held by a replay."""

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {
            "getPolicy": self.read,
            "listPolicies": self.history,
            "reportPolicy": self.report,
            "listPolicyCalls": self.calls,
            "replayPolicy": self.replay,
        }

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

    async def report(self, request: HttpRequest) -> Reply:
        query.known(request.args, ())
        agent = self.agent.acting_as(request.principal)
        names = request.principal is None or may(request.principal, "administer")
        found = await agent.policy_report(), await agent.policies()
        return reply(report_view(*found, agent.policy_revision, names_damage=names))

    async def calls(self, request: HttpRequest) -> Reply:
        args = request.args
        query.known(args, ("since", "limit", "cursor"))
        page = await self.agent.acting_as(request.principal).recorded_calls(
            since=query.number(args, "since", default=0, least=0),
            limit=query.number(args, "limit", default=MOST_CALLS, least=1, most=MOST_CALLS),
            cursor=query.text(args, "cursor"),
        )
        return reply(
            s.PolicyCalls(
                calls=list(map(_call, page.calls)),
                next_cursor=page.next_cursor,
                damaged=page.damage.events,
                broken=page.damage.named,
            )
        )

    async def replay(self, request: HttpRequest) -> Reply:
        request.count_stream()
        text = (await request.json(("rules",))).get("rules")
        agent = self.agent.acting_as(request.principal)
        first = await agent.recorded_calls()  # refuses a principal without the role
        if not isinstance(text, str):
            raise query.invalid("rules", "rules must be the YAML of a section `approval`, as a text")
        rules = pasted(agent.config, text)
        if self._replays.locked():
            message = "other rules are being tried"
            raise RequestError(409, "replay_in_progress", message, hint="Wait until that has ended.")
        frames = replay_frames(agent, rules, first, self._replays)
        return stream_reply(StreamBody(frames, agent.draining.wait, "-"))

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


def _call(call: RecordedCall) -> s.PolicyCall:
    return s.PolicyCall(
        conversation=call.stream,
        seq=call.seq,
        at=timestamp(call.at),
        key=call.key,
        node=call.node,
        tool=call.tool,
        server=call.server,
        verdict=None if call.facts is None else _facts(call.facts),
        arguments=call.arguments,
        unfit=call.unfit,
        judged_anew=call.judged_anew,
        anew=None if call.anew is None else _facts(call.anew),
        asked=call.asked,
        requires=to_json(call.requires),
        answer=call.answer,
        waited=call.waited,
        edited=call.edited,
        after_damage=call.after_damage,
    )


def _facts(facts: VerdictFacts) -> Mapping[str, Any]:
    """The facts that the body of the call does not have itself."""
    of_verdict = attrs.fields_dict(VerdictFacts)
    return {name: value for name, value in to_json(facts).items() if name in of_verdict}
