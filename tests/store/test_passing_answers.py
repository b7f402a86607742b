"""What a database answers decides by its code: a value is given up only where it is refused."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Pool, event

import wieldy
from tests.store.child import eventually
from tests.store.psql import Psql
from tests.store.server import Server
from wieldy import NotRecorded, Outcome, Status, StoreUnavailable, Toolbox

SOURCE = str(Path(wieldy.__file__).parents[1])
# What a server sends that is busy, full, canceled, or asked by two at once.
_PASSING = ["40001", "40P01", "55P03", "57014", "53200", "53300", "58030", "08006", "P0001"]


@asynccontextmanager
async def working(url: str, during: Callable[[], Any] | None = None) -> AsyncIterator[Toolbox]:
    """A box with one tool, which does something before it returns."""
    async with Toolbox(store=url) as box:

        @box.tool
        async def work(n: int) -> str:
            """Work."""
            if during is not None:
                await asyncio.to_thread(during)
            return str(n) * 60

        yield box


async def eventually_kept(box: Toolbox, outcome: Outcome) -> None:
    """Wait until the row of a call has its value."""

    async def kept() -> bool:
        entry = await box.ledger.get(outcome.call.id)
        return entry is not None and (entry.state, entry.value) == ("ok", outcome.value)

    await eventually(kept)


async def eventually_left_out(box: Toolbox, outcome: Outcome) -> None:
    """Wait until the row of a call has ended without its value."""

    async def ended() -> bool:
        entry = await box.ledger.get(outcome.call.id)
        return entry is not None and entry.state == "unknown" and entry.value is None

    await eventually(ended)


async def eventually_waits(server: Server) -> None:
    """Wait until a connection of the tests waits for a lock."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'test';"

    async def waits() -> bool:
        return bool((await asyncio.to_thread(server.execute, asked, "postgres")).strip())

    await eventually(waits)


def answer_with(server: Server, state: str, times: int) -> Callable[[], None]:
    """Have the server answer the next ends of calls with an SQLSTATE, so many times."""

    def prepare() -> None:
        server.execute(
            f"""
            CREATE SEQUENCE answered;
            CREATE FUNCTION answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('answered') <= {times} THEN
                    RAISE EXCEPTION 'this answer is a test' USING ERRCODE = '{state}';
                END IF;
                RETURN new;
            END $$;
            CREATE TRIGGER answer BEFORE UPDATE ON wieldy_calls
                FOR EACH ROW WHEN (new.value IS NOT NULL) EXECUTE FUNCTION answer();
            """,
            "test",
        )

    return prepare


@pytest.fixture
def answering(server: Server) -> Iterator[Server]:
    """The server, whose next test has its tables as they should be."""
    server.new_store()
    yield server
    server.new_database()


@pytest.mark.parametrize("state", _PASSING)
async def test_an_answer_that_passes_loses_no_result(answering: Server, state: str) -> None:
    async with working(answering.url, answer_with(answering, state, 2)) as box:
        outcome = await box.call("work", {"n": 1})

        assert (outcome.status, outcome.value) == (Status.OK, "1" * 60)
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert entry.value == "1" * 60


@pytest.mark.parametrize("state", ["22001", "22P05", "54000"])
async def test_only_a_refused_value_is_left_out(answering: Server, state: str) -> None:
    async with working(answering.url, answer_with(answering, state, 1000)) as box:
        outcome = await box.call("work", {"n": 1})

        assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)

        await eventually_left_out(box, outcome)


@pytest.mark.parametrize("state", ["23514", "42P01"])
async def test_a_refusal_of_the_statement_is_told_and_drops_no_value(
    answering: Server, state: str
) -> None:
    async with working(answering.url, answer_with(answering, state, 1000)) as box:
        outcome = await box.call("work", {"n": 1})

        assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)
        assert "this answer is a test" in str(outcome.error)
        answering.execute("DROP TRIGGER answer ON wieldy_calls", "test")
        await eventually_kept(box, outcome)


