"""Errors of an ask, by whether it is safe to ask again.

========================  ======================================  ===============================
outcome of an ask         meaning                                 ask again?
========================  ======================================  ===============================
returns a value           the handler returned it
raises Refused            the handler refused; the actor runs on  depends on the reason
raises ActorUnavailable   no mailbox accepted the request         safe
raises ActorCrashed       accepted, outcome unknown               only if the request is idempotent
raises AskCycle           the actor would wait for itself         no: this is a bug
========================  ======================================  ===============================
"""

from __future__ import annotations

from typing import ClassVar


class ActorError(Exception):
    """Base class of the errors that an ask raises."""

    code: ClassVar[str] = "actor_error"
    """A stable identifier for programs. Each subclass has its own."""


class Refused(ActorError):
    """Raised by a handler to fail one request while the actor keeps running.

    Any other exception that a handler raises crashes the actor.
    """

    code: ClassVar[str] = "refused"


class ActorUnavailable(ActorError):
    """No mailbox accepted the message, so sending it again is safe."""

    code: ClassVar[str] = "actor_unavailable"


class ActorCrashed(ActorError):
    """The actor crashed, or was stopped, after it accepted the request: its effects may or may not exist.

    ``__cause__`` is the crash, or None when the actor was stopped.
    """

    code: ClassVar[str] = "actor_crashed"


class AskCycle(ActorError):
    """The target is waiting for this ask, directly or through other actors."""

    code: ClassVar[str] = "ask_cycle"

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(path)
        self.path = path
        """The names of the actors in the cycle; the first name is repeated at the end."""

    def __str__(self) -> str:
        return f"ask would deadlock: {' -> '.join(self.path)}"


class RestartLimitReached(Exception):
    """A supervisor stopped because its children crashed too often. ``__cause__`` is the last crash."""

    code: ClassVar[str] = "restart_limit_reached"


class EndsActor(Exception):
    """Raised in a behaviour to end its actor without a crash: the work goes on elsewhere, or later."""


class Fatal(Exception):
    """The process must stop. The code that raises this error also stops the process, so supervisors do not
    restart an actor that it ends."""


def is_fatal(error: BaseException) -> bool:
    """Return whether the error is `Fatal`, or a group that contains a `Fatal`."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_fatal(each) for each in error.exceptions)
    return isinstance(error, Fatal)


def ends_actor(error: BaseException) -> bool:
    """Return whether the error is `EndsActor`, an ask of an actor that it ended, or a group of these only."""
    if isinstance(error, BaseExceptionGroup):
        return all(ends_actor(each) for each in error.exceptions)
    if isinstance(error, ActorCrashed) and error.__cause__ is not None:
        return ends_actor(error.__cause__)
    return isinstance(error, EndsActor)


def leaf(error: BaseException) -> BaseException:
    """Return the exception inside nested groups of one; other groups are returned as they are."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
