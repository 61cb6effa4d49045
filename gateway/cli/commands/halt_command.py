"""`stopgo halt` and `stopgo unhalt`: the emergency stop of a running agent."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..process.options import add_token_option, add_url_option, wrong

if TYPE_CHECKING:
    from ..client.agent_client import AgentClient
    from .with_agent import InWords


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `halt` and `unhalt` to the command line."""
    halt = subparsers.add_parser(
        "halt",
        help="halt a running agent: no harmful call leaves",
        description="Halts a running agent: from then on it sends no call that must not be repeated, until "
        "`stopgo unhalt`. Such calls wait for an approval. The halt survives restarts.",
        epilog="Exit codes: 0 done, 1 refused or not reached, 2 wrong usage.",
    )
    halt.add_argument("--reason", metavar="TEXT", help="reason, which is shown everywhere")
    halt.add_argument("--status", action="store_true", help="only print whether the agent is halted")
    unhalt = subparsers.add_parser(
        "unhalt",
        help="end the halt of a running agent",
        description="Ends the halt of a running agent. A call that waits is sent when it is approved.",
        epilog="Exit codes: 0 done, 1 refused or not reached, 2 wrong usage.",
    )
    unhalt.set_defaults(reason=None, status=False)
    for command in (halt, unhalt):
        add_url_option(command)
        add_token_option(command)
        command.add_argument("--json", action="store_true", help="print the JSON of the HTTP API")
        command.set_defaults(run=run, command=command, action=command.prog.split()[-1])


def run(args: argparse.Namespace) -> int:
    """Halt, unhalt or read. Exit codes: see the help."""
    if args.status and args.reason is not None:
        return wrong(args, "--status takes no --reason")
    from ..client.halt_process import lines_of
    from .with_agent import with_agent

    async def request(client: AgentClient) -> InWords:
        if args.status:
            state = await client.get("/halt")
        else:
            body = {} if args.reason is None else {"reason": args.reason}
            state = await client.post(f"/{args.action}", body, wait=False)
        return state, lines_of(state)

    return with_agent(args, request)
