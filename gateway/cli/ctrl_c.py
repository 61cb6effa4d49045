"""The meaning of Ctrl-C at each moment of a chat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs


@attrs.define(eq=False)
class CtrlC:
    _action: Callable[[], None] | None = None
    _pressed: bool = False

    def press(self) -> None:
        """It was pressed; a second time changes nothing."""
        if self._action is not None and not self._pressed:
            self._action()
        self._pressed = True

    def forget(self) -> None:
        """It has no meaning any more that it was pressed."""
        self._pressed = False

    @contextmanager
    def means(self, action: Callable[[], None]) -> Iterator[None]:
        """In the block it means this, also when it was pressed shortly before."""
        self._action = action
        if self._pressed:
            action()
        try:
            yield
        finally:
            self._action, self._pressed = None, False
