"""One conversation in `stopgo chat`: followed over its socket while messages and decisions go through REST.

The screen belongs to the person, who types a line or answers a question, or to the events that are shown. An
event takes the line off the screen, and the line is put back as it was when the run rests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import attrs
import trio
from prompt_toolkit.document import Document

from ...actors.log import events as e
from ...actors.log.outcomes import Replied
from ...actors.log.state import answer_of
from ...runtime.journal.protocol import Event
from .agent_client import AgentClient, Json, ServerError
from .chat_log import ChatLog
from .chat_terminal import ChatTerminal
from .conversation_socket import ConversationSocket, Passing
from .ctrl_c import CtrlC
from .deciding import ask_for_words, tell_refusal
from .streamed_text import StreamedText
from .terminal import Style

PROGRESS_INTERVAL = 1.0
"""Seconds between two lines about the progress of tools."""


@attrs.define(eq=False)
class ChatConversation:
    client: AgentClient
    terminal: ChatTerminal
    ctrl_c: CtrlC
    id: str
    history: int
    """The seq of the last event when it was opened."""
    log: ChatLog = attrs.field(factory=ChatLog)
    ended: str | None = None
    """Why it cannot be followed any more."""
    _texts: StreamedText = attrs.field(factory=StreamedText)
    _last_text: str | None = None
    """The last text of a model that is on the screen as a whole."""
    _socket: ConversationSocket = attrs.field(init=False)
    _connected: bool = True
    _posts: int = 0
    """Messages and decisions under way."""
    _expected: int = 0
    """Highest `last_seq` in the answers received so far."""
    _own: str | None = None
    """The message that was typed here and is not in the log yet."""
    _typing: trio.CancelScope | None = None
    """While the screen belongs to the person."""
    _typing_ended: trio.Event = attrs.field(factory=trio.Event)
    _wants_screen: int = 0
    """Tasks that wait for the screen."""
    _news: trio.Event = attrs.field(factory=trio.Event)
    _told_progress: float = -PROGRESS_INTERVAL

    def __attrs_post_init__(self) -> None:
        self._socket = ConversationSocket(self.client, self.id, self._tell_connection)

    # ----------------------------------------------------------------- what comes

    async def follow(self) -> None:
        """Show what happens, until the conversation cannot be followed any more."""
        try:
            await self._socket.follow(self._take_in)
            self.ended = "the conversation was deleted"
        except ServerError as error:
            self.ended = error.message
        await self._take_screen()
        self._tell_news()

    async def caught_up(self) -> bool:
        """Wait until all events up to `history` have come; false: the person leaves first."""
        return await self._wait(lambda: self._socket.after >= self.history)

    async def _take_in(self, told: Event | Passing) -> None:
        if isinstance(told, Passing):
            if self._socket.after >= self.history:
                await self._show_passing(told.frame)
            return
        event, line = self.log.take_in(told)
        if told.seq > self.history and event is not None:
            await self._show(event, line)
        self._tell_news()

    async def _show_passing(self, frame: Json) -> None:
        match frame:
            case {
                "type": "model.delta",
                "key": str(key),
                "attempt": int(attempt),
                "text": str(text),
                "node": str(node),
            }:
                if (piece := self._texts.piece(key, attempt, text)) is not None:
                    await self._write(node, piece.text, piece.begins)
            case {"type": "tool.progress", "message": message, "node": node, "tool": tool}:
                now = trio.current_time()
                if now >= self._told_progress + PROGRESS_INTERVAL:
                    self._told_progress = now
                    await self._tell(f"{node}: {tool}: {message}")
            case _:
                pass

    async def _show(self, event: e.LogEvent, line: str | None) -> None:
        match event:
            case e.MessageAdded(text=text) if text == self._own:
                self._own = None
            case e.MessageAdded(text=text):
                await self._tell(f"> {text}", "question")
            case e.StepFinished(outcome=Replied(text=text)):
                if (piece := self._texts.whole(event.key, text)) is not None:
                    await self._write(event.node, piece.text, piece.begins)
                    self.terminal.texts.end()
                self._last_text = text
            case e.RunFinished(text=text):
                if text and text != self._last_text:
                    await self._take_screen()
                    self.terminal.show(text)
            case e.RunFailed():
                await self._tell(answer_of(event), "bad")
            case e.RunCancelled():
                await self._tell("cancelled", "bad")
            case e.RunAuthRequired(wanted=wanted):
                await self._tell(
                    f"{wanted.label} needs a bearer token; /resume sends that of --token-env", "bad"
                )
            case e.RunStarted():
                self._last_text = None
            case _ if line is not None:
                await self._tell(line)
            case _:
                pass

    async def _write(self, node: str, text: str, begins: bool) -> None:
        await self._take_screen()
        if text and (begins or not self.terminal.texts.is_open):
            self.terminal.begin_text(node)
        self.terminal.texts.write(text)

    async def _tell(self, text: str, style: Style = "quiet") -> None:
        await self._take_screen()
        self.terminal.tell(text, style)

    async def _take_screen(self) -> None:
        """The screen is the caller's until its next checkpoint."""
        self._wants_screen += 1
        try:
            while self._typing is not None:
                self._typing.cancel()
                await self._typing_ended.wait()
        finally:
            self._wants_screen -= 1
            self._tell_news()

    async def _tell_connection(self, why: str | None) -> None:
        if why is not None:
            self._texts.lose()
        if self._connected != (why is None):
            self._connected = why is None
            await self._tell(
                "connected again" if why is None else f"{why}; trying again", "bad" if why else "quiet"
            )

    # ------------------------------------------------------------------ what is sent

    @property
    def busy(self) -> bool:
        """Whether something is under way that only the agent moves on."""
        return self.log.running or self._posts > 0 or self._socket.after < self._expected

    def say(self, message: str, nursery: trio.Nursery) -> None:
        """Send a message."""
        self._own = message
        self.post(f"/conversations/{self.id}/messages", {"message": message}, nursery)

    def resume(self, nursery: trio.Nursery) -> None:
        """Give the run the bearer token."""
        self.post(f"/conversations/{self.id}/resume", {}, nursery)

    def post(self, path: str, body: Mapping[str, Any], nursery: trio.Nursery) -> None:
        """Send a command; it is under way from now on."""
        self._posts += 1
        nursery.start_soon(self._post, path, body)

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        try:
            turn = await self.client.post(path, body)
        except ServerError as error:
            self._own = None
            await self._take_screen()
            tell_refusal(self.terminal, error)
            if (settled := error.details.get("approval")) is not None:
                self.log.asked.pop(settled["uuid"], None)
        else:
            self._expected = max(self._expected, turn["conversation"]["last_seq"])
            result = turn.get("result") or {}
            if "code" in result and result["state"] in ("waiting", "queued"):
                self._own = None
                await self._tell(result["response"], "bad")
        finally:
            self._posts -= 1
            self._tell_news()

    # ---------------------------------------------------------------- what is typed

    async def rest(self, nursery: trio.Nursery) -> bool:
        """Wait until something can be said; false: the person leaves first. Ctrl-C cancels the run."""
        with self._ctrl_c_cancels(nursery):
            return await self._wait(lambda: not self.busy)

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        left = False

        async def watch_keys(scope: trio.CancelScope) -> None:
            nonlocal left
            await self.terminal.ctrl_d()
            left = True
            scope.cancel()

        async with trio.open_nursery() as waiting:
            waiting.start_soon(watch_keys, waiting.cancel_scope)
            await self._until(lambda: self.ended is not None or condition())
            waiting.cancel_scope.cancel()
        self.terminal.forget_typed()
        return not left

    async def answer(self, nursery: trio.Nursery) -> bool:
        """Answer the question; false: the person leaves it open. Ctrl-C cancels the run."""
        asked = self.log.question
        assert asked is not None
        words: Mapping[str, Any] | None = {}
        with self._ctrl_c_cancels(nursery):
            async with self._screen():
                self.terminal.forget_typed()
                # Not as Markdown, which can leave out part of what the person decides about.
                self.terminal.tell(f"{asked.description}\n")
                words = await ask_for_words(self.terminal, asked)
        if words:
            self.post(f"/approvals/{asked.id}", words, nursery)
        return words is not None

    async def line(self, draft: Document | None) -> tuple[str | None, Document | None]:
        """A line that is typed, or the draft of it when something happens meanwhile; neither: the person
        leaves."""
        async with self._screen():
            self.ctrl_c.forget()
            return await self.terminal.message(draft), None
        return None, self.terminal.lines.draft

    @asynccontextmanager
    async def _screen(self) -> AsyncIterator[None]:
        """The screen is the person's. The block is cancelled when something has to be shown."""
        await self._until(lambda: not self._wants_screen)
        self._typing_ended = trio.Event()
        with trio.CancelScope() as self._typing:
            try:
                yield
            finally:
                self._typing = None
                self._typing_ended.set()

    def _ctrl_c_cancels(self, nursery: trio.Nursery) -> AbstractContextManager[None]:
        def cancel() -> None:
            self.terminal.tell("cancelling ...", "quiet")
            self.post(f"/conversations/{self.id}/cancel", {}, nursery)

        return self.ctrl_c.means(cancel)

    # ------------------------------------------------------------------------- news

    def _tell_news(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._news.wait()
