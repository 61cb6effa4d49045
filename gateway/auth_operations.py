"""The operations about the credential of a request."""

from __future__ import annotations

from .operation import Answer, Operation, error
from .wire import system_shapes as s

AUTH = (
    Operation(
        "getSession",
        "GET /session",
        "Read the principal of the request",
        (Answer(200, "The principal", s.SessionBody(subject="alice", roles=["operator"])),),
        description="The page reads its CSRF token here.",
    ),
    Operation(
        "createTicket",
        "POST /ticket",
        "Make a ticket, for a stream on which no header can be set",
        (
            Answer(200, "The ticket, which is valid once", s.TicketBody(ticket="q7x...", expires_in=30)),
            error(404, "`not_found`: the agent has no authentication"),
        ),
        description="A stream takes it as the query parameter `ticket`, and ends when the credential of this "
        "request expires or is revoked.",
        keyed=False,
    ),
    Operation(
        "endSession",
        "POST /logout",
        "End the session of the page",
        (Answer(204, "Ended; other credentials stay valid"),),
        keyed=False,
    ),
)
