"""`stopgo policy replay`: judges recorded calls under the rules of another agent file."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ....runtime.journal.store_address import is_postgres
from ..process.options import (
    FAILED,
    JOURNAL,
    WRONG,
    add_token_option,
    base_url,
    is_installed,
    path,
    token_of,
    wrong,
)

if TYPE_CHECKING:
    from ....actors.replay.judged_call import Outcome
    from ....actors.replay.recorded_call import Damage, RecordedCall
    from ....actors.replay.replay_report import CallFilter, Group, ReplayReport
    from ....config.sections.agent_config import AgentConfig

    LearnPolicy: TypeAlias = Callable[[str, Mapping[str, Any]], None]
    """Gets each policy of the calls, with its revision, before its calls."""
    TakeCall: TypeAlias = Callable[[RecordedCall], bool]
    """Gets each call. False: no more calls are wanted."""
    ReadCalls: TypeAlias = Callable[[LearnPolicy, TakeCall], Awaitable[Damage]]
    """Gives all calls of a source. Returns what could not be read."""

LOOSENED = 3
"""Exit code: a verdict is less strict."""
REFUSED = 4
"""Exit code: a call that a person rejected, answered or edited would run."""
INCOMPLETE = 5
"""Exit code, with `--strict`: something that matters is not known."""

LONG = 5_000
"""Conversations from which on two processes share the work."""
_SPANS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_LONGEST = 160
"""Characters of arguments that are shown."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `replay` to the sub-commands of `policy`."""
    replay = commands.add_parser(
        "replay",
        help="judge recorded calls under the rules of another agent file",
        description="Judges the calls in a journal under the rules of another agent file. Asks no model, "
        "starts no server, calls nothing and writes nothing; the agent may run meanwhile.",
        epilog="Exit codes: 0 no verdict is less strict, 1 not done, 2 wrong usage, 3 a verdict is less "
        "strict, 4 a call that a person rejected, answered or edited would run, 5 with --strict and without "
        "4: something is not known.",
    )
    replay.add_argument("file", type=path, metavar="NEW.yaml", help="agent file with the rules to try")
    source = replay.add_mutually_exclusive_group()
    source.add_argument(
        "--data-dir",
        type=path,
        metavar="DIR",
        help=f"data directory with the calls; default: ${JOURNAL}, else that of NEW.yaml",
    )
    source.add_argument(
        "--journal",
        metavar="URL",
        type=postgres_url,
        help="PostgreSQL database with the calls, a postgresql:// URL",
    )
    source.add_argument(
        "--url", type=base_url, help="address of a running agent with the calls; needs the role admin"
    )
    add_token_option(replay)
    for name, text in (("since", "calls from this time on"), ("until", "calls before this time")):
        replay.add_argument(
            f"--{name}",
            type=_time,
            metavar="TIME",
            help=f"{text}: 2026-01-31, 2026-01-31T08:00Z, or 7d, 12h ago",
        )
    for name in ("tool", "node", "server"):
        replay.add_argument(f"--{name}", metavar="NAME", help=f"calls of this {name}; * and ? are wildcards")
    replay.add_argument(
        "--limit", type=_number, metavar="N", help="at most so many calls, those of the newest conversations"
    )
    replay.add_argument(
        "--json", action="store_true", help="print a line of JSON for each call, then a summary"
    )
    replay.add_argument(
        "--strict",
        action="store_true",
        help="exit code 5 if a verdict or a decision of a person is not known",
    )
    replay.set_defaults(run=replay_calls, command=replay)


def postgres_url(text: str) -> str:
    """The URL of a database, as an argument of a command."""
    if not is_postgres(text):
        raise argparse.ArgumentTypeError("not a postgresql:// URL")
    return text


