"""The process of `stopgo a2a send`: signals, exit code, next steps."""

from __future__ import annotations

import logging
import shlex
import uuid
from functools import partial

import trio

from ....actors.a2a.wire.client_codec import write_call
from ....actors.a2a.wire.task import Data, Message, Part, Send, Text
from ....actors.approvals.proxy_approval import ProxyQuestion
from ....config.sections.a2a import RemoteAgentConfig
from ..chat.remote_turn import RemoteTurn
from ..process.interrupt import Interrupt, TurnEnd
from ..terminal.terminal import LogToTerminal, Terminal


def run_send(config: RemoteAgentConfig, message: str, bearer: str | None, token_variable: str | None) -> int:
    """Send a message, follow its task, and return the exit code.

    Args:
        bearer: the token to send.
        token_variable: the environment variable with the token, for commands in the output.
    """
    terminal = Terminal.of_this_process()
    handler = LogToTerminal(terminal)
    # The exchange reports its errors; the log would repeat them.
    logging.basicConfig(level=logging.ERROR, format="%(message)s", handlers=[handler], force=True)
    return trio.run(partial(_run, config, message, bearer, token_variable, terminal))


async def _run(
    config: RemoteAgentConfig,
    message: str,
    bearer: str | None,
    token_variable: str | None,
    terminal: Terminal,
) -> int:
    interrupt = Interrupt(running=True)
    outcome: TurnEnd = "cancelled"
    turn = RemoteTurn.of(config, terminal, interrupt.stop, bearer)
    async with interrupt.listening():
        try:
            outcome = await turn.run(message)
        finally:
            await turn.aclose()
    if outcome == "waiting":
        _print_next_steps(terminal, turn, token_variable)
    elif outcome == "cancelled":
        terminal.tell("cancelled", "bad")
    return interrupt.exit_code(outcome)


def _print_next_steps(terminal: Terminal, turn: RemoteTurn, token_variable: str | None) -> None:
    assert turn.task is not None
    need = "a decision" if turn.waiting else "a bearer token"
    terminal.tell(f"Task {turn.task.id} waits for {need}. To continue, send the task a message:", "question")
    for part in [_answer(asked) for asked in turn.waiting] or [Text("Continue with this token.")]:
        command = _command(turn, part, token_variable or ("" if turn.waiting else "TOKEN"))
        terminal.tell(f"  {command}", "verbatim")


def _answer(asked: ProxyQuestion) -> Part:
    if asked.remote_item is None:
        return Text("approved")
    return Data({"id": asked.remote_item, **asked.original.example()})


def _command(turn: RemoteTurn, part: Part, token_variable: str) -> str:
    """A command that sends a part to the task. The person has to fill in the values of headers."""
    assert turn.task is not None
    assert turn.contact is not None
    message = Message(
        id=str(uuid.uuid4()),
        role="user",
        parts=(part,),
        task=turn.task.id,
        context=turn.task.context or None,
    )
    call = write_call(turn.contact.interface, Send(message=message))
    headers = [f"{name}: {value}" for name, value in call.headers.items() if name != "Accept"]
    headers += [f"{name}: ..." for name in turn.config.headers]
    options = [word for header in headers for word in ("-H", header)]
    token = f' -H "Authorization: Bearer ${token_variable}"' if token_variable else ""
    return shlex.join(["curl", call.url, *options, "-d", (call.body or b"").decode()]) + token
