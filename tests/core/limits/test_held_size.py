"""What is remembered in memory is bounded by what it holds, not only by number."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from wieldy import CallNotFound, Image, Outcome, Progress, Text, Toolbox
from wieldy.core import streaming as channel
from wieldy.core.limits import result_cache as cache
from wieldy.core.limits.held_size import held_bytes
from wieldy.core.permission import parked as approvals

MEGABYTE = 1024 * 1024


class Model(BaseModel):
    text: str


@dataclass(slots=True)
class Record:
    text: str


class Spiteful:
    __slots__ = ("text",)

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("leave me alone")


class Endless(dict[str, Any]):
    def keys(self) -> Any:
        raise RuntimeError("there is no end")


LONG = "x" * MEGABYTE


@pytest.mark.parametrize(
    "value",
    [
        LONG,
        LONG.encode(),
        [LONG],
        {"a": {"b": (LONG,)}},
        {LONG: 1},
        {LONG},
        Model(text=LONG),
        Record(LONG),
        Text(LONG),
        [Image(LONG.encode(), "image/png")],
        ValueError(LONG),
        bytearray(MEGABYTE),
        [*range(40_000)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_value_holds_is_counted(value: Any) -> None:
    assert held_bytes(value, MEGABYTE // 2) > MEGABYTE // 2


@pytest.mark.parametrize("make", [Spiteful, lambda: Endless(a=1)])
def test_what_can_t_be_looked_at_counts_as_more_than_may_be_held(make: Any) -> None:
    assert held_bytes([make()], MEGABYTE) > MEGABYTE


def test_what_is_held_twice_counts_once() -> None:
    itself: list[Any] = [LONG, LONG]
    itself.append(itself)
    assert MEGABYTE < held_bytes(itself, 3 * MEGABYTE) < 1.1 * MEGABYTE


def test_an_object_that_is_no_data_is_not_walked_through() -> None:
    class Client:
        def __init__(self) -> None:
            self.cache = LONG

    assert held_bytes(Client(), MEGABYTE) < 1000


def make_box(*observers: Callable[[Outcome], Any]) -> Toolbox:
    box = Toolbox(observers=observers)

    @box.tool(permission="confirm")
    def give(size: int) -> str:
        """Give a long text."""
        return "x" * size

    return box


async def test_decided_calls_are_forgotten_when_they_hold_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals, "_REMEMBERED_BYTES", 5 * MEGABYTE)
    box = make_box()
    ids = [(await box.call("give", {"size": MEGABYTE})).call.id for _ in range(12)]
    for call_id in ids:
        assert len((await box.approve(call_id)).value) == MEGABYTE
    for call_id in ids[:8]:
        with pytest.raises(CallNotFound):
            await box.approve(call_id)
    for call_id in ids[8:]:
        assert len((await box.approve(call_id)).value) == MEGABYTE


async def test_the_call_that_ended_last_is_there_whatever_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals, "_REMEMBERED_BYTES", MEGABYTE)
    box = make_box()
    small, large = [(await box.call("give", {"size": n})).call.id for n in (1, 9 * MEGABYTE)]
    await box.approve(small)
    await box.approve(large)
    assert len((await box.approve(large)).value) == 9 * MEGABYTE
    with pytest.raises(CallNotFound):
        await box.deny(small)


async def test_whoever_waits_gets_an_outcome_that_is_forgotten_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approvals, "_REMEMBERED_BYTES", MEGABYTE)
    parked: asyncio.Queue[str] = asyncio.Queue()
    box = make_box(lambda outcome: parked.put_nowait(outcome.call.id))
    calls = [box.call("give", {"size": 2 * MEGABYTE}, wait=True) for _ in range(4)]
    waiting = [asyncio.ensure_future(call) for call in calls]
    ids = [await parked.get() for _ in waiting]
    await asyncio.gather(*map(box.approve, ids))
    assert [len((await each).value) for each in waiting] == [2 * MEGABYTE] * 4


async def test_kept_results_are_bounded_by_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_BYTES", 3 * MEGABYTE)
    box = Toolbox()
    ran: list[str] = []

    @box.tool(cache=1000, read_only=True)
    def look(key: str, size: int = MEGABYTE - 1000) -> str:
        """Look something up."""
        ran.append(key)
        return "x" * size

    for key in "abcd":
        await box.call("look", {"key": key})
    for key in "dcb":
        assert (await box.call("look", {"key": key})).metadata.get("cached") is True
    assert "cached" not in (await box.call("look", {"key": "a"})).metadata
    for _ in range(2):
        await box.call("look", {"key": "large", "size": 4 * MEGABYTE})
    assert ran == [*"abcda", "large", "large"]


@pytest.mark.parametrize(
    "item",
    [Text(LONG), Image(LONG.encode(), "image/png"), Progress(1, message=LONG)],
    ids=lambda item: type(item).__name__,
)
async def test_a_writer_of_large_items_waits_for_its_reader(item: Any) -> None:
    kept = channel.Channel()
    full, pushed = None, 0
    while full is None:
        kept.push(item)
        full, pushed = kept.room(), pushed + 1
    assert 2 < pushed < 7
    kept.close()
    assert len([each async for each in kept]) == pushed
    await full
