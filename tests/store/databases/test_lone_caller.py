"""One caller by itself commits on its own thread, and keeps every promise of the writer."""

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import Connection

from tests.store.child import eventually
from wieldy import ActiveCall, Call, Handler, Outcome, Status, Toolbox
from wieldy.core.errors import NotRecorded
from wieldy.store.databases import sqlite
from wieldy.store.databases import sqlite_batches as commits_module
from wieldy.store.databases.database import StoreJob
from wieldy.store.databases.prepared_statements import Write

Commits = list[str]
START_AND_END = ["Put", "Ending"]


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    """What was committed on the caller's own thread, on a disk that is fast."""
    seen: Commits = []
    commit_here = sqlite.Sqlite.commit_here

    def watched(self: sqlite.Sqlite, write: Write) -> bool:
        done = commit_here(self, write)
        if done:
            seen.append(type(write).__name__)
        return done

    monkeypatch.setattr(sqlite.Sqlite, "commit_here", watched)
    monkeypatch.setattr(sqlite, "_QUICK_SECONDS", 60.0)
    return seen


def make_box(path: Path, **options: Any) -> Toolbox:
    box = Toolbox(store=f"sqlite:///{path}/store.db", **options)

    @box.tool
    async def double(n: int) -> int:
        """Twice the number."""
        return 2 * n

    @box.tool
    async def repeat(text: str, times: int) -> str:
        """A text again and again."""
        return text * times

    return box


def _size(path: Path) -> int:
    return path.stat().st_size


async def settle(box: Toolbox) -> None:
    """Call until it is known that commits are quick."""
    for n in range(12):
        assert (await box.call("double", {"n": n})).value == 2 * n


async def test_it_commits_by_itself_and_another_process_sees_it(
    tmp_path: Path, commits: Commits
) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        commits.clear()
        outcome = await box.call("double", {"n": 21})
        assert commits == START_AND_END
        with closing(sqlite3.connect(tmp_path / "store.db")) as file:
            rows = file.execute(
                "SELECT state, value FROM wieldy_calls WHERE id = ?", (outcome.call.id,)
            ).fetchall()
        assert rows == [("ok", "42")]


async def test_a_start_is_durable_before_the_function_is_entered(
    tmp_path: Path, commits: Commits
) -> None:
    box = make_box(tmp_path)
    seen = []

    @box.tool
    async def look() -> None:
        """See what the file says of this call."""
        with closing(sqlite3.connect(tmp_path / "store.db")) as file:
            seen.append(
                file.execute("SELECT state FROM wieldy_calls WHERE tool = 'look'").fetchall()
            )

    async with box:
        await settle(box)
        commits.clear()
        await box.call("look")
        assert commits == START_AND_END
    assert seen == [[("started",)]]


async def test_while_another_process_writes_the_writer_waits_for_it(
    tmp_path: Path, commits: Commits
) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        commits.clear()
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            calling = asyncio.create_task(box.call("double", {"n": 1}))
            for _ in range(10):
                # The loop is held up by nobody.
                async with asyncio.timeout(120):
                    await asyncio.sleep(0.01)
            assert not calling.done(), "it went past the lock"
            assert commits == []
            other.execute("COMMIT")
        assert (await calling).value == 2


