"""Known hints: the hints of tools that a data directory has recorded, and the hints that count.

Rules:
* The first listed definition of a tool counts unchanged.
* For a later definition, the stricter of its hints and the known hints counts, separately for the verdict and
  the effect class. Equal or stricter hints become the known ones; weaker hints only after a person accepts
  them.
* Known hints are on disk before they count. They are kept while the tool or its server is gone.
* A tool is known by its own name and by the name that models see. So `drop.all` in place of `drop_all` is not
  a new tool. For a server facade, models see no names of its tools.
* A tool that cannot be recorded asks, and its calls are of effect class `once`, until a person accepts it.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path

import attrs

from ...config.sections.approval import ApprovalConfig
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Journal, Json
from ...runtime.journal.sqlite.sqlite_journal import read_notes
from .tool import Hints, Tool

logger = logging.getLogger(__name__)

MOST_KNOWN = 10_000
"""Maximum number of known tools of one server. Otherwise a server that keeps listing new names would fill the
disk. Tools that people accept are recorded beyond the limit."""
LONGEST_NAME = 256
"""Maximum length of an own name in records and messages, in characters."""
MOST_SAID = 10
"""Maximum number of tools in one log line."""
STRICTEST = Hints(destructive=True)


def stricter_hints(known: Hints, listed: Hints) -> Hints:
    """Return hints with the stricter verdict and the stricter effect class of both."""
    asks, sent = map(max, known.strictness, listed.strictness)
    for hints in (listed, known):
        if hints.strictness == (asks, sent):
            return hints
    return Hints(destructive=(False, None, True)[asks], idempotent=True if sent == 1 else None)


def change(tool: Tool) -> str:
    """Describe the difference between the hints that count and the listed hints."""
    counts, listed = tool.hints.to_json(), tool.listed_hints.to_json()
    return ", ".join(
        f"{name} {_said(counts.get(name))} -> {_said(listed.get(name))}"
        for name in dict.fromkeys((*counts, *listed))
        if counts.get(name) != listed.get(name)
    )


def _said(value: bool | None) -> str:
    return "not given" if value is None else str(value).lower()


def changes(tools: Sequence[Tool]) -> str:
    """Describe the changes of several tools in one line."""
    named = [f"{tool.own_name[:LONGEST_NAME]} ({change(tool)})" for tool in tools[:MOST_SAID]]
    if len(tools) > MOST_SAID:
        named.append(f"{len(tools) - MOST_SAID} more")
    return "; ".join(named)


@attrs.define(eq=False)
class KnownTools:
    """The known hints of all tools. Used by one task, because `take` and `accept` read, write and then
    update.

    Tools are given with the names that models use.
    """

    _journal: Journal
    trust: bool = False
    """Whether weaker hints count without acceptance."""
    contradiction_asks: bool = False
    """As in `Hints`. The records do not contain it, so that a change of the setting applies at once."""
    _servers: dict[str, dict[str, Hints]] = attrs.field(factory=dict)
    """The known hints by server and by key of the tool."""
    _revisions: dict[str, int] = attrs.field(factory=dict)
    """The revisions up to which the notes of the servers were read."""

    @classmethod
    def of(cls, journal: Journal, approval: ApprovalConfig) -> KnownTools:
        """The known hints of an agent with these settings, before `load`."""
        return cls(
            journal,
            trust=approval.on_weaker_hints == "trust",
            contradiction_asks=approval.contradiction_asks,
        )

    async def load(self, servers: Iterable[str]) -> None:
        """Read the known hints of these servers. Raises `JournalError`."""
        for server in servers:
            await self._refresh(server)

    async def _refresh(self, server: str) -> int:
        """Read the hints that were recorded since the last time, here or at other members. Returns the
        revision of the notes."""
        kind = kind_of(server)
        revision = (await self._journal.note_revisions()).get(kind, 0)
        if revision != self._revisions.get(server):
            notes = await self._journal.notes(kind, after=self._revisions.get(server, 0))
            self._servers.setdefault(server, {}).update(
                (key, self._read(note)) for key, note in notes.items()
            )
            self._revisions[server] = revision
        return revision

    def _read(self, note: Json | None) -> Hints:
        return attrs.evolve(_hints_of(note), contradiction_asks=self.contradiction_asks)

    async def take(self, server: str, tools: Sequence[Tool]) -> None:
        """Record the hints that a server lists now. They are on disk when this returns."""
        weaker: list[Tool] = []
        await self._keep(server, lambda: self._new(server, tools, weaker))
        if weaker and self.trust:
            logger.warning(
                'MCP server "%s" lists weaker hints, which count (approval.on_weaker_hints: trust): %s',
                server,
                changes(weaker),
            )

    def _new(self, server: str, tools: Sequence[Tool], weaker: list[Tool]) -> Mapping[str, Hints]:
        """What is to be recorded of a list. `weaker` becomes the tools whose known hints are stricter."""
        known = self._servers[server]
        room = MOST_KNOWN - len(known)
        new: dict[str, Hints] = {}
        weaker.clear()
        for tool in tools:
            listed, keys = tool.listed_hints, _keys(tool)
            counts = reduce(stricter_hints, (*(known[key] for key in keys if key in known), listed))
            if counts != listed:
                weaker.append(attrs.evolve(tool, hints=counts))
            kept = listed if self.trust else counts
            for key in keys:
                if key in new:  # the own name of one tool may be the name of another
                    new[key] = stricter_hints(new[key], kept)
                elif key not in known and room > 0:
                    new[key] = kept
                    room -= 1
                elif key in known and kept.strictness != known[key].strictness:
                    new[key] = kept
        return new

    async def accept(self, tool: Tool) -> None:
        """Accept the listed hints of a tool. They are on disk when this returns."""
        now = tool.listed_hints

        def new() -> Mapping[str, Hints]:
            known = self._servers[tool.server]
            keys = _keys(tool)
            return {key: now for key in keys if key not in known or known[key].strictness != now.strictness}

        await self._keep(tool.server, new)

    def counting(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools with the hints that count."""
        return tuple(tools) if self.trust else tuple(map(self._compared, tools))

    def _compared(self, tool: Tool) -> Tool:
        known, keys = self._servers[tool.server], _keys(tool)
        before = (known.get(keys[0], STRICTEST), *(known[key] for key in keys[1:] if key in known))
        hints = reduce(stricter_hints, (*before, tool.listed_hints))
        return tool if hints == tool.hints else attrs.evolve(tool, hints=hints)

    async def _keep(self, server: str, new: Callable[[], Mapping[str, Hints]]) -> None:
        """Record hints. `new` is called again if another member has recorded some in the meantime."""

        async def keep() -> bool:
            at = await self._refresh(server)
            found = new()
            notes = {key: hints.to_json() for key, hints in found.items()}
            if notes and not await self._journal.write_notes(kind_of(server), notes, at=at):
                return False
            self._servers[server].update(found)
            return True

        while not await until_available(keep):
            pass


