"""The invariants of traces, over all processes of a story."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from stopgo.config.sections.agent_config import AgentConfig
from stopgo.gateway.telemetry.run_spans import RunSpans
from stopgo.gateway.telemetry.spans import Place, RunTrace, Span
from stopgo.runtime.clock import WallClock

from .plan import Life


@attrs.define(eq=False)
class Traces:
    lives: Sequence[Life]
    """If a process is killed, spans of saved events may be lost, and spans of lost events may remain."""
    saves_fail: bool
    """After a failed save, a node may end a second time, with a later start than the spans below it."""
    spans: dict[Place, Span] = attrs.field(factory=dict)

    def observer(self, config: AgentConfig, wall: WallClock) -> RunSpans:
        return RunSpans(config, self._take, lambda _: True, with_content=True, wall=wall)

    def _take(self, span: Span) -> None:
        self.spans[span.place] = span

    def audit(self, ended: Sequence[str]) -> Iterator[str]:
        """A sentence for each violation; `ended` are the ids of the runs that have ended."""
        if any(life.kill for life in self.lives):
            return
        roots = {run: RunTrace(run, 0, None, sampled=True).root.span for run in ended}
        ids = {place.span for place in self.spans}
        yield from (f"run {run} has no span" for run, root in roots.items() if root not in ids)
        has_exact_starts = len(self.lives) == 1 and not self.saves_fail
        complete = {place.trace for place, span in self.spans.items() if span.parent is None}
        for span in self.spans.values():
            parent = None if span.parent is None else self.spans.get(span.parent)
            if span.parent is not None and span.place.trace in complete:
                if parent is None:
                    yield f"{span} has no parent"
                elif has_exact_starts and span.started < parent.started:
                    yield f"{span} starts before its parent, {parent}"
            if missing := [link for link in span.links if link not in self.spans]:
                yield f"{span} is linked to {missing}"
