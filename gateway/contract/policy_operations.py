"""The operations about the policy of an agent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..http import sse
from . import examples as ex
from . import system_shapes as s
from .operation import INVALID, MALFORMED, Operation, Response, error, query

_REVISION: Mapping[str, Any] = {
    "revision": "5feceb66ffc86f38",
    "since": ex.AT,
    "current": True,
    "rules": 1,
}
_RULE = {"id": "9f86d081", "text": "approval.rules[0] (tool: wipe): ask", "then": "ask", "tool": "wipe"}
_NODE: Mapping[str, Any] = {
    "node": "agent",
    "rules": ["9f86d081"],
    "unannotated": "run",
    "above": {},
    "servers": None,
    "tools": None,
    "agents": [],
}
_CALL = s.PolicyCall(
    conversation=ex.CONVERSATION_ID,
    seq=4,
    at=ex.AT,
    key="1/:1.0",
    node="agent",
    tool="wipe",
    server="desk",
    verdict={"action": "ask", "policy": "5feceb66ffc86f38", "rule": "9f86d081", "hints": "D"},
    arguments={"name": "lamp"},
    unfit=False,
    judged_anew=False,
    asked=1,
    answer="approved",
    waited=2.5,
    after_damage=False,
)

_FIGURES: Mapping[str, Any] = {
    "hits_24h": 1,
    "hits_7d": 2,
    "hits_30d": 2,
    "last_hit": ex.AT,
    "approved": 1,
    "edited": 0,
    "rejected": 1,
    "answered": 0,
    "expired": 0,
    "median_wait_seconds": 42.5,
}
_REPORT = s.PolicyReport(
    revision=_REVISION["revision"],
    at=ex.AT,
    since=ex.AT,
    calls=2,
    unknown=0,
    cut=False,
    rules=[
        s.RuleFigures(
            **_FIGURES,
            id=_RULE["id"],
            text=_RULE["text"],
            then="ask",
            shadow=False,
            current=True,
            shadow_verdicts=[],
        )
    ],
    settings=[],
    tools=[s.ToolFigures(**_FIGURES, server="files", tool="wipe", ran=0, asked=2, denied=0)],
    damaged_events=0,
)
_REPLAY = sse.encode(s.PolicyReplay(calls=1000)).decode()

POLICY = (
    Operation(
        "getPolicy",
        "GET /policy",
        "Read the policy by which calls are judged",
        (
            Response(
                200,
                "The policy",
                s.PolicyBody(
                    **_REVISION,
                    policy={"format": 2, "contradiction_asks": False, "rules": [_RULE], "nodes": [_NODE]},
                ),
            ),
            error(404, "`policy_not_found`: no revision of the history"),
        ),
        (
            attrs.evolve(
                query("revision", "A revision of the history; default: that of new runs"),
                example=_REVISION["revision"],
            ),
        ),
    ),
    Operation(
        "listPolicies",
        "GET /policy/history",
        "List the revisions of the policy",
        (
            Response(
                200,
                "The revisions",
                s.PolicyHistory(
                    revisions=[s.UsedPolicy(**_REVISION, verdicts=2, first_used=ex.AT, last_used=ex.AT)]
                ),
            ),
        ),
    ),
    Operation(
        "reportPolicy",
        "GET /policy/report",
        "Report what the rules of the policy have decided",
        (Response(200, "The figures of the last 30 days", _REPORT),),
        description="The figures are read from the journal, at most once a minute.",
    ),
    Operation(
        "listPolicyCalls",
        "GET /policy/calls",
        "List the calls that were judged, with all that the gate has read",
        (
            Response(200, "The calls", s.PolicyCalls(calls=[_CALL], damaged=0, broken={})),
            INVALID,
        ),
        (
            query(
                "since",
                "UTC seconds since the epoch; conversations without a later event may be left out",
                int,
                minimum=0,
                default=0,
            ),
            query(
                "limit", "Maximum number of calls; a page also ends with 4 MiB", int, minimum=1, maximum=1000
            ),
            query("cursor", "`next_cursor` of the previous page"),
        ),
        description="For `stopgo policy replay`. Needs the role `admin`. Arguments are not masked. A page "
        "may be empty and still have a `next_cursor`.",
    ),
    Operation(
        "replayPolicy",
        "POST /policy/replay",
        "Try other rules on the newest calls",
        (
            Response(
                200,
                "Server-sent events, the last one with the result",
                s.PolicyReplay,
                _REPLAY,
                sse.CONTENT_TYPE,
            ),
            error(400, f"`invalid_request`; {MALFORMED}"),
            error(409, "`replay_in_progress`: other rules are being tried"),
            error(422, "`invalid_rules`: `errors` has the mistakes, with line and column"),
        ),
        (),
        s.RulesToTry(rules="rules: [{tool: wipe, then: run}]"),
        "Judges the newest 100,000 calls by the agent file with these rules in place of its section "
        "`approval`. Needs the role `admin`. Asks no model, calls nothing and writes nothing. A stream that "
        "ends without a result has failed.",
        keyed=False,
    ),
)
