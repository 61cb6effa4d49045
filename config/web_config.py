"""The web file: the addresses of an agent's page and of the agent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from .described.shape import about, default
from .load import locate, read_mapping
from .reading.reader import Reader
from .sections.address import HOST_NAME
from .sections.agent_config import ServerConfig
from .text.errors import ConfigError, in_order
from .text.values import Scalar
from .text.variables import Variables

DEFAULT_WEB_FILE = Path("config", "web.yaml")
"""Relative to the working directory."""

_NO_SIGN_IN = "the page has no sign-in of its own; add `auth:` to the file of the agent, and remove the key"
_OF_THE_AGENT_FILE = attrs.fields_dict(ServerConfig)


@attrs.frozen(kw_only=True)
class WebConfig:
    """The page of an agent, which `stopgo web` serves at a separate address."""

    agent_url: str = attrs.field(
        repr=False,
        metadata=about(
            "Address of the agent. A user and a password in it are sent with requests that have no "
            "`Authorization`.",
            pattern=rf"https?://([^\s/?#@]+@)?({HOST_NAME}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[^\s?#]*)?",
            meaning="an address such as http://127.0.0.1:8080",
        ),
    )
    host: str = default("127.0.0.1", "Address to serve the page at.", not_empty=True)
    port: int = default(3000, "Port to serve the page at; 0 picks a free one.", minimum=0, maximum=65535)
    allowed_hosts: tuple[str, ...] = attrs.field(
        default=(), metadata=_OF_THE_AGENT_FILE["allowed_hosts"].metadata
    )
    public_url: str | None = attrs.field(default=None, metadata=_OF_THE_AGENT_FILE["public_url"].metadata)
    allowed_origins: tuple[str, ...] = attrs.field(
        default=(), metadata=_OF_THE_AGENT_FILE["allowed_origins"].metadata
    )
    data_dir: str | None = default(None, "Key of older versions. Ignored, because nothing is stored.")
    source: Path | None = default(None, "The web file.", derived=True)
    packaged: bool = default(False, "Whether the web file is the default of the package.", derived=True)

    @property
    def server(self) -> ServerConfig:
        """The hosts and origins of the page, in the form of an agent file."""
        return ServerConfig(
            allowed_hosts=self.allowed_hosts,
            public_url=self.public_url,
            allowed_origins=self.allowed_origins,
        )


def load_web_config(path: Path | None, *, environ: Mapping[str, str] = os.environ) -> WebConfig:
    """Read a web file.

    The default of `path` is `config/web.yaml` in the working directory or, if there is none, the default of
    the package. Raises `ConfigError` with all its problems.
    """
    source, packaged = locate(path, DEFAULT_WEB_FILE)
    root, problems = read_mapping(source, "agent_url: http://127.0.0.1:8080")
    reader = Reader(str(source), Variables(environ, source.parent))
    sign_in = root.entries.get("oauth2", Scalar(None))
    if sign_in != Scalar(None, sign_in.mark):
        reader.report("no_sign_in", _NO_SIGN_IN, root.key_marks.get("oauth2"), ("oauth2",))
    rest = {key: value for key, value in root.entries.items() if key != "oauth2"}
    config = reader.section(WebConfig, attrs.evolve(root, entries=rest), ())
    if config is not None and not _has_a_port(config.agent_url):
        message = "the port is not a number from 1 to 65535, or the host is not an address"
        reader.report("bad_format", message, root.entries["agent_url"].mark, ("agent_url",))
    found = (*problems, *reader.problems)
    if found or config is None:
        raise ConfigError(in_order(found))
    return attrs.evolve(config, source=source, packaged=packaged)


def _has_a_port(url: str) -> bool:
    """Whether the port of an address, if it has one, is a valid port."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False
