"""What a data directory knows of the hints of its tools, and which of them count.

Rules:
* The first definition of a tool that is listed counts as it is.
* Of a later one counts, for the verdict and for the effect class, the stricter of what it says and what is
  known. If it is as strict or stricter, it is what is known from then on, else when a person has accepted it.
* What is known is on disk before it counts. It stays when the tool, or its server, is gone for a while.
* A tool is known by its own name, and by the one that models see if that is another: `drop.all` in the place
  of `drop_all` is no new tool. Models see no names of the tools of a server that is one tool.
* A tool that cannot be remembered asks, and its calls are sent once, until a person has accepted it.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path

import attrs

from ...runtime.journal.protocol import Journal, Json
from ...runtime.journal.sqlite import read_notes
from .tool import Hints, Tool

logger = logging.getLogger(__name__)

MOST_KNOWN = 10_000
"""Tools of one server, over time: one that lists other names again and again must not fill the disk, nor make
what is known of the earlier ones be forgotten. What people accept comes on top of it."""
LONGEST_NAME = 256
"""Characters of a tool's own name that are kept or said."""
MOST_SAID = 10
"""Tools that one line of the log names."""
STRICTEST = Hints(destructive=True)


def stricter_hints(known: Hints, listed: Hints) -> Hints:
    """Of each, whether it asks and how often it may be sent, the stricter."""
    asks, sent = map(max, known.strictness, listed.strictness)
    for hints in (listed, known):
        if hints.strictness == (asks, sent):
            return hints
    return Hints(destructive=(False, None, True)[asks], idempotent=True if sent == 1 else None)


def change(tool: Tool) -> str:
    """What its server says other than what counts, in words."""
    counts, listed = tool.hints.to_json(), tool.listed_hints.to_json()
    return ", ".join(
        f"{name} {_said(counts.get(name))} -> {_said(listed.get(name))}"
        for name in dict.fromkeys((*counts, *listed))
        if counts.get(name) != listed.get(name)
    )


def _said(value: bool | None) -> str:
    return "not given" if value is None else str(value).lower()


def changes(tools: Sequence[Tool]) -> str:
    """Of some tools, in a line."""
    named = [f"{tool.own_name[:LONGEST_NAME]} ({change(tool)})" for tool in tools[:MOST_SAID]]
    if len(tools) > MOST_SAID:
        named.append(f"{len(tools) - MOST_SAID} more")
    return "; ".join(named)


@attrs.define(eq=False)
class KnownTools:
    """Not safe for concurrent use: `take` and `accept` read, write and then update.

    Tools that models can call are given with the names that models call them by.
    """

    _journal: Journal
    trust: bool = False
    """Weaker hints count without anybody's word."""
    _servers: dict[str, dict[str, Hints]] = attrs.field(factory=dict)
    """By server and by what the tool is known by."""

    async def load(self, servers: Iterable[str]) -> None:
        """Read what is known of the tools of these. Raises `JournalError`."""
        for server in servers:
            notes = await self._journal.notes(_kind(server))
            self._servers[server] = {key: _read(note) for key, note in notes.items()}

    async def take(self, server: str, tools: Sequence[Tool]) -> None:
        """Keep what a server lists now, as far as it is to be remembered; on disk when this returns."""
        known = self._servers.setdefault(server, {})
        room = MOST_KNOWN - len(known)
        new: dict[str, Hints] = {}
        weaker: list[Tool] = []
        for tool in tools:
            listed, keys = tool.listed_hints, _keys(tool)
            counts = reduce(stricter_hints, (*(known[key] for key in keys if key in known), listed))
            if counts != listed:
                weaker.append(attrs.evolve(tool, hints=counts))
            kept = listed if self.trust else counts
            for key in keys:
                if key in new:  # the own name of one tool may be what another one is called
                    new[key] = stricter_hints(new[key], kept)
                elif key not in known and room > 0:
                    new[key] = kept
                    room -= 1
                elif key in known and kept.strictness != known[key].strictness:
                    new[key] = kept
        await self._keep(server, new)
        if weaker and self.trust:
            logger.warning(
                'MCP server "%s" lists weaker hints, which count (approval.on_weaker_hints: trust): %s',
                server,
                changes(weaker),
            )

    async def accept(self, tool: Tool) -> None:
        """From now on the hints that the server of this tool lists count; on disk when this returns."""
        known, now = self._servers[tool.server], tool.listed_hints
        new = {key: now for key in _keys(tool) if key not in known or known[key].strictness != now.strictness}
        await self._keep(tool.server, new)

    def counting(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """The tools with the hints that count."""
        return tuple(tools) if self.trust else tuple(map(self._compared, tools))

    def _compared(self, tool: Tool) -> Tool:
        known, keys = self._servers[tool.server], _keys(tool)
        before = (known.get(keys[0], STRICTEST), *(known[key] for key in keys[1:] if key in known))
        hints = reduce(stricter_hints, (*before, tool.listed_hints))
        return tool if hints == tool.hints else attrs.evolve(tool, hints=hints)

    async def _keep(self, server: str, new: Mapping[str, Hints]) -> None:
        if new:
            notes = {key: hints.to_json() for key, hints in new.items()}
            await self._journal.write_notes(_kind(server), notes)
            self._servers[server].update(new)


def servers_known_with(tool: str, servers: Iterable[str], data_dir: Path) -> tuple[str, ...]:
    """Which of the servers have listed a tool of this name, as far as the data directory tells."""
    with suppress(sqlite3.Error):
        return tuple(server for server in servers if _key(tool) in read_notes(data_dir, _kind(server)))
    return ()


def _kind(server: str) -> str:
    return f"tools of {server}"


def _keys(tool: Tool) -> Sequence[str]:
    """What a tool is known by, its own name first."""
    seen = tool.own_name if tool.facade is not None else tool.name
    return tuple(dict.fromkeys((_key(tool.own_name), _key(seen))))


def _key(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    return name[:LONGEST_NAME] + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _read(note: Json | None) -> Hints:
    """The hints of a note; the strictest of one that makes no sense."""
    try:
        return STRICTEST if note is None else Hints.from_json(note)
    except ValueError:
        return STRICTEST
