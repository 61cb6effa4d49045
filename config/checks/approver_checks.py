"""Checks of `approvers`, `quorum` and `requester_may_approve`: they must be enforceable."""

from __future__ import annotations

from collections.abc import Iterator

from ..described.wording import nearest
from ..reading.reader import Reader
from ..sections.agent_config import AgentConfig
from ..sections.approval import Rule
from ..sections.auth import ROLES
from ..sections.nodes import CheckpointNode
from ..sections.placeholders import placed_nodes
from ..text.values import KeyPath, Scalar, Table, Value, entry, mark_of, placed, quoted
from .unknown_names import rule_lists

SUBJECT = "subject:"
"""Prefix of an approver that is a principal and not a role."""
_KEYS = ("approvers", "quorum", "requester_may_approve")


def check_approvers(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report requirements without `auth`, requirements that cannot be met, and unknown roles."""
    for owner, written, path in _owners(config, root):
        given = [key for key in _KEYS if isinstance(written, Table) and key in written.entries]
        for key in given:
            mark, at = mark_of(entry(written, key)), (*path, key)
            if isinstance(owner, Rule) and owner.then != "ask":
                message = f"only a rule with then: ask has {key}"
                reader.report("conflicting_keys", message, mark, at)
            elif config.auth is None:
                message = f"{key} needs to know who approves"
                reader.report("auth_missing", message, mark, at, hint="add the section auth")
        if "approvers" in given and config.auth is not None:
            _check_names(reader, config, owner, written, path)


def _owners(config: AgentConfig, root: Table) -> Iterator[tuple[Rule | CheckpointNode, Value, KeyPath]]:
    """The rules and nodes that can have approvers, with their places in the file."""
    for rules, _ in rule_lists(config, root):
        yield from rules
    for node, written, path in placed_nodes(config, root):
        if isinstance(node, CheckpointNode):
            yield node, written, path


def _check_names(
    reader: Reader, config: AgentConfig, owner: Rule | CheckpointNode, written: Value, path: KeyPath
) -> None:
    approvers = owner.approvers or ()
    known = [*ROLES, *(config.auth.roles if config.auth else ())]
    for name, value, at in placed(approvers, written, path, "approvers"):
        if name in known or (name.startswith(SUBJECT) and name != SUBJECT):
            continue
        text = str(value.value) if isinstance(value, Scalar) else ""
        hint = nearest(text, known) or f"for a principal, write {SUBJECT}NAME"
        message = f"no role is called {quoted(text)}"
        reader.report("unknown_role", message, value.mark, at, hint=hint)
    persons = {each for each in approvers if each.startswith(SUBJECT)}
    if len(persons) == len(set(approvers)) < owner.quorum:
        message = f"a quorum of {owner.quorum} needs more approvers than {len(persons)}"
        reader.report("out_of_range", message, mark_of(entry(written, "approvers")), (*path, "approvers"))
