"""What running calls show: their progress and output, passed on a few times a second."""

import asyncio
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from wieldy.core.block import Block, Notice, Progress, RepeatingText, Text
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.call import Call

from .answer_shapes import clean_text

_SECONDS = 0.1
_MAX_CALLS = 500
_MAX_MESSAGE = 500
# The most characters of a call's output: in one event, and for readers who come later.
_MAX_PIECE = 8000
_MAX_TAIL = 16_000


class LiveEvent(NamedTuple):
    """Something that a running call has shown, as it is sent. It is sent once, if at all."""

    call_id: str
    caller: str | None
    kind: str
    data: str


class LiveState(NamedTuple):
    """What a running call has shown so far: its progress, the end of its output, and all of it.

    `output_end` is how many characters the call has written. Events have the same number, so that
    whoever reads the state and then listens takes each character once.
    """

    progress: dict[str, Any] | None = None
    output: str = ""
    output_end: int = 0


NOTHING_SHOWN = LiveState()


class _Showing:
    """What one call has shown, and what of it is not passed on yet."""

    __slots__ = ("call", "end", "left_out", "news", "progress", "said", "tail", "unsent")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.progress: dict[str, Any] | None = None
        self.news = False
        self.unsent = ""
        self.left_out = 0
        self.tail = ""
        self.end = 0
        self.said = 0

    def add_whole(self, text: str) -> None:
        """Take a text that begins with all texts before it."""
        self.add_said(text[self.said if len(text) >= self.said else 0 :])
        self.said = len(text)

    def add_said(self, text: str) -> None:
        """Take a text of the result."""
        self.said += len(text)
        self.add_text(text)

    def add_text(self, text: str) -> None:
        """Keep the end of what is not passed on yet, and the end of all."""
        self.end += len(text)
        self.unsent += text
        surplus = len(self.unsent) - _MAX_PIECE
        if surplus > 0:
            self.unsent = self.unsent[surplus:]
            self.left_out += surplus
        self.tail = (self.tail + text)[-_MAX_TAIL:]

    def take_events(self) -> list[LiveEvent]:
        """What is to be passed on now."""
        found = []
        if self.news:
            self.news = False
            found.append(self._make_event("progress", self.progress or {}))
        if self.unsent:
            text = clean_text(self.unsent)
            output = {"text": text, "left_out": self.left_out, "end": self.end}
            self.unsent, self.left_out = "", 0
            found.append(self._make_event("output", output))
        return found

    def _make_event(self, kind: str, facts: dict[str, Any]) -> LiveEvent:
        scope = self.call.scope
        told = {"call_id": clean_text(self.call.id), "tool": clean_text(self.call.tool), **facts}
        # Line breaks are escaped in JSON, so that the data is one line.
        return LiveEvent(self.call.id, scope.caller, kind, dump_json(told, MAX_WRAPPED))


class LiveFeed:
    """Gathers what running calls show. Calls may run in any thread."""

    def __init__(self, publish: Callable[[LiveEvent], None]) -> None:
        self._publish = publish
        self.loop = asyncio.get_running_loop()
        self._showing: OrderedDict[str, _Showing] = OrderedDict()
        self._lock = threading.Lock()
        self._due = False

    def take(self, call: Call, item: Block | Progress) -> None:
        """Take what a call shows."""
        with self._lock:
            showing = self._showing.get(call.id)
            if showing is None:
                showing = self._showing[call.id] = _Showing(call)
                if len(self._showing) > _MAX_CALLS:
                    self._showing.popitem(last=False)
            _note_item(showing, item)
            first, self._due = not self._due, True
        if first:
            # The server may have ended before the call.
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.loop.call_later, _SECONDS, self.flush)

    def read(self, call_id: str) -> LiveState:
        """What a running call has shown so far."""
        with self._lock:
            showing = self._showing.get(call_id)
            if showing is None:
                return NOTHING_SHOWN
            return LiveState(showing.progress, clean_text(showing.tail), showing.end)

    def finish(self, call_id: str) -> None:
        """Pass the rest on of what a call has shown, which has ended."""
        with self._lock:
            showing = self._showing.pop(call_id, None)
            events = [] if showing is None else showing.take_events()
        for event in events:
            self._publish(event)

    def flush(self) -> None:
        """Pass on what calls have shown since the last time."""
        with self._lock:
            self._due = False
            events = [event for each in self._showing.values() for event in each.take_events()]
        for event in events:
            self._publish(event)


def _note_item(showing: _Showing, item: Block | Progress) -> None:
    if isinstance(item, Notice):
        showing.add_text(f"{item.message}\n")
    elif isinstance(item, Progress):
        message = None if item.message is None else str(item.message)[:_MAX_MESSAGE]
        showing.news = True
        showing.progress = {
            "progress": _finite(item.done),
            "total": _finite(item.total),
            "message": clean_text(message),
        }
    elif isinstance(item, RepeatingText):
        showing.add_whole(item.text)
    elif isinstance(item, Text):
        showing.add_said(item.text)


def _finite(number: Any) -> float | None:
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None
