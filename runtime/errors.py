"""What goes wrong between actors, told apart by whether asking again is safe.

========================  ===============================  =======================
outcome of an ask         what it means                    ask again?
========================  ===============================  =======================
returns                   the handler's return value
raises Refused            the actor said no and lives on   the caller's judgement
raises ActorUnavailable   never accepted by a mailbox      safe
raises ActorCrashed       accepted, outcome unknown        if it is idempotent
raises AskCycle           it would wait for itself         no: it is a bug
========================  ===============================  =======================
"""

from __future__ import annotations

from typing import ClassVar


class ActorError(Exception):
    """Base of everything an ask raises on an actor's behalf."""

    code: ClassVar[str] = "actor_error"
    """Stable for programs; the text is for people. Subclasses set their own."""


class Refused(ActorError):
    """Raised by a handler to fail this one request and carry on.

    Any other exception that leaves a handler crashes its actor.
    """

    code: ClassVar[str] = "refused"


class ActorUnavailable(ActorError):
    """No mailbox accepted the message, so sending it again is safe."""

    code: ClassVar[str] = "actor_unavailable"


class ActorCrashed(ActorError):
    """The actor died, or was stopped, holding the message: its effects may or may not exist.

    ``__cause__`` is the crash; absent when the actor was stopped.
    """

    code: ClassVar[str] = "actor_crashed"


class AskCycle(ActorError):
    """The target is waiting, perhaps through others, for this very ask."""

    code: ClassVar[str] = "ask_cycle"

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(path)
        self.path = path
        """Names of the actors around the cycle; the first is also the last."""

    def __str__(self) -> str:
        return f"ask would deadlock: {' -> '.join(self.path)}"


class RestartLimitReached(Exception):
    """A supervisor gave up on a child; ``__cause__`` is the last crash."""

    code: ClassVar[str] = "restart_limit_reached"


class Fatal(Exception):
    """The process has to stop, and whoever found out is stopping it. To the actors that this reaches it is no
    crash: nothing is started again after it."""


def is_fatal(error: BaseException) -> bool:
    """Whether it is `Fatal`, or a group with one that is."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_fatal(each) for each in error.exceptions)
    return isinstance(error, Fatal)


def leaf(error: BaseException) -> BaseException:
    """The exception itself, out of any groups that hold nothing else."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
