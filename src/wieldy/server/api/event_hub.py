"""Follow the ledger once for all who listen, and keep the last events for those who come back."""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from wieldy.core.block import Block, Progress
from wieldy.core.call import Call
from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit
from wieldy.store.ledger_entry import Entry, read_brief_entry
from wieldy.store.ledger_follow import Following, read_changed_since
from wieldy.store.ledger_pages import CallFilter
from wieldy.store.store import Store

from .call_shapes import describe_call
from .live_feed import LiveEvent, LiveFeed

_log = logging.getLogger("wieldy.server")
_REMEMBERED = 2000
_MAX_WAITING = 1000
_MAX_REPLAYED = 5000
# A reader that is this far behind is not told what running calls show.
_MAX_LIVE = 200
# A reader that comes back after a longer time lists the calls again.
_MAX_ABSENCE = 24 * 3600.0


class EventPlace(NamedTuple):
    """The place of a reader: the hub's life, the number of the event in it, and its time."""

    life: str
    number: int
    moment: float

    def __str__(self) -> str:
        return f"{self.life}.{self.number}.{self.moment:.6f}"


def read_place(text: str) -> EventPlace | None:
    """The place in an event's id, or None if it is no id of ours."""
    life, dot, rest = text.partition(".")
    number, second_dot, moment = rest.partition(".")
    whole, _, part = moment.partition(".")
    digits = number + whole + part
    if not (dot and second_dot and whole and part and digits.isascii() and digits.isdecimal()):
        return None
    if not (life.isascii() and life.isalnum()) or not number or len(text) > 80:
        return None
    return EventPlace(life, int(number), float(moment))


class CallEvent(NamedTuple):
    """One change of a call, as it is sent."""

    place: EventPlace
    call_id: str
    caller: str | None
    kind: str
    data: str


StreamEvent = CallEvent | LiveEvent
# The type of `Toolbox.listen`.
Listen = Callable[[Callable[[Call, Block | Progress], None]], Callable[[], None]]


class EventReader:
    """The events that one stream has not sent yet; all that it sees, or those of one call."""

    def __init__(self, sees: Callable[[str | None], bool], call_id: str | None = None) -> None:
        self.ended = False
        self._sees = sees
        self._call_id = call_id
        self._waiting: deque[StreamEvent] = deque()
        self._bell = asyncio.Event()

    def wants(self, event: StreamEvent) -> bool:
        """Whether an event is for this stream."""
        return self._call_id in (None, event.call_id) and self._sees(event.caller)

    def offer(self, event: LiveEvent) -> None:
        """Keep what a running call shows, unless the stream is behind."""
        if not self.ended and len(self._waiting) < _MAX_LIVE:
            self._waiting.append(event)
            self._bell.set()

    def put(self, event: CallEvent) -> None:
        """Keep an event for the stream; one that is too far behind ends, and may come back."""
        if len(self._waiting) >= _MAX_WAITING:
            self.end()
        elif not self.ended:
            self._waiting.append(event)
            self._bell.set()

    def end(self) -> None:
        """Have the stream end."""
        self.ended = True
        self._waiting.clear()
        self._bell.set()

    async def take(self, seconds: float) -> list[StreamEvent]:
        """The events that have come, none if none came in this time."""
        try:
            async with time_limit(seconds):
                await self._bell.wait()
        except TimeoutError:
            return []
        self._bell.clear()
        taken = [*self._waiting]
        self._waiting.clear()
        return taken


class EventHub:
    """All streams of one application. The ledger is followed while there is a stream.

    What running calls show is kept from the beginning, for those who come later.
    """

    def __init__(self, store: Store, listen: Listen | None = None) -> None:
        self._store = store
        self.feed = LiveFeed(self._tell_live)
        self.stop_listening = None if listen is None else listen(self.feed.take)
        self._readers: set[EventReader] = set()
        self._following: asyncio.Task[None] | None = None
        self._began = asyncio.Event()
        self._begin_life()

    def _begin_life(self) -> None:
        self._life = secrets.token_hex(4)
        self._number = 0
        self._recent: deque[CallEvent] = deque(maxlen=_REMEMBERED)

    @property
    def place(self) -> EventPlace:
        """The place of the last event, at this time."""
        return EventPlace(self._life, self._number, time.time())

    async def join(self, reader: EventReader) -> None:
        """Give a reader every change from now on."""
        self._readers.add(reader)
        if self._following is None:
            following = Following(self._store, CallFilter())
            self._began = following.began
            self._following = asyncio.create_task(self._follow(following))
        began = asyncio.ensure_future(self._began.wait())
        try:
            await asyncio.wait((began, self._following), return_when=asyncio.FIRST_COMPLETED)
        finally:
            began.cancel()

    def leave(self, reader: EventReader) -> None:
        """Give a reader nothing more; after the last one the ledger is not followed."""
        self._readers.discard(reader)
        if not self._readers and self._following is not None:
            self._following.cancel()
            self._stop()

    def end(self) -> None:
        """End all streams, and listen to calls no longer."""
        self.close()
        if self.stop_listening is not None:
            self.stop_listening()
            self.stop_listening = None

    def close(self) -> None:
        """End all streams."""
        for reader in self._readers:
            reader.end()

    def _tell_live(self, event: LiveEvent) -> None:
        for reader in self._readers:
            if reader.wants(event):
                reader.offer(event)

    async def find_missed(self, place: EventPlace) -> list[CallEvent] | None:
        """The changes since a place, or None if they are too many or too long ago.

        Where the place is not of this life of the hub, calls that changed within a minute
        before it come again.
        """
        first = self._recent[0].place.number if self._recent else self._number + 1
        if place.life == self._life and first - 1 <= place.number <= self._number:
            return [event for event in self._recent if event.place.number > place.number]
        if not 0 <= time.time() - place.moment + 60 <= _MAX_ABSENCE:
            return None
        rows = await read_changed_since(self._store, place.moment, _MAX_REPLAYED)
        if len(rows) >= _MAX_REPLAYED:
            return None
        entries = (read_brief_entry(row) for row in rows)
        # A place of no life is found by its time.
        return [_make_event(EventPlace("0", 0, _moment_of(each)), each) for each in entries]

    async def _follow(self, following: Following) -> None:
        try:
            async for entry in following.entries(last=0):
                self._number += 1
                moment = _moment_of(entry)
                if entry.ended:
                    self.feed.finish(entry.call.id)
                event = _make_event(EventPlace(self._life, self._number, moment), entry)
                self._recent.append(event)
                for reader in self._readers:
                    if reader.wants(event):
                        reader.put(event)
        except WieldyError as error:
            # Readers come back, and begin where they were.
            _log.warning("The streams of events end: %s", error)
            self.close()
            self._stop()

    def _stop(self) -> None:
        self._following = None
        self._begin_life()


def _make_event(place: EventPlace, entry: Entry) -> CallEvent:
    kind = "pending" if entry.state == "pending" else "call"
    # Line breaks are escaped in JSON, so that the data is one line.
    call, data = entry.call, describe_call(entry).model_dump_json()
    return CallEvent(place, call.id, call.scope.caller, kind, data)


def _moment_of(entry: Entry) -> float:
    made = entry.call.decision
    decided_at = None if made is None else made.at
    moments = (entry.proposed_at, decided_at, entry.started_at, entry.ended_at)
    return max(moment for moment in moments if moment is not None)
