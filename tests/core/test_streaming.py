"""Pushed items as an async iterator, with a writer that waits for its reader."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wieldy import Call, Context, Outcome, Status, Text, Toolbox
from wieldy.core.streaming import TellingChannel, tell_pushed

SOON = 120.0
T = TypeVar("T")
Tell = Callable[[Any], Awaitable[None]]


class Listener:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    async def shown(self, item: Any) -> None:
        await self._tell(item)


async def run_telling(start: Callable[[TellingChannel], Coroutine[Any, Any, T]], tell: Tell) -> T:
    channel = TellingChannel(Listener(tell))
    return await tell_pushed(channel, start(channel))


def counting_box() -> tuple[Toolbox, list[int]]:
    box = Toolbox()
    produced: list[int] = []

    async def later() -> AsyncIterator[int]:
        for number in range(1000):
            produced.append(number)
            yield number

    def blocking() -> Iterator[int]:
        for number in range(1000):
            produced.append(number)
            yield number

    async def emit(context: Context) -> None:
        for number in range(1000):
            produced.append(number)
            await context.emit(number)

    def emit_blocking(context: Context) -> None:
        for number in range(1000):
            produced.append(number)
            context.emit(number)

    for function in (later, blocking, emit, emit_blocking):
        box.add(function)
    return box, produced


KINDS = ["later", "blocking", "emit", "emit_blocking"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_reader_holds_the_writer_back_and_misses_nothing(kind: str) -> None:
    box, produced = counting_box()
    ahead, shown = 0, []

    async for item in box.stream(kind):
        for _ in range(3):
            await asyncio.sleep(0)
        if isinstance(item, Text):
            shown.append(item.text)
            ahead = max(ahead, len(produced) - len(shown))

    assert shown == [str(number) for number in range(1000)]
    assert ahead < 100


@pytest.mark.parametrize("kind", KINDS)
async def test_without_a_reader_nobody_waits(kind: str) -> None:
    box, produced = counting_box()

    outcome = await asyncio.wait_for(box.call(kind), SOON)

    assert len(outcome.content) == len(produced) == 1000


async def test_a_writer_that_is_held_back_is_released_when_the_reader_leaves() -> None:
    ended = threading.Event()
    box = Toolbox(observers=[lambda o: ended.set() if o.metadata.get("late") else None])

    @box.tool
    def endless(context: Context) -> None:
        while True:
            context.emit("x")

    stream: Any = box.stream("endless")
    await anext(stream)
    await asyncio.wait_for(stream.aclose(), SOON)

    assert await asyncio.to_thread(ended.wait, SOON)


async def test_two_streams_do_not_mix() -> None:
    box = Toolbox()

    @box.tool
    async def repeat(word: str) -> AsyncIterator[str]:
        for _ in range(50):
            await asyncio.sleep(0)
            yield word

    async def read(word: str) -> set[str]:
        return {
            item.text
            async for item in box.stream("repeat", {"word": word})
            if isinstance(item, Text)
        }

    assert await asyncio.gather(*map(read, "ab")) == [{"a"}, {"b"}]


@settings(max_examples=30, deadline=None)
@given(
    items=st.lists(st.text(max_size=5), max_size=200),
    pauses=st.lists(st.booleans(), min_size=1, max_size=20),
    blocking=st.booleans(),
)
def test_any_items_at_any_pace_arrive_once_and_in_order(
    items: list[str], pauses: list[bool], blocking: bool
) -> None:
    box = Toolbox()

    async def later() -> AsyncIterator[str]:
        for number, item in enumerate(items):
            if pauses[number % len(pauses)]:
                await asyncio.sleep(0)
            yield item

    def soon() -> Iterator[str]:
        yield from items

    box.add(soon if blocking else later, "give")

    async def read() -> list[Any]:
        shown = []
        async for item in box.stream("give"):
            shown.append(item)
            if pauses[len(shown) % len(pauses)]:
                await asyncio.sleep(0)
        return shown

    *shown, outcome = asyncio.run(asyncio.wait_for(read(), SOON))

    assert shown == [Text(item) for item in items]
    assert outcome.content == tuple(shown)
    assert outcome.value == items


async def test_a_live_reader_gets_the_outcome_that_a_tool_gives_as_its_own_with_the_end() -> None:
    box = Toolbox()

    @box.tool
    async def relay() -> Outcome:
        return Outcome(Call("inner"), Status.OK, {"n": 3}, content=(Text("three"),))

    plain = [item async for item in box.stream("relay")]
    live = [item async for item in box.stream("relay", live=True)]

    assert plain[:-1] == [Text("three")]
    assert live[:-1] == []
    assert isinstance(live[-1], Outcome) and live[-1].text == "three"


async def test_a_live_reader_gets_what_is_shown_and_finds_the_rest_in_the_outcome() -> None:
    box = Toolbox()

    @box.tool
    async def report(context: Context) -> str:
        await context.emit("first ")
        return "last"

    plain = [item async for item in box.stream("report")]
    live = [item async for item in box.stream("report", live=True)]

    assert plain[:-1] == [Text("first "), Text("last")]
    assert live[:-1] == [Text("first ")]
    assert isinstance(live[-1], Outcome) and live[-1].text == "first last"


async def test_a_listener_is_told_of_all_items_before_the_result_is_given() -> None:
    told: list[Any] = []

    async def push_items(channel: TellingChannel) -> str:
        for number in range(3):
            channel.push(number)
        return "result"

    async def tell(item: Any) -> None:
        await asyncio.sleep(0)
        told.append(item)

    assert await run_telling(push_items, tell) == "result"
    assert told == [0, 1, 2]


async def test_a_listener_that_fails_cancels_what_it_listens_to_and_not_the_task() -> None:
    cancelled = asyncio.Event()

    async def push_and_wait(channel: TellingChannel) -> None:
        channel.push("item")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fail(item: Any) -> None:
        raise ValueError(item)

    with pytest.raises(ValueError, match="item"):
        await run_telling(push_and_wait, fail)
    assert cancelled.is_set()
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_who_is_cancelled_while_a_listener_is_told_stops_telling_it() -> None:
    telling, told = asyncio.Event(), []

    async def push_and_wait(channel: TellingChannel) -> None:
        channel.push("item")
        await asyncio.Event().wait()

    async def tell(item: Any) -> None:
        telling.set()
        await asyncio.Event().wait()
        told.append(item)

    task = asyncio.create_task(run_telling(push_and_wait, tell))
    await telling.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == []
