"""The calls of a stream, put together from their pieces. Pure.

A piece belongs to the call of its `index`, if it has one, else to that of its id. Servers break this in many
ways: they number all calls 0, number pieces instead of calls, send no index, repeat the id and the name in
every piece, or give every piece another id. The rules:

1. An id that is known names the call, whatever the index is, because no server repeats the id of another call
   by accident. If several calls have the id, the index decides.
2. Otherwise the index names the call, unless a new id and a name come with it: then the index is used again.
3. A new call begins only with a new id and a name. Where no call has an id, a name begins a call if the call
   before it is complete.
4. Everything else belongs to the call that began last. That is a guess. If another call is incomplete at that
   time, the piece may be its own: neither of them is clear any more, and neither is sent (`Unclear`).

Names and arguments may come in parts, or each piece repeats all earlier ones (`ArgumentPieces`, `_name`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

import attrs

from ....runtime.json_text import mend
from .json_fields import Unclear, read_arguments

_ENDS = ("}", '}"', '}\\""')
"""The ends of an object, of its text, and of the text in a text."""
_TAIL = 4
"""Pieces in which such an end is looked for."""


@attrs.define(eq=False)
class ArgumentPieces:
    """The text of one call's arguments, as it arrives."""

    _pieces: list[str] = attrs.field(factory=list)
    unclear: bool = False
    """A piece may belong to another call."""

    def add(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)

    @property
    def complete(self) -> bool:
        """Whether they are a whole object. Without any text they may still come."""
        if not "".join(self._pieces[-_TAIL:]).rstrip().endswith(_ENDS):
            return False
        return read_arguments(self.text()).problem is None

    @property
    def blank(self) -> bool:
        return not any(piece.strip() for piece in self._pieces)

    @property
    def empty(self) -> bool:
        return all(piece.strip() in ("", "{}") for piece in self._pieces)

    def text(self) -> str:
        """The arguments as one text."""
        text = mend("".join(self._pieces))
        if self.unclear:
            return Unclear(text)
        pieces = [piece for piece in self._pieces if piece.strip() not in ("", "{}")]
        if len(pieces) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(pieces)):
            # Each piece repeats all earlier ones.
            last = mend(pieces[-1])
            if read_arguments(text).problem is not None and read_arguments(last).problem is None:
                return last
        return text


@attrs.define(eq=False)
class StreamedCall:
    """A call in progress."""

    place: int
    """Index of the call in the reply."""
    index: int | None
    """The index of its first piece."""
    id: str = ""
    indexes: list[int] = attrs.field(factory=list)
    """The indexes of its pieces, where they change."""
    id_repeated: bool = False
    """Several pieces have its id."""
    names: list[str] = attrs.field(factory=list)
    arguments: ArgumentPieces = attrs.field(factory=ArgumentPieces)
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def is_named(self, name: str) -> bool:
        """Whether a name may be this call's: the whole name, or one of its parts."""
        return not name or name in self.names or "".join(self.names) == name

    def is_repeated(self, name: str, arguments: str) -> bool:
        """Whether a piece says again what is known of a complete call."""
        return self.is_named(name) and arguments.strip() in ("", self.arguments.text().strip())

    def may_precede(self, name: str) -> bool:
        """Whether a name begins another call after this one. An empty object may only open this one."""
        if not self.names or not self.arguments.complete:
            return False
        return not self.is_named(name) or read_arguments(self.arguments.text()).value != {}

    def number(self, index: int) -> None:
        """Note the index of a piece. If it changes back, the pieces are not those of one call."""
        if self.indexes[-1:] != [index]:
            self.arguments.unclear |= index in self.indexes
            self.indexes.append(index)

    @property
    def is_open(self) -> bool:
        return self.arguments.unclear or not self.arguments.complete


