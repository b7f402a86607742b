"""A migration takes as long as it needs, says how far it is, and who keeps it from its tables."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.made_store import make_file
from tests.store.server import Server
from wieldy import StoreUnavailable, Toolbox
from wieldy.store.databases.migrations import STEPS, StoreOutdated, _count_tries

Execute = Callable[[str], str]
# The step that adds the column `tries`, and what takes a store back to before it.
_STEP = STEPS.index(_count_tries) + 1
_BACK = f"DELETE FROM wieldy_version WHERE number >= {_STEP}"
# An ordinary statement may take 30 seconds.
_SLOW = """
CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_sleep(31);
END $$;
CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION slow();
"""


async def test_no_limit_on_statements_ends_a_migration(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.new_store()
    server.execute(f"{_BACK}; ALTER TABLE wieldy_calls DROP COLUMN claims; {_SLOW}", "test")
    try:
        with caplog.at_level(logging.WARNING, "wieldy"):
            async with Toolbox(store=url) as box:
                assert await box.ledger.list() == []
    finally:
        server.execute("DROP EVENT TRIGGER slow", "test")

    said = f"The store is brought up to date: step {_STEP} of {len(STEPS)}"
    assert said in caplog.text
    assert server.execute("SELECT count(claims) FROM wieldy_calls", "test").strip() == "0"
    server.new_database()


async def test_who_holds_the_tables_of_a_migration_is_named(server: Server) -> None:
    url = server.new_store()
    server.execute(f"{_BACK}; ALTER TABLE wieldy_calls DROP COLUMN claims", "test")
    holding = server.connect("test")
    pid = holding.execute("SELECT pg_backend_pid();").strip()
    holding.execute("BEGIN; LOCK TABLE wieldy_calls IN ACCESS SHARE MODE;")
    try:
        async with Toolbox(store=url) as box:
            with pytest.raises(StoreUnavailable) as caught:
                await box.ledger.list()
            assert f"process {pid} of wieldy (psql, idle in transaction)" in str(caught.value)
            holding.execute("ROLLBACK;")
            assert await box.ledger.list() == []
    finally:
        holding.close()
        server.new_database()


async def test_a_postgresql_store_that_is_only_read_says_what_to_run(server: Server) -> None:
    url = server.new_store()
    server.execute(_BACK, "test")
    async with Toolbox(store=url) as box:
        box.store.leave_as_is()
        with pytest.raises(StoreOutdated, match="Run `wieldy upgrade`"):
            await box.ledger.list()
    there = server.execute("SELECT max(number) FROM wieldy_version", "test").strip()
    assert there == str(_STEP - 1)


@pytest.mark.parametrize(
    "words", [["log"], ["pending"], ["runs"], ["artifacts"], ["token", "list"], ["backup", "copy"]]
)
def test_a_command_that_reads_leaves_a_file_as_it_is(tmp_path: Path, words: list[str]) -> None:
    path = make_file(tmp_path / "wieldy.db")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(_BACK)
        other.execute("ALTER TABLE wieldy_calls DROP COLUMN claims")

    done = wieldy(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(path)) as other:
        query = "SELECT max(number) FROM wieldy_version"
        assert other.execute(query).fetchone() == (_STEP - 1,)

        done = wieldy(tmp_path, "upgrade")
        assert done.returncode == 0, done.stderr
        assert "is up to date" in done.stdout
        assert f"step {_STEP} of {len(STEPS)}" in done.stderr
        assert other.execute(query).fetchone() == (len(STEPS),)


def wieldy(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder."""
    command = [str(Path(sys.executable).with_name("wieldy")), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


async def test_a_file_of_an_earlier_step_is_read_with_the_tables_it_has(tmp_path: Path) -> None:
    path = make_file(tmp_path / "wieldy.db")
    async with Toolbox(store=f"sqlite:///{path}") as box:
        await box.sessions.append("ann", "hello")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DELETE FROM wieldy_version WHERE number > 10")
        other.execute("DROP TABLE wieldy_webhooks")
    async with Toolbox(store=f"sqlite:///{path}") as box:
        box.store.leave_as_is()
        assert await box.sessions.read("ann") == ["hello"]
        assert await box.store.outbox.list_subscriptions() == []
        with pytest.raises(StoreOutdated):
            await asyncio.gather(box.sessions.append("ann", "more"))
