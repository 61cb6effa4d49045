"""What other rules would have done with the recorded calls: counts, and the calls that matter. Pure.

Reports of parts of a journal can be added up (`merge`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from ...config.sections.a2a import RemoteAgentConfig
from ...config.sections.agent_config import AgentConfig
from ...config.sections.mcp import McpServerConfig
from ...config.sections.secrets import MASK, says_secret, secrets_in, secrets_of
from ...config.text.wildcards import is_named
from ...runtime.journal.protocol import Json
from ..servers.masking import Secrets
from .judged_call import CallsJudge, JudgedCall, Outcome
from .recorded_call import Damage, RecordedCall

MOST_LISTED = 20
"""Calls of each group that are listed."""

Group: TypeAlias = Literal["refused", "loosened", "tightened"]
GROUPS: tuple[Group, ...] = ("refused", "loosened", "tightened")
"""The calls that matter, in their order: a person refused the call, and it would run; the verdict is less
strict; it is stricter."""


@attrs.frozen
class CallFilter:
    """The calls that count. Names may have wildcards."""

    since: float = 0.0
    until: float | None = None
    tool: str | None = None
    node: str | None = None
    server: str | None = None
    limit: int | None = None
    """How many, from the newest conversation on."""

    def has(self, call: RecordedCall) -> bool:
        named = ((self.tool, call.tool), (self.node, call.node), (self.server, call.server))
        return (
            self.since <= call.at
            and (self.until is None or call.at < self.until)
            and all(pattern is None or is_named(name, pattern) for pattern, name in named)
        )


@attrs.define
class RuleUse:
    """A rule of the new file, or a setting or hint that decides."""

    text: str
    hits: int = 0
    changes: int = 0
    """The calls on which it decides otherwise than before."""
    answers: Counter[str] = attrs.field(factory=Counter)
    """What people decided on its calls."""


@attrs.define
class ReplayReport:
    """The result of a replay."""

    calls: int = 0
    conversations: int = 0
    first: float | None = None
    last: float | None = None
    verdicts: Counter[tuple[Outcome | None, Outcome | None]] = attrs.field(factory=Counter)
    """Numbers of calls by the verdict on record and the verdict now."""
    sure: Counter[str] = attrs.field(factory=Counter)
    changes: Counter[str] = attrs.field(factory=Counter)
    """Numbers of calls by `JudgedCall.change`."""
    reasons: Counter[str] = attrs.field(factory=Counter)
    """Why verdicts are unknown."""
    answers_unknown: int = 0
    """Calls of which it is unknown what people decided."""
    rules: dict[str, RuleUse] = attrs.field(factory=dict)
    """By id, in the order of the file; then settings and hints."""
    groups: Counter[Group] = attrs.field(factory=Counter)
    """Numbers of the calls that matter."""
    listed: dict[Group, list[Json]] = attrs.field(factory=lambda: {each: [] for each in GROUPS})
    """The newest of them, as `call_json` gives them."""
    damage: Damage = attrs.field(factory=Damage)
    _conversation: str = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether something that matters is not known."""
        return bool(self.sure["unknown"] or self.answers_unknown or self.damage.events)

    def add(self, judged: JudgedCall, rule_text: str) -> None:
        """Count a call, except for `listed`."""
        call = judged.call
        self.calls += 1
        if call.stream != self._conversation:
            self._conversation = call.stream
            self.conversations += 1
        self.first = call.at if self.first is None else min(self.first, call.at)
        self.last = call.at if self.last is None else max(self.last, call.at)
        self.verdicts[judged.was, judged.now] += 1
        self.sure[judged.sure] += 1
        self.changes[judged.change] += 1
        self.answers_unknown += call.answer == "unknown"
        if judged.now is None:
            self.reasons[judged.rule] += 1
            return
        use = self.rules.get(judged.rule)
        if use is None:
            use = self.rules[judged.rule] = RuleUse(rule_text)
        use.hits += 1
        use.changes += judged.change != "same"
        if call.answer is not None:
            use.answers[call.answer] += 1

    def merge(self, other: ReplayReport) -> None:
        """Add the report of another part of the journal."""
        self.calls += other.calls
        self.conversations += other.conversations
        times = [each for each in (self.first, self.last, other.first, other.last) if each is not None]
        self.first, self.last = min(times, default=None), max(times, default=None)
        self.answers_unknown += other.answers_unknown
        self.damage.merge(other.damage)
        for name in ("verdicts", "sure", "changes", "reasons", "groups"):
            getattr(self, name).update(getattr(other, name))
        for rule, use in other.rules.items():
            own = self.rules.setdefault(rule, RuleUse(use.text))
            own.hits += use.hits
            own.changes += use.changes
            own.answers.update(use.answers)
        for group, listed in self.listed.items():
            both = sorted([*listed, *other.listed[group]], key=lambda each: -each["at"])
            self.listed[group] = both[:MOST_LISTED]


