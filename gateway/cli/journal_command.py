"""`stopgo journal`: copies the journal of an agent to another store, and makes the tables of a database."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .options import FAILED, WRONG, is_installed


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `journal` to the command line."""
    journal = subparsers.add_parser("journal", help="copy the journal of an agent, or make its tables")
    commands = journal.add_subparsers(required=True, metavar="COMMAND")
    copy = commands.add_parser(
        "copy",
        help="copy all conversations, and compare the copy",
        description="Copies all conversations, approvals and API keys from a data directory to a PostgreSQL "
        "database, or back, and compares the copy with the source. Stop the agent before. The target must "
        "have no conversations; if anything fails, nothing is copied.",
        epilog="Exit codes: 0 copied, 1 not copied, 2 wrong usage.",
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


def _address(text: str) -> Path | str:
    from ...runtime.journal.store_address import is_postgres

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


def migrate_tables(args: argparse.Namespace) -> int:
    """Make or update tables. Exit codes: see the help."""
    if not is_installed("postgres", "journal"):
        return WRONG
    from ...runtime.journal.errors import JournalError
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
    import sqlite3

    from ...runtime.journal.errors import JournalError
    from ...runtime.stores.transfer import copy_journal
    from ..auth.key_file import KeyFileError
    from .key_copy import copy_keys

    try:
        copied = copy_journal(source, target)
        keys = copy_keys(source, target)
    except (JournalError, KeyFileError, OSError, sqlite3.Error) as error:
        print(f"{args.command.prog}: {error}", file=sys.stderr)
        return FAILED
    print(f"copied and compared: {copied.streams} conversations, {copied.events} events, {keys} API keys")
    return 0
