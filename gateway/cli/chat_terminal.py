"""The terminal of `stopgo chat`: texts, lines that are typed, and questions that single keys answer."""

from __future__ import annotations

import json
import os
import re
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio
from prompt_toolkit.document import Document
from rich.console import Console

from ...actors.approvals.asked import Asked
from ...actors.approvals.replies import Decide, edited
from .editor import EditorFailed, edited_text
from .key_reader import END_OF_INPUT, KeyReader, quiet_keys
from .line_input import LineInput
from .markdown_stream import MarkdownStream
from .terminal import Style, colourful, printable, styled

_REST = "More words, or nothing >"


@attrs.define(eq=False)
class ChatTerminal:
    """Its methods are for one task at a time, but for `tell` and what shows texts while no line is typed."""

    colour: bool
    texts: MarkdownStream
    lines: LineInput
    keys: KeyReader
    _edits: dict[str, str] = attrs.field(factory=dict)
    """By approval: the arguments as the person left them."""
    _prompting: bool = False
    """The cursor stands behind a prompt for a key."""

    @classmethod
    @contextmanager
    def of_this_process(cls) -> Iterator[ChatTerminal]:
        # Whatever the locale: a character it lacks must not end the chat.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        colour = colourful(sys.stdout, os.environ)
        # Without the environment: COLUMNS may say another width than the window has.
        console = Console(color_system="standard" if colour else None, highlight=False, _environ={})
        with quiet_keys() as keys:
            yield cls(colour, MarkdownStream(console), LineInput(), keys)

    def tell(self, text: str, style: Style = "plain") -> None:
        """Show a line beside the texts."""
        self._leave_line()
        print(styled(text, style, self.colour), flush=True)

    def begin_text(self, speaker: str) -> None:
        """Another text begins."""
        self.tell(f"{speaker}:", "quiet")

    def show(self, markdown: str) -> None:
        """Show a whole text."""
        self._leave_line()
        self.texts.show(markdown)

    def _leave_line(self) -> None:
        if self._prompting:
            self._prompting = False
            print()
        self.texts.end()

    # ------------------------------------------------------------------ lines and keys

    def forget_typed(self) -> None:
        """Pass over what was typed before: it cannot be an answer to what is shown next."""
        self.lines.forget_typed()
        with suppress(termios.error):  # the terminal was closed
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    async def message(self, draft: Document | None) -> str | None:
        """A message or command; None: the person leaves. When cancelled, `lines.draft` has what was typed."""
        self._leave_line()
        return await self.lines.ask("> ", ctrl_c="clears", draft=draft)

    async def ask(self, prompt: str) -> str | None:
        """A line that is typed after `prompt`; None: not now."""
        self._leave_line()
        line = await self.lines.ask(f"{printable(prompt)} ", ctrl_c="leaves")
        return None if line is None else line.strip()

    async def ask_reply(self, question: Asked[Any]) -> str | None:
        """A reply to the question by a single key, with more words where the key takes some; None: the
        person leaves."""
        while (key := await self._key(question.prompt)) != END_OF_INPUT:
            if not isinstance(question.understand(f"{key} words"), Decide):
                return key
            rest = await self.ask(_REST)
            if rest is not None:
                return f"{key} {rest}"
        return None

    async def _key(self, prompt: str) -> str:
        self._leave_line()
        print(styled(prompt, "question", self.colour), end=" ", flush=True)
        self._prompting = True
        key = await self.keys.key()
        if key != END_OF_INPUT:
            print(printable(key), end="")
        self._leave_line()
        return key

    async def ctrl_d(self) -> None:
        """Wait until Ctrl-D is pressed, and pass over other keys."""
        while await self.keys.key() != END_OF_INPUT:
            pass

    # ------------------------------------------------------------------------- edits

    async def edit(self, asked: Asked[Any]) -> Mapping[str, Any] | None:
        """The arguments as they come out of the editor; None: as they were."""
        text = self._edits.get(asked.id) or json_for_people(asked.tool_args)
        while True:
            try:
                # The person ends the editor: what is typed there must not be lost.
                with self.keys.lent(), trio.CancelScope(shield=True):
                    text = await edited_text(text, "arguments.json")
            except EditorFailed as error:
                self.tell(str(error), "bad")
                return None
            self.forget_typed()
            self._edits = {asked.id: text}
            arguments = edited(text)
            if not isinstance(arguments, str) and json_for_people(arguments) == json_for_people(
                asked.tool_args
            ):
                self.tell("Nothing was changed.")
                return None
            if not isinstance(arguments, str):
                return arguments
            self.tell(arguments, "bad")
            if await self._key("e: edit it again, any other key: leave it >") != "e":
                return None


def json_for_people(value: object) -> str:
    """JSON on several lines in which nothing can deceive a reader: what `printable` would escape is escaped
    as JSON does."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return (
        re.sub(
            r"[^\x20-\x7e\n]",
            lambda found: found[0] if printable(found[0]) == found[0] else json.dumps(found[0])[1:-1],
            text,
        )
        + "\n"
    )