def group_of(judged: JudgedCall) -> Group | None:
    if judged.lets_refused_run:
        return "refused"
    match judged.change:
        case "loosened" | "tightened" as change:
            return change
        case "same" | "unknown":
            return None
        case _:
            assert_never(judged.change)


@attrs.define(eq=False)
class Replay:
    """Judges calls and reports on them."""

    _judge: CallsJudge
    _texts: dict[str, str]
    """Rules in words, by id."""
    _secrets: Secrets
    _wanted: CallFilter
    report: ReplayReport

    @classmethod
    def of(cls, config: AgentConfig, wanted: CallFilter) -> Replay:
        """`config` is the new file."""
        judge = CallsJudge.of(config)
        own_rules = judge.policy.content["rules"]
        secrets = Secrets()
        callees: tuple[McpServerConfig | RemoteAgentConfig, ...] = (
            *config.mcp_servers,
            *config.remote_agents,
        )
        own = [secret for each in callees for secret in secrets_of(each)]
        secrets.learn_written("configuration", filter(None, (*own, *config.rule_secrets)))
        report = ReplayReport(rules={rule["id"]: RuleUse(rule["text"]) for rule in own_rules})
        return cls(judge, {rule["id"]: rule["text"] for rule in own_rules}, secrets, wanted, report)

    def learn(self, revision: str, content: Mapping[str, Any]) -> None:
        """A policy of the journal. It has to be known before the calls that it has judged."""
        self._judge.stored[revision] = content
        for rule in content["rules"]:
            self._texts.setdefault(rule["id"], rule["text"])

    @property
    def is_full(self) -> bool:
        """Whether as many calls as wanted have been judged."""
        return self._wanted.limit is not None and self.report.calls >= self._wanted.limit

    def take(self, call: RecordedCall) -> JudgedCall | None:
        """The call and the verdict on it now; None if the call does not count. Calls come in the order of
        their conversations, all of them: those before a call belong to its history."""
        judged = self._judge.judge(call)
        if self.is_full or not self._wanted.has(call):
            return None
        self.report.add(judged, judged.rule)
        if (group := group_of(judged)) is not None:
            self.report.groups[group] += 1
            if len(self.report.listed[group]) < MOST_LISTED:
                self.report.listed[group].append(self.call_json(judged))
        return judged

    def call_json(self, judged: JudgedCall) -> Json:
        """A call for people and programs, with masked arguments."""
        call, facts = judged.call, judged.call.facts
        was: Json | None = None
        if facts is not None:
            was = {"verdict": facts.action, "rule": self._texts.get(facts.rule, facts.rule)}
            if facts.held:
                was["held"] = True
        arguments = None if call.arguments is None else self._masked(call.arguments)
        found: dict[str, Any] = {
            "conversation": call.stream,
            "seq": call.seq,
            "at": call.at,
            "key": call.key,
            "node": call.node,
            "tool": call.tool,
            "server": call.server,
            "arguments": arguments,
            "was": was,
            "now": {"verdict": judged.now, "rule": self._texts.get(judged.rule, judged.rule)},
            "sure": judged.sure,
            "change": judged.change,
        }
        if call.answer is not None:
            found["answer"] = call.answer
        if call.edited is not None:
            found["edited"] = self._masked(call.edited)
        return found

    def _masked(self, arguments: Mapping[str, Any]) -> Json:
        return {name: _masked(name, value) for name, value in self._secrets.masked(arguments).items()}


def _masked(name: str, value: Any) -> Any:
    match value:
        case str():
            if says_secret(name):
                return MASK
            for secret in sorted(filter(None, set(secrets_in(name, value))), key=len, reverse=True):
                value = value.replace(secret, MASK)
            return value
        case Mapping():
            return {each: _masked(each, inner) for each, inner in value.items()}
        case list() | tuple():
            return [_masked(name, each) for each in value]
        case _:
            return MASK if value is not None and not isinstance(value, bool) and says_secret(name) else value


def summary_json(report: ReplayReport) -> Json:
    """A report for programs."""
    pairs: Sequence[tuple[tuple[Outcome | None, Outcome | None], int]] = sorted(
        report.verdicts.items(), key=lambda each: json.dumps(each[0])
    )
    return {
        "calls": report.calls,
        "conversations": report.conversations,
        "first": report.first,
        "last": report.last,
        "verdicts": [{"was": was, "now": now, "calls": count} for (was, now), count in pairs],
        "sure": {each: report.sure[each] for each in ("exact", "bounded", "unknown")},
        "unknown": dict(report.reasons),
        "answers_unknown": report.answers_unknown,
        "changes": {each: report.groups[each] for each in GROUPS},
        "rules": [
            {
                "id": id,
                "rule": use.text,
                "hits": use.hits,
                "changed": use.changes,
                "answers": dict(use.answers),
            }
            for id, use in report.rules.items()
        ],
        "damaged": {"events": report.damage.events, "conversations": dict(report.damage.named)},
    }
