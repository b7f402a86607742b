"""Server-sent events: calls and pending calls as they change."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field
from starlette.types import Receive, Scope, Send

from wieldy.core.bounded_json import dump_json
from wieldy.core.task import time_limit

from .answer_shapes import Input
from .api_operations import ApiBox, Asked, operation
from .api_problems import Problem
from .event_hub import CallEvent, EventHub, EventPlace, EventReader, StreamEvent, read_place

if TYPE_CHECKING:
    from wieldy.store.store import Store

MAX_STREAMS = 100
MAX_OF_ONE = 10
# So many of the streams are kept for those who may approve or administer.
KEPT_STREAMS = 20
_HEARTBEAT = 15.0
# A client that takes nothing for this time is not waited for any longer.
_PATIENCE = 20.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # A proxy must pass each event on at once.
    (b"x-accel-buffering", b"no"),
]


class EventQuery(Input):
    """What to listen to, and how long."""

    call_id: str | None = Field(None, max_length=1000, description="Only events of this call.")

    seconds: float = Field(
        300,
        ge=0,
        le=300,
        description="After this time the stream ends; come back with the last event's id.",
    )


@operation("GET", "/events", None, query=EventQuery)
async def stream_events(asked: Asked) -> "EventStream":
    """Stream calls as they change, as server-sent events.

    An event is named `pending` if the call waits for a person, and `call` otherwise; its data is
    the call as it stands. With the header `Last-Event-ID` the stream begins where an earlier one
    ended; calls may come twice, and none is missed. The event `reset` says that too much has
    happened since: list the calls again. Callers see their own calls; those with the role approve
    or administer see all.

    What running calls show comes as the events `progress` and `output`, which have no id: they
    are sent once, a few times a second at most, and not to a stream that is behind.
    """
    given = asked.request.headers.get("last-event-id")
    place = None if given is None else read_place(given)
    if given is not None and place is None:
        hint = "Send the id of the last event as it was, or none."
        raise Problem(400, "bad_event_id", "This Last-Event-ID is not one of ours.", hint)
    hub = start_hub(asked.api, asked.store)
    if not _has_room(asked):
        hint = "Close a stream, or come back later."
        raise Problem(
            429,
            "too_many_streams",
            "Too many streams are open.",
            hint,
            headers={"retry-after": "30"},
        )
    reader = EventReader(asked.owns, asked.query.call_id)
    return EventStream(asked, hub, reader, place)


def _has_room(asked: Asked) -> bool:
    """Whether one more stream may be open."""
    streams = asked.api.streams
    own = sum(1 for stream in streams if stream.name == asked.name)
    if asked.name is not None and own >= MAX_OF_ONE:
        return False
    if asked.sees_all:
        return len(streams) < MAX_STREAMS
    others = sum(1 for stream in streams if not stream.sees_all)
    return others < MAX_STREAMS - KEPT_STREAMS and len(streams) < MAX_STREAMS


def start_hub(api: ApiBox, store: "Store") -> EventHub:
    """What gathers the events of an application, from now on if it did not yet."""
    # An application may be started again on another loop.
    if api.hub is None or api.hub.feed.loop is not asyncio.get_running_loop():
        if api.hub is not None:
            api.hub.end()
        api.hub = EventHub(store, api.box.listen)
    return api.hub


class EventStream:
    """One stream, as an ASGI application."""

    def __init__(
        self, asked: Asked, hub: EventHub, reader: EventReader, place: EventPlace | None
    ) -> None:
        self.name = asked.name
        self.sees_all = asked.sees_all
        self._api = asked.api
        self._hub = hub
        self._reader = reader
        self._place = place
        self._seconds: float = asked.query.seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client leaves, does not read, or the time is over."""
        self._api.streams.add(self)
        leaving = asyncio.create_task(_wait_for_leaving(receive, self._reader))
        try:
            await self._hub.join(self._reader)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            with suppress(TimeoutError):
                await self._send_events(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()
            self._hub.leave(self._reader)
            self._api.streams.discard(self)

    async def _send_events(self, send: Send) -> None:
        end = time.monotonic() + self._seconds
        # A reader that gets no event at all can come back to this place too.
        await _put(
            send, f"retry: 1000\nid: {self._place or self._hub.place}\nevent: hello\ndata: {{}}\n\n"
        )
        if self._place is not None:
            missed = await self._hub.find_missed(self._place)
            if missed is None:
                told = dump_json({"reason": "Too much has changed. List the calls again."})
                await _put(send, f"id: {self._hub.place}\nevent: reset\ndata: {told}\n\n")
            else:
                await self._send_all(send, missed)
        while not self._reader.ended:
            left = end - time.monotonic()
            if left <= 0:
                return
            events = await self._reader.take(min(_HEARTBEAT, left))
            if events:
                await self._send_all(send, events)
            elif not self._reader.ended:
                await _put(send, ": still here\n\n")

    async def _send_all(self, send: Send, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if self._reader.wants(event):
                place = f"id: {event.place}\n" if isinstance(event, CallEvent) else ""
                await _put(send, f"{place}event: {event.kind}\ndata: {event.data}\n\n")


async def _put(send: Send, text: str) -> None:
    async with time_limit(_PATIENCE):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _wait_for_leaving(receive: Receive, reader: EventReader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end()
