"""The tables of a store, the same on SQLite and PostgreSQL."""

import base64
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    and_,
    func,
    select,
    text,
)
from sqlalchemy import Text as SqlText
from sqlalchemy.types import TypeEngine

from wieldy.core.bounded_json import parse_json
from wieldy.core.choices import ENDED_STATES

from .damaged_values import DamagedCount, DamagedNumber, DamagedText

metadata = MetaData()
_PACKED = "\x01\x02"


_Reader = Callable[[Any], Any]


class Number(Double[float]):
    """A number; a file may have anything in its place."""

    def result_processor(self, dialect: Dialect, coltype: object) -> _Reader | None:
        if dialect.name == "sqlite":
            return _read_number
        found: _Reader | None = super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call]
        return found


class Count(Integer):
    """A whole number; a file may have anything in its place."""

    def result_processor(self, dialect: Dialect, coltype: object) -> _Reader | None:
        here = dialect.name == "sqlite"
        return _read_count if here else super().result_processor(dialect, coltype)


class LargeCount(BigInteger):
    """The same, for large ones."""

    def result_processor(self, dialect: Dialect, coltype: object) -> _Reader | None:
        here = dialect.name == "sqlite"
        return _read_count if here else super().result_processor(dialect, coltype)


def _read_number(value: Any) -> Any:
    if value is None or type(value) is float:
        return value
    return float(value) if type(value) is int else DamagedNumber()


def _read_count(value: Any) -> Any:
    return value if value is None or type(value) is int else DamagedCount()


class Free(TypeDecorator[str]):
    """Any text, including what databases refuse: NUL and lone surrogates."""

    impl = SqlText
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else pack_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        if isinstance(value, bytes):
            return DamagedText(value.decode(errors="surrogateescape"))
        return None if value is None else unpack(value)


