"""One conversation in `stopgo chat`: its events come over a websocket, messages and decisions go by REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

import attrs
import trio
from prompt_toolkit.document import Document

from ....actors.log.words import events as e
from ....runtime.journal.protocol import Event
from ..client.agent_client import AgentClient, JsonObject, ServerError
from ..client.conversation_socket import ConversationSocket, Transient
from ..terminal.chat_terminal import ChatTerminal
from ..terminal.follower import Follower, Line, OnScreen, draw
from ..terminal.terminal import Style
from .deciding import ask_for_words, tell_refusal, tell_typed

T = TypeVar("T")

PROGRESS_INTERVAL = 1.0
"""Seconds between two lines about the progress of tools."""


@attrs.define(eq=False)
class CtrlC:
    """The action of Ctrl-C at each moment of a chat."""

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


@attrs.define(eq=False)
class News:
    """Wakes the tasks that wait for a condition when it may have changed."""

    _next: trio.Event = attrs.field(factory=trio.Event)

    def tell(self) -> None:
        self._next.set()
        self._next = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._next.wait()


@attrs.define(eq=False)
class Screen:
    """Either the person has the screen, to type a line or to answer a question, or an event has it.

    An event removes the line from the screen; the line comes back unchanged when the run rests.
    """

    _news: News
    _typing: trio.CancelScope | None = None
    """Set while the person has the screen."""
    _typing_ended: trio.Event = attrs.field(factory=trio.Event)
    _wanted: int = 0
    """Number of tasks that wait for the screen."""

    async def take(self) -> None:
        """Take the screen, until the next checkpoint of the caller."""
        self._wanted += 1
        try:
            while self._typing is not None:
                self._typing.cancel()
                await self._typing_ended.wait()
        finally:
            self._wanted -= 1
            self._news.tell()

    def interrupt(self) -> None:
        """Cancel the block of the person, if there is one."""
        if self._typing is not None:
            self._typing.cancel()

    @asynccontextmanager
    async def of_person(self) -> AsyncIterator[None]:
        """Give the screen to the person. The block is cancelled when an event has to be shown."""
        await self._news.until(lambda: not self._wanted)
        self._typing_ended = trio.Event()
        with trio.CancelScope() as self._typing:
            try:
                yield
            finally:
                self._typing = None
                self._typing_ended.set()


@attrs.define(eq=False)
class ChatConversation:
    client: AgentClient
    terminal: ChatTerminal
    ctrl_c: CtrlC
    id: str
    history: int
    """The seq of the last event when it was opened."""
    follower: Follower = attrs.field(init=False)
    ended: str | None = None
    """Why the conversation cannot be followed any more."""
    _socket: ConversationSocket = attrs.field(init=False)
    _connected: bool = True
    _posts: int = 0
    """Number of requests that have no response yet."""
    _expected: int = 0
    """Highest `last_seq` of the responses."""
    _own: str | None = None
    """The message that was typed here, until its event comes."""
    _news: News = attrs.field(factory=News)
    _screen: Screen = attrs.field(
        init=False, default=attrs.Factory(lambda self: Screen(self._news), takes_self=True)
    )
    _progress_at: float = -PROGRESS_INTERVAL

    def __attrs_post_init__(self) -> None:
        self.follower = Follower(self.history, token_hint="; /resume sends the one of --token-env")
        self._socket = ConversationSocket(self.client, self.id, self._show_connection)

    # --------------------------------------------------------------------- events

    async def follow(self) -> None:
        """Show events until the conversation cannot be followed any more."""
        try:
            await self._socket.follow(self._take_in)
            self.ended = "the conversation was deleted"
        except ServerError as error:
            self.ended = error.message
        await self._screen.take()
        self._news.tell()

    async def caught_up(self) -> bool:
        """Wait until all events up to `history` have come; false if the person leaves first."""
        return await self._wait(lambda: self._socket.after >= self.history)

    async def _take_in(self, frame: Event | Transient) -> None:
        if isinstance(frame, Transient):
            shown = self._transient(frame.frame) if self._socket.after >= self.history else None
        else:
            event, shown = self.follower.apply(frame)
            if isinstance(event, e.MessageAdded) and event.text == self._own:
                self._own = shown = None
        if shown is not None:
            await self._screen.take()
            draw(shown, self.terminal)
        self._news.tell()

    def _transient(self, frame: JsonObject) -> OnScreen | None:
        match frame:
            case {
                "type": "model.delta",
                "key": str(key),
                "attempt": int(attempt),
                "text": str(text),
                "node": str(node),
            }:
                return self.follower.piece(node, key, attempt, text)
            case {"type": "tool.progress", "message": message, "node": node, "tool": tool}:
                now = trio.current_time()
                if now >= self._progress_at + PROGRESS_INTERVAL:
                    self._progress_at = now
                    return Line(f"{node}: {tool}: {message}")
            case _:
                pass
        return None

    async def _tell(self, text: str, style: Style = "quiet") -> None:
        await self._screen.take()
        self.terminal.tell(text, style)

    async def _show_connection(self, why: str | None) -> None:
        if why is not None:
            self.follower.texts.lose()
        if self._connected != (why is None):
            self._connected = why is None
            await self._tell(
                "connected again" if why is None else f"{why}; reconnecting", "bad" if why else "quiet"
            )

    # ------------------------------------------------------------------- requests

    @property
    def busy(self) -> bool:
        """Whether the chat has to wait for the agent."""
        return self.follower.running or self._posts > 0 or self._socket.after < self._expected

    def say(self, message: str, nursery: trio.Nursery) -> None:
        """Send a message."""
        self._own = message
        self.post(f"/conversations/{self.id}/messages", {"message": message}, nursery)

    def resume(self, nursery: trio.Nursery) -> None:
        """Give the run the bearer token."""
        self.post(f"/conversations/{self.id}/resume", {}, nursery)

    def post(self, path: str, body: Mapping[str, Any], nursery: trio.Nursery) -> None:
        """Send a command, without waiting for the response."""
        self._posts += 1
        nursery.start_soon(self._post, path, body)

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        try:
            turn = await self.client.post(path, body)
        except ServerError as error:
            self._own = None
            await self._screen.take()
            tell_refusal(self.terminal, error, body)
            if (settled := error.details.get("approval")) is not None:
                self.follower.pending.pop(settled["uuid"], None)
            self._expect(error.details)  # also of a message that was refused because an approval is pending
        else:
            self._expect(turn)
            result = turn.get("result") or {}
            if "code" in result and result["state"] in ("waiting", "queued"):
                self._own = None
                if result["code"] == "vote_recorded":  # others have to approve, too
                    self.follower.pending.pop(path.rpartition("/")[2], None)
                await self._tell(result["response"], "bad")
        finally:
            self._posts -= 1
            self._news.tell()

    def _expect(self, body: Mapping[str, Any]) -> None:
        if "conversation" in body:
            self._expected = max(self._expected, body["conversation"]["last_seq"])

    # ---------------------------------------------------------------------- input

    async def rest(self, nursery: trio.Nursery) -> bool:
        """Wait until the person can type; false if the person leaves first. Ctrl-C cancels the run."""
        with self.ctrl_c.means(partial(self._cancel, nursery)):
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
            await self._news.until(lambda: self.ended is not None or condition())
            waiting.cancel_scope.cancel()
        self.terminal.forget_typed()
        return not left

    async def answer(self, nursery: trio.Nursery) -> bool:
        """Ask for a decision; false if the person leaves without one. After Ctrl-C, ask whether to cancel the
        run."""
        asked, place = self.follower.next_approval, self.follower.progress.place
        assert asked is not None

        async def decide() -> Mapping[str, Any] | None:
            self.terminal.forget_typed()
            if place:
                self.terminal.tell(f"Approval {place}", "quiet")
            # Not as Markdown, which can hide a part of the text that the person decides about.
            self.terminal.tell(f"{asked.description}\n")
            return await ask_for_words(self.terminal, asked)

        async def confirm() -> bool:
            return await self.terminal.key("Cancel the run? y: yes, any other key: no >") == "y"

        nothing: Mapping[str, Any] | None = {}
        words, ctrl_c = await self._of_person(decide, nothing)
        if words:
            self.post(f"/approvals/{asked.id}", words, nursery)
        elif words is not None:  # neither answered nor left
            tell_typed(self.terminal, self.terminal.typed)
            if ctrl_c and (await self._of_person(confirm, False))[0]:
                self._cancel(nursery)
        return words is not None

    async def _of_person(self, ask: Callable[[], Awaitable[T]], otherwise: T) -> tuple[T, bool]:
        """What the person answers, or `otherwise` if an event or Ctrl-C interrupts that; and whether Ctrl-C
        was pressed."""
        answer, pressed = otherwise, False

        def interrupt() -> None:
            nonlocal pressed
            pressed = True
            self._screen.interrupt()

        with self.ctrl_c.means(interrupt):
            async with self._screen.of_person():
                if not pressed:
                    answer = await ask()
        return answer, pressed

    async def line(self, draft: Document | None) -> tuple[str | None, Document | None]:
        """The typed line, or its draft if an event interrupts the typing; neither if the person leaves."""
        async with self._screen.of_person():
            self.ctrl_c.forget()
            return await self.terminal.message(draft), None
        return None, self.terminal.lines.draft

    def _cancel(self, nursery: trio.Nursery) -> None:
        self.terminal.tell("cancelling ...", "quiet")
        self.post(f"/conversations/{self.id}/cancel", {}, nursery)
