"""Which piece of the models' texts goes to the screen next: one text at a time, each of them once. Pure."""

from __future__ import annotations

import attrs


@attrs.frozen
class Piece:
    text: str
    begins: bool
    """It is the beginning of a text."""


@attrs.define
class StreamedText:
    """The text of one model call is shown while it comes. That of another call that runs at the same time
    is shown when it is whole."""

    _call: tuple[str, int] | None = None
    """Key and attempt of the call that is shown."""
    _shown: str = ""
    _skipped: set[tuple[str, int]] = attrs.field(factory=set)
    """Calls of which a piece was not shown."""

    def piece(self, key: str, attempt: int, text: str) -> Piece | None:
        """What to show of a piece that has come; None: nothing."""
        call = (key, attempt)
        retried = self._call is not None and self._call[0] == key and self._call[1] < attempt
        if call in self._skipped or not (self._call in (None, call) or retried):
            self._skipped.add(call)
            return None
        begins = self._call != call
        self._call, self._shown = call, text if begins else self._shown + text
        return Piece(text, begins)

    def whole(self, key: str, text: str) -> Piece | None:
        """The rest to show now that the whole text of a call is known; None: it has none."""
        if self._call is None or self._call[0] != key:
            return Piece(text, begins=True) if text else None
        shown, self._call, self._shown = self._shown, None, ""
        if not text.startswith(shown):  # pieces were lost, or the last attempt told none
            return Piece(text, begins=True)
        return Piece(text[len(shown) :], begins=False)

    def lose(self) -> None:
        """Pieces may be missing from now on: the text under way is shown when it is whole."""
        if self._call is not None:
            self._skipped.add(self._call)
        self._call = None
