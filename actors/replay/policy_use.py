"""How often each revision of the policy has judged calls."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ...runtime.journal.protocol import Journal
from .recorded_call import RecordedCall, read_calls


@attrs.frozen
class PolicyUse:
    """The calls that a revision has judged first: their number, and the times of the first and the last."""

    verdicts: int
    first: float
    last: float


async def policy_uses(journal: Journal) -> Mapping[str, PolicyUse]:
    """By revision. Reads the whole journal, part by part."""
    found: dict[str, PolicyUse] = {}

    def take(call: RecordedCall) -> bool:
        if call.facts is not None:
            known = found.get(call.facts.policy, PolicyUse(0, call.at, call.at))
            found[call.facts.policy] = PolicyUse(
                known.verdicts + 1, min(known.first, call.at), max(known.last, call.at)
            )
        return True

    await read_calls(journal, take)
    return found
