"""`stopgo policy report`: prints what the rules of an agent have decided."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....runtime.journal.store_address import is_postgres
from ..process.options import FAILED, WRONG, add_token_option, add_url_option, is_installed, path
from .policy_replay import postgres_url

if TYPE_CHECKING:
    from ..client.agent_client import AgentClient, JsonObject
    from .with_agent import InWords


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `report` to the sub-commands of `policy`."""
    report = commands.add_parser(
        "report",
        help="print what the rules of an agent have decided",
        description="Prints for each rule, shadow rules included, how many calls it decided in 24 hours, "
        "7 and 30 days, what people decided about these calls and how long that took, and for each tool how "
        "its calls went. Asks a running agent, or reads a journal, which an agent may use meanwhile.",
        epilog="Exit codes: 0 done, 1 refused or not reached, 2 wrong usage.",
    )
    add_url_option(report)
    add_token_option(report)
    source = report.add_mutually_exclusive_group()
    source.add_argument(
        "--data-dir", type=path, metavar="DIR", help="data directory to read, instead of asking an agent"
    )
    source.add_argument(
        "--journal", metavar="URL", type=postgres_url, help="PostgreSQL database to read, a postgresql:// URL"
    )
    report.add_argument("--json", action="store_true", help="print the JSON of the HTTP API")
    report.set_defaults(run=report_policy, command=report)


def report_policy(args: argparse.Namespace) -> int:
    """Print what the rules have decided. Exit codes: see the help."""
    from .with_agent import with_agent

    address = args.journal or args.data_dir
    if address is not None:
        return _report_journal(args, address)

    async def request(client: AgentClient) -> InWords:
        found = await client.get("/policy/report")
        return found, report_lines(found)

    return with_agent(args, request)


def _report_journal(args: argparse.Namespace, address: Path | str) -> int:
    from ....runtime.journal.errors import JournalError
    from ..process.interrupt import run_until_interrupted
    from ..terminal.terminal import printable

    if is_postgres(address) and not is_installed("postgres", "policy report"):
        return WRONG
    try:
        found = run_until_interrupted(lambda: reported(address, time.time()))
    except JournalError as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        return FAILED
    for line in [json.dumps(found)] if args.json else map(printable, report_lines(found)):
        print(line)
    return 0


async def reported(address: Path | str, now: float) -> JsonObject:
    """The report of a journal at a time, as the HTTP API gives it. Raises `JournalError`."""
    from ....actors.gate.policies import stored_policies
    from ....actors.replay.rule_report import rule_report
    from ....runtime.json_text import dump_wire, load_edge
    from ....runtime.stores.read_journal import read_journal
    from ...rest.policy_report_view import report_view

    async with read_journal(address) as journal:
        report = await rule_report(journal, now)
        view = report_view(report, await stored_policies(journal), report.policy, names_damage=True)
        found: JsonObject = load_edge(dump_wire(view))
        return found


def report_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """A report for a person."""
    cut = "; older ones are left out" if found["cut"] else ""
    yield f"policy {found['revision']}: {found['calls']} calls from {found['since']} to {found['at']}{cut}"
    if found["unknown"]:
        yield f"{found['unknown']} of them have no verdict on record"
    if found["damaged_events"]:
        yield f"{found['damaged_events']} events cannot be read, and are left out"
        yield from (f"  {each['conversation_id']}: {each['problem']}" for each in found.get("damaged", ()))
    yield ""
    yield f"{_FIGURES}  RULE"
    for rule in found["rules"]:
        former = "" if rule["current"] else " (former)"
        yield f"{_figures(rule)}  {rule['id']}  {rule['text']}{former}"
        for each in rule["shadow_verdicts"]:
            tried = f"in shadow: {each['action']}, was {each['was']}: {each['hits_30d']}"
            yield f"{'':{len(_FIGURES)}}    {tried}"
    yield from (f"{_figures(each)}  {each['text']}" for each in found["settings"])
    yield ""
    yield f"{_FIGURES}     RAN   ASKED  DENIED  TOOL"
    for tool in found["tools"]:
        counts = "".join(f"{tool[name]:>8}" for name in ("ran", "asked", "denied"))
        yield f"{_figures(tool)}{counts}  {tool['tool']} ({tool['server']})"


_FIGURES = "     24H      7D     30D  APPROVED  EDITED  REJECTED  ANSWERED  EXPIRED     WAIT  LAST      "


def _figures(of: Mapping[str, Any]) -> str:
    """The figures below `_FIGURES`."""
    hits = "".join(f"{of[name]:>8}" for name in ("hits_24h", "hits_7d", "hits_30d"))
    answers = (
        f"{of['approved']:>10}{of['edited']:>8}{of['rejected']:>10}{of['answered']:>10}{of['expired']:>9}"
    )
    wait = f"{of['median_wait_seconds']:.0f} s" if "median_wait_seconds" in of else "-"
    return f"{hits}{answers}{wait:>9}  {of['last_hit'][:10] if 'last_hit' in of else 'never':<10}"
