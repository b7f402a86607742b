"""So many starts per time; the clock is only ever compared with itself."""

import asyncio
from typing import Any

import pytest

from tests.core.impatient import pauses_of
from wieldy import Context, Toolbox

SOON = 120.0


def spans_waited(box: Toolbox, calls: int) -> list[int]:
    """How long each of these calls, made at once, had to wait, in spans of 1000 s."""

    async def many() -> None:
        await box.call_many([("work", None)] * calls)

    return [round(pause / 1000) for pause in pauses_of(many()) if pause > 1]


def limited(rate: Any) -> Toolbox:
    box = Toolbox()

    @box.tool(rate=rate)
    async def work() -> None: ...

    return box


def test_calls_within_the_rate_do_not_wait() -> None:
    assert spans_waited(limited((5, 1000.0)), 5) == []


def test_calls_beyond_the_rate_wait_for_the_next_free_span() -> None:
    assert spans_waited(limited((2, 1000.0)), 7) == [1, 1, 2, 2, 3]
    assert spans_waited(limited((1, 1000.0)), 3) == [1, 2]


async def test_a_call_that_waits_starts_when_its_time_has_come() -> None:
    box = limited((1, 0.01))

    outcomes = await asyncio.wait_for(box.call_many([("work", None)] * 3), SOON)

    assert [outcome.status for outcome in outcomes] == ["ok"] * 3


def test_calls_that_stop_waiting_do_not_make_later_ones_wait_longer() -> None:
    box = limited((1, 1000.0))

    async def give_up() -> None:
        await box.call("work")
        tasks = [asyncio.create_task(box.call("work")) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=SOON)
        assert all(task.cancelled() for task in tasks)

    asyncio.run(give_up())

    assert spans_waited(box, 1) == [1]


def test_every_attempt_is_a_start() -> None:
    box = Toolbox()

    @box.tool(rate=(1, 1000.0), retries=2, read_only=True)
    async def work(context: Context) -> None:
        if context.attempt < 3:
            raise OSError

    assert spans_waited(box, 1) == [1, 2]


@pytest.mark.parametrize("rate", ["1/s", "60/m", "60/minute", "5/h"])
async def test_rates_are_written_as_people_say_them(rate: str) -> None:
    outcome = await asyncio.wait_for(limited(rate).call("work"), SOON)

    assert outcome.ok
