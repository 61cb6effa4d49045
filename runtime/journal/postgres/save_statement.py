"""The statement of saves. Pure.

Each save is a row of `save`, with the number `n`; its events, intents and so on are rows of further tables of
arguments, and name it. The part `done` changes the rows of the streams whose fence and seq are right. The
other parts join `done`: a save that is not in it writes nothing, and disturbs no other. They all see the
database as it was when the statement began, so no row may be changed by two of them, and a statement has at
most one save of a stream.

A save alone waits for the lock of its stream. A group passes over the streams that others have locked: so it
waits for no lock while it has one, and no stream holds up the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count

import attrs

from ..protocol import REFUSAL_SECONDS
from .binary import TypeName
from .tables import NOT_BEGUN, NOT_PENDING


@attrs.frozen
class SaveArgument:
    """A table of arguments. Its first column is the number of the save."""

    columns: Mapping[str, TypeName]
    """The others."""
    part: str
    """The part of the statement that takes its rows."""
    work: str
    refuses: str = ""
    """The SQLSTATE of the error if the part has changed less than there are rows."""


ARGUMENTS: Mapping[str, SaveArgument] = {
    "save": SaveArgument(
        {
            "name": "text",
            "node": "text",
            "epoch": "int8",
            "expected": "int8",
            "version": "int4",
            "events": "int8",
            "latest": "float8",
            "is_dated": "bool",
            "status": "text",
            "title": "text",
            "folded_title": "text",
            "work": "int2",
            "body": "text",
            "owner": "text",
        },
        "done",
        """UPDATE stream SET saved = stream.epoch, demands = greatest(demands, version),
        last_seq = last_seq + events,
        updated = greatest(updated, latest, CASE WHEN is_dated THEN journal_now() END),
        status = coalesce(save.status, stream.status), title = coalesce(save.title, stream.title),
        folded_title = coalesce(save.folded_title, stream.folded_title),
        work = coalesce(save.work, stream.work), body = coalesce(save.body, stream.body),
        owner = coalesce(save.owner, stream.owner)
        FROM save JOIN locked USING (name) WHERE stream.id = locked.id
        AND stream.node = save.node AND stream.epoch = save.epoch AND last_seq = expected
        RETURNING n, stream.id, expected""",
    ),
    "added": SaveArgument(
        {"place": "int8", "type": "text", "at": "float8", "body": "text"},
        "appended",
        """INSERT INTO event (stream, seq, type, at, body)
        SELECT id, expected + place, type, coalesce(at, journal_now()), body
        FROM done JOIN added USING (n)""",
    ),
    # The first reply to a command is kept, unless it is refused.
    "replying": SaveArgument(
        {"key": "text", "open": "int2", "reply": "text"},
        "replied",
        """UPDATE inbox SET open = coalesce(replying.open, inbox.open),
        at = CASE WHEN replying.open = 2 THEN journal_now() ELSE at END,
        reply = CASE WHEN replying.open = 2 THEN replying.reply ELSE coalesce(inbox.reply, replying.reply) END
        FROM done JOIN replying USING (n) WHERE stream = done.id AND inbox.key = replying.key""",
    ),
    "refusing": SaveArgument(
        {},
        "forgotten",
        f"""DELETE FROM inbox USING done JOIN refusing USING (n) WHERE stream = done.id AND inbox.open = 2
        AND at < journal_now() - {REFUSAL_SECONDS}
        AND NOT EXISTS (SELECT FROM replying WHERE replying.n = done.n AND replying.key = inbox.key)""",
    ),
    "beginning": SaveArgument(
        {"key": "text", "attempt": "int4", "effect": "text", "body": "text"},
        "begun",
        """INSERT INTO intent (stream, key, attempt, effect, body)
        SELECT id, key, attempt, effect, body FROM done JOIN beginning USING (n)""",
    ),
    "ending": SaveArgument(
        {"key": "text", "attempt": "int4", "state": "text"},
        "ended",
        """UPDATE intent SET state = ending.state FROM done JOIN ending USING (n) WHERE stream = done.id
        AND intent.key = ending.key AND intent.attempt = ending.attempt RETURNING 1""",
        NOT_BEGUN,
    ),
    "asking": SaveArgument(
        {"question": "text", "kind": "text", "body": "text", "expires": "float8"},
        "asked",
        """INSERT INTO question (id, stream, kind, body, created, expires)
        SELECT question, id, kind, body, journal_now(), expires FROM done JOIN asking USING (n)""",
    ),
    "closing": SaveArgument(
        {"question": "text", "state": "text", "patch": "text"},
        "closed",
        """UPDATE question SET state = closing.state, patch = closing.patch, settled = journal_now()
        FROM done JOIN closing USING (n) WHERE question.id = closing.question AND stream = done.id
        AND question.state = 'pending' RETURNING 1""",
        NOT_PENDING,
    ),
    "telling": SaveArgument(
        {"body": "text"},
        "told",
        "INSERT INTO outbox (body, at) SELECT body, journal_now() FROM done JOIN telling USING (n)",
    ),
}
_LOCK = "locked AS (SELECT id, name FROM stream WHERE name = ANY($2::text[]) FOR NO KEY UPDATE{})"


@cache
def statement(given: tuple[str, ...], *, is_group: bool) -> str:
    """`given`: the tables of arguments that have rows, in order."""
    numbers, parts, results = count(1), list[str](), ["n", "journal_now()"]
    for name in given:
        arrays = ", ".join(f"${next(numbers)}::{type}[]" for type in types(name))
        columns = ", ".join(("n", *ARGUMENTS[name].columns))
        parts.append(f"{name} AS (SELECT * FROM unnest({arrays}) AS {name} ({columns}))")
    parts.append(_LOCK.format(" SKIP LOCKED" if is_group else ""))
    for name in given:
        argument = ARGUMENTS[name]
        parts.append(f"{argument.part} AS ({argument.work})")
        if argument.refuses:
            changed, wanted = f"FROM {argument.part}", f"FROM done JOIN {name} USING (n)"
            results.append(
                f"CASE WHEN (SELECT count(*) {changed}) < (SELECT count(*) {wanted})"
                f" THEN refuse('{argument.refuses}') END"
            )
    return f"WITH {', '.join(parts)} SELECT {', '.join(results)} FROM done"


def types(name: str) -> Sequence[TypeName]:
    """Of the columns of a table of arguments."""
    return ("int8", *ARGUMENTS[name].columns.values())