def _hints_of(note: Json | None) -> Hints:
    """Return the hints of a note, or the strictest ones if it is damaged."""
    try:
        return STRICTEST if note is None else Hints.from_json(note)
    except ValueError:
        return STRICTEST


def servers_known_with(tool: str, servers: Iterable[str], data_dir: Path) -> tuple[str, ...]:
    """Return the servers that have listed a tool of this name, according to the data directory."""
    with suppress(sqlite3.Error):
        return tuple(server for server in servers if _key(tool) in read_notes(data_dir, kind_of(server)))
    return ()


def recorded_hints(tool: str, server: str, data_dir: Path) -> Hints | None:
    """Return the hints that count for a tool of this name, according to the data directory.

    None: the server has not listed it, or there is no readable journal.
    """
    with suppress(sqlite3.Error):
        notes = read_notes(data_dir, kind_of(server))
        if (key := _key(tool)) in notes:
            return _hints_of(notes[key])
    return None


def kind_of(server: str) -> str:
    return f"tools of {server}"


def _keys(tool: Tool) -> Sequence[str]:
    """Return the keys of a tool, that of its own name first."""
    seen = tool.own_name if tool.facade is not None else tool.name
    return tuple(dict.fromkeys((_key(tool.own_name), _key(seen))))


def _key(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    return name[:LONGEST_NAME] + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
