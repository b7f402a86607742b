"""Numbered steps from an empty database to the present one."""

import logging
from collections.abc import Callable

from sqlalchemy import Connection, Table, func, insert, inspect, select, text, update
from sqlalchemy.schema import CreateIndex

from wieldy.core.errors import StoreTooNew, StoreUnavailable
from wieldy.store.process_owner import shared_clock

from . import tables
from . import tables as artifact_tables
from . import tables as kept

_log = logging.getLogger("wieldy")


def _calls(connection: Connection) -> None:
    tables.metadata.create_all(connection, [tables.owners, tables.calls])


def _artifacts(connection: Connection) -> None:
    tables.metadata.create_all(
        connection, [artifact_tables.artifacts, artifact_tables.artifact_versions]
    )


def _kept(connection: Connection) -> None:
    new = [kept.sessions, kept.messages, kept.rules, kept.states, kept.chores]
    tables.metadata.create_all(connection, new)
    connection.execute(insert(kept.chores).values(name="prune", done_at=shared_clock(connection)))


def _running(connection: Connection) -> None:
    """Find running calls by owner and time, and keep an index only of waiting calls."""
    calls = tables.calls.c
    left = calls.owner.not_in(select(tables.owners.c.id))
    # Calls whose owner is gone already would no longer be found.
    found = update(tables.calls).where(calls.state == "started", left)
    connection.execute(found.values(state="unknown"))
    connection.execute(text("DROP INDEX IF EXISTS wieldy_calls_open"))
    _index_calls(connection)
    _add_column(connection, tables.owners, "since DOUBLE PRECISION NOT NULL DEFAULT 0")


def _seconds(connection: Connection) -> None:
    """Keep how long a call took as a number in a column of its own."""
    _add_column(connection, tables.calls, "seconds DOUBLE PRECISION")


def _lookups(connection: Connection) -> None:
    """Sort ids by their characters, so that the index finds the beginning of an id."""
    if connection.dialect.name == "postgresql":
        changed = 'ALTER TABLE wieldy_calls ALTER COLUMN id TYPE TEXT COLLATE "C"'
        connection.execute(text(changed))


def _callers(connection: Connection) -> None:
    """Keep the caller and the run of a call, the criteria of a rule, and two more final states."""
    for table, column in (
        (tables.calls, "caller TEXT"),
        (tables.calls, "run TEXT"),
        (kept.rules, "caller TEXT"),
        (kept.rules, "criteria TEXT"),
    ):
        _add_column(connection, table, column)
    # The states of ended calls are part of this index.
    connection.execute(text("DROP INDEX IF EXISTS wieldy_calls_over"))
    _index_calls(connection)


def _runs(connection: Connection) -> None:
    tables.metadata.create_all(connection, [tables.runs, tables.run_steps])


def _loaded_tools(connection: Connection) -> None:
    tables.metadata.create_all(connection, [tables.loaded_tools])


def _access_tokens(connection: Connection) -> None:
    tables.metadata.create_all(connection, [tables.access_tokens])


def _sign_ins(connection: Connection) -> None:
    tables.metadata.create_all(connection, [tables.sign_ins])


def _untrusted(connection: Connection) -> None:
    """Keep which sessions and artifacts have something from outside in them."""
    tables.metadata.create_all(connection, [kept.untrusted_sessions])
    _add_column(connection, artifact_tables.artifacts, "untrusted INTEGER")


def _rollups(connection: Connection) -> None:
    tables.metadata.create_all(connection, [tables.rollups])


def _left_runs(connection: Connection) -> None:
    """Find runs that nobody continues, and keep how often that was tried."""
    _add_column(connection, tables.runs, "tries INTEGER")
    _add_column(connection, tables.runs, "tried_step INTEGER")
    _create_indexes(connection, tables.runs)


def _index_lists(connection: Connection) -> None:
    """Find runs by what they are listed by, and calls of tools with long names."""
    connection.execute(text("DROP INDEX IF EXISTS wieldy_runs_running"))
    _create_indexes(connection, tables.runs)
    _index_calls(connection)


