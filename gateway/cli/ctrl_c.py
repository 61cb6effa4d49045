"""The action of Ctrl-C at each moment of a chat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs


@attrs.define(eq=False)
class CtrlC:
    _action: Callable[[], None] | None = None
    _pressed: bool = False

    def press(self) -> None:
        """Record that Ctrl-C was pressed, and run the action once."""
        if self._action is not None and not self._pressed:
            self._action()
        self._pressed = True

    def forget(self) -> None:
        """Forget that Ctrl-C was pressed."""
        self._pressed = False

    @contextmanager
    def means(self, action: Callable[[], None]) -> Iterator[None]:
        """Set the action for the block. It runs at once if Ctrl-C was pressed before."""
        self._action = action
        if self._pressed:
            action()
        try:
            yield
        finally:
            self._action, self._pressed = None, False
