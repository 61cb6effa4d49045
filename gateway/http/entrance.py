"""The interface between the routes and the authentication of their requests."""

from __future__ import annotations

from typing import Protocol

from .identity import Identity
from .request import HttpRequest


class Entrance(Protocol):
    """Identifies the sender of each request whose route is not public."""

    async def identify(self, request: HttpRequest) -> Identity:
        """Raises `RequestError`: the credential is missing or not valid, or a limit is reached."""
        ...
