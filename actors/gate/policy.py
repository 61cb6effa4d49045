"""The policy of an agent in a canonical form, and its revision. Pure.

The form has the rules and settings that the gate reads, for each node that calls tools, and those that decide
which tools there are, under which names and with which hints. Two files with the same policy have the same
form: the order of keys, names that repeat a default, and comments make no difference. Settings that the gate
does not read, such as `expires_after`, are not in it. The values of conditions that are secret are masked, so
a change of such a value makes no revision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import attrs

from ...config.sections.agent_config import AgentConfig
from ...config.sections.approval import Condition, Rule
from ...config.sections.nodes import Node
from ...config.sections.secrets import MASK, SHORTEST, secrets_in
from ...runtime import json_text
from ...runtime.journal.protocol import Json
from ..approvals.requirement import requirement_of
from .gate import PolicyScope, policy_scopes, root_scope, rule_text, settings_above

FORMAT = 2
"""Raised when the same policy would get another form. Format 1 had no `tools`."""


@attrs.frozen
class Policy:
    content: Json
    """The canonical form."""
    revision: str
    """The first 16 digits of the SHA-256 of its text."""
    ids: Mapping[str, str]
    """The ids of the rules, by `Rule.place`."""

    @classmethod
    def of(cls, config: AgentConfig, tree: Node, secrets: Collection[str] = ()) -> Self:
        """The policy of a run with this tree. `secrets` are values that must not be in it."""
        mask = _Mask(frozenset(filter(None, secrets)))
        found = policy_scopes(tree, root_scope(config))
        scopes = sorted((scope for node, scope in found if node.KIND.calls), key=lambda scope: scope.node)
        rules: dict[str, Json] = {}
        for rule in (rule for scope in scopes for rule in scope.policy.rules):
            if rule.place not in rules:
                rules[rule.place] = _rule(rule, mask)
        real = {rule["id"] for rule in rules.values() if "shadow" not in rule}
        rules |= {
            place: {**rule, "id": _rule_id(["shadow", rule["id"]])}
            for place, rule in rules.items()
            if "shadow" in rule and rule["id"] in real
        }
        ids = {place: rule["id"] for place, rule in rules.items()}
        content = {
            "format": FORMAT,
            "contradiction_asks": config.approval.contradiction_asks,
            "tools": _tools(config),
            "rules": list(rules.values()),
            "nodes": [_node(scope, ids) for scope in scopes],
        }
        return cls(content, revision_of(json_text.canonical(content)), ids)

    @property
    def text(self) -> str:
        """The canonical form as text, in ASCII."""
        return json_text.canonical(self.content)


def revision_of(text: str) -> str:
    """The revision of a canonical form."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@attrs.frozen
class _Mask:
    secrets: Collection[str]

    def value(self, name: str, value: Any) -> Any:
        """The value of a condition on an argument; the mask if it is secret, or has a secret in it."""
        if isinstance(value, Sequence) and not isinstance(value, str):
            return sorted((self.value(name, each) for each in value), key=json_text.canonical)
        hidden = isinstance(value, str) and (
            value in self.secrets
            or any(len(each) >= SHORTEST and each in value for each in self.secrets)
            or any(secrets_in(name, value))
        )
        return MASK if hidden else value


def _rule(rule: Rule, mask: _Mask) -> Json:
    requires = requirement_of(rule) if rule.then == "ask" else None
    said: dict[str, object] = {
        "then": rule.then,
        "server": rule.server,
        "tool": rule.tool,
        "node": rule.node,
        "effect": rule.effect,
        "arguments": {path: _condition(path, each, mask) for path, each in rule.arguments.items()} or None,
        "only_these_arguments": rule.only_these_arguments or None,
        "name": rule.name,
    }
    if requires is not None:
        said["requires"] = {**attrs.asdict(requires), "approvers": sorted(set(requires.approvers))}
    content = {key: value for key, value in said.items() if value is not None}
    owner = rule.place.rpartition(".rules[")[0]  # so that the id stays if rules before it come or go
    id = _rule_id([owner, content])
    in_order = attrs.evolve(rule, arguments=dict(sorted(rule.arguments.items())))
    # Not in the id, so that it stays when the rule counts; but another rule may have this id already (`of`).
    shadow = {"shadow": True} if rule.shadow else {}
    return {"id": id, "text": rule_text(in_order), **content, **shadow}


def _rule_id(content: Sequence[Any]) -> str:
    """The id of a rule: a digest of its content."""
    return hashlib.sha256(json_text.canonical(content).encode()).hexdigest()[:8]


def _condition(path: str, condition: Condition, mask: _Mask) -> Json:
    said = attrs.asdict(condition, recurse=False, filter=lambda _, value: value is not None)
    said |= {key: float(said[key]) for key in ("above", "below") if key in said}
    return {key: mask.value(path.rpartition(".")[2], value) for key, value in said.items()}


def _tools(config: AgentConfig) -> Json:
    """What decides which tools there are. The order of servers counts: of equal names, the first may win."""
    return {
        "names": config.tool_names,
        "duplicates": config.on_duplicate,
        "weaker_hints": config.approval.on_weaker_hints,
        "servers": [
            {
                "name": server.name,
                "expose": server.expose,
                "priority": server.priority,
                "include": None if server.tools.include is None else sorted(set(server.tools.include)),
                "exclude": sorted(set(server.tools.exclude)),
            }
            for server in config.enabled_servers
        ],
        "agents": {each.name: each.destructive_hint for each in config.remote_agents},
    }


def _node(scope: PolicyScope, ids: Mapping[str, str]) -> Json:
    return {
        "node": scope.node,
        "rules": [ids[rule.place] for rule in scope.policy.rules],
        "unannotated": scope.policy.action("unannotated"),
        "above": dict(settings_above(scope)),
        "servers": None if scope.servers is None else sorted(set(scope.servers)),
        "tools": None if scope.tools is None else sorted(set(scope.tools)),
        "agents": sorted(set(scope.agents)),
    }
