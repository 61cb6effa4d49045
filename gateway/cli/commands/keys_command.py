"""`stopgo keys`: makes, lists and revokes the API keys of an agent."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..process.options import FAILED, add_config_option, add_journal_option, agent_config, path, wrong

if TYPE_CHECKING:
    from ....config.sections.agent_config import AgentConfig
    from ...auth.key_file import StoredKey

T = TypeVar("T")
_DAY = 86_400.0
_MAX_DAYS = 3650


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `keys` to the command line."""
    keys = subparsers.add_parser(
        "keys",
        help="make, list and revoke API keys of an agent",
        description="Changes the API keys: those in the data directory or, with --journal, in the database. "
        "A running agent follows them within a second. The agent file must have `auth: {api_keys: true}`.",
    )
    commands = keys.add_subparsers(required=True, metavar="COMMAND")
    add = commands.add_parser(
        "add",
        help="make a key and print it",
        description="Makes a key and prints it, once: the file has only its digest. Two keys of one name can "
        "be valid at a time, for a rotation.",
    )
    add.add_argument("name", metavar="NAME", help="name of the key, such as that of the program that uses it")
    add.add_argument(
        "--role",
        action="append",
        required=True,
        metavar="ROLE",
        help="viewer, operator, approver, relay, admin, or a name in `auth.roles`; may be repeated",
    )
    add.add_argument(
        "--for",
        dest="subject",
        metavar="SUBJECT",
        help="the person who uses the key, as the issuer or proxy names them. Votes of keys without a person "
        "do not count towards a quorum",
    )
    add.add_argument(
        "--expires", type=_days, metavar="DAYS", help="days until the key expires; default: it does not"
    )
    listing = commands.add_parser("list", help="print all keys, without their secrets")
    listing.add_argument(
        "--json", action="store_true", help="print JSON; times are those of RFC 3339, in UTC"
    )
    revoke = commands.add_parser(
        "revoke",
        help="revoke keys; their streams end",
        description="Revokes the key with this id, or all keys of this name. Their streams end.",
    )
    revoke.add_argument("key", metavar="ID-or-NAME", help="id or name of the key, from `stopgo keys list`")
    for command, run in ((add, add_key), (listing, list_keys), (revoke, revoke_keys)):
        add_config_option(command)
        command.add_argument(
            "--data-dir", type=path, metavar="DIR", help="data directory; overrides `data_dir`"
        )
        add_journal_option(command)
        command.set_defaults(run=run, command=command, model=None)


def add_key(args: argparse.Namespace) -> int:
    """Make a key. Exit codes: 2 if an argument is wrong, 1 if the file cannot be changed."""
    from ....actors.access.principal import all_grants
    from ....config.described.wording import nearest
    from ....config.text.values import quoted
    from ....runtime.clock import system_clock
    from ....runtime.journal.errors import JournalError
    from ...auth.key_changes import ChangeRefused, new_key
    from ...auth.key_file import KeyFileError

    config = agent_config(args, with_overrides=True)
    known = all_grants(config.auth.roles if config.auth else {})
    for role in args.role:
        if role not in known:
            hint = nearest(role, known) or f"roles: {', '.join(known)}"
            return wrong(args, f"there is no role {quoted(role)}; {hint}")
    roles, now = tuple(dict.fromkeys(args.role)), system_clock()
    expires = None if args.expires is None else now + args.expires * _DAY

    def change(keys: list[StoredKey]) -> tuple[StoredKey, str]:
        key, text = new_key(keys, args.name, roles, args.subject, now=now, expires=expires)
        keys.append(key)
        return key, text

    try:
        key, text = _change(args, config, change)
    except ChangeRefused as error:
        return wrong(args, str(error))
    except (KeyFileError, JournalError, OSError) as error:
        return _failed(args, error)
    _warn(args, config)
    print(f"{_line(key, now)}\nThe key, which is shown only now:", file=sys.stderr)
    print(text)
    return 0


