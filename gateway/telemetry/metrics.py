"""Metrics for Prometheus.

Counters and histograms are updated by events when these are applied, and count from the start of the process.
Numbers that outlast a process, such as pending approvals, are read from the journal at each scrape
(`Metrics.set`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, assert_never, get_args

import attrs
from hypercorn.typing import WWWScope
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from ...actors.agent.agent_reads import Load
from ...actors.approvals.kinds import KINDS
from ...actors.approvals.tool_approval import ToolQuestion
from ...actors.gate.halt import HaltState
from ...actors.log.fold.head import Status
from ...actors.log.fold.record import Run
from ...actors.log.fold.state import Conversation
from ...actors.log.words import events as e
from ...actors.log.words import keys
from ...actors.log.words.outcomes import NotSent
from ...actors.log.writer.observer import ModelCall, Observer
from ...actors.servers.health import Health
from ...actors.tools.verdict_facts import UnsentCall, VerdictFacts
from ...runtime.journal.ownership import Fleet
from ...runtime.journal.summary import Census
from ..http.request_observer import ROUTE, RequestObserver
from .approval_outcome import ApprovalOutcome, outcome_of

_COUNTED = {
    *(e.RunStarted, e.RunFinished, e.RunFailed, e.RunCancelled),
    *(e.ToolStarted, e.ToolFinished, e.ToolUnknown, e.StepFinished),
    *(e.ApprovalRequested, e.ApprovalResolved, e.ApprovalExpired, e.ApprovalVoid),
}
STATUSES: tuple[Status, ...] = get_args(Status)
MAX_SERIES = 1000
"""Maximum number of series of a metric. Further label values count as `OTHER`, because the names of tools
come from tool servers."""
OTHER = "other"

_CALLS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_SHORT = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
_PEOPLE = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)


@attrs.frozen
class Definition:
    """A metric. A histogram has `buckets`, their upper bounds in seconds."""

    kind: type[Counter | Gauge | Histogram]
    name: str
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        return f"stopgo_{self.name}{'_total' if self.kind is Counter else ''}"


DEFINITIONS = (
    Definition(Counter, "runs_started", "Runs that have begun."),
    Definition(Counter, "runs_ended", "Runs that have ended; a failed one has a code.", ("outcome", "code")),
    Definition(Gauge, "runs_working", "Runs with a branch that works, as opposed to waiting."),
    Definition(Gauge, "conversations", "Stored conversations.", ("status",)),
    Definition(Gauge, "conversations_in_memory", "Conversations in memory."),
    Definition(Gauge, "commands_waiting", "Commands in the inboxes of all conversations."),
    Definition(Counter, "approvals_asked", "Approvals that were requested.", ("kind",)),
    Definition(Counter, "approvals_ended", "Approvals that are not pending any more.", ("kind", "outcome")),
    Definition(Gauge, "approvals_pending", "Approvals that wait for a decision."),
    Definition(Gauge, "approvals_oldest_seconds", "Age of the oldest pending approval; 0 without one."),
    Definition(Histogram, "decision_seconds", "Time from a request to its decision.", ("kind",), _PEOPLE),
    Definition(Counter, "model_calls", "Calls of models that have ended.", ("model", "outcome")),
    Definition(Histogram, "model_seconds", "Duration of model calls, with retries.", ("model",), _CALLS),
    Definition(Counter, "model_tokens", "Tokens of model calls.", ("model", "direction")),
    Definition(Counter, "model_cost_usd", "Cost of model calls, by the prices in the file.", ("model",)),
    Definition(
        Counter,
        "tool_calls",
        "Attempts that have ended, and calls that were not sent.",
        ("server", "tool", "outcome"),
    ),
    Definition(
        Histogram, "tool_seconds", "Time from the intent of a call to its result.", ("server", "tool"), _CALLS
    ),
    Definition(Counter, "verdicts", "Calls that the gate has judged, once each.", ("action", "tool", "rule")),
    Definition(
        Counter,
        "shadow_verdicts",
        "Calls that a shadow rule would have decided.",
        ("rule", "action", "was"),
    ),
    Definition(Gauge, "calls_in_flight", "Calls of class `once` that were sent and have no result yet."),
    Definition(Gauge, "server_up", "1 if the tool server or agent can be used.", ("server",)),
    Definition(Gauge, "server_slots", "Maximum number of concurrent calls.", ("server",)),
    Definition(Gauge, "server_slots_free", "Calls that could start now.", ("server",)),
    Definition(Gauge, "server_calls_waiting", "Calls that wait for a slot.", ("server",)),
    Definition(Histogram, "journal_commit_seconds", "Duration of commits.", buckets=_SHORT),
    Definition(Counter, "journal_operations", "Operations in commits."),
    Definition(Counter, "http_requests", "Requests that have ended.", ("method", "route", "status")),
    Definition(
        Histogram,
        "http_request_seconds",
        "Duration of requests, streams included.",
        ("method", "route"),
        _CALLS,
    ),
    Definition(Gauge, "http_requests_open", "Requests that are being answered, streams included."),
    Definition(Gauge, "http_connections", "Open connections of clients."),
    Definition(Histogram, "loop_lag_seconds", "Delay of a timer of the event loop.", buckets=_SHORT),
    Definition(Gauge, "nodes", "Processes whose leases at the journal have not run out."),
    Definition(Gauge, "node_conversations", "Conversations that this process owns."),
    Definition(Gauge, "node_conversations_open", "Those of them that have something to do."),
    Definition(Gauge, "conversations_unowned", "Conversations with something to do, and no process yet."),
    Definition(
        Gauge, "conversations_need_newer", "Conversations of a newer version, which no process can continue."
    ),
    Definition(
        Counter,
        "notifications",
        "Attempts to send notifications that `arrived` or `failed`, and notifications `given_up`.",
        ("channel", "outcome"),
    ),
    Definition(
        Gauge,
        "notifications_pending",
        "Notifications that wait, at the process that sends them.",
        ("channel",),
    ),
    Definition(Gauge, "ready", "1 if the agent is ready."),
    Definition(Gauge, "halted", "1 if the agent is halted."),
)


class Series:
    """The series of one metric, by its label values."""

    def __init__(self, definition: Definition, registry: CollectorRegistry) -> None:
        kind, name, buckets = definition.kind, definition.full_name, definition.buckets
        made = partial(Histogram, buckets=buckets) if buckets else kind
        self._metric: Any = made(name, definition.text, definition.labels, registry=registry)
        self._series: dict[tuple[str, ...], Any] = {} if definition.labels else {(): self._metric}

    def __call__(self, *values: str) -> Any:
        found = self._series.get(values)
        if found is None:
            if len(self._series) >= MAX_SERIES:
                return self._metric.labels(*(OTHER for _ in values))
            found = self._series[values] = self._metric.labels(*values)
        return found


class Metrics(Observer, RequestObserver):
    """The metrics of one agent, in a registry of their own."""

    def __init__(self) -> None:
        # Otherwise each counter and histogram would have a further series, the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        build = Info("stopgo_build", "Version of the product.", registry=self.registry)
        build.info({"version": version("agent-stop-and-go")})
        self._at = {each.name: Series(each, self.registry) for each in DEFINITIONS}
        self._requests_open = 0
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Show the series with known labels from the start, because the first value of a series is no
        increase for Prometheus."""
        for outcome in ("finished", "cancelled"):
            self._at["runs_ended"](outcome, "")
        for kind in KINDS:
            self._at["approvals_asked"](kind)
            for ended in get_args(ApprovalOutcome):
                self._at["approvals_ended"](kind, ended)

    # ------------------------------------------------------------------ reports

    def happened(self, conversation: Conversation, at: float, event: e.LogEvent) -> None:
        if type(event) not in _COUNTED:  # most events; this is much faster than to match them
            return
        if (first := _first_verdict(conversation, event)) is not None:
            self._judged(*first)
        match event:
            case e.RunStarted():
                self._at["runs_started"]().inc()
            case e.RunFinished() | e.RunFailed() | e.RunCancelled():
                code = event.code if isinstance(event, e.RunFailed) else ""
                self._at["runs_ended"](event.type.removeprefix("run."), code).inc()
            case e.ToolFinished() | e.ToolUnknown():
                self._attempt_ended(_live(conversation), at, event)
            case e.StepFinished(outcome=NotSent(outcome=outcome)):
                self._at["tool_calls"]("", "", outcome).inc()  # the name is the model's, so anything
            case e.ApprovalRequested(asked=asked):
                self._at["approvals_asked"](asked.kind).inc()
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                approval = conversation.approvals[event.id]
                self._at["approvals_ended"](approval.kind, outcome_of(event)).inc()
                if isinstance(event, e.ApprovalResolved):
                    self._at["decision_seconds"](approval.kind).observe(max(0.0, at - approval.created))
            case _:
                pass

    def _judged(self, tool: str, verdict: VerdictFacts) -> None:
        self._at["verdicts"](verdict.action, tool, verdict.rule).inc()
        for rule, action in verdict.shadows.items():
            self._at["shadow_verdicts"](rule, action, verdict.action).inc()

    def _attempt_ended(self, run: Run, at: float, event: e.ToolFinished | e.ToolUnknown) -> None:
        record = run.calls[event.key]
        if record.started is None:
            return
        server, tool = record.started.server, record.started.tool
        match event:
            case e.ToolUnknown():
                outcome = "unknown"
            case e.ToolFinished(need=None, result=result):
                outcome = "error" if result.is_error else "ok"
            case e.ToolFinished():
                outcome = "needs_input"
            case _:
                assert_never(event)
        self._at["tool_calls"](server, tool, outcome).inc()
        if outcome != "unknown":  # its time would be that of a restart or a timeout
            self._at["tool_seconds"](server, tool).observe(max(0.0, at - record.sent_at))

    def model_called(self, conversation: Conversation, call: ModelCall) -> None:
        model, spent = call.model, call.spent
        self._at["model_calls"](model, call.error or "ok").inc()
        self._at["model_seconds"](model).observe(max(0.0, call.ended - call.started))
        self._at["model_tokens"](model, "input").inc(spent.input_tokens)
        self._at["model_tokens"](model, "output").inc(spent.output_tokens)
        if spent.cost_usd:
            self._at["model_cost_usd"](model).inc(spent.cost_usd)

    def committed(self, operations: int, seconds: float) -> None:
        self._at["journal_commit_seconds"]().observe(seconds)
        self._at["journal_operations"]().inc(operations)

    def notified(self, channel: str, outcome: str) -> None:
        self._at["notifications"](channel, outcome).inc()

    def request_began(self, request: WWWScope) -> None:
        self._requests_open += 1

    def request_ended(self, request: WWWScope, status: int, seconds: float) -> None:
        self._requests_open -= 1
        method = request["method"] if request["type"] == "http" else "GET"
        route = request["state"].get(ROUTE, OTHER)
        if route == OTHER:
            method = OTHER  # as the client sent it
        self._at["http_requests"](method, route, str(status)).inc()
        self._at["http_request_seconds"](method, route).observe(seconds)

    def lagged(self, seconds: float) -> None:
        """A timer of the event loop was this late."""
        self._at["loop_lag_seconds"]().observe(seconds)

    def _set_stored(self, stored: Census | None, now: float) -> None:
        """Set the gauges that are read from the journal; to NaN, which alerts do not take for a number, while
        it does not answer."""
        at = self._at
        for status in STATUSES:
            at["conversations"](status).set(math.nan if stored is None else stored.streams.get(status, 0))
        at["commands_waiting"]().set(math.nan if stored is None else stored.commands)
        at["approvals_pending"]().set(math.nan if stored is None else stored.pending)
        oldest = math.nan
        if stored is not None:
            oldest = 0.0 if stored.oldest is None else max(0.0, now - stored.oldest)
        at["approvals_oldest_seconds"]().set(oldest)

    def _set_fleet(self, fleet: Fleet | None, member: str) -> None:
        at = self._at
        names = (
            "nodes",
            "node_conversations",
            "node_conversations_open",
            "conversations_unowned",
            "conversations_need_newer",
        )
        values: Sequence[float] = [math.nan] * len(names)
        if fleet is not None:
            living = [each for each in fleet.members if each.seconds > 0]
            own = next((each for each in living if each.name == member), None)
            values = [
                len(living),
                0 if own is None else own.streams,
                0 if own is None else own.open,
                fleet.unowned,
                fleet.need_newer,
            ]
        for name, value in zip(names, values, strict=True):
            at[name]().set(value)

    def set(self, load: Load, health: Health, halt: HaltState, connections: int, now: float) -> None:
        """Set the gauges, before a scrape."""
        at = self._at
        self._set_stored(load.stored, now)
        self._set_fleet(load.fleet, load.member)
        at["runs_working"]().set(load.working)
        at["conversations_in_memory"]().set(load.in_memory)
        for server, slots in load.slots.items():
            at["server_slots"](server).set(slots.size)
            at["server_slots_free"](server).set(max(0, slots.free))
            at["server_calls_waiting"](server).set(slots.waiting)
        for channel, pending in load.notifications.items():
            at["notifications_pending"](channel).set(pending)
        for part in (*health.servers, *health.agents):
            at["server_up"](part.name).set(part.state not in DOWN)
        at["ready"]().set(health.ready)
        at["halted"]().set(halt.halted)
        at["calls_in_flight"]().set(halt.in_flight)
        at["http_requests_open"]().set(self._requests_open)
        at["http_connections"]().set(connections)


DOWN = ("connecting", "disconnected", "unreachable")
"""The states of servers and agents that cannot be used."""


def _first_verdict(conversation: Conversation, event: e.LogEvent) -> tuple[str, VerdictFacts] | None:
    """The tool, and the verdict that an event records, if it is the first one on the call. A call is judged
    again before it is sent."""
    match event:
        case e.ApprovalRequested(asked=ToolQuestion(verdict=VerdictFacts() as verdict) as asked):
            is_first = asked.question == keys.permission(asked.key, 0)
            return (asked.tool_name, verdict) if is_first else None
        case e.ToolStarted(attempt=1, verdict=VerdictFacts() as verdict):
            tool = event.tool
        case e.StepFinished(outcome=NotSent(verdict=UnsentCall() as verdict)):
            tool = verdict.tool_name or ""
        case _:
            return None
    run = _live(conversation)
    asked_before = keys.permission(event.key, 0) in run.asked
    was_sent = isinstance(event, e.StepFinished) and bool(run.calls[event.key].attempts)
    return None if asked_before or was_sent else (tool, verdict)


def _live(conversation: Conversation) -> Run:
    assert conversation.live_run is not None
    return conversation.live_run
