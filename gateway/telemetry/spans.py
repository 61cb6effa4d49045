"""Spans: the part of a run that each of them covers, and their ids. Pure.

    ====================  ===========================  ==================================================
    span                  id derived from the run and  parent
    ====================  ===========================  ==================================================
    run                   ``run``                      the span in the `traceparent` that its command
                                                       stored: that of the request, or of a client
    node                  the key of the execution     the node around it; of the root, the run
    model call            the key of its step, the     its node
                          model and the time
    batch of calls        the key of the reply         its node
    attempt of a call     the key of the call and      its batch, or its node
                          the number of the attempt
    question, decision    the id of the approval       the batch of its call, or the node that asked
    ====================  ===========================  ==================================================

Ids are derived, so that a process can name the parent of a span that another process will end, and so that a
run has one trace across restarts. `actors/log/words/keys.py` explains keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal, TypeAlias

import attrs

from ...actors.log.fold.record import Run
from ...actors.log.words import keys
from ...actors.log.words.trace_ids import trace_id_of

_TRACEPARENT = re.compile(
    "(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?![^-])"
)
_SAMPLED = 0x01

Attribute: TypeAlias = str | int | float | bool | Sequence[str]
Attributes: TypeAlias = dict[str, Attribute | None]
SpanKind: TypeAlias = Literal["internal", "client", "server"]


@attrs.frozen
class Place:
    """The place of a span: its trace and its id, and whether the trace is exported."""

    trace: int
    """128 bits."""
    span: int
    """64 bits."""
    sampled: bool

    @classmethod
    def parse(cls, traceparent: str | None) -> Place | None:
        """The place that a `traceparent` names (W3C Trace Context, section 3.2); None if it names none."""
        found = _TRACEPARENT.match(traceparent or "")
        if found is None:
            return None
        return cls(int(found[1], 16), int(found[2], 16), bool(int(found[3], 16) & _SAMPLED))

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace:032x}-{self.span:016x}-{int(self.sampled):02x}"


@attrs.frozen
class Span:
    """A span that has ended. Times are in UTC seconds since the epoch."""

    name: str
    place: Place
    parent: Place | None
    """None: the trace begins here."""
    started: float
    ended: float
    kind: SpanKind
    attributes: Attributes
    """A value of None means that there is no such attribute."""
    links: Sequence[Place] = ()
    error: str | None = None
    """A code for the reason of a failure (attribute `error.type`)."""


@attrs.frozen
class RunTrace:
    """The trace of a run."""

    run: str
    id: int
    parent: Place | None
    """The place in the `traceparent` that its command stored; None: the trace begins with the run."""
    sampled: bool

    @classmethod
    def of(cls, run: Run) -> RunTrace:
        """A trace that begins with the run is exported."""
        parent = Place.parse(run.traceparent)
        trace = int(trace_id_of(run.id, None), 16) if parent is None else parent.trace
        return cls(run.id, trace, parent, parent is None or parent.sampled)

    @property
    def root(self) -> Place:
        """The place of the run itself."""
        return self.place("run")

    def place(self, key: str) -> Place:
        """The place of the span with this key."""
        return Place(self.id, span_id(self.run, key), self.sampled)

    def node(self, key: str) -> Place:
        """The place of the node that anything with this key belongs to."""
        return self.place(keys.node_of(key))

    def around(self, node: str) -> Place:
        """The place of the parent of the node with this key."""
        parent = keys.around(node)
        return self.root if parent is None else self.place(parent)


def span_id(run: str, key: str) -> int:
    """The id of a span, never 0."""
    digest = blake2b(f"{run} {key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def nodes_around(names: Iterable[str]) -> set[str]:
    """The keys of the nodes that anything with these keys belongs to, and of all nodes around these."""
    found: set[str] = set()
    for key in names:
        node: str | None = keys.node_of(key)
        while node is not None and node not in found:
            found.add(node)
            node = keys.around(node)
    return found
