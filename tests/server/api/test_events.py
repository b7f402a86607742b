"""Server-sent events of the API: every change, also for those who come back."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.mcp.served import served
from tests.server.api.api_client import People, api_of, make_box
from wieldy import Toolbox
from wieldy.server import run
from wieldy.server.api.event_hub import CallEvent, EventHub, EventReader, read_place
from wieldy.server.api.event_stream import MAX_OF_ONE


class Event(NamedTuple):
    id: str
    kind: str
    data: Any


class Stream:
    """The events of one open stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self) -> Event:
        """The next event; comments are passed over."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if not line and "event" in fields:
                # What running calls show has no place to come back to.
                place = fields.get("id", "")
                return Event(place, fields["event"], json.loads(fields["data"]))
            name, _, value = line.partition(": ")
            fields[name] = value
        raise EOFError

    async def until(self, call_id: str, state: str) -> list[Event]:
        """All events up to the one that says this."""
        found = [await self.next()]
        while (found[-1].data.get("call_id"), found[-1].data.get("state")) != (call_id, state):
            found.append(await self.next())
        return found


@asynccontextmanager
async def listen(
    url: str, who: str | None = None, last: str | None = None
) -> AsyncIterator[Stream]:
    headers = {} if who is None else {"Authorization": f"Bearer {who}-secret"}
    headers |= {} if last is None else {"Last-Event-ID": last}
    address = url.replace("/mcp", "/api/events")
    async with (
        httpx2.AsyncClient(timeout=60) as client,
        client.stream("GET", address, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer.aiter_lines())


async def post(url: str, path: str, body: Any, who: str | None = None) -> Any:
    headers = {} if who is None else {"Authorization": f"Bearer {who}-secret"}
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.post(url.replace("/mcp", path), json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def add(url: str, who: str | None = None) -> str:
    body = {"tool": "add", "arguments": {"a": 1, "b": 1}}
    return str((await post(url, "/api/calls", body, who))["call_id"])


async def test_calls_come_as_they_change_and_only_to_those_who_may_see_them(
    tmp_path: Path,
) -> None:
    with served(make_box(tmp_path), run, identifiers=[People()]) as url:
        async with listen(url, "ann") as ann, listen(url, "cal") as cal:
            assert (await ann.next()).kind == (await cal.next()).kind == "hello"
            hidden = await add(url, "bob")
            body = {"tool": "wipe", "arguments": {"path": "x"}}
            waits = (await post(url, "/api/calls", body, "cal"))["call_id"]
            seen = await ann.until(waits, "pending")
            await post(url, f"/api/pending/{waits}/approve", {}, "ann")
            own = await cal.until(waits, "ok")
    assert hidden in {event.data["call_id"] for event in seen}
    assert {event.data["call_id"] for event in own} == {waits}
    assert (own[0].kind, own[-1].kind) == ("pending", "call")
    assert "arguments" not in own[-1].data


async def test_a_client_that_comes_back_misses_nothing(tmp_path: Path) -> None:
    with served(make_box(tmp_path), run) as url:
        async with listen(url) as stay, listen(url) as stream:
            await stay.next()
            await stream.next()
            first = await add(url)
            last = (await stream.until(first, "ok"))[-1].id
            missed = [await add(url) for _ in range(3)]
            await stay.until(missed[-1], "ok")
        async with listen(url, last=last) as again:
            found = await again.until(missed[-1], "ok")
    states = [event.data.get("call_id") for event in found if event.data.get("state") == "ok"]
    assert states[-3:] == missed
    # The hub that knew the place is gone with its last reader, so that the first may come again.
    assert set(states) <= {first, *missed}


async def test_within_the_life_of_a_hub_nothing_comes_twice(tmp_path: Path) -> None:
    with served(make_box(tmp_path), run) as url:
        async with listen(url) as stay:
            await stay.next()
            first, second = await add(url), await add(url)
            place = (await stay.until(first, "ok"))[-1].id
            await stay.until(second, "ok")
            async with listen(url, last=place) as again:
                assert (await again.next()).kind == "hello"
                found = await again.until(second, "ok")
    assert {event.data["call_id"] for event in found} == {second}


async def test_a_client_that_comes_back_to_another_process_misses_nothing(tmp_path: Path) -> None:
    with served(make_box(tmp_path), run) as url:
        async with listen(url) as stream:
            place = (await stream.next()).id
            body = {"tool": "wipe", "arguments": {"path": "x"}}
            waits = (await post(url, "/api/calls", body))["call_id"]
            await stream.until(waits, "pending")
    async with make_box(tmp_path) as box:
        await box.approve(waits)
    with served(make_box(tmp_path), run) as url:
        async with listen(url, last=place) as again:
            found = await again.until(waits, "ok")
    assert found[-1].kind == "call"


@pytest.mark.parametrize(
    "place", ["x", "1.2", "a.b.c", "a.1.nan", "a.1.1e5", "é.1.1.0", "a.-1.1.0"]
)
async def test_an_id_that_is_not_ours_is_refused(place: str, tmp_path: Path) -> None:
    assert read_place(place) is None
    async with api_of(make_box(tmp_path), tokens=False) as client:
        headers = {"Last-Event-ID": place.encode()}
        said = await client.send("GET", "/api/events", headers=headers)
    assert (said.status_code, said.json()["error"]["code"]) == (400, "bad_event_id")


async def test_whoever_was_away_too_long_is_told_to_list_again(tmp_path: Path) -> None:
    with served(make_box(tmp_path), run) as url:
        async with listen(url, last="abc.1.1000000000.000000") as stream:
            kinds = [(await stream.next()).kind for _ in range(2)]
    assert kinds == ["hello", "reset"]


async def test_a_reader_that_is_too_far_behind_is_dropped_with_what_it_had(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:
        hub, slow, quick = EventHub(box.store), EventReader(_all), EventReader(_all)
        await hub.join(slow)
        await hub.join(quick)
        call = (await box.call("add", {"a": 1, "b": 1})).call.id
        while not (events := await quick.take(60)):
            pass
        assert isinstance(events[0], CallEvent)
        for _ in range(2000):
            slow.put(events[0])
        hub.leave(slow)
        hub.leave(quick)
        assert (slow.ended, quick.ended) == (True, False)
        assert await slow.take(0) == []
        assert json.loads(events[0].data)["call_id"] == call


def _all(caller: str | None) -> bool:
    return True


async def test_streams_are_bounded_for_each_caller(tmp_path: Path) -> None:
    with served(make_box(tmp_path), run, identifiers=[People()]) as url:
        async with AsyncExitStack() as opened:
            # A stream that is dropped closes its connection, so that all are kept.
            streams = [
                await opened.enter_async_context(listen(url, "cal")) for _ in range(MAX_OF_ONE)
            ]
            for stream in streams:
                await stream.next()
            client = await opened.enter_async_context(httpx2.AsyncClient(timeout=60))
            headers = {"Authorization": "Bearer cal-secret"}
            more = await client.get(url.replace("/mcp", "/api/events"), headers=headers)
            other = await opened.enter_async_context(listen(url, "bob"))
            await other.next()
    assert (more.status_code, more.json()["error"]["code"]) == (429, "too_many_streams")


async def test_a_server_stops_although_a_client_listens_and_does_not_read(tmp_path: Path) -> None:
    with served(make_box(tmp_path), run) as url:
        host, port = url.removeprefix("http://").removesuffix("/mcp").split(":")
        silent = socket.create_connection((host, int(port)))
        silent.sendall(f"GET /api/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert await asyncio.to_thread(silent.recv, 5)
        await add(url)
    silent.close()


async def test_the_stream_ends_after_the_asked_time(tmp_path: Path) -> None:
    box: Toolbox = make_box(tmp_path)
    with served(box, run) as url:
        async with httpx2.AsyncClient(timeout=60) as client:
            address = url.replace("/mcp", "/api/events?seconds=0")
            answer = await client.get(address)
    assert answer.text.startswith("retry: 1000\nid: ")
