"""`stopgo notify`: the notifications of a running agent."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..process.options import add_token_option, add_url_option, wrong

if TYPE_CHECKING:
    from ..client.agent_client import AgentClient
    from .with_agent import InWords

_NAMED = {"test": "CHANNEL", "retry": "ID"}
"""What the actions take."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `notify` to the command line."""
    command = subparsers.add_parser(
        "notify",
        help="list, retry and test the notifications of a running agent",
        description="Lists the recent notifications of a running agent, retries one that was given up, or "
        "sends a test to a channel.",
        epilog="Exit codes: 0 done, 1 refused, not reached or not arrived, 2 wrong usage.",
    )
    command.add_argument("action", nargs="?", choices=("list", *_NAMED), default="list", help="default: list")
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="with test: a channel; with retry: the id of a notification"
    )
    add_url_option(command)
    add_token_option(command)
    command.add_argument("--json", action="store_true", help="print the JSON of the HTTP API")
    command.set_defaults(run=run, command=command)


def run(args: argparse.Namespace) -> int:
    """List, retry or test. Exit codes: see the help."""
    if (args.name is None) != (args.action == "list"):
        return wrong(args, f"{args.action} takes {_NAMED.get(args.action, 'no NAME')}")
    from .with_agent import with_agent

    async def request(client: AgentClient) -> InWords:
        match args.action:
            case "test":
                tested = await client.post("/notifications/test", {"channel": args.name}, wait=False)
                return tested, [f"arrived at {args.name}: {tested['id']}"]
            case "retry":
                found = await client.post(f"/notifications/{args.name}/retry", wait=False)
                return found, [notification_line(found["notification"])]
            case _:
                page = await client.get("/notifications", limit="50")
                return page, list_lines(page)

    return with_agent(args, request)


def list_lines(page: Mapping[str, Any]) -> Iterator[str]:
    """A line for each notification."""
    found = page["notifications"]
    yield from map(notification_line, found) if found else ("There are no notifications.",)


def notification_line(one: Mapping[str, Any]) -> str:
    tries = f"{one['attempts']} attempt{'' if one['attempts'] == 1 else 's'}"
    why = f": {one['why']}" if "why" in one else ""
    return f"{one['id']}  {one['at']}  {one['channel']}  {one['type']}  {one['state']}, {tries}{why}"
