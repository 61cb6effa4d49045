"""The nodes that have begun and not ended, with their starts; and so the batches of their calls.

The start of a node is not on record. It is kept in memory until the node ends; where it is lost, after a
restart or among very many runs, the first record below the node takes its place.
"""

from __future__ import annotations

import attrs

from ...actors.log.fold.record import Run
from ...actors.log.fold.state import Conversation
from ...actors.log.words import keys
from ...config.sections.nodes import Node
from .spans import nodes_around

BATCH = "batch"
"""The type of a batch: the calls of one reply, if there are several. Its key is that of the reply."""
MAX_RUNS = 10_000
"""Maximum number of runs whose nodes are kept in memory."""


@attrs.frozen
class OpenNode:
    started: float
    """UTC seconds since the epoch."""
    type: str
    name: str


@attrs.frozen
class OpenNodes:
    _runs: dict[str, dict[str, OpenNode]] = attrs.field(factory=dict)
    """By run and key. The oldest run comes first."""

    def start(self, conversation: Conversation, run: Run, key: str, node: Node, at: float) -> None:
        open_node = OpenNode(_start_of_node(conversation, run, key, at), node.TYPE, node.name)
        self.of(conversation, run, at).setdefault(key, open_node)

    def of(self, conversation: Conversation, run: Run, at: float) -> dict[str, OpenNode]:
        """The open nodes of the run, by key."""
        if run.id not in self._runs:
            while len(self._runs) >= MAX_RUNS:
                del self._runs[next(iter(self._runs))]
            self._runs[run.id] = _unfinished(conversation, run, at)
        return self._runs[run.id]

    def start_batch(self, conversation: Conversation, run: Run, key: str, node: str, at: float) -> None:
        self.of(conversation, run, at)[key] = OpenNode(at, BATCH, node)

    def forget(self, run: Run) -> None:
        self._runs.pop(run.id, None)


def _start_of_node(conversation: Conversation, run: Run, key: str, at: float) -> float:
    """The start of a node. Below a node that continues after a restart, there are records."""
    if not run.steps:
        return at
    if keys.around(key) is None:
        return run.started_at
    records = (record for call, record in run.calls.items() if keys.is_within(call, key))
    return min((conversation.messages[each.message].created for each in records), default=at)


def _unfinished(conversation: Conversation, run: Run, at: float) -> dict[str, OpenNode]:
    """The nodes that the record shows to have begun. After a restart, the run may end without reaching them
    again."""
    nodes = [key for key, step in run.steps.items() if step.kind == "node"]
    attempts = [keys.attempt_of(key) for key, step in run.steps.items() if step.kind == "attempt"]
    found = {}

    def has_ended(key: str) -> bool:
        return any(keys.is_within(key, each) for each in nodes) or any(
            keys.is_within_attempt(key, each) for each in attempts
        )

    for key in nodes_around((*run.steps, *run.calls, *run.asked)):
        if has_ended(key):
            continue
        node = conversation.trees[run.started.tree_id]
        for index in keys.places(key):
            node = node["agents"][index]
        found[key] = OpenNode(_start_of_node(conversation, run, key, at), node["type"], node["name"])
    for call, record in run.calls.items():
        batch = batch_of(run, call)
        if batch is not None and batch not in run.batches and not has_ended(batch):
            message = conversation.messages[record.message]
            found.setdefault(batch, OpenNode(message.created, BATCH, message.node or ""))
    return found


def batch_of(run: Run, call: str) -> str | None:
    """The key of the batch that anything with the key of a call belongs to; None: the call is alone."""
    reply = keys.reply_of(call)
    return reply if keys.call(reply, 1) in run.calls else None
