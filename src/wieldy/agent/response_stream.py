"""Give the events of a request in the form that a reader asks for."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from typing import Any, Literal, get_args

from wieldy.core.sync import blocking_border

from .event_log import EventLog
from .request import Request

StreamType = Literal["delta", "original", "instant", "specific", "all"]

_END = object()


def read_events(
    log: EventLog,
    find_request: Callable[[], Request],
    type: StreamType,
    events: Iterable[str] | str | None = None,
) -> AsyncGenerator[Any]:
    """Iterate over a log in the form that `type` names."""
    if type not in get_args(StreamType):
        raise ValueError(f"type is one of {', '.join(get_args(StreamType))}, not {type!r}.")
    if (events is None) == (type == "specific"):
        raise ValueError('events= names the events of type="specific", and of no other.')
    match type:
        case "delta":
            return _data_of(log, "delta")
        case "original":
            return _data_of(log, "original_delta")
        case "instant":
            return _instant_values(log, find_request)
    names = {events} if isinstance(events, str) else None if events is None else set(events)
    return _event_pairs(log, names)


def blocking_items(stream: AsyncGenerator[Any]) -> Generator[Any]:
    """The items of an async generator, for blocking code."""

    async def take() -> Any:
        return await anext(stream, _END)

    async def close() -> None:
        await stream.aclose()

    try:
        while (item := blocking_border().wait(lambda home: take())) is not _END:
            yield item
    finally:
        blocking_border().wait(lambda home: close())


async def _data_of(log: EventLog, name: str) -> AsyncGenerator[Any]:
    async for event, data in log.read():
        if event == name:
            yield data


async def _event_pairs(log: EventLog, names: set[str] | None) -> AsyncGenerator[Any]:
    async for event, data in log.read():
        if names is None or event in names:
            yield event, data


async def _instant_values(
    log: EventLog, find_request: Callable[[], Request]
) -> AsyncGenerator[Any]:
    """The values of the JSON while they arrive; each further answer starts again."""
    # A resumed run knows its request only after it has been read from the store.
    request = find_request()
    form = request.form
    if form.kind == "text":
        return
    stream = form.open_stream(request.path_style)
    async for event, data in log.read():
        if event == "delta":
            for item in stream.feed(data):
                yield item
        elif event in ("tool_calls", "retry"):
            stream = form.open_stream(request.path_style)
    for item in stream.close():
        yield item
