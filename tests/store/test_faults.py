"""What goes wrong with a database is said, and never makes a call run twice or in secret."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import wieldy
from tests.store.server import Server
from wieldy import (
    CallUnknown,
    CorruptRow,
    NotRecorded,
    Status,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    Toolbox,
)
from wieldy.core.choices import Durability

Execute = Callable[[str], str]
SOURCE = str(Path(wieldy.__file__).parents[1])


def make_box(url: str, ran: list[int], during: Callable[[], Any] | None = None) -> Toolbox:
    """A box with one tool, which does something on the way."""
    box = Toolbox(store=url)

    @box.tool
    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        if during is not None:
            during()
        return n * 2

    box.add(work, name="risky", permission="confirm")
    return box


async def test_a_locked_database_keeps_the_function_from_running(tmp_path: Path) -> None:
    path, ran = tmp_path / "store.db", list[int]()
    async with make_box(f"sqlite:///{path}?timeout=0.1", ran) as box:
        await box.call("work", {"n": 1})
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = await box.call("work", {"n": 2})
            parked = await box.call("risky", {"n": 3})
            invalid = await box.call("work", {"n": "x"})
        for outcome in (refused, parked):
            assert outcome.status is Status.ERROR
            assert isinstance(outcome.error, NotRecorded)
            assert isinstance(outcome.error.__cause__, StoreUnavailable)
            assert "another process holds the database" in str(outcome.error)
        assert "another process" in invalid.metadata["unrecorded"]
        assert (await box.call("work", {"n": 4})).value == 8
    assert ran == [1, 4]


async def test_a_database_that_somebody_reads_while_it_is_first_opened(tmp_path: Path) -> None:
    path, ran = tmp_path / "store.db", list[int]()
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE notes (text)")
        other.execute("BEGIN IMMEDIATE")
        # SQLite gives up at once here: it waits for no one to change its journal.
        letting_go = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        letting_go.start()
        async with make_box(f"sqlite:///{path}", ran) as box:
            assert (await box.call("work", {"n": 1})).value == 2
        letting_go.join()


async def test_a_result_that_cannot_be_recorded_is_unknown_and_attached(tmp_path: Path) -> None:
    path, ran = tmp_path / "store.db", list[int]()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        box = make_box(
            f"sqlite:///{path}?timeout=0.1", ran, lambda: other.execute("BEGIN IMMEDIATE")
        )
        async with box:
            outcome = await box.call("work", {"n": 1})
            assert (outcome.status, outcome.value) == (Status.UNKNOWN, 2)
            assert isinstance(outcome.error, CallUnknown)
            assert "it ended as ok, which could not be recorded" in str(outcome.error)
            other.execute("ROLLBACK")
        async with box:
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert (entry.state, entry.value) == ("ok", 2), "it is written when it can be"
    assert ran == [1]


@pytest.mark.needs("mounts")
def test_a_full_disk_is_said_and_passes(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    program = str(Path(__file__).with_name("full_disk.py"))
    done = subprocess.run(
        [*private, sys.executable, program, str(folder)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    first, second, third, fourth = told["answers"]
    assert first == [1, "ok", 2, None]
    assert (second[:3], third[:3]) == ([2, "error", None], [3, "unknown", 6])
    assert "no space left" in second[3]
    assert "no space left" in third[3]
    assert fourth == [4, "ok", 8, None]
    assert told["ran"] == [1, 3, 4]
    assert told["states"].items() >= {"1": "ok", "4": "ok"}.items()


async def test_a_lost_connection_is_made_anew(server: Server) -> None:
    url, ran = server.new_database(), list[int]()

    async with make_box(url, ran, server.disconnect) as box:
        for n in range(3):
            outcome = await box.call("work", {"n": n})
            assert (outcome.status, outcome.value) == (Status.OK, n * 2)
            server.disconnect()
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert entry.state == "ok"
    assert ran == [0, 1, 2]


async def test_a_server_that_restarts_in_the_middle_of_a_call_loses_nothing(
    server: Server,
) -> None:
    url, ran = server.new_database(), list[int]()

    def restart() -> None:
        server.stop("immediate")
        server.start()

    async with make_box(url, ran, restart) as box:
        outcome = await box.call("work", {"n": 1})
        assert (outcome.status, outcome.value) == (Status.OK, 2)
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert (entry.state, entry.value) == ("ok", 2)
    assert ran == [1]


async def test_a_server_that_is_gone_is_said(server: Server) -> None:
    url, ran = server.new_database(), list[int]()
    async with make_box(url, ran, server.stop) as box:
        try:
            unknown = await box.call("work", {"n": 1})
            refused = await box.call("work", {"n": 2})
        finally:
            server.start()
        assert (unknown.status, unknown.value) == (Status.UNKNOWN, 2)
        assert isinstance(refused.error, NotRecorded)
        assert isinstance(refused.error.__cause__, StoreUnavailable)
        assert "can't be reached" in str(refused.error)
    async with make_box(url, ran) as box:
        entry = await box.ledger.get(unknown.call.id)
        assert entry is not None
        assert (entry.state, entry.value) == ("ok", 2)
        assert (await box.call("work", {"n": 3})).value == 6
    assert ran == [1, 3]


async def test_a_database_from_a_newer_version_is_left_alone(url: str, execute: Execute) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box:
        await box.call("work", {"n": 1})
    execute("INSERT INTO wieldy_version (number) VALUES (999)")
    async with make_box(url, ran) as box:
        with pytest.raises(StoreTooNew, match="Upgrade wieldy") as caught:
            await box.ledger.list()
        assert caught.value.found == 999
        outcome = await box.call("work", {"n": 2})
        assert isinstance(outcome.error, NotRecorded)
    assert ran == [1]


@pytest.mark.parametrize("damage", ["{broken", '{"n": 7}', '"text"'])
async def test_a_damaged_row_is_said_and_not_acted_upon(
    url: str, execute: Execute, damage: str
) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box:
        good = await box.call("risky", {"n": 1})
        bad = await box.call("risky", {"n": 2})
        execute(f"UPDATE wieldy_calls SET arguments = '{damage}' WHERE id = '{bad.call.id}'")
        assert [parked.id for parked in await box.pending()] == [good.call.id]
        with pytest.raises(CorruptRow, match=bad.call.id):
            await box.approve(bad.call.id)
        assert (await box.approve(good.call.id)).value == 2
    assert ran == [1]


async def test_a_row_that_cannot_be_read_does_not_hide_the_others(
    url: str, execute: Execute
) -> None:
    ran: list[int] = []
    async with make_box(url, ran) as box:
        outcomes = [await box.call("work", {"n": n}) for n in range(3)]
        damaged = outcomes[1].call.id
        execute(f"UPDATE wieldy_calls SET value = '[1,' WHERE id = '{damaged}'")
        with pytest.raises(CorruptRow, match=damaged):
            await box.ledger.get(damaged)
        entries = await box.ledger.list()
        assert [entry.status for entry in entries] == [Status.OK, Status.UNKNOWN, Status.OK]
        assert "can't be read" in str(entries[1].error)
        assert entries[1].call.id == damaged


@pytest.mark.parametrize(
    ("host", "silent", "state"), [("elsewhere", 0, "started"), ("elsewhere", 3600, "unknown")]
)
async def test_another_machine_is_alive_as_long_as_its_pulse_is(
    url: str, execute: Execute, host: str, silent: int, state: str
) -> None:
    async with make_box(url, []) as box:
        await box.call("work", {"n": 1})
    pulse = time.time() - silent
    execute(
        "INSERT INTO wieldy_owners (id, host, pid, born, pulse, since) "
        f"VALUES ('other', '{host}', 1, '1', {pulse}, 0)"
    )
    execute("UPDATE wieldy_calls SET state = 'started', owner = 'other'")
    async with make_box(url, []) as box:
        (entry,) = await box.ledger.list()
        assert entry.state == state


async def test_a_process_id_that_was_used_again_is_another_process(
    url: str, execute: Execute
) -> None:
    box = make_box(url, [])
    await box.call("work", {"n": 1})
    execute("UPDATE wieldy_owners SET born = '1'")
    execute("UPDATE wieldy_calls SET state = 'started'")
    async with make_box(url, []) as other:
        (entry,) = await other.ledger.list()
        assert (entry.state, entry.status) == ("unknown", Status.UNKNOWN)
    await box.close()


@pytest.mark.parametrize(
    ("address", "durability", "said"),
    [
        ("mysql://host/name", "full", "a store is sqlite:///file.db or postgresql://"),
        ("store.db", "full", "a store is sqlite:///file.db or postgresql://"),
        ("sqlite://", "full", "Name a file: sqlite:///file.db"),
        ("sqlite://store.db", "full", "after three slashes, as in sqlite:///file.db"),
        ("sqlite://folder/store.db", "full", "after three slashes, as in sqlite:///file.db"),
        ("sqlite:///:memory:", "full", "Name a file"),
        ("sqlite:///a.db", "fast", "durability must be one of full, normal"),
    ],
)
def test_an_address_that_is_none_is_refused_at_once(
    address: Durability, durability: Durability, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Toolbox(store=address, durability=durability)


async def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, not rows\n" * 100)
    for path, said in (("notes.txt", "is not a database"), ("no/where.db", "can't be opened")):
        async with Toolbox(store=f"sqlite:///{tmp_path}/{path}") as box:
            with pytest.raises(StoreError, match=said):
                await box.ledger.list()


async def test_a_server_that_was_never_there_is_said_without_the_password() -> None:
    async with Toolbox(store="postgresql://ann:hunter2@127.0.0.1:1/db") as box:
        with pytest.raises(StoreUnavailable, match="can't be reached") as caught:
            await box.ledger.list()
        assert "hunter2" not in str(caught.value)


async def test_a_store_closed_in_the_middle_of_calls_answers_them_all_and_opens_again(
    url: str,
) -> None:
    async with make_box(url, []) as box:
        for turns in range(12):
            box.standing.forget()
            calls = [asyncio.ensure_future(box.call("work", {"n": n})) for n in range(5)]
            listing = asyncio.ensure_future(box.ledger.list())
            for _ in range(turns):
                await asyncio.sleep(0)
            await box.close()
            await asyncio.gather(*calls, listing, return_exceptions=True)
            assert (await box.call("work", {"n": 9})).value == 18


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_both_durabilities_work(url: Durability, durability: Durability) -> None:
    async with Toolbox(store=url, durability=durability) as box:

        @box.tool
        async def work() -> int:
            """Work."""
            return 1

        assert (await box.call("work")).value == 1


def test_a_missing_driver_is_named_with_the_command_that_installs_it() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from wieldy import Toolbox\n"
        "try: Toolbox(store='postgresql://host/name')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 'pip install "wieldy[postgres]"' in done.stdout, done.stderr


def test_a_forked_child_opens_the_store_for_itself(url: str, tmp_path: Path) -> None:
    """Children are forked while the parent is in the middle of calls, and use its box."""
    program = f"""
import asyncio, os, sys, threading, warnings
warnings.simplefilter("ignore")
from wieldy import Toolbox
box = Toolbox(store={url!r})
async def work(n: int) -> int:
    return n
box.add(work)
box.add(work, name="risky", permission="confirm")
async def flood():
    await asyncio.gather(*(box.call("work", {{"n": n}}) for n in range(200)))
receipt = asyncio.run(box.call("risky", {{"n": 7}}))
busy = threading.Thread(target=lambda: asyncio.run(flood()))
busy.start()
children = []
for n in range(4):
    child = os.fork()
    if child == 0:
        values = [box.call_sync("work", {{"n": n}}).value for _ in range(5)]
        approved = asyncio.run(box.approve(receipt.call.id)).value
        asyncio.run(box.close())
        os._exit(0 if values == [n] * 5 and approved == 7 else 1)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
busy.join()
async def states():
    found = await box.ledger.list(limit=None)
    return sorted({{entry.state for entry in found}}), len(found)
print(asyncio.run(states()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "(['ok'], 221)", done.stderr
