"""The recorded calls of a running agent, for `stopgo policy replay --url`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ....actors.approvals.requirement import Requirement
from ....actors.common.stored_json import from_json, readable
from ....actors.replay.recorded_call import Damage, RecordedCall
from ....actors.tools.verdict_facts import VerdictFacts
from ..client.agent_client import AgentClient, ServerError

NOT_FOUND = 404


async def read_remote_calls(
    client: AgentClient,
    learn: Callable[[str, Mapping[str, Any]], None],
    take: Callable[[RecordedCall], bool],
    since: float,
) -> Damage:
    """Give all calls to `take`, until that returns False, and each policy that has judged one to `learn`
    before. Returns what could not be read. Raises ServerError."""
    damage, known = Damage(), set[str]()
    where = {"since": str(int(since))} if since >= 1 else {}
    while True:
        try:
            page = await client.get("/policy/calls", **where)
            damage.merge(Damage(page["damaged"], page["broken"]))
            calls = [_call(each) for each in page["calls"]]
            judged = (facts for call in calls for facts in (call.facts, call.anew) if facts is not None)
            for revision in {facts.policy for facts in judged} - known:
                known.add(revision)
                if (content := await _policy(client, revision)) is not None:
                    learn(revision, content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ServerError(f"the agent at {client.url} answers in another form: {error!r}") from error
        if not all(map(take, calls)) or page.get("next_cursor") is None:
            return damage
        where["cursor"] = page["next_cursor"]


async def _policy(client: AgentClient, revision: str) -> Mapping[str, Any] | None:
    """The policy; None if it is not in the journal."""
    try:
        content: Mapping[str, Any] = (await client.get("/policy", revision=revision))["policy"]
        return content
    except ServerError as error:
        if error.status == NOT_FOUND:
            return None
        raise


def _call(body: Mapping[str, Any]) -> RecordedCall:
    """Raises an error for unexpected JSON."""
    verdict, anew, requires = body.get("verdict"), body.get("anew"), body.get("requires")
    at = datetime.fromisoformat(body["at"]).timestamp()
    about = {"stream": body["conversation"], "at": at, "facts": None, "anew": None, "requires": None}
    call = from_json({"arguments": None, **body, **about}, RecordedCall)
    call.facts = None if verdict is None else readable(verdict, VerdictFacts)
    call.anew = None if anew is None else from_json(anew, VerdictFacts)
    call.requires = None if requires is None else readable(requires, Requirement)
    return call
