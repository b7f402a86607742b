"""Have the database note what happens to calls, in the transaction of the change itself.

A change and its event are committed together, whichever process makes the change, so that no crash
comes between them. The triggers exist only while there are webhooks: without them a call costs
nothing more.
"""

from sqlalchemy import Connection, delete, text

from wieldy.store.databases.tables import outbox_events

PENDING, DECIDED, FAILED = "call.pending", "call.decided", "call.failed"
_FAILED_STATES = ("error", "timeout", "interrupted", "unknown")
# Triggers that a later version writes otherwise get another number.
_PUT, _MOVE = "wieldy_put_event_1", "wieldy_move_event_1"
# Any number, as long as every process uses the same.
_LOCK = 0x77696C6478


def _any_state(row: str, states: tuple[str, ...]) -> str:
    return "(" + " OR ".join(f"{row}.state = '{state}'" for state in states) + ")"


_FAILS = _any_state("new", _FAILED_STATES)
# A call that was approved and then was not allowed to start, or that nobody started.
_DROPPED = f"(old.state = 'approved' AND {_any_state('new', ('denied', 'expired'))})"
_TURNED = f"new.state <> old.state AND (new.state = 'pending' OR {_FAILS} OR {_DROPPED})"


def _decided(differs: str) -> str:
    return f"(new.decided_at IS NOT NULL AND new.decided_at {differs} old.decided_at)"


def _move_condition(differs: str) -> str:
    """When an update is an event. Most calls end as `ok`, and need only the first comparison."""
    return f"new.state <> 'ok' AND (({_TURNED}) OR {_decided(differs)})"


def _insert(event_id: str, kind: str, now: str) -> str:
    return (
        "INSERT INTO wieldy_events (id, kind, at, call, tool, state) "
        f"VALUES ({event_id}, {kind}, {now}, new.id, new.tool, new.state);"
    )


_PUT_CONDITION = f"new.state = 'pending' OR {_FAILS}"
_PUT_KIND = f"CASE WHEN new.state = 'pending' THEN '{PENDING}' ELSE '{FAILED}' END"


def _move_kind(differs: str) -> str:
    return (
        f"CASE WHEN new.state = 'pending' THEN '{PENDING}' "
        f"WHEN {_decided(differs)} THEN '{DECIDED}' ELSE '{FAILED}' END"
    )


_SQLITE_ID = "lower(hex(randomblob(16)))"
_SQLITE_NOW = "(julianday('now') - 2440587.5) * 86400.0"
_SQLITE = (
    f"CREATE TRIGGER IF NOT EXISTS {_PUT} AFTER INSERT ON wieldy_calls WHEN {_PUT_CONDITION} "
    f"BEGIN {_insert(_SQLITE_ID, _PUT_KIND, _SQLITE_NOW)} END",
    f"CREATE TRIGGER IF NOT EXISTS {_MOVE} AFTER UPDATE OF state ON wieldy_calls "
    f"WHEN {_move_condition('IS NOT')} "
    f"BEGIN {_insert(_SQLITE_ID, _move_kind('IS NOT'), _SQLITE_NOW)} END",
)

_POSTGRES_ID = "md5(random()::text || clock_timestamp()::text || new.id)"
_POSTGRES_NOW = "extract(epoch FROM clock_timestamp())::float8"
_DISTINCT = "IS DISTINCT FROM"


def _postgres_statements(trigger: str, event: str, condition: str, kind: str) -> tuple[str, str]:
    function = (
        f"CREATE OR REPLACE FUNCTION {trigger}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"{_insert(_POSTGRES_ID, kind, _POSTGRES_NOW)} RETURN NULL; END $$"
    )
    return function, (
        f"CREATE TRIGGER {trigger} AFTER {event} ON wieldy_calls FOR EACH ROW "
        f"WHEN ({condition}) EXECUTE FUNCTION {trigger}()"
    )


_POSTGRES = {
    _PUT: _postgres_statements(_PUT, "INSERT", _PUT_CONDITION, _PUT_KIND),
    _MOVE: _postgres_statements(
        _MOVE, "UPDATE OF state", _move_condition(_DISTINCT), _move_kind(_DISTINCT)
    ),
}


def capture_events(connection: Connection) -> None:
    """Note events from now on; other processes may ask for the same at the same time."""
    if connection.dialect.name != "postgresql":
        for statement in _SQLITE:
            connection.exec_driver_sql(statement)
        return
    connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    for trigger, statements in _POSTGRES.items():
        if not _has_trigger(connection, trigger):
            for statement in statements:
                connection.exec_driver_sql(statement)


def end_capture(connection: Connection) -> None:
    """Note no more events, and forget those that nobody wants any more."""
    connection.execute(delete(outbox_events))
    on_postgres = connection.dialect.name == "postgresql"
    if on_postgres:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    for trigger in (_PUT, _MOVE):
        if on_postgres:
            connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {trigger} CASCADE")
        else:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {trigger}")


def _has_trigger(connection: Connection, trigger: str) -> bool:
    known = text(
        "SELECT 1 FROM pg_trigger WHERE tgname = :name AND tgrelid = 'wieldy_calls'::regclass"
    )
    return connection.execute(known, {"name": trigger}).first() is not None
