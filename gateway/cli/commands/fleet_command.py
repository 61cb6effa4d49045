"""`stopgo fleet`: the processes of a running agent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..process.options import (
    FAILED,
    JOURNAL,
    WRONG,
    add_journal_option,
    add_token_option,
    add_url_option,
    is_installed,
    wrong,
)

if TYPE_CHECKING:
    from ..client.agent_client import AgentClient
    from .with_agent import InWords

_ROW = "{:<14}{:<24}{:<10}{:>9}{:>15}{:>6}  {}"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `fleet` to the command line."""
    fleet = subparsers.add_parser(
        "fleet",
        help="list the processes of a running agent, or give them a new key",
        description="Lists the processes that share the journal of a running agent, with their leases and "
        "conversations, as the process at the URL sees them.",
        epilog="Exit codes: 0 done, 1 refused or not reached, 2 wrong usage.",
    )
    add_url_option(fleet)
    add_token_option(fleet)
    fleet.add_argument("--json", action="store_true", help="print the JSON of the HTTP API")
    fleet.set_defaults(run=run, command=fleet)
    commands = fleet.add_subparsers(metavar="COMMAND")
    rotate = commands.add_parser(
        "rotate-key",
        help="make a new key of the fleet",
        description="Makes a new key with which the processes on a database recognize each other. They "
        "follow it within a second: their connections with the old key end, and begin again. Nothing has to "
        "be restarted.",
        epilog="Exit codes: 0 done, 1 not done, 2 wrong usage.",
    )
    add_journal_option(rotate)
    rotate.set_defaults(run=rotate_key, command=rotate)


def run(args: argparse.Namespace) -> int:
    """Print the processes. Exit codes: see the help."""
    from .with_agent import with_agent

    async def request(client: AgentClient) -> InWords:
        fleet = await client.get("/fleet")
        return fleet, lines_of(fleet)

    return with_agent(args, request)


def rotate_key(args: argparse.Namespace) -> int:
    """Make a new key of the fleet. Exit codes: see the help."""
    if args.journal is None:
        return wrong(args, f"--journal or ${JOURNAL} must name the database that the processes share")
    if not is_installed("postgres", "fleet rotate-key"):
        return WRONG
    from ....runtime.journal.errors import JournalError
    from ...fleet.fleet_key import rotate
    from .with_journal import with_journal

    try:
        with_journal(args.journal, rotate)
    except JournalError as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        return FAILED
    print("the fleet has a new key")
    return 0


def lines_of(fleet: Mapping[str, Any]) -> Iterator[str]:
    """The processes in words."""
    standbys = fleet.get("synchronous_standbys")
    store = f"{fleet['store']}, answers in {fleet['round_trip_ms']} ms"
    yield f"journal: {store}" + (f", synchronous standbys: {standbys}" if standbys else "")
    if fleet["unowned"]:
        yield f"conversations with something to do, and no process yet: {fleet['unowned']}"
    if waiting := fleet.get("need_newer"):
        yield f"conversations that need a newer version of the agent: {waiting}"
    yield _ROW.format("NODE", "PROCESS", "VERSION", "LEASE", "CONVERSATIONS", "OPEN", "").rstrip()
    for member in fleet["nodes"]:
        lease = member.get("lease_seconds")
        yield _ROW.format(
            member["name"],
            f"{member['host']}:{member['pid']}" if "host" in member else "-",
            member.get("version", "-"),
            "-" if lease is None else "ended" if lease == 0 else f"{lease} s",
            member["conversations"],
            member["open"],
            "this one" if member["is_this"] else "",
        ).rstrip()
