"""The address of the agent behind the proxy. Pure."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit

import attrs

_DEFAULT_PORTS = {"http": 80, "https": 443}


@attrs.frozen
class AgentAddress:
    url: str
    """Without user information, so that it may be shown, and without a trailing slash."""
    authorization: str | None = attrs.field(repr=False)
    """The `Authorization` header for requests without one."""

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
        """The request target for a path of the agent."""
        return f"{self._parts.path}{path}"

    def relative(self, location: str) -> str:
        """A URL of the agent as the path of this proxy; other URLs unchanged."""
        rest = location.removeprefix(self.url)
        if rest == location or rest.startswith("//") or (rest and rest[0] not in "/?#"):
            return location  # a path that starts with `//` would name another host
        return rest if rest.startswith("/") else f"/{rest}"