async def test_one_refused_call_costs_its_neighbours_nothing(answering: Server) -> None:
    answering.execute(
        """
        CREATE FUNCTION answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'this answer is a test' USING ERRCODE = '22001';
        END $$;
        CREATE TRIGGER answer BEFORE UPDATE ON wieldy_calls FOR EACH ROW
            WHEN (new.value LIKE '%7%') EXECUTE FUNCTION answer();
        """,
        "test",
    )
    async with working(answering.url) as box:
        outcomes = await box.call_many([("work", {"n": n}) for n in range(10)])

        states = [outcome.status for outcome in outcomes]
        assert states == [Status.UNKNOWN if n == 7 else Status.OK for n in range(10)]


@pytest.mark.parametrize("user", ["nobody", "bob:wrong"])
async def test_who_is_not_let_in_is_told_at_once(server: Server, user: str) -> None:
    server.new_store()
    with guarded(server):
        before = server.log.count("FATAL")
        address = server.url.replace("wieldy@", f"{user}@")
        async with working(address) as box:
            outcome = await box.call("work", {"n": 1})

        assert isinstance(outcome.error, NotRecorded)
        assert isinstance(outcome.error.__cause__, StoreUnavailable)
        assert "does not let this user in" in str(outcome.error)
        # The driver itself asks with encryption first, and then without.
        assert server.log.count("FATAL") <= before + 2, "nobody asked again"


async def test_a_database_that_does_not_exist_is_told_at_once(server: Server) -> None:
    before = server.log.count("FATAL")
    async with working(f"{server.url}-elsewhere") as box:
        with pytest.raises(StoreUnavailable, match="there is no such database"):
            await box.ledger.list()
    assert server.log.count("FATAL") == before + 1


async def test_a_missing_right_is_told_at_once_and_loses_no_result(server: Server) -> None:
    server.new_store()
    with guarded(server):
        server.execute(
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO bob; GRANT ALL ON SCHEMA public TO bob;",
            "test",
        )
        bob = server.url.replace("wieldy@", "bob:right@")
        revoke = "REVOKE UPDATE ON wieldy_calls FROM bob"
        async with working(bob, lambda: server.execute(revoke, "test")) as box:
            before = server.log.count("permission denied")
            outcome = await box.call("work", {"n": 1})
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)
            assert "its user may not do this" in str(outcome.error)
            assert server.log.count("permission denied") <= before + 2
            server.execute("GRANT UPDATE ON wieldy_calls TO bob", "test")
            await eventually_kept(box, outcome)


async def test_a_file_keeps_a_value_that_a_constraint_refuses_for_now(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        def forbid() -> None:
            other.execute(
                "CREATE TRIGGER forbidden BEFORE UPDATE ON wieldy_calls "
                "WHEN new.value IS NOT NULL BEGIN SELECT RAISE(ABORT, 'not now'); END"
            )

        async with working(f"sqlite:///{path}", lambda: None) as box:
            await box.call("work", {"n": 0})
            forbid()
            outcome = await box.call("work", {"n": 1})
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)
            other.execute("DROP TRIGGER forbidden")
            await eventually_kept(box, outcome)


async def test_a_value_too_large_for_a_file_is_left_out_of_its_row(tmp_path: Path) -> None:
    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 50_000)

    event.listen(Pool, "connect", limit)
    try:
        async with working(f"sqlite:///{tmp_path}/store.db") as box:
            box.add(lambda: "x" * 80_000, name="large")
            outcome = await box.call("large")
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, "x" * 80_000)
            assert "too big" in str(outcome.error)
            await eventually_left_out(box, outcome)
            assert (await box.call("work", {"n": 1})).ok
    finally:
        event.remove(Pool, "connect", limit)


async def test_a_value_of_a_type_that_a_file_refuses_is_left_out_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with working(f"sqlite:///{path}") as box:
        await box.call("work", {"n": 0})
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
            other.execute(
                "CREATE TRIGGER noted BEFORE UPDATE ON wieldy_calls WHEN new.value LIKE '%1%' "
                "BEGIN INSERT INTO numbers VALUES (new.value); END"
            )
        outcome = await box.call("work", {"n": 1})
        assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)
        assert "datatype mismatch" in str(outcome.error)
        await eventually_left_out(box, outcome)
        assert (await box.call("work", {"n": 2})).ok


