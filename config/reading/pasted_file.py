"""The text of an agent file for the servers of another MCP client. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..described.wording import yaml_line
from .pasted import Pasted, PastedServer
from .pasted_texts import one_line

_MOST_NAMED = 10
"""Keys of the pasted file that are named; the others are counted."""


def agent_file(pasted: Pasted, source: str) -> str:
    """The agent file, with a comment for all that was not taken over. `source` is the name of the file."""
    return "\n".join(_lines(pasted, one_line(source))) + "\n"


def _lines(pasted: Pasted, source: str) -> Iterator[str]:
    yield f"# The MCP servers of {source}, by stopgo config import."
    if pasted.left_out:
        more = len(pasted.left_out) - _MOST_NAMED
        named = ", ".join(map(one_line, pasted.left_out[:_MOST_NAMED])) + (
            f" and {more} more" if more > 0 else ""
        )
        yield f"# These keys were left out: {named}."
    if pasted.variables:
        yield "#"
        yield "# Set these variables before the start:"
        width = max(len(each.name) for each in pasted.variables)
        yield from (f"#   {each.name.ljust(width)}  {each.why}" for each in pasted.variables)
    yield ""
    yield "llm:"
    yield "  # provider:name. offline:rules needs no key and no network, but understands little."
    yield '  model: "${STOPGO_MODEL:-offline:rules}"'
    yield ""
    used = any(server.entry is not None for server in pasted.servers)
    yield "mcp_servers:" if used else "mcp_servers: {}"
    for server in pasted.servers:
        yield from _server(server)
    yield ""
    yield "approval:"
    yield "  defaults: strict  # also tools without hints ask a person"
    if pasted.rules:
        yield "  # In the pasted file these tools ran without a person. Here their hints decide. To let one"
        yield "  # run in any case, remove the # before its rule and before the line above the rules:"
        yield "  #rules:"
        yield from (f"  #  - {rule}" for rule in pasted.rules)


def _server(server: PastedServer) -> Iterator[str]:
    if server.entry is None:
        yield f"  # {one_line(server.name)}:"
    else:
        yield f"  {_yaml(server.name, None).removesuffix(' null')}"
        yield from (f"    {_yaml(key, value)}" for key, value in server.entry.items())
    yield from (f"    # {note}" for note in map(one_line, server.notes))


def _yaml(key: str, value: object) -> str:
    """A key and its value in one line, which is also valid between other keys."""
    return yaml_line({key: value})[1:-1]
