"""The address of an actor, and the handle that other actors ask through."""

from __future__ import annotations

from typing import Generic

import attrs

from .errors import ActorUnavailable
from .mailbox import Mailbox
from .message import A, R, Request


@attrs.define(eq=False)
class Address:
    """The name and the current mailbox of an actor. It outlasts restarts."""

    name: str
    mailbox: Mailbox | None = None
    """None while no incarnation accepts messages."""
    absence: str = "is starting"
    """Why there is no mailbox: the end of a sentence that begins with the name."""


@attrs.frozen
class ActorRef(Generic[A]):
    """A handle on an actor of protocol `A`. It stays valid across restarts and can be shared."""

    _address: Address

    @property
    def name(self) -> str:
        return self._address.name

    async def ask(self, request: Request[A, R]) -> R:
        """Send a request and wait for its reply.

        Cancelling the wait withdraws the request: a queued request is never handled, and a running handler
        is cancelled. The caller does not wait until that handler has unwound.

        Raises Refused, ActorUnavailable, ActorCrashed or AskCycle.
        """
        return await self._mailbox().ask(request)

    def _mailbox(self) -> Mailbox:
        mailbox = self._address.mailbox
        if mailbox is None:
            raise ActorUnavailable(f"{self._address.name} {self._address.absence}")
        return mailbox
