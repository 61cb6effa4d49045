"""What is wrong between the places of a tree: a node that is not in a loop, a name that nobody has."""

from __future__ import annotations

from stopgo.config.nodes import LoopNode
from stopgo.config.reader import Reader
from stopgo.config.shape import Flag
from stopgo.config.tree import nodes_of
from stopgo.config.values import KeyPath, Scalar, Sequence, Table, Value, quoted
from stopgo.config.wording import nearest


def check_tree(reader: Reader, written: Value) -> None:
    """Report to `reader` what no node can be blamed for alone."""
    reader.check_unique(nodes_of(written), "node name")
    _check_exits(reader, written, ("agent",), in_loop=False)
    for node, path in nodes_of(written):
        if isinstance(node, Table):
            _check_routes(reader, node, path)


def _check_exits(reader: Reader, node: Value, path: KeyPath, *, in_loop: bool) -> None:
    if not isinstance(node, Table):
        return
    said = node.entries.get("can_exit_loop")
    at = (*path, "can_exit_loop")
    if said is not None and not in_loop and reader.read(said, Flag(), at) is True:
        hint = "a loop node must stand above it"
        reader.report("not_in_loop", "there is no loop to exit", said.mark, at, hint=hint)
    kind = node.entries.get("type")
    in_loop = in_loop or (isinstance(kind, Scalar) and kind.value == LoopNode.TYPE)
    for index, child in enumerate(_items(node, "agents")):
        _check_exits(reader, child, (*path, "agents", index), in_loop=in_loop)


def _check_routes(reader: Reader, node: Table, path: KeyPath) -> None:
    named: list[tuple[Value, KeyPath]] = []
    for index, route in enumerate(_items(node, "routes")):
        if isinstance(route, Table) and "agent" in route.entries:
            named.append((route.entries["agent"], (*path, "routes", index, "agent")))
    if "default" in node.entries:
        named.append((node.entries["default"], (*path, "default")))
    children = [child.entries.get("name") for child in _items(node, "agents") if isinstance(child, Table)]
    written = [str(name.value) for name in children if isinstance(name, Scalar)]
    known = {reader.text_of(name) for name in children if name is not None}
    for name, at in named:
        text = reader.text_of(name)
        if not isinstance(name, Scalar) or not text or text in known:
            continue
        message = f"none of the router's agents is called {quoted(str(name.value))}"
        hint = nearest(str(name.value), written) or f"its agents: {', '.join(map(quoted, written))}"
        reader.report("unknown_agent", message, name.mark, at, hint=hint)


def _items(node: Table, key: str) -> tuple[Value, ...]:
    value = node.entries.get(key)
    return value.items if isinstance(value, Sequence) else ()
