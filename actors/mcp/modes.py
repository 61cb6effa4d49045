"""Which commands need `mode: legacy`, as notes in the journal.

Servers of the Python SDK 1.2 to 1.8 end at the first request that they do not know, so the question which
protocol they speak (`server/discover`) ends them. Such a server is started once more, with the handshake. It
is remembered, so that later starts do not begin with a crash. Another command, or other arguments, are asked
again.
"""

from __future__ import annotations

import hashlib
import json
import logging

import attrs

from ...config.sections.mcp import McpServerConfig
from ...runtime.journal.errors import JournalError
from ...runtime.journal.protocol import Journal

NOTE = "mcp_modes"
"""The kind of the notes."""
logger = logging.getLogger("stopgo.mcp")


@attrs.frozen
class Modes:
    """The remembered modes of an agent's servers."""

    _journal: Journal

    async def is_legacy(self, config: McpServerConfig) -> bool:
        """Whether this command was found to need the handshake."""
        try:
            return (await self._journal.notes(NOTE)).get(config.name) == _note(config)
        except JournalError:
            return False

    async def remember_legacy(self, config: McpServerConfig) -> None:
        """Record that this command needs the handshake. A failure is logged; the next start finds it out
        again."""
        try:
            await self._journal.write_notes(NOTE, {config.name: _note(config)})
        except JournalError as error:
            logger.warning('the mode of the MCP server "%s" is not remembered: %s', config.name, error)


def _note(config: McpServerConfig) -> dict[str, str]:
    # As a digest, because arguments may contain a key.
    command = json.dumps([config.command, *config.args])
    return {"mode": "legacy", "command": hashlib.sha256(command.encode()).hexdigest()[:16]}
