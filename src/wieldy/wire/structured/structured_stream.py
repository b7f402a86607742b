"""Read structured output while it streams: JSON in a model's text, as events.

The text can be fed in any chunks. The events don't depend on where it is cut: the same values
are completed in the same order, and the joined deltas of a path are the same.
`wieldy.wire.structured.json_start` describes where in the text reading starts.

Prose and code fences around the JSON are skipped. Trailing and missing commas, single quotes,
keys and text without quotes, comments, Python's literals, and a missing end are accepted. Of
duplicate keys the last one wins.

Paths have the form `l[0].k`. A key that is empty or contains one of `.[]"` is written as a JSON
string in brackets, `a["b.c"].d`. With `path_style="slash"` paths are JSON Pointers, `/l/0/k`, and
with "bracket" indexes are in brackets there, `/l/[0]/k`.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from wieldy.core.bounded_json import MAX_DEPTH

from .json_document import StructuredError
from .json_event import BracketPlace, Event, JsonPlace, SlashPlace
from .json_expected import expected_by
from .json_reader import JsonReader
from .json_start import StartFinder
from .json_validation import PartialModel, check_model, check_schema, model_schema

__all__ = ["Event", "StructuredError", "StructuredStream"]

Schema = Mapping[str, Any] | type[BaseModel]
_PLACES: dict[str, type[JsonPlace]] = {
    "dot": JsonPlace,
    "slash": SlashPlace,
    "bracket": BracketPlace,
}


class StructuredStream:
    """Reads the JSON in streaming text; `feed` and `close` return events.

    `feed` and `close` never raise: `error` says why reading stopped early.

    Args:
        schema: a JSON Schema or a pydantic model. It decides where the JSON starts, and
            `result` and `partial` check against it. Events are not checked.
        path_style: the form of paths: "dot" for `l[0].k`, "slash" for `/l/0/k`, "bracket" for
            `/l/[0]/k`.
        max_depth: the deepest nesting that is read.

    Raises:
        ValueError: the path style is unknown.

    Example:
        `for event in stream.feed(chunk): print(event.path, event.delta)`
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        path_style: Literal["dot", "slash", "bracket"] = "dot",
        max_depth: int = MAX_DEPTH,
    ) -> None:
        place = _PLACES.get(path_style)
        if place is None:
            known = ", ".join(map(repr, _PLACES))
            raise ValueError(f"path_style is one of {known}, not {path_style!r}.")
        self._model, self._schema = _read_schema(schema)
        self._partial = None if self._model is None else PartialModel(self._model)
        self._finder = StartFinder(None if self._schema is None else expected_by(self._schema))
        self._reader = JsonReader(place.outermost(), max_depth)
        self._started = False
        self._closed = False

    @property
    def value(self) -> Any:
        """The data so far, including the open string; None before the JSON starts.

        The value does not change later, but shares its finished parts with the events.
        """
        return self._reader.value

    @property
    def started(self) -> bool:
        """Whether the JSON has started."""
        return self._started

    @property
    def complete(self) -> bool:
        """Whether the document is closed by its own syntax."""
        return self._reader.complete

    @property
    def error(self) -> StructuredError | None:
        """Why reading stopped early, if it did."""
        return self._reader.error

    def feed(self, chunk: str) -> list[Event]:
        """Read the next text.

        Args:
            chunk: the text.

        Returns:
            The events for what is new.
        """
        if self._started:
            return self._reader.feed(chunk)
        found = None if self._closed else self._finder.feed(chunk)
        return [] if found is None else self._start_reading(found)

    def close(self) -> list[Event]:
        """End the text.

        Returns:
            The last events. If the text ended too early, there is one for each open value, from
            the inside out and with `is_complete` false; `complete` then stays false.
        """
        if self._closed:
            return []
        self._closed = True
        found = None if self._started else self._finder.close()
        events = [] if found is None else self._start_reading(found)
        return events + self._reader.close()

    def partial(self) -> Any:
        """The data so far; with a model, an instance with the fields that are valid so far.

        The fields that have arrived are checked one by one and set on an instance made by
        `model_construct`; the others have their default or are missing. Finished items of a
        list are checked once and shared by later instances.

        Returns:
            The data or the instance; None before the JSON starts.
        """
        if self._partial is None or not self._started:
            return self.value
        return self._partial.read(self.value)

    def result(self) -> Any:
        """The complete and checked data, or the validated model.

        Raises:
            StructuredError: the data is not complete, or does not fit the schema.
        """
        if self.error is not None:
            raise self.error
        if not self.complete:
            state = "is not complete" if self._started else "did not start"
            raise StructuredError(f"The structured output {state}")
        if self._model is not None:
            return check_model(self._model, self.value)
        return self.value if self._schema is None else check_schema(self._schema, self.value)

    def _start_reading(self, text: str) -> list[Event]:
        self._started = True
        return self._reader.feed(text)


def _read_schema(
    schema: Schema | None,
) -> tuple[type[BaseModel] | None, Mapping[str, Any] | None]:
    """The model, if it is one, and the JSON Schema."""
    if schema is None or isinstance(schema, Mapping):
        return None, schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema, model_schema(schema)
    raise TypeError(f"The schema is a JSON Schema or a pydantic model, not {schema!r}.")
