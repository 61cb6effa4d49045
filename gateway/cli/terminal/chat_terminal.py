"""The terminal of `stopgo chat`: streamed texts, typed lines, and questions that one key answers."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio
from prompt_toolkit.document import Document
from rich.console import Console

from ....actors.approvals.asked import Asked
from .key_reader import END_OF_INPUT, KeyReader, quiet_keys
from .line_input import LineInput
from .markdown_stream import MarkdownStream
from .terminal import Style, colourful, printable, styled
from .typed_reply import PROMPTS, TypedDecision, edited, understand
from .word_wrap import wrapped

_TAKES = re.compile(r"(\w) \[(\w+)\]")
"""A key in the prompt of a question, and the text that it takes."""


@attrs.define(eq=False)
class ChatTerminal:
    """For one task at a time. Other tasks may call `tell` and show texts while no line is being typed."""

    colour: bool
    texts: MarkdownStream
    lines: LineInput
    keys: KeyReader
    typed: list[str] = attrs.field(factory=list)
    """The lines that the person has typed for the question that is asked; the last may be incomplete."""
    _edits: dict[str, str] = attrs.field(factory=dict)
    """Edited arguments, by approval."""
    _prompting: bool = False
    """Whether the cursor is behind a prompt for a key."""

    @classmethod
    @contextmanager
    def of_this_process(cls) -> Iterator[ChatTerminal]:
        # A character that the locale lacks must not end the chat.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        colour = colourful(sys.stdout, os.environ)
        # Without the environment, because COLUMNS may differ from the width of the window.
        console = Console(color_system="standard" if colour else None, highlight=False, _environ={})
        with quiet_keys() as keys:
            yield cls(colour, MarkdownStream(console), LineInput(), keys)

    def tell(self, text: str, style: Style = "plain") -> None:
        """Show a line that is not a part of a text."""
        self._leave_line()
        text = text if style == "verbatim" else self._wrapped(text)
        print(styled(text, style, self.colour), flush=True)

    def _wrapped(self, text: str) -> str:
        return wrapped(printable(text), self.texts.console.size.width)

    def piece(self, node: str, text: str, *, begins: bool) -> None:
        """Show the next piece of a text of `node`."""
        if text and (begins or not self.texts.is_open):
            self.tell(f"{node}:", "quiet")
        self.texts.write(text)

    def end_text(self) -> None:
        """End the text that was shown in pieces."""
        self.texts.end()

    def answer(self, markdown: str) -> None:
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
        """Discard earlier input, which cannot be an answer to what is shown next."""
        self.lines.forget_typed()
        with suppress(termios.error):  # the terminal was closed
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    async def message(self, draft: Document | None) -> str | None:
        """A message or command; None if the person leaves. `lines.draft` has the input after cancellation."""
        self._leave_line()
        return await self.lines.ask("> ", ctrl_c="clears", draft=draft)

    async def ask(self, prompt: str) -> str | None:
        """The line typed after `prompt`; None if the person declines."""
        self._leave_line()
        try:
            line = await self.lines.ask(f"{self._wrapped(prompt)} ", ctrl_c="leaves")
        finally:
            self.typed.append(self.lines.draft.text)  # also after a cancellation
        return None if line is None else line.strip()

    async def ask_reply(self, question: Asked[Any]) -> str | None:
        """A reply of a single key, followed by text if the key takes some; None if the person leaves."""
        self.typed.clear()
        prompt = PROMPTS[question.kind]
        while (key := await self.key(prompt)) != END_OF_INPUT:
            if not isinstance(understand(question, f"{key} words"), TypedDecision):
                return key
            texts: dict[str, str] = dict(_TAKES.findall(prompt))
            rest = await self.ask(f"{texts.get(key, 'text').capitalize()}, or press Enter >")
            if rest is not None:
                return f"{key} {rest}"
        return None

    async def key(self, prompt: str) -> str:
        """The key that is pressed after `prompt`, or `END_OF_INPUT`."""
        self._leave_line()
        print(styled(self._wrapped(prompt), "question", self.colour), end=" ", flush=True)
        self._prompting = True
        key = await self.keys.key()
        if key != END_OF_INPUT:
            print(printable(key), end="")
        self._leave_line()
        return key

    async def ctrl_d(self) -> None:
        """Wait until Ctrl-D is pressed; other keys are discarded."""
        while await self.keys.key() != END_OF_INPUT:
            pass

    # ------------------------------------------------------------------------- edits

    async def edit(self, asked: Asked[Any]) -> Mapping[str, Any] | None:
        """The edited arguments; None if they are unchanged or the person gives up."""
        text = self._edits.get(asked.id) or json_for_people(asked.tool_args)
        while True:
            try:
                # Shielded, because cancellation would lose the text in the editor.
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
            self.typed.append(text)
            if await self.key("e: edit again, any other key: cancel >") != "e":
                return None


def json_for_people(value: object) -> str:
    """JSON on several lines. Characters that `printable` would escape, because they can deceive a reader, are
    escaped in the way of JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return (
        re.sub(
            r"[^\x20-\x7e\n]",
            lambda found: found[0] if printable(found[0]) == found[0] else json.dumps(found[0])[1:-1],
            text,
        )
        + "\n"
    )


class EditorFailed(Exception):
    """The text is a sentence with the reason."""


def editor_of(environ: Mapping[str, str]) -> str:
    """The command of the editor."""
    return environ.get("EDITOR") or environ.get("VISUAL") or "vi"


async def edited_text(text: str, name: str) -> str:
    """The edited text. `name` is the name of the file, which only its owner can read.

    Raises:
        EditorFailed
    """
    editor = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="stopgo-") as folder:
        file = trio.Path(folder, name)
        await file.write_text(text, encoding="utf-8")
        try:
            ended = await trio.run_process([*shlex.split(editor), str(file)], stdin=None, check=False)
            if ended.returncode:
                raise EditorFailed(f"the editor {editor!r} ended with exit code {ended.returncode}")
            return await file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            hint = "set the environment variable EDITOR to another editor"
            raise EditorFailed(f"the editor {editor!r} cannot be used: {error}; {hint}") from error
