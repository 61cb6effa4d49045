"""What a file may say but surely does not mean: a name that nobody has, a rule that is never reached.

Names that let calls pass, or hide tools, when they are misspelt are mistakes, which are reported beside.

The sentences show what stands in the file, never what a variable holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias

from .agent_config import AgentConfig
from .approval import Condition, Rule
from .nodes import Node, ParallelNode, RouterNode
from .placeholders import (
    ITERATION,
    USER_MESSAGE,
    children_with_place,
    keys_left,
    name_in_file,
    unfilled,
)
from .reader import Reader
from .values import KeyPath, Scalar, Sequence, Table, Value, dotted, quoted
from .wildcards import has_wildcards, is_named
from .wording import nearest

Placed: TypeAlias = tuple[Node, Value, KeyPath]
"""A node, the same as it is written, and its path."""
Named: TypeAlias = tuple[str, str]
"""A name, and the same as it is written."""


def warnings_of(config: AgentConfig, written: Table, reader: Reader) -> tuple[str, ...]:
    """A sentence for everything of the kind; `written` is the same file as it stands there. To `reader` goes
    every name of a server or node that there is not, where it has to be one."""
    tree = written.entries["agent"]
    nodes = list(_nodes(config.agent, tree, ("agent",)))
    entries = _items(written.entries.get("mcp_servers"))
    # Those beyond the entries are named on the command line, where there are no variables.
    beyond = [server.name for server in config.mcp_servers[len(entries) :]]
    as_written = [*map(name_in_file, entries), *beyond]
    servers = [(server.name, text) for server, text in zip(config.mcp_servers, as_written, strict=True)]
    approval = written.entries.get("approval")
    for each in nodes:
        _check_servers(reader, *each, servers)
    return (
        *unfilled(config.agent, tree),
        *(line for each in nodes for line in _overshadowed(*each)),
        *(line for each in nodes for line in _clashes(*each)),
        *_rules(
            reader, config.approval.rules, _entry(approval, "rules"), ("approval", "rules"), servers, nodes
        ),
        *(line for each in nodes for line in _overrides(reader, *each, servers)),
        *(line for each in nodes for line in _routes(*each)),
    )


def _nodes(node: Node, written: Value, path: KeyPath) -> Iterator[Placed]:
    yield node, written, path
    for child in children_with_place(node, written, path):
        yield from _nodes(*child)


def _check_servers(reader: Reader, node: Node, written: Value, path: KeyPath, servers: list[Named]) -> None:
    names = {name for name, _ in servers}
    entries = _items(_entry(written, "mcp_servers"))
    for index, (server, entry) in enumerate(zip(node.mcp_servers or (), entries, strict=True)):
        if server not in names:
            message, at = f"no server is called {_quoted(entry)}", (*path, "mcp_servers", index)
            reader.report("unknown_server", message, entry.mark, at, hint=_nearest(entry, servers))


def _overshadowed(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    if node.output_key in (USER_MESSAGE, ITERATION):
        where = dotted((*path, "output_key"))
        yield f"{where}: {{{node.output_key}}} always stands for something else, so nobody sees this answer"


def _clashes(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    """Branches that leave something under the same key. Children of a router never both run."""
    if not isinstance(node, ParallelNode):
        return
    branches = list(children_with_place(node, written, path))
    for (one, one_at, _), (other, other_at, other_path) in combinations(branches, 2):
        for key in sorted(set(keys_left(one)) & set(keys_left(other))):
            earlier, later = (quoted(_last_writer(*each, key)) for each in ((one, one_at), (other, other_at)))
            yield (
                f"{dotted(other_path)}: {earlier} and {later} both leave output_key: {key} from parallel "
                f"branches; the later in the file, {later}, wins"
            )


def _last_writer(node: Node, written: Value, key: str) -> str:
    """Name of the node in a branch whose writing of a key stands."""
    if node.output_key == key:
        return name_in_file(written)
    below = [child for child in children_with_place(node, written, ()) if key in keys_left(child[0])]
    child, at, _ = below[-1]
    return _last_writer(child, at, key)


def _overrides(
    reader: Reader, node: Node, written: Value, path: KeyPath, servers: list[Named]
) -> Iterator[str]:
    if node.approval is not None and node.approval.rules:
        rules = _entry(_entry(written, "approval"), "rules")
        below = list(_nodes(node, written, path))
        yield from _rules(reader, node.approval.rules, rules, (*path, "approval", "rules"), servers, below)


def _rules(
    reader: Reader,
    rules: tuple[Rule, ...],
    written: Value | None,
    path: KeyPath,
    servers: list[Named],
    nodes: list[Placed],
) -> Iterator[str]:
    named = [(node.name, name_in_file(at)) for node, at, _ in nodes]
    everything: int | None = None
    for index, (rule, entry) in enumerate(zip(rules, _items(written), strict=True)):
        where = dotted((*path, index))
        if everything is not None:
            yield f"{where}: never reached, for {dotted((*path, everything))} matches every call"
        elif rule == Rule(then=rule.then, name=rule.name, optional=rule.optional):
            everything = index
        for key, pattern, known in (("server", rule.server, servers), ("node", rule.node, named)):
            if pattern is None or any(is_named(name, pattern) for name, _ in known) or rule.optional:
                continue
            value = _entry(entry, key)
            message, hint = f"no {key} here is called {_quoted(value)}", _nearest(value, known)
            if rule.restricts and value is not None and not has_wildcards(pattern):
                reader.report(f"unknown_{key}", message, value.mark, (*path, index, key), hint=hint)
            else:
                yield f"{where}.{key}: {message}{f' ({hint})' if hint else ''}"
        for argument, condition in rule.arguments.items():
            if why := _never_holds(condition):
                yield f"{dotted((*path, index, 'arguments', argument))}: never holds: {why}"


def _routes(node: Node, written: Value, path: KeyPath) -> Iterator[str]:
    if not isinstance(node, RouterNode) or node.routes is None:
        return
    for index, route in enumerate(node.routes):
        for key, condition in route.when.items():
            if why := _never_holds(condition):
                yield f"{dotted((*path, 'routes', index, 'when', key))}: never holds: {why}"
    reached = {route.agent for route in node.routes} | {node.default}
    for child, at, _ in children_with_place(node, written, path):
        if child.name not in reached:
            yield f"{dotted(path)}: no route leads to {quoted(name_in_file(at))}"


def _never_holds(condition: Condition) -> str | None:
    if condition.exists is False and condition != Condition(exists=False):
        return "what is not there satisfies nothing but exists: false"
    if condition.above is not None and condition.below is not None and condition.above >= condition.below:
        return "no number is above the one and below the other"
    return None


def _entry(written: Value | None, key: str) -> Value | None:
    return written.entries.get(key) if isinstance(written, Table) else None


def _items(written: Value | None) -> tuple[Value, ...]:
    return written.items if isinstance(written, Sequence) else ()


def _quoted(written: Value | None) -> str:
    return quoted(str(written.value)) if isinstance(written, Scalar) else quoted("")


def _nearest(written: Value | None, known: list[Named]) -> str | None:
    """A hint at the name that was probably meant."""
    return nearest(str(written.value), [text for _, text in known]) if isinstance(written, Scalar) else None
