"""Who must approve, as rules and checkpoints say; and prices for a daily limit."""

from __future__ import annotations

import pytest

from stopgo.actors.approvals.requirement import Requirement, requirement_of
from stopgo.config.sections.nodes import CheckpointNode

from .conftest import Load, Problems, placed

AUTH = "auth: {api_keys: true, roles: {dba: {tools: [x]}}}\n"
NEEDS_AUTH = "needs to know who approves (add the section auth)"


def rule(keys: str, then: str = "ask") -> str:
    return f"approval: {{rules: [{{tool: x, then: {then}, optional: true, {keys}}}]}}"


def checkpoint(keys: str) -> str:
    return f"agent: {{type: approval, name: a, message: m, {keys}}}"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("quorum: 1, requester_may_approve: true", None),
        ("approvers: [dba, 'subject:ann']", Requirement(("dba", "subject:ann"))),
        ("quorum: 3", Requirement(quorum=3)),
        ("requester_may_approve: false", Requirement(requester_may_approve=False)),
        ("approvers: ['subject:ann', approver], quorum: 2", Requirement(("subject:ann", "approver"), 2)),
    ],
)
def test_rules_and_checkpoints_name_their_approvers(
    load: Load, keys: str, expected: Requirement | None
) -> None:
    [found] = load(AUTH + rule(keys)).approval.rules
    assert requirement_of(found) == expected
    node = load(AUTH + checkpoint(keys)).agent
    assert isinstance(node, CheckpointNode)
    assert requirement_of(node) == expected


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (
            AUTH + rule("quorum: 2", then="deny"),
            "conflicting_keys",
            "2:66: approval.rules[0].quorum: only a rule with then: ask has quorum",
        ),
        (
            rule("requester_may_approve: false"),
            "auth_missing",
            f"1:80: approval.rules[0].requester_may_approve: requester_may_approve {NEEDS_AUTH}",
        ),
        (rule("quorum: 1"), "auth_missing", None),
        (
            checkpoint("approvers: [admin]"),
            "auth_missing",
            f"1:57: agent.approvers: approvers {NEEDS_AUTH}",
        ),
        (
            AUTH + rule("approvers: [dbas]"),
            "unknown_role",
            '2:69: approval.rules[0].approvers[0]: no role is called "dbas" (did you mean "dba"?)',
        ),
        (
            AUTH + rule("approvers: [ann@example.org]"),
            "unknown_role",
            '2:69: approval.rules[0].approvers[0]: no role is called "ann@example.org" '
            "(for a principal, write subject:NAME)",
        ),
        (AUTH + rule("approvers: ['subject:']"), "unknown_role", None),
        (AUTH + checkpoint("approvers: [none]"), "unknown_role", None),
        (
            AUTH + rule("approvers: ['subject:a', 'subject:a'], quorum: 2"),
            "out_of_range",
            "2:68: approval.rules[0].approvers: a quorum of 2 needs more approvers than 1",
        ),
        (AUTH + rule("approvers: []"), "empty_list", None),
        (AUTH + rule("quorum: 0"), "out_of_range", None),
        (AUTH + rule("quorum: 17"), "out_of_range", None),
        (
            "llm: {model: 'openai:x'}\nauth: {api_keys: true, limits: {cost_usd_per_day: 1}}",
            "prices_missing",
            '2:51: auth.limits.cost_usd_per_day: there are no prices for "openai:x" (name the model under '
            "`models` and give its prices)",
        ),
    ],
)
def test_requirement_that_cannot_be_enforced_is_refused(
    problems: Problems, text: str, code: str, expected: str | None
) -> None:
    found = problems(text)
    assert [problem.code for problem in found] == [code]
    assert expected is None or placed(found[0]) == expected
