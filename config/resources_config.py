"""The file of `stopgo mcp-resources`: address and database of the server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from .described.shape import NO_TILDE, about, default
from .load import read_mapping
from .reading.reader import Reader
from .text.errors import ConfigError, in_order
from .text.variables import Variables


@attrs.frozen(kw_only=True)
class ResourcesConfig:
    """A resource server over HTTP."""

    host: str = default("127.0.0.1", "Address the server listens on.", not_empty=True)
    port: int = default(8090, "Port the server listens on; 0 picks a free one.", minimum=0, maximum=65535)
    db_path: Path = attrs.field(
        default=Path("data", "resources.db"),
        converter=Path,
        metadata=about(
            "The SQLite file; created if missing. A relative path is relative to the working directory.",
            not_empty=True,
            **NO_TILDE,
        ),
    )


def load_resources_config(path: Path, *, environ: Mapping[str, str] = os.environ) -> ResourcesConfig:
    """Read the file. Raises `ConfigError` with all its problems."""
    root, problems = read_mapping(path, "port: 8090")
    reader = Reader(str(path), Variables(environ, path.parent))
    config = reader.section(ResourcesConfig, root, ())
    if config is None or problems or reader.problems:
        raise ConfigError(in_order((*problems, *reader.problems)))
    return config