def _time(text: str) -> float:
    if found := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return time.time() - int(found[1]) * _SPANS[found[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "neither a time, such as 2026-01-31T08:00Z, nor a span, such as 7d"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _number(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise argparse.ArgumentTypeError("not a number from 1")
    return int(text)


def replay_calls(args: argparse.Namespace) -> int:
    """Print what other rules would have done. Exit codes: see the help."""
    from ....actors.replay.replay_report import CallFilter, summary_json
    from ....config.load import load_config
    from ....runtime.journal.errors import JournalError
    from ..chat.deciding import tell_refusal
    from ..client.agent_client import ServerError
    from ..process.interrupt import run_until_interrupted
    from ..terminal.terminal import Terminal, printable

    config = load_config(args.file)
    if args.since is not None and args.until is not None and args.until <= args.since:
        return wrong(args, "--until is not after --since")
    wanted = CallFilter(args.since or 0.0, args.until, args.tool, args.node, args.server, args.limit)
    address = args.journal or args.data_dir or os.environ.get(JOURNAL) or config.data_dir
    if args.url is None and is_postgres(address) and not is_installed("postgres", "policy replay"):
        return WRONG

    async def run() -> ReplayReport:
        if args.url is None and not args.json and args.limit is None:
            return await replayed_in_parts(config, args.file, address, wanted)
        read = of_journal(address, wanted.since) if args.url is None else of_agent(args)
        return await replayed(config, wanted, read, _print_json if args.json else None)

    try:
        report = run_until_interrupted(run)
    except (JournalError, ProcessEnded) as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        return FAILED
    except ServerError as error:
        tell_refusal(Terminal.of_this_process(), error)
        return FAILED
    if args.json:
        _print_json({"summary": summary_json(report)})
    else:
        print(*map(printable, report_lines(report, str(args.file))), sep="\n")
    for line in warnings(report):
        print(f"{args.command.prog}: {printable(line)}", file=sys.stderr)
    return exit_code(report, strict=args.strict)


def _print_json(value: Mapping[str, Any]) -> None:
    print(json.dumps(value))


async def replayed(
    config: AgentConfig,
    wanted: CallFilter,
    read: ReadCalls,
    show: Callable[[Mapping[str, Any]], None] | None,
) -> ReplayReport:
    """The replay of the calls that `read` gives. `show` gets each of them. Raises what `read` raises."""
    from ....actors.replay.replay_report import Replay

    replay = Replay.of(config, wanted)

    def take(call: RecordedCall) -> bool:
        judged = replay.take(call)
        if judged is not None and show is not None:
            show(replay.call_json(judged))
        return not replay.is_full

    replay.report.damage = await read(replay.learn, take)
    return replay.report


def of_journal(address: Path | str, since: float, part: int = 0, of: int = 1) -> ReadCalls:
    """The calls of a journal, or of every `of`-th conversation. Raises `JournalError`."""
    from ....actors.gate.policies import stored_policies
    from ....actors.replay.recorded_call import read_calls
    from ....runtime.stores.read_journal import read_journal

    async def read(learn: LearnPolicy, take: TakeCall) -> Damage:
        async with read_journal(address) as journal:
            for each in await stored_policies(journal):
                learn(each.revision, each.content)
            return await read_calls(journal, take, since=since, part=part, of=of)

    return read


async def replayed_in_parts(
    config: AgentConfig, file: Path, address: Path | str, wanted: CallFilter
) -> ReplayReport:
    """The replay of a journal, by two processes if it is long: a call takes mainly computing time. Raises
    `JournalError` and `ProcessEnded`."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    if not await _is_long(address):
        return await replayed(config, wanted, of_journal(address, wanted.since), None)
    with ProcessPoolExecutor(1, get_context("spawn"), ignore_interrupts) as pool:
        other = pool.submit(replay_other_part, file, address, wanted)
        report = await replayed(config, wanted, of_journal(address, wanted.since, 0, 2), None)
        try:
            report.merge(other.result())
        except BrokenProcessPool:
            raise ProcessEnded from None
    return report


class ProcessEnded(Exception):
    """Something has ended the second process."""

    def __str__(self) -> str:
        return (
            "process_ended: the second process was ended from outside, perhaps for lack of memory; nothing "
            "is reported (with --json, one process does all the work)"
        )


def ignore_interrupts() -> None:
    """In the second process: the first one says what happened, and ends both."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def replay_other_part(file: Path, address: Path | str, wanted: CallFilter) -> ReplayReport:
    """The work of the second process."""
    import trio

    from ....config.load import load_config

    read = of_journal(address, wanted.since, 1, 2)
    return trio.run(replayed, load_config(file), wanted, read, None)


async def _is_long(address: Path | str) -> bool:
    from ....runtime.journal.passage import WantedEvents
    from ....runtime.stores.read_journal import read_journal

    async with read_journal(address) as journal:
        next = (await journal.passage(WantedEvents(types=()))).next
        return next is not None and next.stream > LONG


def of_agent(args: argparse.Namespace) -> ReadCalls:
    """The calls of a running agent. Raises ServerError."""
    from ..client.agent_client import open_client
    from .remote_calls import read_remote_calls

    bearer = token_of(args)

    async def read(learn: LearnPolicy, take: TakeCall) -> Damage:
        async with open_client(args.url, bearer) as client:
            return await read_remote_calls(client, learn, take, args.since or 0.0)

    return read


def exit_code(report: ReplayReport, *, strict: bool) -> int:
    """The result for programs: see the help."""
    if report.groups["refused"]:
        return REFUSED
    if strict and report.is_incomplete:
        return INCOMPLETE
    return LOOSENED if report.groups["loosened"] else 0


def warnings(report: ReplayReport) -> Iterator[str]:
    """What is not known, in sentences."""
    if unknown := report.sure["unknown"]:
        reasons = "; ".join(f"{count}: {why}" for why, count in report.reasons.most_common())
        yield f"the verdict on {unknown} of {report.calls} calls is unknown ({reasons})"
    if report.answers_unknown:
        yield f"what people decided about {report.answers_unknown} calls is unknown: events are damaged"
    if report.damage.events:
        yield f"{report.damage.events} events or conversations cannot be read:"
        yield from (f"  {stream}: {why}" for stream, why in report.damage.named.items())


# ----------------------------------------------------------------- for people


def report_lines(report: ReplayReport, file: str) -> Iterator[str]:
    """A report for a person."""
    from ....actors.replay.recorded_call import DECIDED

    if not report.calls:
        yield "no calls"
        return
    assert report.first is not None
    assert report.last is not None
    yield (
        f"{report.calls} calls in {report.conversations} conversations, from {_moment(report.first)} "
        f"to {_moment(report.last)}"
    )
    yield ", ".join(f"{report.sure[each]} {each}" for each in ("exact", "bounded", "unknown"))
    yield ""
    yield from _table(report)
    yield ""
    yield f"rules of {file}"
    yield "      HITS   CHANGED  APPROVED    EDITED  REJECTED  ANSWERED  RULE"
    for use in report.rules.values():
        counts = (use.hits, use.changes, *(use.answers[each] for each in DECIDED))
        yield f"{''.join(f'{count:>10}' for count in counts)}  {use.text}"
    for group, words in _TITLES.items():
        if count := report.groups[group]:
            listed = report.listed[group]
            yield ""
            more = f", the first {len(listed)} of them" if len(listed) < count else ""
            yield f"{words}: {count} calls{more}"
            for each in listed:
                yield from _call_lines(each)


_TITLES: Mapping[Group, str] = {
    "refused": "a person rejected, answered or edited the call, and it would run",
    "loosened": "less strict",
    "tightened": "stricter",
}
_OUTCOMES: Sequence[Outcome] = ("run", "ask", "deny", "none")


def _table(report: ReplayReport) -> Iterator[str]:
    """All pairs of the verdict on record and the verdict now."""
    yield f"{'WAS, NOW':<10}{''.join(f'{each:>10}' for each in (*_OUTCOMES, 'unknown'))}"
    for was in (*_OUTCOMES, None):
        row = [report.verdicts[was, now] for now in (*_OUTCOMES, None)]
        if any(row):
            yield f"{was or 'unknown':<10}{''.join(f'{count:>10}' for count in row)}"


def _call_lines(call: Mapping[str, Any]) -> Iterator[str]:
    arguments = json.dumps(call["arguments"], ensure_ascii=False)
    if len(arguments) > _LONGEST:
        arguments = f"{arguments[: _LONGEST - 1]}…"
    yield f"  {_moment(call['at'])}  {call['conversation']}  {call['node']}: {call['tool']} {arguments}"
    was, now = call["was"], call["now"]
    decided = f", {call['answer']}" if "answer" in call else ""
    yield f"      was {was['verdict']} by {was['rule']}{decided}"
    yield f"      now {now['verdict']} by {now['rule']} ({call['sure']})"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
