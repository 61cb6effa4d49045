"""The operations of the emergency stop. Pure."""

from __future__ import annotations

from . import examples as ex
from .operation import MALFORMED, Answer, Operation, error
from .wire import system_shapes as s

HALTED = s.Halt(halted=True, in_flight=1, reason="wrong database", at=ex.AT)
RUNNING = s.Halt(halted=False, in_flight=0)

EMERGENCY = (
    Operation(
        "getHalt",
        "GET /halt",
        "Read whether the agent is halted",
        (Answer(200, "The emergency stop", RUNNING),),
    ),
    Operation(
        "haltAgent",
        "POST /halt",
        "Halt the agent: no call that must not be repeated leaves",
        (
            Answer(200, "The agent is halted, also after a restart", HALTED),
            error(400, f"`invalid_request`: `reason` is not a text, or too long; {MALFORMED}"),
        ),
        (),
        s.HaltRequest(reason="wrong database"),
        "From the answer on, no call of class `once` is sent. Such a call waits for an approval, also if "
        "it was approved before. A second halt changes nothing.",
    ),
    Operation(
        "unhaltAgent",
        "POST /unhalt",
        "End the halt",
        (Answer(200, "The agent is not halted", RUNNING),),
        description="A call that waits since then is sent when it is approved. Without a halt, this changes "
        "nothing.",
    ),
)
