"""The policies by which this agent has judged, as notes of the journal: one for each revision, stored before
its first verdict. A policy that is longer than a note is stored in pieces."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Self

import attrs

from ...config.checks.tree import secrets_of_stored
from ...config.sections.agent_config import AgentConfig
from ...config.sections.nodes import Node
from ...runtime import json_text
from ...runtime.clock import WallClock
from ...runtime.journal.passage import JournalReader
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Json, Notes
from .policy import Policy, revision_of

NOTE = "policy"
_PIECE = 1900
"""Characters of a piece: in a note, each may become two."""


@attrs.frozen
class StoredPolicy:
    """A revision in the journal."""

    revision: str
    since: float
    """The first use, in UTC seconds."""
    content: Json


@attrs.define(eq=False)
class Policies:
    """The policies of this process, by the tree of the run."""

    _notes: Notes
    _wall: WallClock
    _config: AgentConfig
    current: Policy
    """The policy of new runs."""
    _by_tree: dict[str, Policy]

    @classmethod
    async def open(cls, notes: Notes, wall: WallClock, config: AgentConfig, tree_id: str) -> Self:
        """Store the policy of new runs, if it is new. Waits until the store can be reached.

        Raises:
            JournalError
        """
        policy = Policy.of(config, config.agent, config.rule_secrets)
        policies = cls(notes, wall, config, policy, {tree_id: policy})
        await policies._store(policy)
        return policies

    async def of(self, tree_id: str, tree: Node, stored: Json) -> Policy:
        """The policy of a run with this tree: its nodes, and the rules of today's file."""
        if (known := self._by_tree.get(tree_id)) is not None:
            return known
        secrets = (*self._config.rule_secrets, *secrets_of_stored(stored, os.environ.get))
        policy = Policy.of(self._config, tree, secrets)
        await self._store(policy)
        return self._by_tree.setdefault(tree_id, policy)

    async def _store(self, policy: Policy) -> None:
        async def store() -> None:
            if policy.revision not in _found(await self._notes.notes(NOTE)):
                await self._notes.write_notes(NOTE, _pieces(policy, self._wall()))

        await until_available(store)


async def stored_policies(notes: JournalReader) -> Sequence[StoredPolicy]:
    """All revisions in the journal, first used first."""
    return sorted(_found(await notes.notes(NOTE)).values(), key=lambda each: (each.since, each.revision))


def _pieces(policy: Policy, now: float) -> Mapping[str, Json]:
    text = policy.text
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    return {
        f"{policy.revision}.{index}": {"since": now, "of": len(pieces), "text": piece}
        for index, piece in enumerate(pieces)
    }


def _found(notes: Mapping[str, Json | None]) -> Mapping[str, StoredPolicy]:
    """The revisions in these notes. One that lacks a piece is damaged; it is stored again when it is used."""
    found: dict[str, StoredPolicy] = {}
    for key, body in notes.items():
        revision, _, index = key.partition(".")
        if index != "0" or body is None:
            continue
        match body:
            case {"since": int() | float() as since, "of": int() as count}:
                pieces = [(notes.get(f"{revision}.{each}") or {}).get("text") for each in range(count)]
                text = "".join(each for each in pieces if isinstance(each, str))
                if revision_of(text) == revision:
                    found[revision] = StoredPolicy(revision, float(since), json_text.load(text))
            case _:
                pass
    return found
