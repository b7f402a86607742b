"""Functions of users and extensions that are called at four points of a request."""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, get_args

Point = Literal["request_prefixes", "broadcast_prefixes", "broadcast_suffixes", "finally"]
Handler = Callable[..., Any]

_POINTS = get_args(Point)
_NO_HANDLERS: Mapping[str, Any] = {point: () for point in _POINTS}


class ExtensionHandlers:
    """Handlers by the point at which they are called, in the order in which they were added.

    - `request_prefixes(prompt, settings)`: before the model is asked.
    - `broadcast_prefixes(full_result_data, settings)`: before the first event.
    - `broadcast_suffixes(event, data, full_result_data, settings)`: after an event.
    - `finally(result, settings)`: when the answer is there; `result` is the response.

    A handler is a function, a coroutine function, or a generator function of either kind.
    The `(event, data)` pairs that a broadcast handler yields join the stream at that place.
    """

    def __init__(self) -> None:
        # It is replaced and never changed, because snapshots share it.
        self._handlers: Mapping[str, tuple[tuple[str | None, Handler], ...]] = _NO_HANDLERS
        # Requests share a snapshot until a handler is added.
        self._snapshot: ExtensionHandlers | None = None

    def append(self, point: Point, handler: Handler, *, event: str | None = None) -> None:
        """Add a handler.

        Args:
            point: Where the handler is called.
            handler: The function.
            event: The event after which a suffix is called; by default each.

        Raises:
            ValueError: There is no such point, or it takes no event.
            TypeError: The handler is no function.
        """
        if point not in self._handlers:
            raise ValueError(f"There is no point {point!r}; handlers are {', '.join(_POINTS)}.")
        if not callable(handler):
            raise TypeError(f"A handler is a function, not {handler!r:.200}")
        if event is not None and point != "broadcast_suffixes":
            raise ValueError(f"event= is for broadcast_suffixes; {point} are called once.")
        added = (*self._handlers[point], (event, handler))
        self._handlers, self._snapshot = {**self._handlers, point: added}, None

    def get(self, point: str, event: str | None = None) -> list[Handler]:
        """The handlers of a point; of suffixes, those for this event."""
        return [each for wanted, each in self._handlers[point] if wanted in (None, event)]

    def has(self, point: Point) -> bool:
        """Whether there is any handler of a point."""
        return bool(self._handlers[point])

    def snapshot(self) -> "ExtensionHandlers":
        """A copy of the handlers, which later changes don't affect."""
        if self._snapshot is None:
            copied = ExtensionHandlers()
            copied._handlers = self._handlers
            self._snapshot = copied
        return self._snapshot


async def run_handler(handler: Handler, *arguments: Any) -> AsyncIterator[Any]:
    """Call a handler of any kind, and yield the items that it yields."""
    given = handler(*arguments)
    if inspect.isasyncgen(given) or hasattr(given, "__anext__"):
        async for item in given:
            yield item
    elif inspect.isgenerator(given):
        for item in given:
            yield item
    elif inspect.isawaitable(given):
        await given
