"""What the calls of a minute add up to is kept, shared by processes, and read in steps."""

import time
from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from tests.store.child import eventually
from wieldy import Retention, Toolbox
from wieldy.store.databases.tables import LATENCY_BOUNDS
from wieldy.store.rollups import Rollup, RollupKey, Rollups, RollupSum
from wieldy.store.store import Store

Execute = Callable[[str], str]
BASE = 1_800_000_000 - 1_800_000_000 % 3600


def one_sum(*seconds: float | None, cost: float = 0.0) -> RollupSum:
    """The sum of calls that took this long."""
    made = RollupSum()
    for each in seconds:
        made.add(each, cost)
    return made


def ranges(**counts: int) -> tuple[int, ...]:
    """How many calls took how long, by the number of the range."""
    return tuple(counts.get(f"r{number}", 0) for number in range(len(LATENCY_BOUNDS) + 1))


async def test_two_processes_add_to_the_same_minute(url: str) -> None:
    key = RollupKey(BASE, "add", "ann", "ok")
    async with Toolbox(store=url) as first, Toolbox(store=url) as second:
        await first.store.rollups.add({key: one_sum(0.001, 0.2, cost=0.5)})
        await second.store.rollups.add({key: one_sum(500.0, None)})
        await first.store.rollups.add({key._replace(caller=None): one_sum(0.001)})
        found = await second.store.rollups.read(BASE, BASE + 60, 60, ["tool"])

    took = ranges(r0=2, r3=1, **{f"r{len(LATENCY_BOUNDS)}": 1})
    [rollup] = found
    facts = rollup.seconds, 1.0, took, rollup.spans, rollup.longest
    assert rollup == Rollup(BASE, "add", None, None, 5, *facts)
    assert (rollup.seconds, rollup.longest) == pytest.approx((500.202, 500.201))
    # The minute of one caller has calls in several ranges.
    assert rollup.spans == (None,) * len(took)


async def test_the_times_of_calls_are_known_where_a_minute_has_one_range(url: str) -> None:
    times = {BASE: (0.006,), BASE + 60: (0.01, 0.02), BASE + 120: (51.4,)}
    async with Toolbox(store=url) as box:
        for at, each in times.items():
            await box.store.rollups.add({RollupKey(at, "add", "ann", "ok"): one_sum(*each)})
        [found] = await box.store.rollups.read(BASE, BASE + 3600, 3600)

    assert found.longest == 51.4
    assert {number: span for number, span in enumerate(found.spans) if span} == {
        1: pytest.approx((0.006, 0.015)),
        10: (51.4, 51.4),
    }


async def test_sums_outlive_the_process_and_are_read_in_steps(url: str) -> None:
    minutes = [BASE, BASE + 60, BASE + 300, BASE + 3600]
    async with Toolbox(store=url) as box:
        sums = {RollupKey(at, "add", "ann", "ok"): one_sum(1.0) for at in minutes}
        await box.store.rollups.add(sums)
    async with Toolbox(store=url) as box:
        read = box.store.rollups.read
        found = [(each.at - BASE, each.count) for each in await read(BASE, BASE + 3600, 300)]
        hours = [(each.at - BASE, each.count) for each in await read(BASE, BASE + 7200, 3600)]
        nothing = await read(BASE + 7200, BASE + 9000)

    assert found == [(0, 2), (300, 1)]
    assert hours == [(0, 3), (3600, 1)]
    assert nothing == []


async def test_names_of_any_kind_are_kept_apart(url: str) -> None:
    names = ["a", "a\0", "a\ud800", "x" * 100_000, '"; DROP TABLE wieldy_rollups; --', ""]
    async with Toolbox(store=url) as box:
        keys = [RollupKey(BASE, name, name, "ok") for name in names]
        await box.store.rollups.add({key: one_sum(1.0) for key in keys})
        await box.store.rollups.add({key: one_sum(1.0) for key in keys})
        found = await box.store.rollups.read(BASE, BASE + 60)

    assert sorted((each.tool or "", each.count) for each in found) == sorted(
        (name, 2) for name in names
    )


class Repeating:
    """A store that runs each operation again, as after a commit whose answer was lost."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, operation: Callable[[Connection], None]) -> None:
        await self._store.write(operation)
        await self._store.write(operation)


async def test_sums_are_added_once_although_the_answer_to_a_commit_is_lost(url: str) -> None:
    async with Toolbox(store=url) as box:
        rollups = Rollups(Repeating(box.store))  # type: ignore[arg-type]
        for _ in range(3):
            await rollups.add({RollupKey(BASE, "add", None, "ok"): one_sum(1.0)})
        [found] = await box.store.rollups.read(BASE, BASE + 60)

    assert found.count == 3


async def test_old_sums_are_removed(url: str, execute: Execute) -> None:
    now = int(time.time())
    minutes = [now - days * 86_400 for days in (1, 10, 100)]
    async with Toolbox(store=url, retention=Retention.unbounded()) as box:
        sums = {RollupKey(at, "add", None, "ok"): one_sum(1.0) for at in minutes}
        await box.store.rollups.add(sums)
    # Without any retention they are kept for ninety days.
    assert execute("SELECT count(*) FROM wieldy_rollups") == "2"
    async with Toolbox(store=url, retention=Retention(days=5)) as box:
        assert (await box.store.prune())["rollups"] in (0, 1)

        async def one_is_left() -> bool:
            return execute("SELECT count(*) FROM wieldy_rollups") == "1"

        await eventually(one_is_left)


@pytest.mark.parametrize(
    ("since", "until", "step", "by"),
    [
        (0, 60, 59, ["tool"]),
        (0, 60, 0, ["tool"]),
        (0, 60, -60, ["tool"]),
        (0, 60, 90, ["tool"]),
        (0, 60, 60.0, ["tool"]),
        (0, 1e12, 60, ["tool"]),
        (0, float("inf"), 60, ["tool"]),
        (float("nan"), 60, 60, ["tool"]),
        (0, 60, 60, ["minute"]),
        (0, 60, 60, "tool"),
    ],
)
async def test_a_span_that_makes_no_sense_is_refused(
    tmp_path: object, since: float, until: float, step: int, by: list[str]
) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/store.db") as box:
        with pytest.raises(ValueError, match=r"step|span|by"):
            await box.store.rollups.read(since, until, step, by)
