"""Call a tool's function where it runs, and drain the streams that it returns."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from types import GeneratorType
from typing import Any

from .active_call import ActiveCall, CallChannel, LateRefusal, Objection
from .context import Context
from .schema.annotations import signature_of

Enter = Callable[[Mapping[str, Any], CallChannel], Any]


class Work:
    """A tool's function and how it is called, apart from any call of it.

    `context` names the parameter that gets the `Context`; those in `positional` are passed by
    position. `objection` returns why a call that waited for a worker may no longer begin; it
    is asked in the engine's process.
    """

    __slots__ = ("context", "enter", "function", "objection", "positional", "shipped")

    def __init__(
        self,
        function: Callable[..., Any],
        context: str | None = None,
        positional: tuple[str, ...] = (),
        objection: Objection | None = None,
    ) -> None:
        self.function = function
        self.context = context
        self.positional = positional
        self.objection = objection
        # The state that a place outside this process keeps about the work.
        self.shipped: Any = None
        self.enter = _make_entrance(function, context, positional)

    def perform(self, values: Mapping[str, Any], channel: ActiveCall) -> Any:
        """Call the function on this thread and drain what it yields, unless there is an objection.

        A coroutine or an async generator is returned as it is.
        """
        why_not = None if self.objection is None else self.objection(channel)
        if isinstance(why_not, Coroutine):
            why_not = asyncio.run_coroutine_threadsafe(why_not, channel.loop).result()
        if why_not is not None:
            return Forbidden(why_not)
        if channel.entered is not None:
            channel.tell_entered_blocking()
        try:
            value = self.enter(values, channel)
            return drain_blocking(channel, value) if isinstance(value, GeneratorType) else value
        except StopIteration as error:
            # A coroutine can't raise `StopIteration`, so it is wrapped.
            return Stopped(error)


class Drainage(Work):
    """Drains a generator, returned by a function on the loop, where blocking code may run."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Generator[Any, None, Any]) -> None:
        self._stream = stream

    def perform(self, values: Mapping[str, Any], channel: ActiveCall) -> Any:
        return drain_blocking(channel, self._stream)


class Stopped:
    """A `StopIteration` on its way from another thread."""

    __slots__ = ("error",)

    def __init__(self, error: StopIteration) -> None:
        self.error = error


class Forbidden:
    """Why a function was not entered, on its way from another thread."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: LateRefusal) -> None:
        self.refusal = refusal


def _make_entrance(
    function: Callable[..., Any], context: str | None, positional: Sequence[str]
) -> Enter:
    """A function that enters the tool's function, with the `Context` if it wants one."""

    def enter(values: Mapping[str, Any], channel: CallChannel) -> Any:
        if context is not None:
            values = {**values, context: Context(channel)}
        return function(**values) if not positional else call_by_place(function, values, positional)

    return enter


def call_by_place(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    names: Sequence[str],
    rest: Sequence[Any] = (),
) -> Any:
    """Call a function with some values by position, and with further arguments after them."""
    given = [name in values for name in names]
    last = len(names) - given[::-1].index(True) if True in given else 0
    if rest:
        last = len(names)
    defaults = signature_of(function).parameters
    ordered = [values.get(name, defaults[name].default) for name in names[:last]]
    named = {name: value for name, value in values.items() if name not in names}
    return function(*ordered, *rest, **named)


async def drain(channel: CallChannel, stream: AsyncIterator[Any]) -> list[Any]:
    """Emit the items of an async generator, and return all of them."""
    channel.begin_stream()
    items = []
    try:
        async for item in stream:
            items.append(item)
            await channel.emit(item)
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return items


def drain_blocking(channel: CallChannel, stream: Generator[Any, None, Any]) -> Any:
    """Emit what a generator yields; returns its return value, or all that it yielded."""
    channel.begin_stream()
    items = []
    try:
        while True:
            item = next(stream)
            items.append(item)
            channel.emit_blocking(item)
    except StopIteration as stop:
        return items if stop.value is None else stop.value
    finally:
        stream.close()
