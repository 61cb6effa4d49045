"""`stopgo journal`: copies the journal of an agent to another store, makes the tables of a database, and
rewrites the file of a data directory without free space."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..process.options import FAILED, WRONG, is_installed

if TYPE_CHECKING:
    from ....runtime.journal.copied_rows import LivingMember


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `journal` to the command line."""
    journal = subparsers.add_parser(
        "journal", help="copy the journal of an agent, make its tables, or compact it"
    )
    commands = journal.add_subparsers(required=True, metavar="COMMAND")
    copy = commands.add_parser(
        "copy",
        help="copy all conversations, and compare the copy",
        description="Copies all conversations, approvals and API keys from a data directory to a PostgreSQL "
        "database, or back, and compares the copy with the source. Stop the agent before. The target must "
        "have no conversations; if anything fails, or the command is interrupted, nothing is copied.",
        epilog="Exit codes: 0 copied, 1 not copied, 2 wrong usage; 130 and 143 interrupted by SIGINT or "
        "SIGTERM.",
    )
    for name, text in (("FROM", "the journal to copy"), ("TO", "where to copy it")):
        copy.add_argument(
            name.lower(), metavar=name, type=_address, help=f"{text}: a data directory or a postgresql:// URL"
        )
    copy.set_defaults(run=run, command=copy)
    migrate = commands.add_parser(
        "migrate",
        help="make or update the tables of a database",
        description="Makes the tables of a PostgreSQL database, or updates them after an upgrade. An agent "
        "does so at its start; this command is for an agent whose role may not change tables.",
        epilog="Exit codes: 0 done, 1 not done, 2 wrong usage.",
    )
    migrate.add_argument(
        "url", metavar="URL", type=_url, help="a postgresql:// URL with the role that owns the tables"
    )
    migrate.set_defaults(run=migrate_tables, command=migrate)
    compact = commands.add_parser(
        "compact",
        help="return the space of deleted conversations to the file system",
        description="Rewrites the journal of a data directory without the space of deleted conversations. "
        "That is needed once, for a journal that an earlier version made; afterwards the agent returns the "
        "space by itself. Stop the agent before. The disk needs room for the contents twice; if anything "
        "fails, the journal stays as it is.",
        epilog="Exit codes: 0 done, 1 not done, 2 wrong usage.",
    )
    compact.add_argument("directory", metavar="DIRECTORY", type=_directory, help="a data directory")
    compact.set_defaults(run=compact_directory, command=compact)


def _address(text: str) -> Path | str:
    from ....runtime.journal.store_address import is_postgres

    if is_postgres(text):
        return text
    if not text or "://" in text:
        raise argparse.ArgumentTypeError("not a data directory or postgresql:// URL")
    return Path(text)


def _url(text: str) -> str:
    address = _address(text)
    if isinstance(address, Path):
        raise argparse.ArgumentTypeError("not a postgresql:// URL")
    return address


def _directory(text: str) -> Path:
    address = _address(text)
    if isinstance(address, str):
        raise argparse.ArgumentTypeError("not a data directory; PostgreSQL returns space by its own VACUUM")
    return address


def compact_directory(args: argparse.Namespace) -> int:
    """Return free space. Exit codes: see the help."""
    from ....runtime.journal.errors import JournalError
    from ....runtime.journal.sqlite.sqlite_journal import compact

    try:
        before, after = compact(args.directory)
    except (JournalError, OSError) as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        return FAILED
    print(f"{before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now")
    return 0


def migrate_tables(args: argparse.Namespace) -> int:
    """Make or update tables. Exit codes: see the help."""
    if not is_installed("postgres", "journal"):
        return WRONG
    from ....runtime.journal.errors import JournalError
    from .with_journal import with_journal

    try:
        with_journal(args.url, lambda journal: journal.note_revisions())  # opening it makes the tables
    except JournalError as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        return FAILED
    print("the tables are up to date")
    return 0


def run(args: argparse.Namespace) -> int:
    """Copy a journal. Exit codes: see the help."""
    source, target = vars(args)["from"], args.to
    if any(isinstance(each, str) for each in (source, target)) and not is_installed("postgres", "journal"):
        return WRONG
    import os
    import sqlite3

    from ....runtime.journal.errors import JournalError
    from ....runtime.stores.transfer import JournalInUse
    from ...auth.key_file import KeyFileError
    from ...signals import StopSignal, raised_stops
    from ..terminal.terminal import columns
    from .copy_progress import CopyProgress
    from .key_copy import copy_with_keys

    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    progress = CopyProgress(sys.stderr, columns(sys.stderr) if is_terminal else None)
    try:
        with raised_stops() as ignore_stops:
            try:
                copied, keys = copy_with_keys(source, target, tell=progress.tell, last=ignore_stops)
            finally:
                progress.end()
    except StopSignal as stop:
        print(f"{args.command.prog}: interrupted; nothing is copied", file=sys.stderr)
        return 128 + stop.number
    except (JournalError, KeyFileError, OSError, sqlite3.Error) as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        if isinstance(error, JournalInUse):
            for member in error.members:
                print(f"  {member_line(member, time.time())}", file=sys.stderr)
            print("  The lease of a process that was killed ends by itself.", file=sys.stderr)
        return FAILED
    print(f"copied and compared: {copied.streams} conversations, {copied.events} events, {keys} API keys")
    return 0


def member_line(member: LivingMember, now: float) -> str:
    """A process that works with a journal, in words. `now` is in UTC seconds."""
    from ....actors.common.fleet import described
    from ....runtime.visible_text import visible
    from .copy_progress import lasting

    process = described(member.about)
    words = (
        "a process that did not describe itself"
        if process is None
        else f"process {process.pid} on {process.host}, version {process.version}, started"
        f" {lasting(max(0.0, now - process.started))} ago"
    )
    return visible(f"node {member.name}: {words}; its lease ends in {lasting(member.seconds)}")
