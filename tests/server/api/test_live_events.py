"""What running calls show, while they run, to those who may see it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp.served import served
from tests.server.api.api_client import People, make_box
from tests.server.api.test_events import Stream, listen, post
from tests.server.test_app import http
from wieldy import Call, Context, Image, Outcome, Secret, Text, Toolbox
from wieldy.core.block import Notice, Progress, RepeatingText
from wieldy.server import app, run
from wieldy.server.api.event_hub import EventHub, EventReader
from wieldy.server.api.live_feed import LiveEvent, LiveFeed


def make_live_box(folder: Path) -> Toolbox:
    box = make_box(folder)

    @box.tool
    async def build(context: Context) -> AsyncIterator[str]:
        """Build something, and tell of it."""
        await context.progress(1, 4, "begun")
        yield "compiling\n"
        yield "<b>linking</b>\u2028"

    @box.tool
    def print_blocking(context: Context) -> str:
        context.progress(2, None)
        context.emit(Text("from a thread"))
        return "done"

    @box.tool
    async def outer_build(context: Context) -> str:
        return str((await context.call("build")).status)

    return box


async def read_live(stream: Stream, call_id: str) -> list[tuple[str, Any]]:
    """What a call shows, up to its end."""
    found = []
    while True:
        event = await stream.next()
        if event.data.get("call_id") == call_id:
            if event.kind in ("progress", "output"):
                found.append((event.kind, event.data))
            elif event.data["state"] == "ok":
                return found


def texts_of(found: list[tuple[str, Any]]) -> str:
    return "".join(data["text"] for kind, data in found if kind == "output")


async def call(url: str, tool: str, who: str | None = None, **arguments: Any) -> str:
    made = await post(url, "/api/calls", {"tool": tool, "arguments": arguments}, who)
    return str(made["call_id"])


async def test_progress_and_output_come_before_the_end_and_only_to_those_who_may_see_them(
    tmp_path: Path,
) -> None:
    with served(make_live_box(tmp_path), run, identifiers=[People()]) as url:
        async with listen(url, "ann") as ann, listen(url, "cal") as cal, listen(url, "bob") as bob:
            for stream in (ann, cal, bob):
                await stream.next()
            built = await call(url, "build", "cal")
            seen, own = await read_live(ann, built), await read_live(cal, built)
            other = await call(url, "print_blocking", "bob")
            events = [await bob.next()]
            while events[-1].data.get("state") != "ok":
                events.append(await bob.next())
    assert seen == own
    assert texts_of(seen) == "compiling\n<b>linking</b>\u2028"
    told = {"progress": 1.0, "total": 4.0, "message": "begun"}
    assert seen[0] == ("progress", {"call_id": built, "tool": "build", **told})
    assert {event.data["call_id"] for event in events} == {other}


@pytest.mark.parametrize(
    ("tool", "text"),
    [("print_blocking", "from a thread"), ("outer_build", "compiling\n<b>linking</b>\u2028")],
)
async def test_blocking_and_nested_calls_are_heard_too(
    tool: str, text: str, tmp_path: Path
) -> None:
    with served(make_live_box(tmp_path), run) as url:
        async with listen(url) as stream:
            await stream.next()
            outer = await call(url, tool)
            found = []
            while True:
                event = await stream.next()
                found.append((event.kind, event.data))
                if event.data.get("state") == "ok" and event.data["call_id"] == outer:
                    break
    assert texts_of(found) == text


async def test_a_stream_of_one_call_has_nothing_of_others(tmp_path: Path) -> None:
    with served(make_live_box(tmp_path), run, deciders=[People()]) as url:
        async with listen(url) as every:
            await every.next()
            waits = (await post(url, "/api/calls", {"tool": "wipe", "arguments": {"path": "x"}}))[
                "call_id"
            ]
            only = url.replace("/mcp", f"/api/events?call_id={waits}")
            async with listen(only) as stream:
                await stream.next()
                await call(url, "build")
                await post(url, f"/api/pending/{waits}/approve", {}, "ann")
                found = await stream.until(waits, "ok")
    assert {event.data["call_id"] for event in found} == {waits}


async def test_what_a_call_shows_and_records_does_not_depend_on_who_listens(
    tmp_path: Path,
) -> None:
    async with make_live_box(tmp_path) as box:
        heard: list[tuple[Call, Any]] = []
        plain = await box.call("long", {"size": 5}), await box.call("build")
        stop = box.listen(lambda call, item: heard.append((call, item)))
        watched = await box.call("long", {"size": 5}), await box.call("build")
        streamed = [item async for item in box.stream("build")]
        stop()
        await box.call("build")
        rows = [await box.ledger.get(each.call.id) for each in (plain[0], watched[0])]
    facts = [[(each.value, each.content) for each in pair] for pair in (plain, watched)]
    assert facts[0] == facts[1]
    assert rows[0] is not None and rows[1] is not None and rows[0].content == rows[1].content
    texts = [item.text for _, item in heard if isinstance(item, Text)]
    assert texts == ["compiling\n", "<b>linking</b>\u2028"] * 2
    assert isinstance(streamed[-1], Outcome) and len(streamed) == 4


async def test_secrets_are_covered_in_what_is_overheard(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:

        @box.tool
        async def login(password: Secret, context: Context) -> AsyncIterator[str]:
            await context.progress(1, message=f"with {password.get_secret_value()}")
            yield "it is hunter2-"
            yield "hunter2."

        heard: list[Any] = []
        stop = box.listen(lambda call, item: heard.append(item))
        await box.call("login", {"password": "hunter2-hunter2"})
        stop()
    assert heard and not any("hunter2" in str(item.to_dict()) for item in heard)


async def test_a_listener_that_fails_does_not_fail_the_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(call: Call, item: Any) -> None:
        raise RuntimeError("no")

    async with make_live_box(tmp_path) as box:
        stop = box.listen(fail)
        outcome = await box.call("build")
        stop()
    assert outcome.ok and "A listener failed" in caplog.text


async def test_much_output_is_cut_and_a_slow_stream_is_not_ended_by_it() -> None:
    told: list[LiveEvent] = []
    feed = LiveFeed(told.append)
    loud = Call("loud", {})
    for _ in range(1000):
        feed.take(loud, Text("x" * 1000))
    feed.take(loud, Image(b"no text"))
    feed.take(loud, Notice("a notice"))
    for done in (float("nan"), float("inf"), 10**400):
        feed.take(loud, Progress(done, None, "m" * 10_000))
    progress, tail, end = feed.read(loud.id)
    feed.finish(loud.id)
    sent = {event.kind: json.loads(event.data) for event in told}
    assert len(told) == 2
    assert sent["output"]["text"].endswith("xa notice\n") and len(sent["output"]["text"]) == 8000
    assert sent["output"]["left_out"] == 1_000_000 + len("a notice\n") - 8000
    assert sent["progress"]["progress"] is None and len(sent["progress"]["message"]) == 500
    assert (progress or {})["message"] == "m" * 500 and len(tail) == 16_000
    assert end == 1_000_000 + len("a notice\n")
    assert feed.read(loud.id) == (None, "", 0)
    for number in range(2000):
        feed.take(Call("many", {}, id=f"call_{number}"), Text("x"))
    assert [feed.read(f"call_{number}").output for number in (0, 1999)] == ["", "x"]

    slow = EventReader(lambda caller: True)
    for _ in range(10_000):
        slow.offer(told[0])
    assert not slow.ended
    assert len(await slow.take(60)) == 200


class Repeated(RepeatingText):
    """A text with all that was said before it."""

    __slots__ = ()


async def test_texts_that_repeat_what_was_said_before_are_passed_on_once() -> None:
    told: list[LiveEvent] = []
    feed = LiveFeed(told.append)
    call = Call("talk", {})
    for item in (Text("one "), Notice("a notice"), Repeated("one two "), Repeated("one two three")):
        feed.take(call, item)
        feed.flush()
    sent = [json.loads(event.data) for event in told]
    assert [each["text"] for each in sent] == ["one ", "a notice\n", "two ", "three"]
    assert [each["end"] for each in sent] == [4, 13, 17, 22]
    assert feed.read(call.id) == (None, "one a notice\ntwo three", 22)


async def test_what_was_shown_before_anybody_listened_is_read_and_the_rest_comes_once(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)
    go_on = threading.Event()

    @box.tool
    async def speak(context: Context) -> AsyncIterator[str]:
        yield "early\n"
        await context.progress(1, 2)
        await asyncio.to_thread(go_on.wait, 120)
        yield "late\n"

    with served(box, run) as url:
        calling = asyncio.create_task(call(url, "speak"))
        async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=60) as client:
            state: dict[str, Any] = {"progress": None}
            while state["progress"] is None:
                for each in (await client.get("/api/calls?tool=speak")).json()["calls"]:
                    state = (await client.get(f"/api/calls/{each['call_id']}")).json()
        async with listen(url) as stream:
            await stream.next()
            go_on.set()
            found = await read_live(stream, await calling)
    assert (state["output"], state["output_end"]) == ("early\n", 6)
    # What was read before may come again, and its place says so.
    known, late = state["output_end"], ""
    for kind, data in found:
        if kind == "output" and data["end"] > known:
            late += data["text"][known - data["end"] :]
            known = data["end"]
    assert late == "late\n"


async def test_a_hub_listens_from_the_beginning_until_it_ends(tmp_path: Path) -> None:
    told: list[str] = []

    def listen_once(take: Any) -> Any:
        told.append("began")
        return lambda: told.append("ended")

    async with make_box(tmp_path) as box:
        hub = EventHub(box.store, listen_once)
        reader = EventReader(lambda caller: True)
        await hub.join(reader)
        hub.leave(reader)
        assert told == ["began"]
        hub.end()
        hub.end()
    assert told == ["began", "ended"]


async def test_an_application_that_is_started_again_on_another_loop_streams_again(
    tmp_path: Path,
) -> None:
    box = make_live_box(tmp_path)
    made = app(box)
    released: list[bool] = []

    @box.tool
    async def tick(context: Context) -> str:
        while not released:
            await context.progress(1)
            await asyncio.sleep(0.01)
        released.clear()
        return "done"

    async def listen_once() -> str:
        async with http(made) as client:
            calling = asyncio.create_task(client.post("/api/calls", json={"tool": "tick"}))
            stream = await client.get("/api/events", params={"seconds": 1})
            released.append(True)
            await calling
            return stream.text

    texts = [await asyncio.to_thread(asyncio.run, listen_once()) for _ in range(2)]
    await box.close()
    assert all("event: progress" in text for text in texts)
