"""Where the agent is. Pure."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit

import attrs

_DEFAULT_PORTS = {"http": 80, "https": 443}


@attrs.frozen
class AgentAddress:
    url: str
    """Without a user and without a slash at its end: it may be shown."""
    authorization: str | None = attrs.field(repr=False)
    """The header of requests that have none."""

    @classmethod
    def of(cls, url: str) -> AgentAddress:
        parts = urlsplit(url)
        user, at, netloc = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        credentials = f"{unquote(name)}:{unquote(password)}".encode()
        basic = f"Basic {b64encode(credentials).decode()}" if at else None
        return cls(parts._replace(netloc=netloc).geturl().rstrip("/"), basic)

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def is_secure(self) -> bool:
        return self._parts.scheme == "https"

    @property
    def host_header(self) -> str:
        return self._parts.netloc

    @property
    def host(self) -> str:
        return self._parts.hostname or ""

    @property
    def port(self) -> int:
        return self._parts.port or _DEFAULT_PORTS[self._parts.scheme]

    def target(self, path: str) -> str:
        """The target of a request for a path of the agent."""
        return f"{self._parts.path}{path}"

    def relative(self, location: str) -> str:
        """An address of the agent as the path that leads there through here; others as they are."""
        rest = location.removeprefix(self.url)
        if rest == location or rest.startswith("//") or (rest and rest[0] not in "/?#"):
            return location  # `//name` would lead to another host
        return rest if rest.startswith("/") else f"/{rest}"
