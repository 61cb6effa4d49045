"""`stopgo chat`: its conversations, one at a time, and the commands that begin with a slash."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import attrs
import trio
from prompt_toolkit.document import Document

from ....actors.approvals.description import shortened
from ..client.agent_client import AgentClient, JsonObject, ServerError, full_id
from ..client.halt_process import halt_of
from ..process.options import URL
from ..terminal.chat_terminal import ChatTerminal
from .chat_conversation import ChatConversation, CtrlC
from .deciding import tell_refusal

HELP = """\
/history    show this conversation
/open       list recent conversations
/open ID    continue one of them; the beginning of its id is enough
/new        start a new conversation
/resume     resume the run with the bearer token of --token-env
/quit       leave the chat
Enter sends the message, Alt-Enter starts a new line. Ctrl-C cancels the run, at a question after you have
confirmed it. Ctrl-D leaves the chat.
To send a message that begins with a slash, begin it with two slashes."""
SHOWN_AT_FIRST = 10
"""Number of messages and answers to show when a conversation is opened."""
RECENT = 20
"""Number of conversations that `/open` lists."""
SEARCHED = "200"
"""Number of recent conversations to search for the beginning of an id."""


@attrs.frozen
class Open:
    """Continue another conversation; None: a new one, which its first message starts."""

    id: str | None


Next: TypeAlias = Open | Literal["leave"]


class _Left(ServerError):
    """The person left before the response came."""


@attrs.define(eq=False)
class Chat:
    client: AgentClient
    terminal: ChatTerminal
    ctrl_c: CtrlC = attrs.field(factory=CtrlC)
    current: ChatConversation | None = None

    async def run(self, conversation: str | None) -> None:
        """Chat until the person leaves.

        Raises:
            ServerError: at the start, the agent cannot be reached or does not know the conversation.
        """
        try:
            page = await self._ask(self.client.get, "/conversations", limit="1")
            step: Next = Open(None if conversation is None else await self._find(conversation))
        except _Left:
            return
        self.terminal.tell(
            f"{self.client.url}: {page['summary']['total']} conversations; /help lists the commands", "quiet"
        )
        if (line := await halt_of(self.client)) is not None:
            self.terminal.tell(line, "bad")
        while isinstance(step, Open):
            try:
                step = await (self._begin() if step.id is None else self._open(step.id))
            except ServerError as error:
                step = self._refused(error) or Open(None)
        if self.current is not None:
            elsewhere = [] if self.client.url == URL else ["--url", self.client.url]
            command = shlex.join(["stopgo", "chat", *elsewhere, "--conversation", self.current.id])
            self.terminal.tell(f"To continue: {command}", "verbatim")

    async def _begin(self) -> Next:
        """Start a conversation with the first message. Raises ServerError."""
        self.current = None
        while True:
            self.ctrl_c.forget()
            if (line := await self.terminal.message(None)) is None:
                return "leave"
            if (step := await self._command(line)) is not None:
                return step
            if message := message_of(line):
                begun = (await self._ask(self.client.post, "/conversations"))["conversation"]
                self.terminal.tell(f"conversation {begun['id']}", "quiet")
                return await self._converse(begun, message)

    async def _open(self, id: str) -> Next:
        """Continue a conversation. Raises ServerError."""
        return await self._converse(
            (await self._ask(self.client.get, f"/conversations/{id}"))["conversation"]
        )

    async def _converse(self, found: JsonObject, message: str | None = None) -> Next:
        """Follow a conversation until the person leaves it."""
        id = found["id"]
        conversation = ChatConversation(self.client, self.terminal, self.ctrl_c, id, found["last_seq"])
        step: Next = "leave"
        self.current = conversation
        async with trio.open_nursery() as nursery:
            nursery.start_soon(conversation.follow)
            if message is not None:
                conversation.say(message, nursery)
                step = await self._talk(conversation, nursery)
            elif await conversation.caught_up():
                self.terminal.tell(f"conversation {id}: {shortened(found['title'])}", "quiet")
                self._show_history(SHOWN_AT_FIRST)
                step = await self._talk(conversation, nursery)
            nursery.cancel_scope.cancel()
        return step

    async def _talk(self, conversation: ChatConversation, nursery: trio.Nursery) -> Next:
        draft: Document | None = None
        step: Next | None
        while conversation.ended is None:
            if conversation.busy:
                if not await conversation.rest(nursery):
                    self.terminal.tell("The run continues without you.")
                    return "leave"
            elif conversation.follower.next_approval is not None:
                if not await conversation.answer(nursery):
                    self.terminal.tell("The approval stays pending.")
                    return "leave"
            else:
                line, draft = await conversation.line(draft)
                if line is not None:
                    step = await self._take(line, conversation, nursery)
                else:
                    step = "leave" if draft is None else None
                if step is not None:
                    return step
        self.terminal.tell(conversation.ended, "bad")
        return Open(None)

    async def _take(self, line: str, conversation: ChatConversation, nursery: trio.Nursery) -> Next | None:
        """Send a line, or execute it as a command; None: stay in the conversation."""
        if line.strip() == "/resume":
            conversation.resume(nursery)
        elif message := message_of(line):
            conversation.say(message, nursery)
        else:
            return await self._command(line)
        return None

    async def _command(self, line: str) -> Next | None:
        """Execute a line that is a command; None: stay in the conversation."""
        match line.split() if message_of(line) is None else []:
            case ["/help"]:
                self.terminal.tell(HELP)
            case ["/history"]:
                self._show_history(None)
            case ["/new"]:
                return Open(None)
            case ["/quit"]:
                return "leave"
            case ["/open", *ids] if len(ids) <= 1:
                try:
                    if ids:
                        return Open(await self._find(ids[0]))
                    await self._list()
                except ServerError as error:
                    return self._refused(error)
            case [word, *_]:
                self.terminal.tell(f"There is no command {word}; /help lists the commands.", "bad")
            case _:
                pass
        return None

    async def _ask(
        self, request: Callable[..., Awaitable[JsonObject]], path: str, **options: Any
    ) -> JsonObject:
        """The response to a request. Ctrl-C cancels the request, Ctrl-D leaves the chat.

        Raises:
            ServerError: there is no response.
        """
        answer: JsonObject | None = None
        failure = ServerError("the request was cancelled")

        async def watch_keys(scope: trio.CancelScope) -> None:
            nonlocal failure
            await self.terminal.ctrl_d()
            failure = _Left("")
            scope.cancel()

        async with trio.open_nursery() as waiting:
            waiting.start_soon(watch_keys, waiting.cancel_scope)
            with self.ctrl_c.means(waiting.cancel_scope.cancel):
                try:
                    answer = await request(path, **options)
                except ServerError as error:
                    failure = error
            waiting.cancel_scope.cancel()
        self.terminal.forget_typed()
        if answer is None:
            raise failure
        return answer

    def _refused(self, error: ServerError) -> Next | None:
        if isinstance(error, _Left):
            return "leave"
        tell_refusal(self.terminal, error)
        return None

    async def _list(self) -> None:
        """Print recent conversations. Raises ServerError."""
        page = await self._ask(self.client.get, "/conversations", limit=str(RECENT))
        for each in page["conversations"]:
            self.terminal.tell(
                f"{each['id'][:8]}  {each['updated_at']}  {each['status']}  {shortened(each['title'])}"
            )

    async def _find(self, id: str) -> str:
        """The id of the conversation whose id begins with `id`. Raises ServerError."""

        async def ids() -> list[str]:
            page = await self._ask(self.client.get, "/conversations", limit=SEARCHED)
            return [each["id"] for each in page["conversations"]]

        return await full_id(id, ids, "recent conversations", "/open lists the latest ones.")

    def _show_history(self, limit: int | None) -> None:
        entries = [] if self.current is None else list(self.current.follower.entries)
        if limit is not None and len(entries) > limit:
            self.terminal.tell("/history shows earlier messages", "quiet")
        for is_message, text in entries[-(limit or len(entries)) :]:
            if is_message:
                self.terminal.tell(f"> {text}", "question")
            else:
                self.terminal.answer(text)


def message_of(line: str) -> str | None:
    """The message in a typed line, which may be empty; None: the line is a command."""
    line = line.strip()
    if line.startswith("//"):
        return line[1:]
    return None if line.startswith("/") else line
