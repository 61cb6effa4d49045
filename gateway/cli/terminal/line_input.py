"""Reads lines that a person types and edits, in a thread, because prompt_toolkit needs asyncio."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Literal

import attrs
import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output

CtrlC = Literal["clears", "leaves"]


@attrs.define(eq=False)
class LineInput:
    """Reads one input at a time. An input may have several lines, pasted or typed with Alt-Enter."""

    draft: Document = attrs.field(factory=Document)
    """The last input, also after cancellation."""
    _session: PromptSession[str | None] = attrs.field(init=False)
    _ctrl_c: CtrlC = "clears"
    _wanted: bool = False
    """Whether reading has not been cancelled."""

    def __attrs_post_init__(self) -> None:
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        output.enable_cpr = False  # a late response of the terminal would look like keys
        self._session = PromptSession(
            history=InMemoryHistory(),
            output=output,
            key_bindings=self._bindings(),
            complete_while_typing=False,
        )

    async def ask(self, prompt: str, *, ctrl_c: CtrlC, draft: Document | None = None) -> str | None:
        """The input; None after Ctrl-D, after Ctrl-C if that leaves, or if the terminal was closed.

        Cancellation removes the prompt from the screen.
        """
        self._ctrl_c, self._wanted, self.draft = ctrl_c, True, draft or Document()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_cancelled)
            line = await trio.to_thread.run_sync(self._read, prompt, self.draft)
            nursery.cancel_scope.cancel()
        # Replace bytes that are not UTF-8.
        return None if line is None else line.encode("utf-8", "replace").decode()

    def forget_typed(self) -> None:
        """Discard keys that were pressed before."""
        clear_typeahead(self._session.input)

    def _read(self, prompt: str, draft: Document) -> str | None:
        app = self._session.app
        app.erase_when_done = False
        try:
            line = self._session.prompt(
                prompt,
                default=draft,
                pre_run=self._stop_if_unwanted,
                handle_sigint=False,
                set_exception_handler=False,
            )
        except EOFError:
            return None
        if line is not None:  # None if cancellation came together with Enter
            self.draft = Document(line)
        return line

    async def _stop_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._wanted = False
            if (loop := self._session.app.loop) is not None:
                with suppress(RuntimeError):  # the loop has ended by itself
                    loop.call_soon_threadsafe(self._stop_if_unwanted)

    def _stop_if_unwanted(self) -> None:
        app = self._session.app
        if self._wanted or app.future is None or app.future.done():
            return
        self.draft = self._session.default_buffer.document
        app.erase_when_done = True
        app.exit()

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if self._ctrl_c == "leaves":
                event.app.exit()
            else:
                event.current_buffer.reset()

        @bindings.add("c-z")
        def _(event: KeyPressEvent) -> None:
            """Do nothing; otherwise it would be typed as a character."""

        @bindings.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return bindings
