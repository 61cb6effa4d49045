"""How the parts of an agent are, as they last said themselves."""

from __future__ import annotations

import attrs


@attrs.frozen
class PartHealth:
    name: str
    state: str
    error: str | None = None


@attrs.frozen
class Health:
    ready: bool
    servers: tuple[PartHealth, ...]
    models: tuple[PartHealth, ...]
    store: PartHealth
