"""The report about a policy, as the HTTP API gives it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...actors.gate.policies import StoredPolicy
from ...actors.replay.recorded_call import DECIDED
from ...actors.replay.rule_report import CallFigures, RuleReport
from ..contract import system_shapes as s
from .views import timestamp

_NONE = CallFigures()


def report_view(
    report: RuleReport, policies: Sequence[StoredPolicy], revision: str, *, names_damage: bool
) -> s.PolicyReport:
    """`policies` are those in the journal, and `revision` is that of new runs."""
    rules = list(_rules(report, policies, revision))
    ids = {each.id for each in rules}
    others = sorted(
        ((text, found) for text, found in report.rules.items() if text not in ids),
        key=lambda each: (-each[1].hits[-1], each[0]),
    )
    damage = report.damage
    named = [s.DamagedConversation(conversation_id=id, problem=why) for id, why in damage.named.items()]
    return s.PolicyReport(
        revision=revision,
        at=timestamp(report.now),
        since=timestamp(report.since),
        calls=report.calls,
        unknown=report.unknown,
        cut=report.is_cut,
        rules=rules,
        settings=[s.SettingFigures(text=text, **_figures(found)) for text, found in others],
        tools=[_tool(*of, CallFigures.sum(nodes.values())) for of, nodes in sorted(report.tools.items())],
        damaged_events=damage.events,
        damaged=named if named and names_damage else None,
    )


def _rules(report: RuleReport, policies: Sequence[StoredPolicy], revision: str) -> Iterator[s.RuleFigures]:
    """The rules of the current policy, then earlier ones with hits, of the newest policy first."""
    seen: set[str] = set()
    for policy in sorted(policies, key=lambda each: (each.revision == revision, each.since), reverse=True):
        current = policy.revision == revision
        for rule in policy.content["rules"]:
            if rule["id"] not in seen and (current or rule["id"] in report.rules):
                seen.add(rule["id"])
                yield _rule(rule, report.rules.get(rule["id"], _NONE), current)


def _rule(rule: Mapping[str, Any], found: CallFigures, current: bool) -> s.RuleFigures:
    shadow = [
        s.ShadowFigures(action=action, was=was, hits_30d=count)  # type: ignore[arg-type]
        for (action, was), count in sorted(found.shadow.items())
    ]
    return s.RuleFigures(
        id=rule["id"],
        text=rule["text"],
        then=rule["then"],
        shadow=rule.get("shadow", False),
        current=current,
        shadow_verdicts=shadow,
        **_figures(found),
    )


def _tool(server: str, tool: str, found: CallFigures) -> s.ToolFigures:
    ran, asked, denied = (found.actions[action] for action in ("run", "ask", "deny"))
    return s.ToolFigures(server=server, tool=tool, ran=ran, asked=asked, denied=denied, **_figures(found))


def _figures(found: CallFigures) -> Mapping[str, Any]:
    day, week, month = found.hits
    wait = found.median_wait
    return {
        "hits_24h": day,
        "hits_7d": week,
        "hits_30d": month,
        "last_hit": timestamp(found.last) if found.last else None,
        **{answer: found.answers[answer] for answer in (*DECIDED, "expired")},
        "median_wait_seconds": None if wait is None else round(wait, 3),
    }
