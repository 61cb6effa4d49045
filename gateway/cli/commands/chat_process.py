"""The process of `stopgo chat`: signals and the exit code."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from functools import partial

import attrs
import trio

from ..chat.chat import Chat
from ..chat.deciding import tell_refusal
from ..client.agent_client import ServerError, open_client
from ..process.options import FAILED
from ..terminal.chat_terminal import ChatTerminal


def run_chat(url: str, conversation: str | None, bearer: str | None) -> int:
    """Chat until the person leaves, and return the exit code."""
    # The chat reports errors itself; the libraries would log them again.
    logging.basicConfig(level=logging.CRITICAL, force=True)
    process = _Process()
    with ChatTerminal.of_this_process() as terminal:
        trio.run(partial(process.run, terminal, url, conversation, bearer))
    return process.code


@attrs.define
class _Process:
    code: int = 0

    async def run(
        self, terminal: ChatTerminal, url: str, conversation: str | None, bearer: str | None
    ) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with open_client(url, bearer) as client, trio.open_nursery() as nursery:
                chat = Chat(client, terminal)
                nursery.start_soon(self._listen, signals, chat, nursery.cancel_scope)
                try:
                    await chat.run(conversation)
                except ServerError as error:
                    tell_refusal(terminal, error)
                    self.code = FAILED
                nursery.cancel_scope.cancel()

    async def _listen(self, signals: AsyncIterator[int], chat: Chat, scope: trio.CancelScope) -> None:
        async for number in signals:
            if number == signal.SIGINT:
                chat.ctrl_c.press()
            else:
                self.code = 128 + number
                scope.cancel()
