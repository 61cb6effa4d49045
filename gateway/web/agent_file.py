"""The running agent's file, read again for the page, and the position of each rule in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import trio

from ...actors.agent.agent import Agent
from ...actors.gate.gate import policy_scopes, root_scope, rule_text
from ...actors.servers.masking import Secrets
from ...config.checks.tree import nodes_of, with_paths
from ...config.load import MAX_BYTES
from ...config.sections.agent_config import AgentConfig
from ...config.text.compose import compose
from ...config.text.errors import ConfigError
from ...config.text.values import Table, Value, entry, items
from .shown_config import without_secrets, yaml_of

_UNDECIDED = ", undecided"


@attrs.frozen
class AgentFile:
    """The file as the page shows it. Empty for an agent without a file, such as an embedded one."""

    name: str | None
    """Name of the file, without folders."""
    changed: bool
    """Whether the file was modified after the agent read it, so that it may differ from the configuration in
    effect."""
    text: str
    """The file as YAML, without secrets."""
    rules: Mapping[str, Mapping[str, Any]]
    """Rules as the page shows them, by the gate's text for the rule."""

    def rule(self, reason: str) -> Mapping[str, Any] | None:
        """The rule that the gate's reason names, if it names one."""
        return self.rules.get(reason.removesuffix(_UNDECIDED))


_read_before: WeakKeyDictionary[Agent, AgentFile] = WeakKeyDictionary()
"""Cache. Later requests check only the modification time."""


async def agent_file(agent: Agent) -> AgentFile:
    """The file as the agent read it; without its text if it has been modified since."""
    return await trio.to_thread.run_sync(_agent_file, agent, abandon_on_cancel=True)


def _agent_file(agent: Agent) -> AgentFile:
    source = agent.config.source
    if source is None:
        return AgentFile(None, False, "", {})
    try:
        if source.stat().st_mtime <= agent.started:
            if agent not in _read_before:
                _read_before[agent] = _made(agent.config, source.name, _read(source))
            return _read_before[agent]
    except (OSError, ValueError, ConfigError):
        pass
    return AgentFile(source.name, True, "", {})


def _made(config: AgentConfig, name: str, root: Value) -> AgentFile:
    shown = Shown((*map(Secrets.of, config.mcp_servers), *map(Secrets.of, config.remote_agents)))
    return AgentFile(name, False, shown.yaml(root), dict(_rules(config, name, root, shown)))


@attrs.frozen
class Shown:
    """Converts values to YAML without secrets."""

    secrets: tuple[Secrets, ...]
    """Secrets of servers and remote agents, masked wherever they occur."""

    def yaml(self, value: Value) -> str:
        text = yaml_of(without_secrets(value))
        for each in self.secrets:
            text = each.mask(text)
        return text


def _read(source: Path) -> Value:
    """Raises OSError, ValueError or `ConfigError`."""
    with source.open("rb") as file:
        text = file.read(MAX_BYTES).decode("utf-8-sig")
    return compose(text, str(source))[0]


def _rules(
    config: AgentConfig, file: str, root: Value, shown: Shown
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    written = dict(_written(config, root))
    for _, policy_scope in policy_scopes(config.agent, root_scope(config)):
        for rule in policy_scope.policy.rules:
            found = written.get(rule.place)
            if isinstance(found, Table) and found.mark is not None:
                yield (
                    rule_text(rule),
                    {
                        "name": rule.name or rule.place,
                        "file": file,
                        "line": found.mark.line,
                        "yaml": shown.yaml(found),
                    },
                )


def _written(config: AgentConfig, root: Value) -> Iterator[tuple[str, Value]]:
    """Every rule as written, by the gate's text for its position."""
    for index, rule in enumerate(items(entry(entry(root, "approval"), "rules"))):
        yield f"approval.rules[{index}]", rule
    tree = entry(root, "agent")
    if tree is None:
        return
    for (node, _), (written, _) in zip(with_paths(config.agent), nodes_of(tree), strict=False):
        for index, rule in enumerate(items(entry(entry(written, "approval"), "rules"))):
            yield f'node "{node.name}" approval.rules[{index}]', rule
