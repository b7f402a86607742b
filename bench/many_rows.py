"""A store with very many calls, waiting calls, sessions and runs, filled by the database itself."""

from typing import Any

from sqlalchemy import Connection, text

from wieldy import Toolbox
from wieldy.core.canonical import digest_of

# The time of the newest row, and the seconds between two rows.
NEWEST = 1_790_000_000.0
SPACING = 5.0
_WAITING = 2000
_AT_ONCE = 50_000
_FINGERPRINT = "2ba6398c4eca35529e08458a9cab957fd025ee9b3720f04cb8afa8ce8d1798e5"
_CALLER = "CASE WHEN i % 3 = 0 THEN 'ann' ELSE 'caller_' || (i % 97) END"
# `search` and `ann` have most calls. Those of `early` are old, and none of them is by `ann`.
_CALLS = f"""
    INSERT INTO wieldy_calls
        (id, tool, state, fingerprint, arguments, partial, session, caller, parent, agent,
         proposed_at, started_at, ended_at, owner, value, seconds)
    SELECT 'call_' || {{number}},
        CASE WHEN i % 2 = 0 AND i % 3 <> 0 AND i < 0.4 * :count THEN 'early'
             WHEN i % 2 = 0 THEN 'search' ELSE 'tool_' || (i % 199) END,
        CASE WHEN i % 1000 < 20 THEN 'error' WHEN i % 1000 < 25 THEN 'denied'
             WHEN i % 1000 = 26 THEN 'unknown' ELSE 'ok' END,
        '{_FINGERPRINT}', '{{{{"query": "number ' || i || '", "limit": 3}}}}', 0,
        {_CALLER}, {_CALLER}, CASE WHEN i % 10 = 7 THEN 'call_' || {{before}} END, 'agent',
        {{time}}, {{time}} + 0.01, {{time}} + 0.5, 'gone',
        '"the result of a call, about as long as many are, with a number: ' || i || '"', 0.5
"""
_PENDING = f"""
    INSERT INTO wieldy_calls
        (id, tool, state, fingerprint, arguments, covered, partial, digest, asked, session,
         caller, agent, proposed_at, reason)
    SELECT 'wait_' || {{number}}, 'wipe', 'pending', '{_FINGERPRINT}', '{{{{}}}}', '{{{{}}}}', 0,
        '{digest_of({})}', '{digest_of({})}', 'caller_' || (i % 97), 'caller_' || (i % 97),
        'agent', {{time}} + 1, 'it is destructive'
"""
_SESSIONS = """
    INSERT INTO wieldy_sessions (id, made, created_at, updated_at, first, next)
    SELECT 'session-' || i, 'x', {time}, :newest - :spacing * ((i * 7919) % :count), 0, 4
"""
_RUNS = f"""
    INSERT INTO wieldy_runs
        (id, agent, session, parent, state, claim, steps, created_at, changed_at, request, answer)
    SELECT 'run-' || i, CASE WHEN i % 2 = 0 THEN 'helper' ELSE 'agent_' || (i % 20) END,
        {_CALLER}, CASE WHEN i % 4 = 3 THEN 'run-' || (i - 1) END,
        CASE WHEN i % 1000 < 5 THEN 'failed' WHEN i % 1000 = 7 THEN 'interrupted'
             WHEN i % 1000 = 8 THEN 'crashed' ELSE 'done' END,
        'x', 3, {{time}}, {{time}} + 3, '{{{{"prompt": {{{{"input": "number ' || i || '"}}}}}}}}',
        '"It is done: ' || i || '"'
"""
_TIME = "(:newest - :spacing * (:count - i))"
_SERIES = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n "
    "WHERE i < :last) SELECT i FROM n",
    "postgresql": "SELECT i FROM generate_series(CAST(:first AS BIGINT), CAST(:last AS BIGINT)) i",
}
_NUMBER = {
    "sqlite": "substr('00000000000' || ({0}), -12)",
    "postgresql": "lpad(({0})::text, 12, '0')",
}


async def fill_store(url: str, count: int) -> None:
    """Make so many calls, sessions and runs, and up to 2,000 calls that wait."""
    async with Toolbox(store=url) as box:
        waiting = min(count, _WAITING)
        for rows, most in (
            (_CALLS, count),
            (_SESSIONS, count),
            (_RUNS, count),
            (_PENDING, waiting),
        ):
            # A store waits for one operation only for some time.
            for first in range(1, most + 1, _AT_ONCE):
                last = min(first + _AT_ONCE - 1, most)
                await box.store.write(_filling(rows, most, first, last))
        opened = await box.store.opened()
        await opened.write(lambda connection: connection.execute(text("ANALYZE")))


def _filling(rows: str, count: int, first: int, last: int) -> Any:
    def fill(connection: Connection) -> None:
        name = connection.dialect.name
        places = {"number": _NUMBER[name].format("i"), "before": _NUMBER[name].format("i - 1")}
        statement = f"{rows.format(time=_TIME, **places)} FROM ({_SERIES[name]}) n"
        values = {"newest": NEWEST, "spacing": SPACING, "count": count}
        values |= {"first": first, "last": last}
        used = {key: value for key, value in values.items() if f":{key}" in statement}
        connection.execute(text(statement), used)

    return fill
