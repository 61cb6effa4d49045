"""Base classes of messages. An actor's protocol is the union of the messages that it handles::

    @attrs.frozen
    class Lookup(Request["DirectoryMessage", str]):
        name: str

    @attrs.frozen
    class Forget(Request["DirectoryMessage", None]):
        name: str

    DirectoryMessage: TypeAlias = Lookup | Forget

Type checkers then reject any other message for an `ActorRef[DirectoryMessage]`, infer ``str`` for
`ask(Lookup(...))`, and find the missing case of a ``match`` that ends in `assert_never`. Only the hint that
wakes a virtual actor is a plain `Message`: its sender waits for no reply.
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
