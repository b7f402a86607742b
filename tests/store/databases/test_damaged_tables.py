"""A damaged row of any table is named, is not used, and leaves the others of its table."""

import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from tests.server.api.api_client import api_of
from tests.server.api.api_client import make_box as make_api_box
from wieldy import Status, StoreError, Toolbox
from wieldy.core.timestamps import iso_time
from wieldy.server.webhooks.messages import make_message
from wieldy.store.databases.tables import (
    access_tokens,
    changed_tools,
    messages,
    rollups,
    rules,
    webhook_deliveries,
    webhooks,
)
from wieldy.store.outbox.subscriptions import Subscription
from wieldy.store.rollups import Rollup, RollupKey, RollupSum

Damage = Callable[[str], None]
_KINDS = frozenset({"call.failed", "tool.changed"})
_NOT_TEXT, _BYTES, _WORD = "CAST(X'22ff22' AS TEXT)", "X'00ff'", "'{'"
_LARGE = str(2**63 - 1)
_ODD = [_NOT_TEXT, _BYTES, _WORD, "7", "'[[1]]'", "'{\"a\":1}'", "'[\"soon\"]'", "9e999", _LARGE]
_TABLES = (rules, webhooks, webhook_deliveries, changed_tools, access_tokens, rollups)


@asynccontextmanager
async def filled(path: Path) -> AsyncIterator[Toolbox]:
    """A store that holds three rows of each kind."""
    async with Toolbox(store=f"sqlite:///{path}") as box:

        @box.tool
        def work(n: int) -> str:
            """Work."""
            return f"{n} is done"

        await fill(box)
        yield box


async def fill(box: Toolbox) -> None:
    """Write three rows of each kind."""
    outbox, minute = box.store.outbox, int(time.time()) // 60 * 60
    sums = {RollupKey(minute, name, None, "ok"): RollupSum() for name in "abc"}
    for each in sums.values():
        each.add(0.5, 1.0)
    await box.store.rollups.add(sums)
    await outbox.subscribe([Subscription(name, _KINDS, None, "mark") for name in "abc"])
    for name in "abc":
        await box.standing.allow("*", by=name)
        await box.store.tokens.make(name, ("approve",))
        await outbox.add_claimed(name, "call.failed", '{"a": 1}')
        await outbox.note_tool(name, "fingerprint", {"n": 1})


async def read_sums(box: Toolbox, *by: str) -> list[Rollup]:
    """The sums of the last minutes."""
    now = time.time()
    return await box.store.rollups.read(now - 300, now + 60, by=by)


