"""The base classes of messages. An actor's protocol is the union of the messages that it handles::

    @attrs.frozen
    class Lookup(Request["DirectoryMessage", str]):
        name: str

    @attrs.frozen
    class Forget(Request["DirectoryMessage", None]):
        name: str

    DirectoryMessage: TypeAlias = Lookup | Forget

Type checkers then reject any other message for an `ActorRef[DirectoryMessage]`, infer ``str`` for
`ask(Lookup(...))`, and find a missing case in a ``match`` that ends with `assert_never`. The only plain
`Message` is the hint that wakes a virtual actor, because its sender does not wait for a reply.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

A = TypeVar("A")
"""An actor's protocol."""
R = TypeVar("R")
"""The reply to a request."""


@attrs.frozen
class Message(Generic[A]):
    """A message of protocol `A`. Subclasses are frozen attrs classes."""


@attrs.frozen
class Request(Message[A], Generic[A, R]):
    """A message whose handler returns an `R`."""