@attrs.define(eq=False)
class StreamCalls:
    """The calls of one stream, in the order in which they began."""

    _offered: Set[str]
    """Names of the tools that the model was offered."""
    calls: list[StreamedCall] = attrs.field(factory=list)
    _by_index: dict[int, StreamedCall] = attrs.field(factory=dict)
    """The last call of each index."""
    _shared: set[int] = attrs.field(factory=set)
    """Indexes of more than one call."""
    _by_id: dict[str, StreamedCall] = attrs.field(factory=dict)
    """The last call of each id."""
    _open: set[StreamedCall] = attrs.field(factory=set)
    """Calls that were incomplete when last looked at."""

    def add(self, index: int | None, id: str, name: str, arguments: str) -> StreamedCall | None:
        """Add a piece, and return its call; None: there was nothing in it."""
        if not (id or name or arguments):
            return None
        call, guessed = self._owner(index, id, name, arguments)
        if guessed and arguments:
            self._doubt(call)
        if guessed and not call.is_named(name) and (len(self.calls) > 1 or call.arguments.complete):
            call.arguments.unclear = True
        call.id_repeated |= bool(id and call.id == id)
        call.id = call.id or id
        if id:
            self._by_id.setdefault(id, call)
        if index is not None:
            self._by_index.setdefault(index, call)
            call.number(index)
        if name and name not in call.names[-1:]:
            call.names.append(name)
        call.arguments.add(arguments)
        self._open.add(call)
        return call

    def name(self, call: StreamedCall) -> str:
        """The name so far, as the server sent it."""
        return _name(call.names, self._offered)

    def _owner(self, index: int | None, id: str, name: str, arguments: str) -> tuple[StreamedCall, bool]:
        """The call of a piece, and whether that is a guess."""
        known = self._by_id.get(id) if id else None
        at = self._by_index.get(index) if index is not None else None
        last = self.calls[-1] if self.calls else None
        if known is not None:
            owner = at if at is not None and at.id == id else known
            numbered = index is not None and at is None
            if not owner.is_named(name) and (owner.arguments.complete or numbered):
                return self._begin(index, id), False
            if name and numbered and owner.arguments.complete and arguments.strip():
                return self._begin(index, id), False
            return owner, at is not None and at is not owner and index not in self._shared
        if at is not None:
            if id and at.id and name:
                return self._begin(index, id), False
            if name and not at.id and at.may_precede(name) and not at.is_repeated(name, arguments):
                return self._begin(index, id), False
            return at, index in self._shared
        if last is None or _begins(last, index, id, name, arguments):
            return self._begin(index, id), False
        if index is None and name and last.names and not (id or last.id):
            last.arguments.unclear = True  # the name of this call again, or another call
        return last, True

    def _begin(self, index: int | None, id: str) -> StreamedCall:
        call = StreamedCall(len(self.calls), index)
        self.calls.append(call)
        if index is not None:
            if index in self._by_index:
                self._shared.add(index)
            self._by_index[index] = call
        if id:
            self._by_id[id] = call
        return call

    def _doubt(self, owner: StreamedCall) -> None:
        others = {call for call in self._open if call is not owner and call.is_open}
        for call in others:
            call.arguments.unclear = True
        owner.arguments.unclear |= bool(others)
        self._open = others | {owner}

    def whole(self, wired: Callable[[StreamedCall, str, str], Any]) -> list[Any]:
        """The calls, made by a function from each call, its name and the text of its arguments."""
        named = [(self.name(call), call) for call in self.calls if call.names or not call.arguments.blank]
        alike: dict[str, list[StreamedCall]] = {}
        for name, call in named:
            alike.setdefault(name, []).append(call)
        for calls in alike.values():
            _doubt_parts(calls)
        return [wired(call, name, call.arguments.text()) for name, call in named]


def _begins(last: StreamedCall, index: int | None, id: str, name: str, arguments: str) -> bool:
    """Whether a piece begins another call after the last one, if no call has its id or its index (rule 3)."""
    if index is not None:
        # A name may come later than its id. Arguments with neither go on with those before them.
        named = bool(id and (name or not arguments or last.arguments.complete))
        return named or bool(name and not last.id)
    if last.id:
        return bool(id and name)
    return bool(name and last.may_precede(name) and (id or arguments.strip()))


def _doubt_parts(alike: Sequence[StreamedCall]) -> None:
    """Of calls of one tool, mark those that may be parts of one, with another id in each piece.

    These have no arguments, or another of the calls is incomplete. An id in several pieces is a call's own.
    """
    indexes = [call.index for call in alike]
    if len(alike) > 1 and (None in indexes or len(set(indexes)) < len(indexes)):
        broken = any(not call.arguments.blank and call.is_open for call in alike)
        for call in alike:
            if not call.id_repeated and (broken or call.arguments.empty):
                call.arguments.unclear = True


def _name(parts: Sequence[str], offered: Set[str]) -> str:
    """The name from its parts. A part may continue the earlier ones, or repeat all of them.

    If both readings are names of tools, the result is none: the call is not made.
    """
    joined = "".join(parts)
    name = ""
    for part in parts:
        name = part if part.startswith(name) else name + part
    if joined in offered:
        return joined if name == joined or name not in offered else f"{name} or {joined}"
    return name
