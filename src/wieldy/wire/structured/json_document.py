"""Build a JSON document that grows, and the events about it."""

from typing import Any

from wieldy.core.errors import WieldyError

from .json_event import Event, JsonPlace

NEVER = 1 << 62
"""How much of a text is told that is not told piece by piece: more than there is."""


class StructuredError(WieldyError, ValueError):
    """The structured output can't be used: it is too deep, unfinished, or does not fit."""

    def __init__(self, reason: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(": ".join([reason, "; ".join(problems)]) if problems else reason)
        self.reason = reason
        self.problems = problems


class JsonDocument:
    """One document: the containers that are open, and at most one open string."""

    def __init__(self, outermost: JsonPlace, max_depth: int) -> None:
        self.root: JsonPlace | None = None
        self.complete = False
        self.error: StructuredError | None = None
        self.here = outermost
        self.in_object = False
        self.key = ""
        self.place = outermost
        self.parts: list[str] = []
        self.told = NEVER
        self.events: list[Event] = []
        self.outermost = outermost
        self._max_depth = max_depth
        self._depth = 0
        self._objects = 0

    @property
    def value(self) -> Any:
        """The document as far as it is known.

        Open containers are copied, so that the value does not change later; closed ones are shared.
        """
        if self.in_string:
            return self.place.data("".join(self.parts))
        if not self.ended:
            return self.here.data(self.here.value.copy())
        return None if self.root is None else self.root.value

    @property
    def in_string(self) -> bool:
        """Whether a value that is a string is open."""
        return self.told is not NEVER

    @property
    def ended(self) -> bool:
        """Whether nothing can follow: the root is closed, or not there yet."""
        return self.here is self.outermost

    def has_open(self, is_object: bool) -> bool:
        """Whether a container of this kind is open."""
        return (self._objects if is_object else self._depth - self._objects) > 0

    def open_container(self, is_object: bool) -> bool:
        """Open a container; false, and an error, if that is too deep."""
        if self._depth >= self._max_depth:
            limit = self._max_depth
            self.error = StructuredError(f"The document is nested more than {limit} levels deep")
            return False
        place = self._new_place()
        self._put_value(place, {} if is_object else [])
        self.here = place
        self.in_object = is_object
        self._objects += is_object
        self._depth += 1
        return True

    def close_container(self, is_complete: bool) -> None:
        """Close the innermost container."""
        here = self.here
        self.events.append(Event(here, "", is_complete, 0))
        self._objects -= self.in_object
        self._depth -= 1
        assert here.parent is not None
        self.here = here.parent
        self.in_object = type(self.here.value) is dict
        if self.here is self.outermost:
            self.complete = is_complete

    def open_string(self) -> None:
        """Open a string; its text goes to `parts`."""
        self.place = place = self._new_place()
        place.parts = self.parts = []
        self.told = 0

    def tell(self, is_complete: bool = False) -> None:
        """Add an event for the new text of the open string."""
        parts = self.parts
        count = len(parts)
        delta = parts[-1] if count - self.told == 1 else "".join(parts[self.told :])
        self.told = count
        self.events.append(Event(self.place, delta, is_complete, count))

    def close_string(self, is_complete: bool) -> None:
        """Close the string."""
        parts = self.parts
        self._put_value(self.place, parts[0] if len(parts) == 1 else "".join(parts))
        self.tell(is_complete)
        self.parts = []
        self.told = NEVER
        if self.here is self.outermost:
            self.complete = is_complete

    def take_parts(self) -> str:
        """The collected text of something that has an event only at its end, or none."""
        text = "".join(self.parts)
        self.parts = []
        return text

    def add_scalar(self, text: str, value: Any, is_complete: bool = True) -> None:
        """Add a value with a single event."""
        place = self._new_place()
        self._put_value(place, value)
        self.events.append(Event(place, text, is_complete, 0))
        if self.here is self.outermost:
            self.complete = is_complete

    def _new_place(self) -> JsonPlace:
        here = self.here
        if self.in_object:
            return type(here)(here, self.key, len(here.value))
        if here is not self.outermost:
            count = len(here.value)
            return type(here)(here, count, count)
        self.root = here.root()
        return self.root

    def _put_value(self, place: JsonPlace, value: Any) -> None:
        place.value = value
        if self.in_object:
            self.here.value[place.key] = value
        else:
            self.here.value.append(value)
