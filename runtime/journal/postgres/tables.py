"""The tables of the journal on PostgreSQL, and their migrations.

They are in the first schema of the connection's search path. Each table but those of members and notes is
written only by a transaction that has locked the row of its stream, so that foreign keys would add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import psycopg

from ..errors import JournalError, JournalTooNew
from . import tally

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


def sql(text: str) -> bytes:
    """A query that is composed of constants. Values are never part of a query."""
    return text.encode()  # psycopg's types want a literal, or bytes


_Migration: TypeAlias = Sequence[str]
"""The statements that migrate a database from one version to the next."""

NOT_BEGUN = "SG001"
NOT_PENDING = "SG002"
"""The SQLSTATEs that `refuse` raises."""

_FIRST: _Migration = (
    # The only clock of the store: UTC seconds at the beginning of the transaction.
    """CREATE FUNCTION journal_now() RETURNS float8 STABLE LANGUAGE sql AS
        'SELECT extract(epoch FROM now())::float8'""",
    # Fails the statement that calls it.
    """CREATE FUNCTION refuse(code text) RETURNS void LANGUAGE plpgsql AS
        'BEGIN IF code IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = code; END IF; END'""",
    # Epochs are unique in the database: a stream that was deleted and created again has no old fence.
    "CREATE SEQUENCE epoch",
    "CREATE TABLE node (name text PRIMARY KEY, about text NOT NULL, until float8 NOT NULL)",
    # Rows are updated by each save: room in the page lets the update leave the indexes alone.
    """CREATE TABLE stream (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        node text,
        epoch bigint NOT NULL DEFAULT 0,
        saved bigint NOT NULL DEFAULT 0,
        demands int NOT NULL DEFAULT 0,
        status text NOT NULL DEFAULT '',
        title text NOT NULL DEFAULT '""',
        folded_title text NOT NULL DEFAULT '',
        work smallint NOT NULL DEFAULT 0,
        body text NOT NULL DEFAULT '{}',
        owner text NOT NULL DEFAULT '',
        last_seq bigint NOT NULL DEFAULT 0,
        created float8 NOT NULL,
        updated float8 NOT NULL) WITH (fillfactor = 70)""",
    "CREATE INDEX stream_by_status ON stream (status, id)",
    "CREATE INDEX stream_of_owner ON stream (owner, id) WHERE owner <> ''",
    "CREATE INDEX stream_open ON stream (id) WHERE work = 1",
    "CREATE INDEX stream_of_node ON stream (node) WHERE node IS NOT NULL",
    """CREATE TABLE event (
        stream bigint,
        seq bigint,
        type text NOT NULL,
        at float8 NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (stream, seq))""",
    """CREATE TABLE inbox (
        id bigint GENERATED ALWAYS AS IDENTITY,
        stream bigint,
        key text,
        kind text NOT NULL,
        body text NOT NULL,
        at float8 NOT NULL,
        node text NOT NULL,
        open smallint NOT NULL DEFAULT 1,
        reply text,
        PRIMARY KEY (stream, key))""",
    # Refused commands have open = 2, and the time of the refusal in `at`.
    "CREATE INDEX inbox_open ON inbox (stream, id) WHERE open = 1",
    "CREATE INDEX inbox_refused ON inbox (stream) WHERE open = 2",
    """CREATE TABLE question (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text NOT NULL UNIQUE,
        stream bigint NOT NULL,
        kind text NOT NULL,
        state text NOT NULL DEFAULT 'pending',
        body text NOT NULL,
        patch text,
        decision text,
        created float8 NOT NULL,
        expires float8,
        settled float8,
        votes text)""",
    "CREATE INDEX question_by_state ON question (state, number)",
    "CREATE INDEX question_of_stream ON question (stream, state)",
    "CREATE INDEX question_due ON question (expires, number) WHERE state = 'pending' AND expires IS NOT NULL",
    """CREATE TABLE intent (
        stream bigint,
        key text,
        attempt int,
        effect text NOT NULL,
        state text NOT NULL DEFAULT 'started',
        body text NOT NULL,
        PRIMARY KEY (stream, key, attempt))""",
    # A write of notes locks the row of their kind, so the revisions of a kind are committed in order.
    "CREATE TABLE note_kind (kind text PRIMARY KEY, revision bigint NOT NULL)",
    """CREATE TABLE note (
        kind text,
        key text,
        body text NOT NULL,
        revision bigint NOT NULL,
        PRIMARY KEY (kind, key))""",
    "CREATE INDEX note_by_revision ON note (kind, revision)",
)

STEPS: Sequence[_Migration] = (_FIRST,)
"""Step n (from 0) migrates version n to version n + 1. Released steps never change."""

_ADDED: _Migration = (
    "ALTER TABLE node ADD COLUMN IF NOT EXISTS version int NOT NULL DEFAULT 0",
    "CREATE INDEX IF NOT EXISTS stream_by_demands ON stream (demands)",
)
_EXTRACTS = """CREATE TABLE extract (
    stream bigint PRIMARY KEY REFERENCES stream ON DELETE CASCADE,
    seq bigint NOT NULL,
    form text NOT NULL,
    body text NOT NULL)"""
"""Changes that older programs can ignore. They do not raise the version, so older programs can still open the
database."""

_OUTBOX = """CREATE TABLE IF NOT EXISTS outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL, at float8 NOT NULL)"""

_LOCK = 0x5709_60
"""The number of the advisory lock under which one member migrates."""
_LOCK_SECONDS = 1
"""How long the new triggers wait for the writes to streams: other writes wait behind them. After that, the
start is tried again."""


def migrate(db: Connection) -> str:
    """Migrate the database to the newest version, and return the name of the schema.

    Raises:
        JournalTooNew: a newer version of the program wrote it. JournalError: it is the database of another
        program, or the role may not create the tables.
    """
    try:
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            schema = _migrate(db)
            _add_missing(db, schema)
        _count(db)
        return schema
    except psycopg.errors.InsufficientPrivilege as error:
        raise JournalError(
            f"the role of the journal may not create its tables ({error.diag.message_primary}): give it a "
            "schema of its own, with CREATE SCHEMA ... AUTHORIZATION"
        ) from error
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction) as error:
        raise JournalError(
            f"the schema has tables of another program ({error.diag.message_primary}): give the journal a "
            "schema of its own"
        ) from error


def _migrate(db: Connection) -> str:
    """Carry out the steps after the version of the database."""
    ((schema, known),) = db.execute("SELECT current_schema(), to_regclass('journal_version')").fetchall()
    if schema is None:
        raise JournalError("the role may use no schema of its search path: create one for the journal")
    version = 0
    if known is not None:
        ((version,),) = db.execute("SELECT version FROM journal_version").fetchall()
    if version > len(STEPS):
        raise JournalTooNew(
            f"the journal has version {version}, but this program reads versions up to {len(STEPS)}: "
            "update it"
        )
    if version < len(STEPS):
        if known is None:
            db.execute("CREATE TABLE journal_version (version int NOT NULL)")
            db.execute("INSERT INTO journal_version VALUES (0)")
        for step in STEPS[version:]:
            for statement in step:
                db.execute(sql(statement))
        db.execute("UPDATE journal_version SET version = %s", (len(STEPS),))
    return str(schema)


def _add_missing(db: Connection, schema: str) -> None:
    """Add the parts that came without a new version: earlier programs may ignore them."""
    # The second of them, so that a start of a member that finds both locks no table.
    ((added,),) = db.execute("SELECT to_regclass('stream_by_demands')").fetchall()
    if added is None:
        for statement in _ADDED:
            db.execute(sql(statement))
    db.execute(sql(_OUTBOX))
    ((added,),) = db.execute("SELECT to_regclass('extract')").fetchall()
    if added is None:
        db.execute(sql(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        db.execute(sql(_EXTRACTS))
    ((added,),) = db.execute("SELECT to_regclass('tally')").fetchall()
    if added is None:
        db.execute(sql(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        for statement in tally.TABLES:
            db.execute(sql(statement.replace("$schema", '"{}"'.format(schema.replace('"', '""')))))


def _count(db: Connection) -> None:
    """Count the streams of a database to which the tally was added."""
    if db.execute(tally.COUNTED).rowcount:
        return
    with db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # One member counts. The lock comes before the snapshot, in which the others then find the numbers.
        db.execute("LOCK TABLE tally IN SHARE ROW EXCLUSIVE MODE")
        if not db.execute(tally.COUNTED).rowcount:
            for statement in tally.FIRST_COUNT:
                db.execute(sql(statement))
