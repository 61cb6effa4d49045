"""How far a copy is: a line in one place at a terminal, else a line now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import IO

import attrs

from ....runtime.stores.transfer import CopyPhase

_PAUSES = {True: 0.2, False: 10.0}
"""Seconds between two lines, at a terminal and elsewhere."""


def progress_line(step: CopyPhase, done: int, total: int, seconds: float) -> str:
    """`seconds`: since the step began, more than 0."""
    rate = done / seconds
    left = lasting((total - done) / rate)
    return f"{step}: {done:,} of {total:,} rows ({100 * done // total} %), {rate:,.0f} a second, {left} left"


def lasting(seconds: float) -> str:
    """A length of time in its largest units."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@attrs.define(eq=False)
class CopyProgress:
    _stream: IO[str]
    _width: int | None
    """Of the terminal; None: it is none."""
    _clock: Callable[[], float] = time.monotonic
    _step: CopyPhase | None = None
    _began: float = 0.0
    _written: float = 0.0
    """When the last line was written, or the step began."""

    def tell(self, step: CopyPhase, done: int, total: int) -> None:
        """`done` of `total` rows of a step are done."""
        now = self._clock()
        if step != self._step:
            self._step, self._began, self._written = step, now, now
        elif now >= self._written + _PAUSES[self._width is not None]:
            self._written = now
            line = progress_line(step, done, total, now - self._began)
            self._stream.write(f"{line}\n" if self._width is None else f"\r{line[: self._width - 1]}\x1b[K")
            self._stream.flush()

    def end(self) -> None:
        """Clear the line, so that the next output begins there."""
        if self._width is not None and self._step is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
