"""Warnings about likely mistakes in the agent file: names that match nothing, rules that are never reached.

If the misspelling of a name would let calls pass or hide tools, the name is an error (`checks.check_names`).
Warnings quote the file, never the value of a variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ..sections.agent_config import AgentConfig
from ..sections.approval import Condition, Rule
from ..sections.nodes import KINDS, LlmNode, LoopNode, Node, ParallelNode, RouterNode, children_of
from ..sections.placeholders import (
    USER_MESSAGE,
    children_with_place,
    keys_left,
    name_in_file,
    placed_nodes,
    unfilled,
)
from ..text.values import KeyPath, Table, Value, dotted, quoted
from .literal_secrets import literal_secrets
from .unknown_names import PlacedRule, UnknownName, rule_lists, unknown_names

_LITERAL = "a secret is written in the file; write ${VARIABLE}, and set the variable in the environment"


def warnings_of(config: AgentConfig, written: Table) -> tuple[str, ...]:
    """All warnings; `written` is the file of `config`."""
    nodes = list(placed_nodes(config, written))
    return (
        *unfilled(config.agent, written.entries["agent"]),
        *(line for each in nodes for line in _overshadowed(*each)),
        *(line for each in nodes for line in _clashes(*each)),
        *(line for each in nodes for line in _endless(*each)),
        *(line for rules, _ in rule_lists(config, written) for line in _rules(rules)),
        *map(_unknown, (name for name in unknown_names(config, written) if not name.is_mistake)),
        *(line for each in nodes for line in _routes(*each)),
        *(f"{dotted(path)}: {_LITERAL}" for path in literal_secrets(written)),
        *_audience(config),
    )


def _overshadowed(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    if node.output_key in {USER_MESSAGE}.union(*(kind.gives for kind in KINDS.values())):
        where = dotted((*path, "output_key"))
        yield f"{where}: {{{node.output_key}}} is a reserved placeholder, so no prompt can show this answer"


def _clashes(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    """Parallel branches with the same output key. Of a router, only one child runs."""
    if not isinstance(node, ParallelNode):
        return
    branches = list(children_with_place(node, written, path))
    for (one, one_at, _), (other, other_at, other_path) in combinations(branches, 2):
        for key in sorted(set(keys_left(one)) & set(keys_left(other))):
            earlier, later = (quoted(_last_writer(*each, key)) for each in ((one, one_at), (other, other_at)))
            yield (
                f"{dotted(other_path)}: {earlier} and {later} both set output_key: {key} in parallel "
                f"branches; the later one in the file, {later}, wins"
            )


def _last_writer(node: Node, written: Value, key: str) -> str:
    """Name of the node in a branch that sets a key last."""
    if node.output_key == key:
        return name_in_file(written)
    below = [child for child in children_with_place(node, written, ()) if key in keys_left(child[0])]
    child, at, _ = below[-1]
    return _last_writer(child, at, key)


def _endless(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    if isinstance(node, LoopNode) and not any(map(_may_exit, node.agents)):
        yield (
            f"{dotted(path)}: no node of the loop may call exit_loop, so it always takes "
            f"{node.max_iterations} iterations (an llm node may with can_exit_loop: true)"
        )


def _may_exit(node: Node) -> bool:
    """Whether a node, or one below it, may end the loop around it."""
    if isinstance(node, LlmNode):
        return node.can_exit_loop
    return not isinstance(node, LoopNode) and any(map(_may_exit, children_of(node)))


def _rules(rules: list[PlacedRule]) -> Iterator[str]:
    everything: KeyPath | None = None
    for rule, _, path in rules:
        if everything is not None:
            yield f"{dotted(path)}: never reached, because {dotted(everything)} matches every call"
        elif rule == Rule(then=rule.then, name=rule.name, optional=rule.optional):
            everything = path
        for argument, condition in rule.arguments.items():
            if why := _never_met(condition):
                yield f"{dotted((*path, 'arguments', argument))}: never holds: {why}"


def _unknown(name: UnknownName) -> str:
    return f"{dotted(name.path)}: {name.message}{f' ({name.hint})' if name.hint else ''}"


def _routes(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    if not isinstance(node, RouterNode) or node.routes is None:
        return
    for index, route in enumerate(node.routes):
        for key, condition in route.when.items():
            if why := _never_met(condition):
                yield f"{dotted((*path, 'routes', index, 'when', key))}: never holds: {why}"
    reached = {route.agent for route in node.routes} | {node.default}
    for child, at, _ in children_with_place(node, written, path):
        if child.name not in reached:
            yield f"{dotted(path)}: no route leads to {quoted(name_in_file(at))}"


def _audience(config: AgentConfig) -> Iterator[str]:
    """An ID token, which is for the client of the login (OpenID Connect Core 1.0, section 2, `aud`), shall be
    no token for the API: it says who has logged in, and is shown to others as a hint of that."""
    oidc = None if config.auth is None else config.auth.oidc
    if oidc is not None and oidc.login is not None and oidc.audience == oidc.login.client_id:
        yield (
            "auth.oidc: audience is the client_id of the login, so ID tokens of the login are accepted as "
            "tokens for the API (register the API at the issuer, with an audience of its own)"
        )


def _never_met(condition: Condition) -> str | None:
    if condition.exists is False and condition != Condition(exists=False):
        return "a missing value satisfies only exists: false"
    if condition.above is not None and condition.below is not None and condition.above >= condition.below:
        return "no number is both above and below these values"
    return None