@contextmanager
def damaged(path: Path, table: str, column: str, odd: str) -> Iterator[None]:
    """Have another value in the second row, if the table takes it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        rows = file.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid").fetchall()
        rowid, value = rows[1]
        update = f"UPDATE {table} SET {column} = %s WHERE rowid = {rowid}"
        try:
            file.execute(update % odd)
        except sqlite3.IntegrityError:
            assert odd == "7" or column in ("key", "name", "digest", "id", "position", "minute")
        yield
        file.execute(update % "?", (value,))


@pytest.mark.parametrize("odd", _ODD)
async def test_an_odd_value_hides_nothing_in_any_list(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "wieldy.db"
    async with filled(path) as box:
        outbox, listed = box.store.outbox, box.store.tokens.list
        lists: dict[str, Callable[[], Awaitable[object]]] = {
            "wieldy_rules": box.standing.list,
            "wieldy_webhooks": outbox.list_subscriptions,
            "wieldy_webhook_deliveries": outbox.list,
            "wieldy_changed_tools": outbox.list_changed_tools,
            "wieldy_tokens": listed,
            "wieldy_rollups": lambda: read_sums(box, "tool"),
        }
        for table in _TABLES:
            for column in table.columns:
                if column.name == "minute":
                    # By it the sums of a span are found.
                    continue
                with damaged(path, table.name, column.name, odd):
                    found = await lists[table.name]()
                    assert isinstance(found, list | dict)
                    assert len(found) == 3, column
                    await outbox.find_work()
                    await outbox.count()


@pytest.mark.parametrize("odd", _ODD)
async def test_an_odd_value_hides_nothing_over_the_api(tmp_path: Path, odd: str) -> None:
    box = make_api_box(tmp_path)
    async with api_of(box) as client:
        await fill(box)
        path = tmp_path / "calls.db"
        pages = {
            rules: ("/api/rules", "rules"),
            webhooks: ("/api/webhooks", "webhooks"),
            webhook_deliveries: ("/api/webhook-deliveries", "deliveries"),
        }
        for table, (page, name) in pages.items():
            before = len((await client.get(page, "adam"))[name])
            assert before >= 3
            for column in table.columns:
                with damaged(path, table.name, column.name, odd):
                    assert len((await client.get(page, "adam"))[name]) == before, column


async def test_what_is_damaged_is_named_in_its_list(tmp_path: Path) -> None:
    path = tmp_path / "wieldy.db"
    async with filled(path) as box:
        for column in ("pattern", "expires_at", "conditions", "tools"):
            with damaged(path, "wieldy_rules", column, _BYTES):
                dead = [rule.dead for rule in await box.standing.list()]
                assert dead == [None, f"it can't be read ({why(column)})", None]
        for column in ("events", "mark"):
            with damaged(path, "wieldy_webhooks", column, _BYTES):
                errors = [each.error for each in await box.store.outbox.list_subscriptions()]
                assert errors == [None, f"its row can't be read ({why(column)})", None]
        for column in ("body", "due_at", "state"):
            with damaged(path, "wieldy_webhook_deliveries", column, _BYTES):
                states = {each.webhook: each for each in await box.store.outbox.list()}
                assert states["b"].error == f"its row can't be read ({why(column)})"
                assert [states[name].state for name in "abc"] == ["waiting", "failed", "waiting"]
        for column in ("roles", "expires_at", "created_at"):
            with damaged(path, "wieldy_tokens", column, _BYTES):
                tokens = await box.store.tokens.list()
                assert [each.state for each in tokens] == ["valid", "unreadable", "valid"]
                assert tokens[1].error == why(column)


def why(column: str) -> str:
    """What is said of a damaged column."""
    return f"{column} has a value of another kind, or bytes that are no text"


@pytest.mark.parametrize("column", ["pattern", "agent", "expires_at", "verdict"])
async def test_a_rule_that_denies_and_is_damaged_lets_nothing_run(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "wieldy.db"
    async with filled(path) as box:
        rule = await box.standing.deny("other")
        assert (await box.call("work", {"n": 1})).ok
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(f"UPDATE wieldy_rules SET {column} = {_BYTES} WHERE id = ?", (rule.id,))
        box.standing.forget()
        outcome = await box.call("work", {"n": 1})
        assert (outcome.status, rule.id in str(outcome.error)) == (Status.ERROR, True)
        await box.standing.remove(rule.id)
        assert (await box.call("work", {"n": 1})).ok


@pytest.mark.parametrize("odd", _ODD)
async def test_a_damaged_minute_adds_nothing_to_the_others(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "wieldy.db"
    async with filled(path) as box:
        for column in ("count", "seconds", "cost", "took_4"):
            with damaged(path, "wieldy_rollups", column, odd):
                others = {each.tool: each for each in await read_sums(box, "tool")}
                assert (others["a"].count, others["c"].seconds) == (1, 0.5)
                [whole] = await read_sums(box)
                if odd in (_NOT_TEXT, _BYTES, _WORD):
                    assert whole.longest == 0.5
                    assert (whole.count, whole.seconds, whole.cost, whole.took[4]) == tuple(
                        2 * size if name == column else 3 * size
                        for name, size in (
                            ("count", 1),
                            ("seconds", 0.5),
                            ("cost", 1),
                            ("took_4", 1),
                        )
                    )


@pytest.mark.parametrize("odd", [_NOT_TEXT, _BYTES, "'soon'", _WORD])
async def test_damage_lets_nobody_in(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "wieldy.db"
    async with Toolbox(store=f"sqlite:///{path}") as box:
        tokens, sign_ins = box.store.tokens, box.store.sign_ins
        made = {name: await tokens.make(name, ("call",)) for name in "abc"}
        links = {name: await sign_ins.make_link(name) for name in "abc"}
        begun = {name: await sign_ins.use_link(link) for name, link in links.items()}
        keys = [each.key for each in begun.values() if each is not None]

        async def come_in() -> list[bool]:
            return [await sign_ins.find_session(key) is not None for key in keys]

        assert await come_in() == [True, True, True]
        for column in ("digest", "kind", "token", "expires_at"):
            with damaged(path, "wieldy_sign_ins", column, odd):
                assert await come_in() == [True, False, True], column
        for column in ("digest", "expires_at", "revoked_at"):
            with damaged(path, "wieldy_tokens", column, odd):
                found = [await tokens.find(token) is not None for token in made.values()]
                assert found == [True, False, True]
                assert await come_in() == [True, False, True]


@pytest.mark.parametrize("odd", _ODD)
async def test_a_damaged_event_holds_up_no_message(
    tmp_path: Path, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "wieldy.db"
    async with filled(path) as box:
        outbox = box.store.outbox
        await outbox.make_deliveries(make_message)
        for number, column in enumerate(("id", "at", "call", "tool", "state", "facts")):
            before = len(await outbox.list(limit=500))
            for name in ("x", "y", "z"):
                await outbox.note_tool(f"{name}{number}", "fingerprint", {"n": 1})
            caplog.clear()
            with damaged(path, "wieldy_events", column, odd), caplog.at_level(logging.WARNING):
                assert await outbox.make_deliveries(make_message) == 3
            assert (await outbox.find_work())[0] is False
            made = len(await outbox.list(limit=500)) - before
            unread = sum("no webhook hears it" in each.message for each in caplog.records)
            assert made == 3 * (3 - unread)
            if odd in (_NOT_TEXT, _BYTES):
                assert unread == 1, column


async def test_a_damaged_message_is_given_up_and_the_others_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "wieldy.db"
    async with filled(path) as box:
        outbox = box.store.outbox
        await outbox.make_deliveries(make_message)
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            [(hurt,)] = file.execute(
                "SELECT id FROM wieldy_webhook_deliveries "
                "WHERE webhook = 'a' AND attempts = 0 LIMIT 1"
            ).fetchall()
            file.execute(
                f"UPDATE wieldy_webhook_deliveries SET body = {_BYTES} WHERE id = ?", (hurt,)
            )
        claimed = await outbox.claim("a", 10)
        assert len(claimed) == 2
        assert hurt not in {each.id for each in claimed}
        found = await outbox.find(hurt)
        assert (found.state, found.claim) == ("failed", None)
        assert await outbox.claim("a", 10) == []


async def test_a_reader_that_fails_sees_the_file_as_it_is_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "wieldy.db"
    async with Toolbox(store=f"sqlite:///{path}") as box:
        await box.sessions.append("ann", "one", "two")

        def fail(connection: Connection) -> None:
            rows = connection.execute(select(messages))
            for row in rows:
                raise StoreError(f"{row.message} is not right", "Look.")

        with pytest.raises(StoreError, match="is not right") as kept:
            await box.store.read(fail)
        await box.sessions.append("ann", "three")
        assert await box.sessions.read("ann") == ["one", "two", "three"]
        assert kept.value is not None


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300, -1e300])
def test_a_time_that_no_calendar_has_can_be_shown(seconds: float) -> None:
    assert iso_time(seconds) == "1970-01-01T00:00:00Z"
