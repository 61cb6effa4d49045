"""The terminal of a command: progress and questions go to stderr, only the answer to stdout."""

from __future__ import annotations

import json
import logging
import os
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Literal, TypeAlias

import attrs
import trio

from ....actors.approvals.asked import Asked
from ....runtime.visible_text import visible
from .typed_reply import PROMPTS, edited
from .word_wrap import WordWrap, wrapped

Style: TypeAlias = Literal["plain", "quiet", "question", "bad", "verbatim"]
"""`verbatim`: to be copied, so lines are not broken."""

_CODES: Mapping[Style, str] = {
    "plain": "",
    "quiet": "\x1b[2m",
    "question": "\x1b[1m",
    "bad": "\x1b[31m",
    "verbatim": "",
}
_RESET = "\x1b[0m"
_USUAL_WIDTH = 80
_CHUNK = 4096
"""Bytes to read at once; a terminal delivers at most one line of this length."""


def printable(text: str) -> str:
    """The text with hidden characters escaped. Texts of models and tools could otherwise hide a question or
    fake an answer on the terminal."""
    return visible(text)


def styled(text: str, style: Style, colour: bool) -> str:
    """The text to print in a style."""
    text = printable(text)
    return f"{_CODES[style]}{text}{_RESET}" if colour and _CODES[style] else text


def colourful(stream: IO[str], environ: Mapping[str, str]) -> bool:
    """Whether to use colour: the stream is a terminal with colour, and NO_COLOR is not set."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def columns(stream: IO[str]) -> int:
    """The width of a terminal. COLUMNS is not used, because it may differ from that of the window."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def _wrapped(text: str, stream: IO[str]) -> str:
    """The text with hidden characters escaped; on a terminal, broken between words."""
    text = printable(text)
    return wrapped(text, columns(stream)) if stream.isatty() else text


@attrs.define(eq=False)
class Terminal:
    """One instance per process, for one task at a time."""

    can_ask: bool
    """Whether stdin is a terminal, so that a person can answer."""
    colour: bool
    streams: bool = False
    """Whether to stream texts: stdout and stderr are both terminals."""
    _typed: bytes = b""
    _prompting: bool = False
    """Whether the cursor is behind a prompt or a piece of a text."""
    _wrap: WordWrap = attrs.field(factory=lambda: WordWrap(0))
    """Of the text that is printed in pieces."""

    @classmethod
    def of_this_process(cls) -> Terminal:
        for stream in (sys.stdout, sys.stderr):
            # A character that the locale lacks must not end the run.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        return cls(
            can_ask=sys.stdin is not None and sys.stdin.isatty(),
            colour=colourful(sys.stderr, os.environ),
            streams=sys.stdout.isatty() and sys.stderr.isatty(),
        )

    def tell(self, text: str, style: Style = "plain") -> None:
        """Print a message to stderr."""
        if self._prompting:
            # Leave the line, because the person may be typing in it, or a text may not have ended.
            self._prompting = False
            text = f"\n{text}"
        text = text if style == "verbatim" else _wrapped(text, sys.stderr)
        print(styled(text, style, self.colour), file=sys.stderr, flush=True)

    def piece(self, node: str, text: str, *, begins: bool) -> None:
        """Print the next piece of a text of `node`."""
        if begins:
            self.tell(f"{node}:", "quiet")
        if not self._prompting:
            self._wrap = WordWrap(columns(sys.stdout))
        print(self._wrap.write(printable(text)), end="", flush=True)
        self._prompting = True

    def end_text(self) -> None:
        """End the text that was printed in pieces."""
        if self._prompting:
            self._prompting = False
            print(flush=True)

    def answer(self, text: str) -> None:
        """Print the answer, unchanged if a program reads it."""
        print(_wrapped(text, sys.stdout) if sys.stdout.isatty() else text, flush=True)

    def forget_typed(self) -> None:
        """Discard earlier input, which cannot be an answer to the question that is shown next."""
        self._typed = b""
        with suppress(termios.error):  # the terminal was closed; `ask` notices
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    async def ask(self, prompt: str) -> str | None:
        """The line typed after `prompt`, stripped; None if the input has ended."""
        shown = styled(_wrapped(prompt, sys.stderr), "question", self.colour)
        print(shown, end=" ", file=sys.stderr, flush=True)
        self._prompting = True
        line = await self._read_line()
        self._prompting = False
        return None if line is None else line.decode("utf-8", "replace").strip()

    async def ask_reply(self, question: Asked[Any]) -> str | None:
        """A reply, for `understand`; None if the input has ended."""
        return await self.ask(PROMPTS[question.kind])

    async def edit(self, asked: Asked[Any]) -> Mapping[str, Any] | None:
        """Arguments that replace those of the question; None if the person gives none."""
        self.tell(f"Current arguments: {json.dumps(asked.tool_args, ensure_ascii=False)}", "verbatim")
        line = await self.ask("All arguments, as JSON on one line; Enter to keep them >")
        if not line:
            return None
        arguments = edited(line)
        if isinstance(arguments, str):
            self.tell(arguments, "bad")
            return None
        return arguments

    async def _read_line(self) -> bytes | None:
        # Not in a thread, because a thread that waits for a line cannot be cancelled.
        stdin = sys.stdin.fileno()
        while b"\n" not in self._typed:
            await trio.lowlevel.wait_readable(stdin)
            try:
                chunk = os.read(stdin, _CHUNK)
            except OSError:  # the terminal was closed
                chunk = b""
            if not chunk:
                return None
            self._typed += chunk
        line, _, self._typed = self._typed.partition(b"\n")
        return line


class LogToTerminal(logging.Handler):
    """Shows log records from WARNING on at the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        self._terminal.tell(f"{record.levelname.lower()}: {self.format(record)}", "quiet")