def _outbox(connection: Connection) -> None:
    tables.metadata.create_all(
        connection,
        [
            tables.outbox_events,
            tables.webhooks,
            tables.webhook_deliveries,
            tables.changed_tools,
        ],
    )


def _count_tries(connection: Connection) -> None:
    """Keep how often a call of unknown end was run again."""
    _add_column(connection, tables.calls, "tries INTEGER")


def _around(connection: Connection) -> None:
    """Keep whose the calls are that a call is nested in."""
    _add_column(connection, tables.calls, "around TEXT")


def _claims(connection: Connection) -> None:
    """Keep digests of the claims of the caller of a call that waits."""
    _add_column(connection, tables.calls, "claims TEXT")


def _index_calls(connection: Connection) -> None:
    _create_indexes(connection, tables.calls)


def _create_indexes(connection: Connection, table: Table) -> None:
    """Give a table all indexes of today, whichever it had; a later step may add their columns."""
    there = _column_names(connection, table)
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        if {column.name for column in index.columns} <= there:
            connection.execute(CreateIndex(index, if_not_exists=True))


def _add_column(connection: Connection, table: Table, column: str) -> None:
    """Add a column to a table, unless this version made the table and it is there already."""
    if column.partition(" ")[0] not in _column_names(connection, table):
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column}"))


def _column_names(connection: Connection, table: Table) -> set[str]:
    return {known["name"] for known in inspect(connection).get_columns(table.name)}


STEPS: list[Callable[[Connection], None]] = [
    _calls,
    _artifacts,
    _kept,
    _running,
    _seconds,
    _lookups,
    _index_calls,
    _callers,
    _runs,
    _loaded_tools,
    _access_tokens,
    _untrusted,
    _rollups,
    _left_runs,
    # Calls are found by their caller and by the call that made them.
    _index_calls,
    _index_lists,
    _outbox,
    _sign_ins,
    _count_tries,
    _around,
    _claims,
]
# A file at this step can be read unchanged: later steps only changed indexes and added columns,
# which are empty in earlier files.
READABLE = 5
# Any number, as long as every process uses the same.
_LOCK = 0x77696C6479


class StoreOutdated(StoreUnavailable):
    """An earlier version made the database, and whoever only reads does not change it."""

    def __init__(self, found: int) -> None:
        super().__init__(
            f"its database is at step {found} of {len(STEPS)}, as an earlier version left it",
            "Run `wieldy upgrade` to bring it up to date.",
        )


def find_step(connection: Connection) -> int:
    """The step that a database is at; 0 without a store. `StoreTooNew` if we don't know it."""
    if not inspect(connection).has_table(tables.version.name):
        return 0
    done = connection.scalar(select(func.max(tables.version.c.number))) or 0
    if done > len(STEPS):
        raise StoreTooNew(done, len(STEPS))
    return int(done)


def require_current(connection: Connection) -> None:
    """Raise `StoreOutdated` if the database has to be brought up to date."""
    done = find_step(connection)
    if done < len(STEPS):
        raise StoreOutdated(done)


def migrate_database(connection: Connection) -> None:
    """Bring the database up to date; other processes may do the same at the same time."""
    if find_step(connection) == len(STEPS):
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    tables.version.create(connection, checkfirst=True)
    done = find_step(connection)
    for number, step in enumerate(STEPS[done:], start=done + 1):
        if done:
            # It may take minutes. A command shows warnings, and a new store is made in silence.
            _log.warning("The store is brought up to date: step %d of %d", number, len(STEPS))
        step(connection)
        connection.execute(insert(tables.version).values(number=number))


# Who keeps a migration from the tables that it changes, or makes another one.
HOLDERS = text(
    f"""
SELECT DISTINCT pid, coalesce(usename, '') AS who, coalesce(application_name, '') AS program,
    coalesce(state, '') AS state
FROM pg_locks JOIN pg_stat_activity USING (pid)
LEFT JOIN pg_class ON pg_class.oid = relation
WHERE granted AND pid <> pg_backend_pid() AND datname = current_database()
    AND (relname LIKE 'wieldy!_%' ESCAPE '!'
        OR (locktype = 'advisory' AND objid = {_LOCK & 0xFFFFFFFF}))
ORDER BY pid
"""
)