@pytest.mark.parametrize("room", [1, 30, 45, 60, 75, 90])
def test_a_process_without_memory_keeps_the_result_and_says_so(tmp_path: Path, room: int) -> None:
    program = Path(__file__).with_name("little_memory.py")
    done = subprocess.run(
        [sys.executable, program, f"sqlite:///{tmp_path}/store.db", str(room)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"told": True, "kept": True, "next": "ok"}


async def test_restarts_while_calls_end_lose_no_result(server: Server) -> None:
    url, ran = server.new_store(), set[int]()
    restarted = asyncio.Event()

    async def restart() -> None:
        for _ in range(3):
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(server.start)
        restarted.set()

    async with Toolbox(store=url) as box:

        @box.tool
        async def work(n: int) -> str:
            """Work."""
            ran.add(n)
            await asyncio.sleep(0)
            return f"{n} is done"

        async def call_on(first: int) -> list[Outcome]:
            outcomes = []
            n = first
            while not restarted.is_set() or n < first + 300:
                outcomes.append(await box.call("work", {"n": n}))
                n += 100
            return outcomes

        await box.call("work", {"n": -1})
        *found, _ = await asyncio.gather(*(call_on(n) for n in range(100)), restart())

        outcomes = [outcome for each in found if each for outcome in each]
        done = [outcome for outcome in outcomes if number_of(outcome) in ran]
        assert {outcome.status for outcome in done} <= {Status.OK, Status.UNKNOWN}
        assert all(outcome.value is not None for outcome in done)
        others = [outcome for outcome in outcomes if number_of(outcome) not in ran]
        assert all(isinstance(outcome.error, NotRecorded) for outcome in others)

        async def all_kept() -> bool:
            return len(await box.ledger.list(Status.OK, limit=None)) == len(ran)

        await eventually(all_kept)
        assert len(done) + 1 == len(ran)


async def test_a_server_without_room_for_a_connection_loses_no_result(server: Server) -> None:
    url = server.new_store()
    server.stop()
    few = {"max_connections": "6", "superuser_reserved_connections": "0", "max_wal_senders": "0"}
    server.start(**few, autovacuum="off")
    taken: list[Psql] = []

    def take_all() -> None:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ''"
        first = server.connect("test")
        taken.append(first)
        first.execute(f"{cut};")
        while True:
            try:
                taken.append(server.connect("test"))
                taken[-1].execute("SELECT 1;")
            except (RuntimeError, OSError):
                return

    try:
        async with working(url, take_all) as box:
            outcome = await box.call("work", {"n": 1})
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)
            assert "takes no more connections" in str(outcome.error)
            for each in taken:
                each.close()
            await eventually_kept(box, outcome)
    finally:
        server.stop()
        server.start()


async def test_a_canceled_statement_is_made_again_on_another_connection(server: Server) -> None:
    url = server.new_store()
    holding = server.connect("test")

    def hold() -> None:
        holding.execute("BEGIN; LOCK TABLE wieldy_calls;")

    async with working(url, hold) as box:
        calling = asyncio.create_task(box.call("work", {"n": 1}))
        waiting = (
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'test';"
        )
        seen: list[str] = []

        async def waits() -> bool:
            said = await asyncio.to_thread(server.execute, waiting, "postgres")
            seen.extend(each for each in said.split() if each not in seen)
            return bool(said.strip())

        for canceled in range(2):
            await eventually(waits)
            assert len(seen) == canceled + 1, "the connection of a canceled statement is dropped"
            server.execute(f"SELECT pg_cancel_backend({seen[-1]});", "postgres")

            async def gone(pid: str = seen[-1]) -> bool:
                there = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid};"
                return not (await asyncio.to_thread(server.execute, there, "postgres")).strip()

            await eventually(gone)
        holding.execute("ROLLBACK;")
        holding.close()

        outcome = await calling
        assert (outcome.status, outcome.value) == (Status.OK, "1" * 60)