def list_keys(args: argparse.Namespace) -> int:
    """Print a line for each key. Exit codes: 1 if the file cannot be read."""
    from ....runtime.clock import system_clock
    from ....runtime.journal.errors import JournalError
    from ...auth.key_file import KeyFileError

    config = agent_config(args, with_overrides=True)
    try:
        keys = _read(args, config)
    except (KeyFileError, JournalError, OSError) as error:
        return _failed(args, error)
    _warn(args, config)
    now = system_clock()
    if args.json:
        print(json.dumps({"keys": [_json(key, now) for key in keys]}))
        return 0
    for key in keys:
        print(_line(key, now))
    return 0


def revoke_keys(args: argparse.Namespace) -> int:
    """Revoke keys. Exit codes: 2 if there is no such key, 1 if the file cannot be changed."""
    from ....runtime.clock import system_clock
    from ....runtime.journal.errors import JournalError
    from ...auth.key_changes import ChangeRefused, revoked
    from ...auth.key_file import KeyFileError

    config = agent_config(args, with_overrides=True)
    now = system_clock()

    def change(keys: list[StoredKey]) -> list[StoredKey]:
        before, keys[:] = tuple(keys), revoked(keys, args.key, now=now)
        return [key for key in keys if key not in before]

    try:
        changed = _change(args, config, change)
    except ChangeRefused as error:
        return wrong(args, str(error))
    except (KeyFileError, JournalError, OSError) as error:
        return _failed(args, error)
    for key in changed:
        print(_line(key, now))
    return 0


def _change(args: argparse.Namespace, config: AgentConfig, change: Callable[[list[StoredKey]], T]) -> T:
    """Change the keys, in the journal or in the file. Raises `KeyFileError`, `JournalError` and `OSError`."""
    from ...auth.key_file import KeyFile

    if args.journal is None:
        with KeyFile.in_directory(config.data_dir).changing() as keys:
            return change(keys)
    from ...auth.key_notes import change_keys
    from .with_journal import with_journal

    return with_journal(args.journal, lambda notes: change_keys(notes, change))


def _read(args: argparse.Namespace, config: AgentConfig) -> Sequence[StoredKey]:
    """Raises as `_change`."""
    from ...auth.key_file import KeyFile

    if args.journal is None:
        return KeyFile.in_directory(config.data_dir).read()
    from ...auth.key_notes import read_keys
    from .with_journal import with_journal

    return with_journal(args.journal, read_keys)


def _failed(args: argparse.Namespace, error: Exception) -> int:
    print(f"{args.command.prog}: {error}", file=sys.stderr)
    return FAILED


def _warn(args: argparse.Namespace, config: AgentConfig) -> None:
    """Say that the keys have no effect, if that is so."""
    if config.auth is None or not config.auth.api_keys:
        print(
            f"{args.command.prog}: warning: {config.source} does not accept API keys; add to it: "
            "`auth: {api_keys: true}`",
            file=sys.stderr,
        )


def _line(key: StoredKey, now: float) -> str:
    return "  ".join(_parts(key, now))


def _parts(key: StoredKey, now: float) -> Iterator[str]:
    yield key.id
    yield key.name
    yield ",".join(key.roles)
    if key.subject is not None:
        yield f"for {key.subject}"
    yield f"created {_time(key.created)}"
    if key.revoked is not None:
        yield f"revoked {_time(key.revoked)}"
    elif key.expires is not None:
        yield f"{'expires' if key.is_live(now) else 'expired'} {_time(key.expires)}"


def _json(key: StoredKey, now: float) -> dict[str, object]:
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    return {
        "id": key.id,
        "name": key.name,
        "roles": key.roles,
        "subject": key.subject,
        **{name: None if at is None else _time(at) for name, at in times.items()},
        "valid": key.is_live(now),
    }


def _time(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _days(text: str) -> float:
    """The type of `--expires`."""
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days <= _MAX_DAYS:
        raise argparse.ArgumentTypeError(f"not a number of days above 0 and up to {_MAX_DAYS}")
    return days
