"""The process of `stopgo run`: signals, errors, exit code."""

from __future__ import annotations

import json
import logging
import shlex
import sqlite3
from collections.abc import Sequence

import trio

from ....actors.agent.open_agent import open_agent
from ....actors.common.errors import AgentError, Misconfigured, StartError, sentences
from ....config.sections.agent_config import AgentConfig
from ....config.text.errors import ConfigError
from ....runtime.clock import ProcessClock
from ....runtime.errors import RestartLimitReached
from ....runtime.journal.errors import JournalError
from ..chat.one_turn import OneTurn
from ..process.interrupt import Interrupt, TurnEnd
from ..process.options import FAILED, WRONG
from ..terminal.terminal import LogToTerminal, Terminal


def run_process(
    config: AgentConfig, journal: str | None, conversation: str | None, message: str, options: Sequence[str]
) -> int:
    """Run one turn and return the exit code.

    Args:
        journal: the URL of the journal; None: it is in the data directory.
        conversation: the conversation to continue; None: a new one.
        options: the options with which `serve` runs the same agent.
    """
    terminal = Terminal.of_this_process()
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[LogToTerminal(terminal)], force=True
    )
    if config.packaged:
        terminal.tell(f"no agent file here: the agent that comes with the package, {config.source}", "quiet")
    for warning in config.warnings:
        terminal.tell(f"warning: {warning}", "quiet")
    code = FAILED
    try:
        code = trio.run(_run, config, journal, conversation, message, options, terminal, clock=ProcessClock())
    except* (AgentError, ConfigError, Misconfigured) as group:
        _print_error(terminal, group)
        code = WRONG
    except* (StartError, RestartLimitReached, JournalError, OSError, sqlite3.Error) as group:
        _print_error(terminal, group)
    return code


async def _run(
    config: AgentConfig,
    journal: str | None,
    conversation: str | None,
    message: str,
    options: Sequence[str],
    terminal: Terminal,
) -> int:
    interrupt = Interrupt()
    outcome: TurnEnd = "cancelled"
    async with interrupt.listening(), open_agent(config, journal=journal) as agent:
        turn = OneTurn(agent, terminal, interrupt.stop)
        interrupt.running = True
        outcome = await turn.run(message, conversation)
    if outcome == "waiting":
        _print_next_steps(terminal, turn, config, options)
    elif outcome == "cancelled":
        terminal.tell("cancelled", "bad")
    return interrupt.exit_code(outcome)


def _print_next_steps(terminal: Terminal, turn: OneTurn, config: AgentConfig, options: Sequence[str]) -> None:
    if not turn.waiting:
        return
    terminal.tell("The run waits for a decision:", "question")
    for approval in turn.waiting:
        terminal.tell(f"  {approval.id}  {approval.asked.line}")
    url, serve = f"http://{config.host}:{config.port}", shlex.join(["stopgo", "serve", *options])
    terminal.tell(f"To continue, serve the agent and decide there:\n  {serve}", "verbatim")
    for approval in turn.waiting:
        words = shlex.quote(json.dumps(approval.asked.original.example()))
        terminal.tell(f"  curl {url}/approvals/{approval.id} -d {words}", "verbatim")


def _print_error(terminal: Terminal, error: BaseException) -> None:
    for sentence in sentences(error):
        terminal.tell(f"stopgo run: {sentence}", "bad")
