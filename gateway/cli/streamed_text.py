"""Decides which pieces of the models' texts go to the screen: one text at a time, each text once. Pure."""

from __future__ import annotations

import attrs


@attrs.frozen
class Piece:
    text: str
    begins: bool
    """Whether this is the beginning of a text."""


@attrs.define
class StreamedText:
    """Shows the text of one model call as it streams. The texts of concurrent calls are shown when they are
    complete."""

    last: str | None = None
    """The last complete text."""

    _call: tuple[str, int] | None = None
    """Key and attempt of the call that is being shown."""
    _shown: str = ""
    _skipped: set[tuple[str, int]] = attrs.field(factory=set)
    """Calls with a piece that was not shown."""

    def piece(self, key: str, attempt: int, text: str) -> Piece | None:
        """The part of a received piece to show; None: nothing."""
        call = (key, attempt)
        retried = self._call is not None and self._call[0] == key and self._call[1] < attempt
        if call in self._skipped or not (self._call in (None, call) or retried):
            self._skipped.add(call)
            return None
        begins = self._call != call
        self._call, self._shown = call, text if begins else self._shown + text
        return Piece(text, begins)

    def whole(self, key: str, text: str) -> Piece | None:
        """The rest to show of the complete text of a call; None if the text is empty."""
        self.last = text
        if self._call is None or self._call[0] != key:
            return Piece(text, begins=True) if text else None
        shown, self._call, self._shown = self._shown, None, ""
        if not text.startswith(shown):  # pieces were lost, or the last attempt had none
            return Piece(text, begins=True)
        return Piece(text[len(shown) :], begins=False)

    def lose(self) -> None:
        """Handle a gap in the pieces: the current text is shown when it is complete."""
        if self._call is not None:
            self._skipped.add(self._call)
        self._call = None
