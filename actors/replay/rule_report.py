"""What each rule has decided in the last 30 days, and what people decided about its calls.

A call counts for the rule, setting or hint that decided its first verdict, for each shadow rule that would
have decided it, and for its tool. A rule keeps its id when `shadow` is taken out, so its figures go on.

The work is bounded: a report reads the newest conversations, `MOST_CALLS` calls at most, and one is made at a
time and kept for `KEPT` seconds.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Self

import attrs
import trio

from ...runtime.journal.passage import JournalReader
from .recorded_call import DECIDED, Answer, Damage, RecordedCall, read_calls

DAY = 86_400.0
WINDOWS = (DAY, 7 * DAY, 30 * DAY)
"""Seconds before now."""
MOST_CALLS = 100_000
"""Calls that a report reads."""
KEPT = 60.0
"""Seconds for which a report is given again."""


@attrs.define
class CallFigures:
    """Figures about some calls."""

    hits: list[int] = attrs.field(factory=lambda: [0] * len(WINDOWS))
    """The calls in each of `WINDOWS`."""
    last: float = 0.0
    """The time of the last one."""
    answers: Counter[Answer] = attrs.field(factory=Counter)
    """What people decided about them."""
    waits: list[float] = attrs.field(factory=list)
    """Seconds that people took."""
    actions: Counter[str] = attrs.field(factory=Counter)
    """What the gate decided, or a halt: `ask`."""
    shadow: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    """What a shadow rule would have decided, and what the gate decided instead."""

    @property
    def median_wait(self) -> float | None:
        return median(self.waits) if self.waits else None

    @classmethod
    def sum(cls, parts: Iterable[CallFigures]) -> Self:
        """The figures about all of these calls."""
        whole = cls()
        for part in parts:
            whole.hits = [*map(operator.add, whole.hits, part.hits)]
            whole.last = max(whole.last, part.last)
            whole.answers += part.answers
            whole.waits += part.waits
            whole.actions += part.actions
        return whole

    def add(self, call: RecordedCall, now: float) -> None:
        for index, window in enumerate(WINDOWS):
            self.hits[index] += call.at >= now - window
        self.last = max(self.last, call.at)
        if call.facts is not None:
            self.actions["ask" if call.facts.held else call.facts.action] += 1
        if call.answer is not None:
            self.answers[call.answer] += 1
            if call.waited is not None and call.answer in DECIDED:
                self.waits.append(max(0.0, call.waited))


@attrs.define
class RuleReport:
    """The figures of a journal at a time."""

    now: float
    calls: int = 0
    """Calls of the last 30 days that were read."""
    unknown: int = 0
    """Those of them whose verdict an early version did not record."""
    is_cut: bool = False
    """Whether older calls were left out, because there are too many."""
    rules: dict[str, CallFigures] = attrs.field(factory=dict)
    """By the id of the rule or, for a setting or a hint that decided, by its text."""
    tools: dict[tuple[str, str], dict[str, CallFigures]] = attrs.field(factory=dict)
    """By server and name, then by the node that called."""
    damage: Damage = attrs.field(factory=Damage)
    policy: str = ""
    """The revision that judged the newest call."""
    _newest: float = 0.0
    _read: int = 0

    @property
    def since(self) -> float:
        return self.now - WINDOWS[-1]

    def take(self, call: RecordedCall) -> bool:
        """Count a call. False: no more are taken."""
        if self._read >= MOST_CALLS:
            self.is_cut = True
            return False
        self._read += 1
        if call.at >= self.since:
            self.calls += 1
            self._count(call)
        return True

    def _count(self, call: RecordedCall) -> None:
        if call.server:
            nodes = self.tools.setdefault((call.server, call.tool), {})
            nodes.setdefault(call.node, CallFigures()).add(call, self.now)
        facts = call.facts
        if facts is None:
            self.unknown += 1
            return
        if call.at >= self._newest:
            self._newest, self.policy = call.at, facts.policy
        for id in dict.fromkeys(filter(None, (facts.rule, *facts.shadows))):
            self.rules.setdefault(id, CallFigures()).add(call, self.now)
        for id, action in facts.shadows.items():
            self.rules[id].shadow[action, facts.action] += 1


async def rule_report(journal: JournalReader, now: float) -> RuleReport:
    """The report of a journal."""
    report = RuleReport(now)
    report.damage = await read_calls(journal, report.take, since=report.since)
    return report


@attrs.define(eq=False)
class RuleReports:
    """The latest report of an agent."""

    _latest: RuleReport | None = None
    _made: float = 0.0
    """In trio's time."""
    _turn: trio.Lock = attrs.field(factory=trio.Lock)

    async def get(self, journal: JournalReader, now: float) -> RuleReport:
        async with self._turn:
            if self._latest is None or trio.current_time() - self._made > KEPT:
                self._latest = await rule_report(journal, now)
                self._made = trio.current_time()
            return self._latest
