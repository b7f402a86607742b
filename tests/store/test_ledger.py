"""Every call is a row, written before its function runs and before its end is seen."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from wieldy import (
    ActiveCall,
    Call,
    CallDenied,
    CallTimeout,
    Context,
    Handler,
    Image,
    InvalidArguments,
    NotRecorded,
    Outcome,
    Secret,
    Status,
    StoreError,
    Text,
    Toolbox,
    ToolFailed,
    ToolNotFound,
)
from wieldy.core.call import Scope


class Point(BaseModel):
    """A place."""

    x: int
    y: int


async def test_the_start_is_recorded_before_the_function_and_the_end_before_anybody_hears(
    url: str,
) -> None:
    seen: list[Any] = []

    async def hear(outcome: Outcome) -> None:
        entry = await other.ledger.get(outcome.call.id)
        assert entry is not None
        seen.append((entry.state, entry.value))

    async with Toolbox(store=url, observers=[hear]) as box, Toolbox(store=url) as other:

        @box.tool
        async def work(context: Context) -> str:
            """Work."""
            entry = await other.ledger.get(context.call_id)
            assert entry is not None
            seen.append((entry.state, entry.status, entry.ended_at))
            return "done"

        outcome = await box.call("work")
        assert outcome.value == "done"
    assert seen == [("started", Status.PENDING, None), ("ok", "done")]


async def test_a_row_tells_all_about_a_call(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        def place(x: int, y: int) -> Point:
            """A place."""
            return Point(x=x, y=y)

        before = time.time()
        call = Call("place", {"x": 1, "y": "2"}, Scope("ann", "s1", "p1"), provider_id="toolu_1")
        outcome = await box.call(call)
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert (entry.state, entry.status, entry.value) == ("ok", Status.OK, {"x": 1, "y": 2})
        assert entry.text == outcome.text
        assert entry.call.arguments == {"x": 1, "y": 2}
        assert entry.call.scope == Scope("ann", "s1", "p1")
        assert entry.call.provider_id == "toolu_1"
        tool = box.get("place")
        assert tool is not None
        assert entry.fingerprint == tool.fingerprint
        assert entry.metadata["repairs"][0]["path"] == "y"
        assert entry.metadata["duration_ms"] > 0
        assert entry.started_at is not None
        assert entry.ended_at is not None
        assert before <= entry.proposed_at <= entry.started_at <= entry.ended_at <= time.time()
        assert await box.ledger.get("no such call") is None


async def test_calls_that_did_not_run_are_rows_too(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(permission="deny")
        async def off(a: int) -> int:
            """Switched off."""
            return a

        @box.tool
        async def on(a: int) -> int:
            """Switched on."""
            return a

        for name, arguments, status, kind in (
            ("off", {"a": 1}, Status.DENIED, CallDenied),
            ("on", {"a": "x"}, Status.ERROR, InvalidArguments),
            ("on", "{broken", Status.ERROR, InvalidArguments),
            ("onn", {"a": 1}, Status.ERROR, ToolNotFound),
        ):
            outcome = await box.call(name, arguments)
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert (entry.status, type(entry.error)) == (status, kind)
            assert str(entry.error) == str(outcome.error)
            assert entry.started_at is None
        assert len(await box.ledger.list(state="error")) == 3


async def test_failures_timeouts_and_interruptions_are_read_back_as_such(url: str) -> None:
    async with Toolbox(store=url) as box:
        running = asyncio.Event()

        @box.tool
        async def fail() -> None:
            """Fail."""
            raise LookupError("not there")

        @box.tool(timeout=0.05)
        async def slow() -> None:
            """Take too long."""
            await asyncio.sleep(30)

        @box.tool
        async def wait() -> None:
            """Wait to be stopped."""
            running.set()
            await asyncio.sleep(30)

        failed = await box.ledger.get((await box.call("fail")).call.id)
        assert failed is not None
        assert isinstance(failed.error, ToolFailed)
        with pytest.raises(ToolFailed, match="LookupError: not there"):
            failed.unwrap()
        late = await box.ledger.get((await box.call("slow")).call.id)
        assert late is not None
        assert isinstance(late.error, CallTimeout)
        assert (late.state, late.error.seconds) == ("timeout", 0.05)
        task = asyncio.create_task(box.call("wait"))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (stopped,) = await box.ledger.list(state=Status.INTERRUPTED)
        assert stopped.call.tool == "wait"


async def test_the_end_of_a_function_left_behind_is_noted(url: str) -> None:
    release, told = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear(outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            loop.call_soon_threadsafe(told.set)

    async with Toolbox(store=url, observers=[hear]) as box:

        @box.tool(timeout=0.05)
        def stuck() -> str:
            """Come back late."""
            release.wait(120)
            return "late"

        outcome = await box.call("stuck")
        assert outcome.status is Status.TIMEOUT
        release.set()
        async with asyncio.timeout(120):
            await told.wait()
        # Whoever writes after it finds it written: there is one writer.
        await box.call("stuck_no_more")
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert entry.status is Status.TIMEOUT
        assert (entry.metadata["late"]["status"], entry.metadata["late"]["value"]) == ("ok", "late")


async def test_content_survives_where_it_is_more_than_the_value(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def draw() -> list[Any]:
            """Draw."""
            return [Text("see"), Image(b"\x89PNG")]

        @box.tool
        async def count() -> Any:
            """Count."""
            for n in range(3):
                yield n

        for name in ("draw", "count"):
            outcome = await box.call(name)
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert entry.content == outcome.content


@pytest.mark.parametrize("text", ["a\0b", "\ud800 alone", "\x01 first", "ünï 🙂", "\0"])
async def test_any_text_survives(url: str, text: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def echo(text: str) -> str:
            """Say it again."""
            return text

        @box.tool
        async def fail(text: str) -> str:
            """Fail with it."""
            raise ValueError(text)

        call = Call("echo", {"text": text}, Scope(session=text), id=f"id{text}")
        outcome = await box.call(call, idempotency_key=f"key{text}")
        (entry,) = await box.ledger.list(session=text)
        assert (entry.call.id, entry.call.arguments) == (f"id{text}", {"text": text})
        assert entry.value == outcome.value == text
        again = await box.call("echo", {"text": text}, idempotency_key=f"key{text}")
        assert again.call.id == entry.call.id
        failed = await box.call("fail", {"text": text})
        found = await box.ledger.get(failed.call.id)
        assert found is not None
        assert str(found.error) == str(failed.error)
        assert (await box.call(f"no{text}")).status is Status.ERROR
        assert len(await box.ledger.list()) == 3


async def test_secrets_and_presets_are_in_no_row(url: str, dump: Callable[[], str]) -> None:
    async with Toolbox(store=url) as box:

        async def login(user: str, password: Secret, token: str, context: Context) -> Any:
            """Log in."""
            await context.emit(f"with {password.get_secret_value()}")
            if user == "bad":
                raise ValueError(f"{password.get_secret_value()} and {token} are wrong")
            return {"sent": [password.get_secret_value(), token], user: 1}

        box.add(login, presets={"token": "preset-token"})
        for arguments in (
            {"user": "ann", "password": "hunter2!"},
            {"user": "bad", "password": "hunter2!"},
            {"user": {"not": "text"}, "password": "hunter2!"},
            {"user": "ann", "passwort": "hunter2!"},
            {"user": "ann", "password": Secret("hunter2!")},
        ):
            await box.call("login", arguments)
        await box.call("logon", {"user": "ann", "password": "hunter2!"})
        first = (await box.ledger.list())[-1]
        assert first.call.arguments == {"user": "ann", "password": "**********"}
        assert first.value == {"sent": ["**********", "**********"], "ann": 1}
        assert len(await box.ledger.list()) == 6
    stored = dump()
    assert "ann" in stored
    assert "hunter2!" not in stored
    assert "preset-token" not in stored


async def test_the_list_is_filtered_and_the_newest_comes_first(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def one(n: int) -> int:
            """One."""
            return n

        @box.tool
        async def two(n: int) -> int:
            """Two."""
            raise ValueError(n)

        for n in range(3):
            await box.call("one", {"n": n}, session="a")
        middle = datetime.now(UTC)
        for n in range(3, 6):
            await box.call("two", {"n": n}, session="b")

        async def numbers(**filters: Any) -> list[int]:
            found = await box.ledger.list(**filters)
            return [dict(entry.call.arguments or {})["n"] for entry in found]  # type: ignore[arg-type]

        assert await numbers() == [5, 4, 3, 2, 1, 0]
        assert await numbers(limit=2) == [5, 4]
        assert await numbers(tool="one") == await numbers(session="a") == [2, 1, 0]
        assert await numbers(state="error", limit=1) == [5]
        assert await numbers(since=middle) == await numbers(since=middle.timestamp()) == [5, 4, 3]
        assert await numbers(until=middle) == [2, 1, 0]
        assert await numbers(session="b", state="ok") == []
        with pytest.raises(ValueError, match="state must be one of"):
            await box.ledger.list(state="fine")  # type: ignore[arg-type]


async def test_somebody_elses_middleware_may_answer_or_try_twice(url: str) -> None:
    async def middle(active: ActiveCall, proceed: Handler) -> Outcome:
        if active.arguments.get("n") == 0:
            return Outcome(active.call, Status.OK, "answered")
        await proceed(active)
        return await proceed(active)

    ran: list[int] = []
    async with Toolbox(store=url, middleware=[middle]) as box:

        @box.tool
        async def work(n: int) -> int:
            """Work."""
            ran.append(n)
            return n

        for n in (0, 1):
            await box.call("work", {"n": n})
        assert [entry.value for entry in await box.ledger.list()] == [1, "answered"]
        assert ran == [1, 1]


async def test_a_middleware_that_tries_again_does_not_run_what_was_not_recorded(
    url: str, execute: Callable[[str], str]
) -> None:
    async def stubborn(active: ActiveCall, proceed: Handler) -> Outcome:
        try:
            return await proceed(active)
        except Exception:
            return await proceed(active)

    ran: list[int] = []
    async with Toolbox(store=url, middleware=[stubborn]) as box:

        @box.tool
        async def work(n: int) -> int:
            """Work."""
            ran.append(n)
            return n

        call = Call("work", {"n": 1})
        outcomes = [await box.call(call) for _ in range(2)]
        assert [outcome.value for outcome in outcomes] == [1, 1]
        execute("ALTER TABLE wieldy_calls RENAME TO elsewhere")
        refused = await box.call("work", {"n": 2})
        assert isinstance(refused.error, NotRecorded)
        execute("ALTER TABLE elsewhere RENAME TO wieldy_calls")
    assert ran == [1]


async def test_many_callers_on_many_loops_share_a_store(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def work(n: int) -> int:
            """Work."""
            return n

        def blocking(first: int) -> None:
            for n in range(first, first + 5):
                assert box.call_sync("work", {"n": n}).value == n

        threads = [asyncio.to_thread(blocking, first) for first in (0, 5, 10)]
        calls = box.call_many([("work", {"n": n}) for n in range(15, 200)])
        await asyncio.gather(calls, *threads)
        entries = await box.ledger.list(limit=None)
        assert sorted(entry.value for entry in entries) == list(range(200))


async def test_a_closed_store_opens_again(url: str) -> None:
    box = Toolbox(store=url)

    @box.tool
    async def work() -> int:
        """Work."""
        return 1

    for _ in range(2):
        await box.call("work")
        await box.close()
    async with box:
        assert len(await box.ledger.list()) == 2


async def test_without_a_store_there_is_no_ledger_and_no_key() -> None:
    box = Toolbox()
    with pytest.raises(StoreError, match="this toolbox has none"):
        box.ledger  # noqa: B018 - reading it is the test
    with pytest.raises(ValueError, match="needs a store"):
        await box.call("work", idempotency_key="k")
    assert not isinstance((await box.call("work")).error, NotRecorded)