async def test_a_deadlock_loses_no_result(answering: Server) -> None:
    # The call is the one that finds the deadlock, because only it looks for one in time.
    answering.execute(
        """
        CREATE TABLE busy (number int);
        CREATE FUNCTION answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM set_config('deadlock_timeout', '2s', true);
            LOCK TABLE busy;
            RETURN new;
        END $$;
        CREATE TRIGGER answer AFTER UPDATE ON wieldy_calls
            FOR EACH ROW WHEN (new.value IS NOT NULL) EXECUTE FUNCTION answer();
        """,
        "test",
    )
    before = answering.log.count("deadlock detected")
    with closing(answering.connect("test")) as other:
        hold = "SET deadlock_timeout = '1h'; BEGIN; LOCK TABLE busy;"
        async with working(answering.url, lambda: other.execute(hold)) as box:
            calling = asyncio.create_task(box.call("work", {"n": 1}))
            await eventually_waits(answering)
            await asyncio.to_thread(other.execute, "UPDATE wieldy_calls SET tool = tool; COMMIT;")

            outcome = await calling
            assert (outcome.status, outcome.value) == (Status.OK, "1" * 60)
            await eventually_kept(box, outcome)
    assert answering.log.count("deadlock detected") == before + 1


async def test_a_serialization_failure_loses_no_result(answering: Server) -> None:
    # Also at the isolation of a store a row must not move away from who waits for it.
    answering.execute(
        """
        CREATE TABLE moving (number int) PARTITION BY LIST (number);
        CREATE TABLE moving_from PARTITION OF moving FOR VALUES IN (1);
        CREATE TABLE moving_to PARTITION OF moving FOR VALUES IN (2);
        INSERT INTO moving VALUES (1);
        CREATE FUNCTION answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE moving SET number = number;
            RETURN new;
        END $$;
        CREATE TRIGGER answer AFTER UPDATE ON wieldy_calls
            FOR EACH ROW WHEN (new.value IS NOT NULL) EXECUTE FUNCTION answer();
        """,
        "test",
    )
    said = "due to concurrent update"
    before = answering.log.count(said)
    with closing(answering.connect("test")) as other:
        hold = "BEGIN; UPDATE moving SET number = 2;"
        async with working(answering.url, lambda: other.execute(hold)) as box:
            calling = asyncio.create_task(box.call("work", {"n": 1}))
            await eventually_waits(answering)
            await asyncio.to_thread(other.execute, "COMMIT;")

            outcome = await calling
            assert (outcome.status, outcome.value) == (Status.OK, "1" * 60)
            await eventually_kept(box, outcome)
    assert answering.log.count(said) == before + 1


@pytest.mark.parametrize("readable", ["on", "off"])
async def test_a_server_in_recovery_loses_no_result(server: Server, readable: str) -> None:
    url = server.new_store()
    signal = server.data / "standby.signal"

    def fall_back() -> None:
        server.stop()
        signal.touch()
        server.start(hot_standby=readable)

    try:
        async with working(url, fall_back) as box:
            outcome = await box.call("work", {"n": 1})
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, "1" * 60)
            said = "can only be read" if readable == "on" else "starting or stopping"
            assert said in str(outcome.error)
            server.stop()
            signal.unlink()
            server.start()
            await eventually_kept(box, outcome)
    finally:
        if signal.exists():
            server.stop("immediate")
            signal.unlink()
            server.start()


def number_of(outcome: Outcome) -> int:
    """What the call was given."""
    assert isinstance(outcome.call.arguments, dict)
    return int(outcome.call.arguments["n"])


@contextmanager
def guarded(server: Server) -> Iterator[None]:
    """Have a user `bob` who needs the password `right`."""
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    server.execute("CREATE ROLE bob LOGIN PASSWORD 'right';", "postgres")
    rules.write_text(f"host all bob 127.0.0.1/32 scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf();", "postgres")
    try:
        yield
    finally:
        rules.write_text(before)
        server.execute("SELECT pg_reload_conf();", "postgres")
        server.execute("DROP OWNED BY bob;", "test")
        server.execute("DROP ROLE bob;", "postgres")