async def test_many_callers_share_their_commits(
    tmp_path: Path, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    def work(connection: Connection, batch: list[StoreJob]) -> None:
        batches.append(len(batch))
        commits_module.run_jobs(connection, batch)

    monkeypatch.setattr(sqlite, "run_jobs", work)
    async with make_box(tmp_path) as box:
        await settle(box)
        batches.clear()
        await asyncio.gather(*(box.call("double", {"n": n}) for n in range(100)))
        assert max(batches) > 50
        commits.clear()
        await settle(box)
        assert commits, "it is not alone again"


async def test_a_key_is_used_once_whichever_way_it_is_written(
    tmp_path: Path, commits: Commits
) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        first = await box.call("double", {"n": 1}, idempotency_key="k")
        again = await asyncio.gather(
            *(box.call("double", {"n": 1}, idempotency_key="k") for _ in range(20))
        )
        assert {outcome.call.id for outcome in again} == {first.call.id}
        assert len(await box.ledger.list(limit=None)) == 13


async def test_the_same_key_many_times_at_once_runs_once(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        outcomes = await asyncio.gather(
            *(box.call("double", {"n": 1}, idempotency_key="k") for _ in range(50)),
            *(box.call("double", {"n": n}) for n in range(50)),
        )
        assert {outcome.status for outcome in outcomes} == {Status.OK}
        assert len(await box.ledger.list(limit=None)) == 12 + 1 + 50


async def test_the_log_does_not_grow_without_end(tmp_path: Path, commits: Commits) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        commits.clear()
        for n in range(1500):
            await box.call("repeat", {"text": str(n % 10), "times": 1000})
        assert len(commits) > 2000
        assert _size(tmp_path / "store.db-wal") < 12_000_000


async def test_what_takes_long_to_write_is_left_to_the_writer(
    tmp_path: Path, commits: Commits
) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        commits.clear()
        outcome = await box.call("repeat", {"text": "x", "times": 1_000_000})
        assert len(outcome.value) == 1_000_000
        assert commits == START_AND_END[:1]


async def test_a_slow_disk_is_left_to_the_writer(
    tmp_path: Path, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_QUICK_SECONDS", 1e-9)
    async with make_box(tmp_path) as box:
        await settle(box)
        assert commits == []


async def test_two_loops_on_one_store_lose_nothing(tmp_path: Path, commits: Commits) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)

        async def work(n: int) -> list[Any]:
            return [(await box.call("double", {"n": n})).value for _ in range(100)]

        elsewhere = asyncio.to_thread(asyncio.run, work(1))
        here, there = await asyncio.gather(work(2), elsewhere)
        assert (set(here), set(there)) == ({4}, {2})
        entries = await box.ledger.list(limit=None)
        assert [entry.state for entry in entries] == ["ok"] * 212


async def test_a_store_that_was_closed_is_opened_for_the_next_call(
    tmp_path: Path, commits: Commits
) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        for _ in range(20):
            calling = asyncio.create_task(box.call("double", {"n": 4}))
            await asyncio.sleep(0)
            await box.close()
            outcome = await calling
            assert outcome.status in (Status.OK, Status.ERROR, Status.UNKNOWN)
            entry = await box.ledger.get(outcome.call.id)
            if outcome.status is Status.OK:
                assert entry is not None
                assert entry.state == "ok"


class Interruption:
    """Raises at one of the moments at which a signal can, while a commit is made here."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Hear of calls: Python looks for signals when a function of C has returned."""
        if event == "c_return" and _commits_here(frame):
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


def _commits_here(frame: FrameType | None) -> bool:
    here = sqlite.Sqlite.commit_here.__code__.co_filename
    while frame is not None:
        if frame.f_code.co_name == "commit_here" and frame.f_code.co_filename == here:
            return True
        frame = frame.f_back
    return False


async def test_a_call_that_has_ended_does_not_start_any_more(
    tmp_path: Path, commits: Commits
) -> None:
    """Its middleware answered by itself, and left the rest to a task."""
    left: list[asyncio.Task[Outcome]] = []

    async def leave(active: ActiveCall, proceed: Handler) -> Outcome:
        if active.arguments["n"] < 100:
            return await proceed(active)
        left.append(asyncio.ensure_future(proceed(active)))
        return Outcome(active.call, Status.OK, "made up")

    async with make_box(tmp_path, middleware=[leave]) as box:
        for n in range(100, 120):
            await settle(box)
            outcome = await box.call("double", {"n": n})
            assert outcome.value == "made up"
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert (outcome.status, entry.state, entry.started_at) == (Status.OK, "ok", None)
        ends = await asyncio.gather(*left, return_exceptions=True)
        assert {type(end) for end in ends} == {NotRecorded}


async def test_a_call_that_ends_while_its_start_is_written_does_not_run(tmp_path: Path) -> None:
    left: list[asyncio.Task[Outcome]] = []
    answered = asyncio.Event()

    async def proceeding(active: ActiveCall, proceed: Handler) -> Outcome:
        return await proceed(active)

    def begun(active: ActiveCall) -> Callable[[], Awaitable[bool]]:
        async def has_begun() -> bool:
            return active.record.started_at is not None

        return has_begun

    async def leave(active: ActiveCall, proceed: Handler) -> Outcome:
        left.append(asyncio.create_task(proceeding(active, proceed)))
        await eventually(begun(active))
        answered.set()
        return Outcome(active.call, Status.OK, "made up")

    ran: list[int] = []
    async with make_box(tmp_path, middleware=[leave]) as box:
        box.add(ran.append, name="note", validation="describe", input_schema={"type": "object"})
        await box.ledger.list()
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            call = asyncio.create_task(box.call("note", {"object": 1}))
            await answered.wait()
            other.execute("ROLLBACK")
        outcome = await call
        [end] = await asyncio.gather(*left, return_exceptions=True)
        entry = await box.ledger.get(outcome.call.id)
    assert entry is not None
    assert (outcome.value, entry.state, entry.value) == ("made up", "ok", "made up")
    assert (type(end), ran) == (NotRecorded, [])


class Interrupted:
    """A value that is interrupted when it is first written down."""

    times = 0

    def __repr__(self) -> str:
        self.times += 1
        if self.times == 1:
            raise KeyboardInterrupt
        return "whole"


async def test_an_interrupt_while_an_end_is_written_down_does_not_lose_it(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:

        @box.tool
        async def give() -> Interrupted:
            """Something that is hard to write down."""
            return Interrupted()

        call = Call("give")
        with pytest.raises(KeyboardInterrupt):
            await box.call(call)

        async def has_ended() -> bool:
            entry = await box.ledger.get(call.id)
            assert entry is not None
            return (entry.state, entry.value) == ("ok", "whole")

        await eventually(has_ended)
        assert (await box.store.opened()).owner.running == {}


async def test_an_interrupt_at_any_moment_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_QUICK_SECONDS", 60.0)
    async with make_box(tmp_path) as box:
        await settle(box)
        for moment in count(1):
            interruption = Interruption(moment)
            sys.setprofile(interruption)
            try:
                await box.call("double", {"n": moment})
            except KeyboardInterrupt:
                async with asyncio.timeout(120):
                    await settle(box)
                continue
            finally:
                sys.setprofile(None)
            break
        assert moment > 5
        running = (await box.store.opened()).owner.running

        async def all_have_ended() -> bool:
            return running == {}

        await eventually(all_have_ended)
        states = {entry.state for entry in await box.ledger.list(limit=None)}
        assert states == {"ok", "interrupted"}


@pytest.mark.parametrize("odd", ["\0", "\ud800", "\x01x", "ü", "a\nb"])
async def test_odd_text_is_kept_either_way(tmp_path: Path, commits: Commits, odd: str) -> None:
    async with make_box(tmp_path) as box:
        await settle(box)
        commits.clear()
        await box.call("repeat", {"text": odd, "times": 2}, session=odd)
        assert commits == START_AND_END
        await asyncio.gather(
            *(box.call("repeat", {"text": odd, "times": 2}, session=odd) for _ in range(5))
        )
        entries = await box.ledger.list(session=odd)
        assert [entry.value for entry in entries] == [odd * 2] * 6
        assert {entry.call.arguments["text"] for entry in entries} == {odd}  # type: ignore[index]
