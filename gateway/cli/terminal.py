"""The person at the command line: what is said goes to stderr, the answer alone to stdout."""

from __future__ import annotations

import json
import logging
import os
import sys
import termios
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Literal, TypeAlias

import attrs
import trio

from ...actors.approvals.asked import Asked
from ...actors.approvals.replies import edited

Style: TypeAlias = Literal["plain", "quiet", "question", "bad"]

_CODES: Mapping[Style, str] = {"plain": "", "quiet": "\x1b[2m", "question": "\x1b[1m", "bad": "\x1b[31m"}
_RESET = "\x1b[0m"
_CHUNK = 4096
"""Bytes; a terminal hands over a line at a time, and no longer ones."""


def printable(text: str) -> str:
    """A text that can do nothing to a terminal: it comes from models and tools, and could otherwise hide
    what is asked, or draw an answer of its own."""
    return "".join(each if _harmless(each) else each.encode("unicode_escape").decode() for each in text)


def styled(text: str, style: Style, colour: bool) -> str:
    """The text as it is printed."""
    text = printable(text)
    return f"{_CODES[style]}{text}{_RESET}" if colour and _CODES[style] else text


def _harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def colourful(stream: IO[str], environ: Mapping[str, str]) -> bool:
    """Whether to use colour: on a terminal that has it, and where NO_COLOR does not forbid it."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


@attrs.define(eq=False)
class Terminal:
    """Made once per process; its methods are for one task at a time."""

    can_ask: bool
    """Whether somebody is there to answer."""
    colour: bool
    streams: bool = False
    """Whether texts are shown while they come: stdout and stderr are on one screen."""
    _typed: bytes = b""
    _prompting: bool = False
    """The cursor stands behind a prompt or a piece of a text."""

    @classmethod
    def of_this_process(cls) -> Terminal:
        for stream in (sys.stdout, sys.stderr):
            # Whatever the locale: a character it lacks must not end the run.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        return cls(
            can_ask=sys.stdin is not None and sys.stdin.isatty(),
            colour=colourful(sys.stderr, os.environ),
            streams=sys.stdout.isatty() and sys.stderr.isatty(),
        )

    def tell(self, text: str, style: Style = "plain") -> None:
        """Say something beside the answer."""
        if self._prompting:
            # Leave the line on which somebody may be typing, or a text is under way.
            self._prompting = False
            text = f"\n{text}"
        print(styled(text, style, self.colour), file=sys.stderr, flush=True)

    def piece(self, text: str) -> None:
        """Show a further piece of a text."""
        print(printable(text), end="", flush=True)
        self._prompting = True

    def end_text(self) -> None:
        """The text that came in pieces is whole."""
        if self._prompting:
            self._prompting = False
            print(flush=True)

    def answer(self, text: str) -> None:
        """The answer; as it is where a program reads it."""
        print(printable(text) if sys.stdout.isatty() else text, flush=True)

    def forget_typed(self) -> None:
        """Pass over what was typed before a question is shown: it cannot be an answer to it."""
        self._typed = b""
        with suppress(termios.error):  # the terminal was closed, which whoever asks finds out
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    async def ask(self, prompt: str) -> str | None:
        """A line that is typed after `prompt`, without the spaces around it; None: nobody will answer."""
        print(styled(prompt, "question", self.colour), end=" ", file=sys.stderr, flush=True)
        self._prompting = True
        line = await self._read_line()
        self._prompting = False
        return None if line is None else line.decode("utf-8", "replace").strip()

    async def ask_reply(self, question: Asked[Any]) -> str | None:
        """A reply, for `Asked.understand`; None: nobody will answer."""
        return await self.ask(question.prompt)

    async def edit(self, asked: Asked[Any]) -> Mapping[str, Any] | None:
        """The arguments in place of those of the question; None: not now."""
        self.tell(f"Now they are: {json.dumps(asked.tool_args, ensure_ascii=False)}")
        line = await self.ask("All arguments, as JSON on one line; nothing to leave them >")
        if not line:
            return None
        arguments = edited(line)
        if isinstance(arguments, str):
            self.tell(arguments, "bad")
            return None
        return arguments

    async def _read_line(self) -> bytes | None:
        # Not in a thread: one that waits for a line cannot be called back when the question is void.
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
    """What the parts of the agent have to say that matters to whoever runs it."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        self._terminal.tell(f"{record.levelname.lower()}: {self.format(record)}", "quiet")