class FreeKey(Free):
    """The same, sorted by characters as in SQLite, so that a prefix is a range."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return SqlText(collation="C" if dialect.name == "postgresql" else None)


def pack_text(text: str) -> str:
    """The text in a form that every database accepts; ordinary text is unchanged."""
    plain = "\0" not in text and not text.startswith("\x01")
    if plain and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            plain = False
    # The form is short enough for an index, whatever the characters are.
    return text if plain else _PACKED + _encode_text(text)


def unpack(stored: str) -> str:
    """The text that was packed."""
    if not stored.startswith("\x01"):
        return stored
    try:
        if stored.startswith(_PACKED):
            return base64.b85decode(stored[len(_PACKED) :]).decode("utf-8", "surrogatepass")
        text: str = parse_json(stored[1:])
    except ValueError:
        # The text was not packed by us; one damaged column must not hide the rest.
        return stored
    return text


def _encode_text(text: str) -> str:
    return base64.b85encode(text.encode("utf-8", "surrogatepass")).decode()


# Times are seconds since the epoch. JSON is kept as ASCII text: it is written and read whole.
version = Table("wieldy_version", metadata, Column("number", Count, primary_key=True))

# The processes that use the store. `pulse` is the database's own clock at the last sign of life.
# No call that a process runs was proposed before `since`.
owners = Table(
    "wieldy_owners",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("host", Free, nullable=False),
    Column("pid", Count, nullable=False),
    Column("born", Free, nullable=False),
    Column("pulse", Number, nullable=False),
    Column("since", Number, nullable=False),
)

# One row for each call. `covered` are the arguments without their secrets, which replace
# `arguments` when the call stops waiting; `partial` says that `arguments` are not all there was.
# `digest` is of the arguments that a decision is about, `asked` of the first ones, covered.
# `around` says whose the calls are that the call is nested in.
# `claims` are digests of what the caller's token said, of a call that waits or has waited.
# `requests` are the questions of a tool that asked for input, `paused` is its state until then.
calls = Table(
    "wieldy_calls",
    metadata,
    Column("id", FreeKey, primary_key=True),
    Column("tool", Free, nullable=False),
    Column("state", String(12), nullable=False),
    Column("fingerprint", String(64)),
    Column("arguments", SqlText),
    Column("covered", SqlText),
    Column("partial", Count, nullable=False, default=0),
    Column("digest", String(64)),
    Column("asked", String(64)),
    Column("agent", Free),
    Column("session", Free),
    Column("parent", Free),
    Column("caller", Free),
    Column("run", Free),
    Column("around", SqlText),
    Column("claims", SqlText),
    Column("provider_id", Free),
    Column("idempotency_key", Free),
    Column("reason", Free),
    Column("repairs", SqlText),
    Column("requests", SqlText),
    Column("paused", SqlText),
    Column("answers", SqlText),
    Column("proposed_at", Number, nullable=False),
    Column("expires_at", Number),
    Column("approved", Count),
    Column("decided_at", Number),
    Column("decided_by", Free),
    Column("decided_why", Free),
    Column("started_at", Number),
    Column("ended_at", Number),
    Column("owner", String(40)),
    Column("value", SqlText),
    Column("content", SqlText),
    Column("error", SqlText),
    Column("metadata", SqlText),
    Column("late", SqlText),
    Column("seconds", Number),
    Column("tries", Count),
    Index("wieldy_calls_time", "proposed_at"),
)


def _add_index(name: str, *columns: Any, where: str, unique: bool = False) -> None:
    """A partial index; rows outside it cost nothing to write."""
    named = [calls.c[each] if isinstance(each, str) else each for each in columns]
    only = {"sqlite_where": text(where), "postgresql_where": text(where)}
    Index(name, *named, unique=unique, **only)  # type: ignore[arg-type]


NEWEST_FIRST = (calls.c.proposed_at.desc(), calls.c.id.desc())
OPEN = ("pending", "approved", "started", "unknown")
OVER = ENDED_STATES


def _any_of(states: Iterable[str]) -> str:
    """A condition for a partial index, without IN, for which SQLite would build a table."""
    return "(" + " OR ".join(f"state = '{state}'" for state in states) + ")"


# Running calls are not in this index, so that a plain call is written only twice. They are
# found by their time.
_WAITING = _any_of(state for state in OPEN if state != "started")
_OVER = _any_of(OVER)
# A model may ask for a tool of any name, and an index accepts only short texts.
_MAX_NAME = 500
_SHORT_NAME = f"length(tool) <= {_MAX_NAME}"
_LONG_NAME = f"length(tool) > {_MAX_NAME}"
# Most calls start when they are proposed. The row of a call that had to wait is written long
# after the time by which rows are found.
_LATE_SECONDS = 30
_ENTERED = func.coalesce(calls.c.started_at, calls.c.ended_at)
_LATE = f"coalesce(started_at, ended_at) > proposed_at + {_LATE_SECONDS}"
# Added to a condition on the state, it lets a database use the partial index over these rows.
IS_WAITING = text(_WAITING)
IS_OVER = text(_OVER)
IS_RUNNING = and_(
    calls.c.state == "started",
    calls.c.proposed_at >= select(func.min(owners.c.since)).scalar_subquery(),
)
_add_index("wieldy_calls_waiting", "state", "proposed_at", where=_WAITING)
_add_index("wieldy_calls_session", "session", "proposed_at", where="session IS NOT NULL")
_add_index("wieldy_calls_key", "idempotency_key", where="idempotency_key IS NOT NULL", unique=True)
_add_index("wieldy_calls_over", "state", "proposed_at", where=_OVER)
_add_index("wieldy_calls_tool", "tool", "proposed_at", where=_SHORT_NAME)
_add_index("wieldy_calls_long_tool", "proposed_at", where=_LONG_NAME)
_add_index("wieldy_calls_late", _ENTERED, where=_LATE)
_add_index("wieldy_calls_caller", "caller", "proposed_at", where="caller IS NOT NULL")
_add_index("wieldy_calls_parent", "parent", "proposed_at", where="parent IS NOT NULL")


def of_tool(tool: str) -> ColumnElement[bool]:
    """The calls of a tool, found by the index over short names or by the one over long ones."""
    short = len(pack_text(tool)) <= _MAX_NAME
    return and_(calls.c.tool == tool, text(_SHORT_NAME if short else _LONG_NAME))


def in_state(state: str) -> ColumnElement[bool]:
    """The calls in this state, found by the index over such calls."""
    if state == "started":
        return IS_RUNNING
    return and_(calls.c.state == state, IS_WAITING if state in OPEN else IS_OVER)


def appeared_since(moment: float) -> tuple[ColumnElement[bool], ...]:
    """The rows that may have been inserted since then; each is found by an index."""
    return calls.c.proposed_at >= moment, and_(moment <= _ENTERED, text(_LATE))


# `key` is a digest of the session and the id, and `shelf` of the session alone: an index can't
# hold texts of any length. `birth` tells an artifact from one of its id that was deleted before.
artifacts = Table(
    "wieldy_artifacts",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("shelf", String(64), nullable=False),
    Column("birth", String(32), nullable=False),
    Column("session", Free),
    Column("id", Free, nullable=False),
    Column("title", Free),
    Column("content_type", Free, nullable=False),
    Column("untrusted", Count),
    Column("version", Count, nullable=False),
    Column("created_at", Number, nullable=False),
    Column("changed_at", Number, nullable=False),
    Index("wieldy_artifacts_shelf", "shelf", "created_at"),
)

# `mark` is random for each change, so that a change that runs twice recognises itself. `by` is
# who made it, for a tool the id of its call; `similarity` is set if a near match was replaced.
artifact_versions = Table(
    "wieldy_artifact_versions",
    metadata,
    Column("birth", String(32), primary_key=True),
    Column("version", Count, primary_key=True),
    Column("mark", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("content", Free, nullable=False),
    Column("size", Count, nullable=False),
    Column("at", Number, nullable=False),
    Column("by", Free),
    Column("similarity", Number),
)


# One row for each chat history. Its messages have the positions from `first`, below which
# retention has removed them, up to `next`. `made` is the mark of the operation that made it.
sessions = Table(
    "wieldy_sessions",
    metadata,
    Column("id", Free, primary_key=True),
    Column("made", String(32), nullable=False),
    Column("created_at", Number, nullable=False),
    Column("updated_at", Number, nullable=False),
    Column("first", LargeCount, nullable=False),
    Column("next", LargeCount, nullable=False),
)

# `mark` is on the first of several messages that were appended together.
messages = Table(
    "wieldy_messages",
    metadata,
    Column("session", Free, primary_key=True),
    Column("position", LargeCount, primary_key=True, autoincrement=False),
    Column("message", SqlText, nullable=False),
    Column("mark", String(32)),
)

# One row for each session with a result from outside in it, and the call that first brought one.
# `id` is a digest of the session, the same as the shelf of its artifacts.
untrusted_sessions = Table(
    "wieldy_untrusted_sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("session", Free),
    Column("tool", Free, nullable=False),
    Column("call", Free, nullable=False),
    Column("at", Number, nullable=False),
)

# `tools` are the fingerprints that an allow rule was made for, by the names of the tools.
# `criteria` are what the tools must be, besides their names.
rules = Table(
    "wieldy_rules",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("verdict", String(8), nullable=False),
    Column("pattern", Free, nullable=False),
    Column("conditions", SqlText, nullable=False),
    Column("criteria", SqlText),
    Column("reason", Free),
    Column("agent", Free),
    Column("session", Free),
    Column("caller", Free),
    Column("tools", SqlText),
    Column("made_by", Free),
    Column("made_at", Number, nullable=False),
    Column("expires_at", Number),
)

# One row for each run of an agent. `claim` is drawn by whoever carries the run on, so that one
# who was taken for dead finds that it is not theirs any more. `parent` is the run it is made in.
# A run that has crashed was continued `tries` times since it had `tried_step` steps.
runs = Table(
    "wieldy_runs",
    metadata,
    Column("id", FreeKey, primary_key=True),
    Column("agent", Free, nullable=False),
    Column("session", Free),
    Column("parent", Free),
    Column("state", String(12), nullable=False),
    Column("owner", String(40)),
    Column("claim", String(32), nullable=False),
    Column("steps", Count, nullable=False),
    Column("created_at", Number, nullable=False),
    Column("changed_at", Number, nullable=False),
    Column("request", SqlText, nullable=False),
    Column("answer", SqlText),
    Column("error", Free),
    Column("tries", Count),
    Column("tried_step", Count),
    Index("wieldy_runs_time", "created_at"),
)
RUN_STATES = ("running", "interrupted", "crashed", "failed", "cancelled", "done")
# Spelled as the index has it, so that a database uses that.
IS_CARRIED_ON = text("state = 'running'")
# The runs that may continue by themselves.
IS_LEFT = text(_any_of(("interrupted", "crashed")))
# A run is listed by its session, its agent or its state, and found by the run around it.
_IS_ENDED_RUN = text(_any_of(("failed", "cancelled", "done")))
_SHORT_AGENT = text(f"length(agent) <= {_MAX_NAME}")
for _name, _columns, _only in (
    ("carried_on", (runs.c.created_at,), IS_CARRIED_ON),
    ("left", (runs.c.created_at,), IS_LEFT),
    ("session", (runs.c.session, runs.c.created_at), runs.c.session.is_not(None)),
    ("agent", (runs.c.agent, runs.c.created_at), _SHORT_AGENT),
    ("ended", (runs.c.state, runs.c.created_at), _IS_ENDED_RUN),
    ("parent", (runs.c.parent, runs.c.created_at), runs.c.parent.is_not(None)),
):
    _where: dict[str, Any] = {"sqlite_where": _only, "postgresql_where": _only}
    Index(f"wieldy_runs_{_name}", *_columns, **_where)


def of_agent(agent: str) -> ColumnElement[bool]:
    """The runs of an agent, found by the index if its name is short enough."""
    named = runs.c.agent == agent
    return and_(named, _SHORT_AGENT) if len(pack_text(agent)) <= _MAX_NAME else named


def in_run_state(state: str) -> ColumnElement[bool]:
    """The runs in this state, found by the index over such runs."""
    only = {"running": IS_CARRIED_ON, "interrupted": IS_LEFT, "crashed": IS_LEFT}
    return and_(runs.c.state == state, only.get(state, _IS_ENDED_RUN))


# The additions of each step of a run. Together they are the state of the run.
run_steps = Table(
    "wieldy_run_steps",
    metadata,
    Column("run", FreeKey, primary_key=True),
    Column("number", Count, primary_key=True, autoincrement=False),
    Column("at", Number, nullable=False),
    Column("body", SqlText, nullable=False),
)

# The names of the tools that a session was shown, in order, as JSON. A list may also belong to a
# run of an agent without a session.
loaded_tools = Table(
    "wieldy_loaded_tools",
    metadata,
    Column("session", Free, primary_key=True),
    Column("names", SqlText, nullable=False),
    Column("changed_at", Number, nullable=False),
)

states = Table(
    "wieldy_states",
    metadata,
    Column("name", Free, primary_key=True),
    Column("state", SqlText, nullable=False),
    Column("saved_at", Number, nullable=False),
)

# When work that all processes share was last done, by the clock of the store.
chores = Table(
    "wieldy_chores",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("done_at", Number, nullable=False),
)

# The tokens of those who come in. A token itself is not kept, only its digest; `roles` is JSON.
access_tokens = Table(
    "wieldy_tokens",
    metadata,
    Column("name", FreeKey, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("roles", SqlText, nullable=False),
    Column("view", Free),
    Column("created_at", Number, nullable=False),
    Column("created_by", Free),
    Column("expires_at", Number),
    Column("revoked_at", Number),
)

# Links that sign somebody in, and sessions in browsers, which `kind` tells apart. `digest` is of
# the key that only the browser has, `token` that of the token whose owner signs in.
sign_ins = Table(
    "wieldy_sign_ins",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("kind", String(8), nullable=False),
    Column("token", String(64), nullable=False),
    Column("made_at", Number, nullable=False),
    Column("made_by", Free),
    Column("expires_at", Number, nullable=False),
)

# The upper ends, in seconds, of the ranges in which the lengths of calls are counted; the last
# range has no end.
LATENCY_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)

# The sums of the calls of one minute. `key` is a digest of the tool, caller and status, because
# an index can't hold texts of any length. `took_N` counts the calls in the Nth range of lengths.
rollups = Table(
    "wieldy_rollups",
    metadata,
    Column("minute", LargeCount, primary_key=True, autoincrement=False),
    Column("key", String(64), primary_key=True),
    Column("tool", Free, nullable=False),
    Column("caller", Free),
    Column("status", String(12), nullable=False),
    Column("count", LargeCount, nullable=False),
    Column("seconds", Number, nullable=False),
    Column("cost", Number, nullable=False),
    *(
        Column(f"took_{number}", LargeCount, nullable=False)
        for number in range(len(LATENCY_BOUNDS) + 1)
    ),
)

# Events of calls and tools that webhooks may want to hear, until they become deliveries. If there
# are webhooks, triggers on the calls write the events in the transaction of the change.
outbox_events = Table(
    "wieldy_events",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("at", Number, nullable=False),
    Column("call", Free),
    Column("tool", Free, nullable=False),
    Column("state", String(12)),
    Column("facts", SqlText),
    Index("wieldy_events_time", "at"),
)

# The webhooks of all gateways on the store, without their addresses and secrets. `events` is JSON,
# `mark` a digest of the address. `stopped_at` is when the receiver said that it wants no more.
webhooks = Table(
    "wieldy_webhooks",
    metadata,
    Column("name", FreeKey, primary_key=True),
    Column("events", SqlText, nullable=False),
    Column("tools", Free),
    Column("mark", String(64), nullable=False),
    Column("seen_at", Number, nullable=False),
    Column("stopped_at", Number),
)

# One row for each message to a webhook. Whoever sends it draws `claim`, and moves `due_at` so far
# that another process sends it only if this one is gone.
webhook_deliveries = Table(
    "wieldy_webhook_deliveries",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("webhook", Free, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("call", FreeKey),
    Column("tool", Free, nullable=False),
    Column("body", SqlText, nullable=False),
    Column("state", String(12), nullable=False),
    Column("attempts", Count, nullable=False),
    Column("due_at", Number, nullable=False),
    Column("claim", String(32)),
    Column("created_at", Number, nullable=False),
    Column("ended_at", Number),
    Column("status", Count),
    Column("error", Free),
    Index("wieldy_webhook_deliveries_time", "created_at"),
    Index("wieldy_webhook_deliveries_call", "call"),
)
# Spelled as the indexes have it, so that a database uses them.
IS_UNSENT = text("state = 'waiting'")
IS_UNDELIVERED = text(_any_of(("waiting", "failed")))
_unsent = {"sqlite_where": IS_UNSENT, "postgresql_where": IS_UNSENT}
_undelivered = {"sqlite_where": IS_UNDELIVERED, "postgresql_where": IS_UNDELIVERED}
Index("wieldy_webhook_deliveries_due", webhook_deliveries.c.due_at, **_unsent)  # type: ignore[arg-type]
Index(
    "wieldy_webhook_deliveries_open",
    webhook_deliveries.c.state,
    webhook_deliveries.c.created_at,
    **_undelivered,  # type: ignore[arg-type]
)

# The tools that differ from the lock, as webhooks were last told. `key` is a digest of the name.
changed_tools = Table(
    "wieldy_changed_tools",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("tool", Free, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("at", Number, nullable=False),
)
