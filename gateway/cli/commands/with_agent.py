"""The requests of a command to a running agent."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from ..chat.deciding import tell_refusal
from ..client.agent_client import AgentClient, JsonObject, ServerError, open_client
from ..process.interrupt import run_until_interrupted
from ..process.options import FAILED, token_of
from ..terminal.terminal import Terminal, printable

InWords: TypeAlias = tuple[JsonObject, Iterable[str]]
"""An answer of the HTTP API, and its lines for a person."""


def with_agent(
    args: argparse.Namespace,
    work: Callable[[AgentClient], Awaitable[InWords]],
    refused: Callable[[ServerError], int] | None = None,
) -> int:
    """Carry out `work`, print its result in words or, with `--json`, as JSON, and return the exit code.

    Args:
        args: of a command with `--url`, `--token-env` and `--json`.
        refused: tells the person about an error of the server and gives the exit code, in place of the
            usual.
    """
    bearer, terminal = token_of(args), Terminal.of_this_process()

    async def run() -> InWords:
        async with open_client(args.url, bearer) as client:
            return await work(client)

    try:
        answer, lines = run_until_interrupted(run)
    except ServerError as error:
        if refused is not None:
            return refused(error)
        tell_refusal(terminal, error)
        return FAILED
    for line in [json.dumps(answer)] if args.json else map(printable, lines):
        print(line)
    return 0
