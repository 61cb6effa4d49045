"""The tally: the number of listed streams by owner and status, kept by the database itself.

Counting takes a time that grows with the table, and a counter that every save updates would make the commits
of all members wait for each other. So a trigger appends each change as a row of `tally_change`, which waits
for no other commit, and now and then `fold_tally` adds these rows to `tally`. A number is the sum of both
tables in one snapshot:

* A change is in the transaction that makes it, so what is undone is not counted. A member of an older
  version, which knows nothing of the tally, is counted as well.
* A fold moves numbers, and changes no sum. It leaves the rows that it cannot see yet. The lock of the row
  ('', '') lets one transaction fold at a time; the others go on without.
* The first count of a database with streams locks none of them. The triggers were committed before it: a
  change is either in the snapshot of the count, which drops its row, or its row stays. No fold comes between,
  because the row ('', '') is made by the count.

The rows of `tally` with the owner '' count all streams. A stream without an owner is in these only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..summary import Among

# With the rights of the owner of the tables: older members may have none for the new ones. `$schema` is
# replaced by a quoted name.
_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = $schema, pg_temp"

TABLES: Sequence[str] = (
    """CREATE TABLE tally (
        owner text,
        status text,
        streams bigint NOT NULL,
        PRIMARY KEY (owner, status))""",
    # Read and emptied as a whole: it needs no index, but to be cleaned often.
    """CREATE TABLE tally_change (owner text NOT NULL, status text NOT NULL, streams int NOT NULL)
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)""",
    f"""CREATE FUNCTION fold_tally() RETURNS void {_AS_OWNER} AS $$
    BEGIN
        PERFORM FROM tally WHERE owner = '' AND status = '' FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        WITH taken AS (DELETE FROM tally_change RETURNING owner, status, streams)
        INSERT INTO tally SELECT of, status, sum(streams)
            FROM (SELECT '' AS of, status, streams FROM taken
                UNION ALL SELECT owner, status, streams FROM taken WHERE owner <> '') AS both_kinds
            GROUP BY of, status HAVING sum(streams) <> 0
            ON CONFLICT (owner, status) DO UPDATE SET streams = tally.streams + excluded.streams;
    END $$""",
    f"""CREATE FUNCTION tally_stream() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        IF OLD.last_seq <> 0 THEN
            INSERT INTO tally_change VALUES (OLD.owner, OLD.status, -1);
        END IF;
        IF TG_OP = 'UPDATE' AND NEW.last_seq <> 0 THEN
            INSERT INTO tally_change VALUES (NEW.owner, NEW.status, 1);
        END IF;
        IF random() < 0.005 THEN
            PERFORM fold_tally();
        END IF;
        RETURN NULL;
    END $$""",
    # Streams with events are inserted only by copies of a journal: many in one transaction, in which each
    # fold reads the rows of all folds before it. So there are few.
    f"""CREATE FUNCTION tally_inserted() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        INSERT INTO tally_change SELECT owner, status, count(*) FROM inserted WHERE last_seq <> 0
            GROUP BY owner, status;
        IF FOUND AND random() < 0.0002 THEN
            PERFORM fold_tally();
        END IF;
        RETURN NULL;
    END $$""",
    # Most saves change none of these, and pay for the conditions only.
    """CREATE TRIGGER stream_changed AFTER UPDATE OF last_seq, status, owner ON stream FOR EACH ROW
        WHEN ((OLD.last_seq <> 0, OLD.status, OLD.owner)
            IS DISTINCT FROM (NEW.last_seq <> 0, NEW.status, NEW.owner))
        EXECUTE FUNCTION tally_stream()""",
    """CREATE TRIGGER stream_deleted AFTER DELETE ON stream FOR EACH ROW WHEN (OLD.last_seq <> 0)
        EXECUTE FUNCTION tally_stream()""",
    """CREATE TRIGGER stream_inserted AFTER INSERT ON stream REFERENCING NEW TABLE AS inserted
        FOR EACH STATEMENT EXECUTE FUNCTION tally_inserted()""",
)

COUNTED = "SELECT FROM tally WHERE owner = '' AND status = ''"
"""Finds a row if the first count was made."""
FIRST_COUNT: Sequence[str] = (
    "DELETE FROM tally_change",
    """INSERT INTO tally SELECT coalesce(owner, ''), status, count(*) FROM stream WHERE last_seq <> 0
        GROUP BY GROUPING SETS ((status), (owner, status)) HAVING owner IS DISTINCT FROM ''""",
    "INSERT INTO tally VALUES ('', '', 0) ON CONFLICT DO NOTHING",
)
"""To be executed in one snapshot."""

FOLD = "SELECT fold_tally()"

_SUM = """SELECT status, sum(streams)::bigint FROM ({}) AS counted
    GROUP BY status HAVING sum(streams) > 0"""
_ALL = _SUM.format(
    """SELECT status, streams FROM tally WHERE owner = ''
    UNION ALL SELECT status, streams FROM tally_change"""
)
_AMONG = _SUM.format(
    """SELECT status, streams FROM tally WHERE owner = %(owner)s AND owner <> ''
    UNION ALL SELECT status, streams FROM tally_change WHERE owner = %(owner)s AND owner <> ''
    UNION ALL SELECT status, 1 FROM stream WHERE name = ANY(%(names)s::text[]) AND last_seq <> 0
        AND (owner = '' OR owner <> %(owner)s)"""
)


def query(among: Among | None) -> str:
    """The query for the numbers by status, which takes `owner` and `names` of a filter."""
    return _ALL if among is None else _AMONG
