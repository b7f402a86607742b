"""Structured output while it streams: JSON in a model's text, told event by event.

Feed the text in any chunks. What is told does not depend on where it was cut:
the same completions in the same order, and per path the same text when its
deltas are joined. `wieldy.wire.structured.json_start` says where in the text reading starts.

Forgiven are prose and code fences around the JSON, trailing and missing commas,
single quotes, keys without quotes, comments, Python's literals, text without
quotes, and an end that is missing. Duplicate keys: the last one wins.

Paths are `l[0].k`; a key that is empty or holds one of `.[]"` is written as a
JSON string in brackets, `a["b.c"].d`. With `path_style="slash"` paths are JSON
Pointers, `/l/0/k`.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from .json_document import StructuredError
from .json_event import Event, JsonPlace, SlashPlace
from .json_expected import expected_by
from .json_reader import JsonReader
from .json_start import StartFinder
from .json_validation import PartialModel, check_model, check_schema, model_schema

__all__ = ["Event", "StructuredError", "StructuredStream"]

Schema = Mapping[str, Any] | type[BaseModel]


class StructuredStream:
    """Reads the JSON in streaming text; `feed` and `close` give the events.

    `schema` is a JSON Schema or a pydantic model. It says where the JSON starts
    and what `result` and `partial` check; the events are not checked. Neither
    `feed` nor `close` raises: `error` says why reading stopped early.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        path_style: Literal["dot", "slash"] = "dot",
        max_depth: int = 200,
    ) -> None:
        if path_style not in ("dot", "slash"):
            raise ValueError(f"path_style is 'dot' or 'slash', not {path_style!r}.")
        self._model, self._schema = _read_schema(schema)
        self._partial = None if self._model is None else PartialModel(self._model)
        self._finder = StartFinder(None if self._schema is None else expected_by(self._schema))
        place = SlashPlace if path_style == "slash" else JsonPlace
        self._reader = JsonReader(place.outermost(), max_depth)
        self._started = False
        self._closed = False

    @property
    def value(self) -> Any:
        """The data so far, the open string included; None before the JSON starts.

        It does not change later, but shares what is finished with the events.
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
        """Take the next text and tell what is new in it."""
        if self._started:
            return self._reader.feed(chunk)
        found = None if self._closed else self._finder.feed(chunk)
        return [] if found is None else self._start(found)

    def close(self) -> list[Event]:
        """Say that the text has ended.

        What is still open is told once more, from the inside out and with
        `is_complete` false; `value` has it, and `complete` stays false.
        """
        if self._closed:
            return []
        self._closed = True
        found = None if self._started else self._finder.close()
        events = [] if found is None else self._start(found)
        return events + self._reader.close()

    def partial(self) -> Any:
        """The data so far; with a model, an instance of it with the fields that are valid so far.

        The fields that have come are checked one by one and set on an instance
        made by `model_construct`; the others have their default or are missing.
        Finished items of a list are checked once and shared by later instances.
        Nothing is there before the JSON starts: None.
        """
        if self._partial is None or not self._started:
            return self.value
        return self._partial.read(self.value)

    def result(self) -> Any:
        """The finished and checked data, or the validated model; raises `StructuredError`."""
        if self.error is not None:
            raise self.error
        if not self.complete:
            state = "is not complete" if self._started else "did not start"
            raise StructuredError(f"The structured output {state}")
        if self._model is not None:
            return check_model(self._model, self.value)
        return self.value if self._schema is None else check_schema(self._schema, self.value)

    def _start(self, text: str) -> list[Event]:
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
