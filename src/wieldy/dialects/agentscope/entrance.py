"""A tool function of any kind, as the engine runs it: its responses become blocks."""

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

from wieldy.core.block import Block

from .response import Chunks, ToolResponse

Function = Callable[..., Any]


def entrance(func: Function, call: Function | None = None) -> Function:
    """The function with its own signature and kind; `call` is called in its place."""
    enter = call or func
    inner = _called(func)
    if call is None and _gives_one(inner):
        return func
    if inspect.isasyncgenfunction(inner):

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for item in _async_chunks(enter(*args, **kwargs)):
                yield item

        entry: Function = stream
    elif inspect.isgeneratorfunction(inner):

        def stream_blocking(*args: Any, **kwargs: Any) -> Iterator[Any]:
            yield from _chunks(enter(*args, **kwargs))

        entry = stream_blocking
    elif inspect.iscoroutinefunction(inner):

        async def answer(*args: Any, **kwargs: Any) -> Any:
            return _shown(await enter(*args, **kwargs))

        entry = answer
    else:

        def answer_blocking(*args: Any, **kwargs: Any) -> Any:
            return _shown(enter(*args, **kwargs))

        entry = answer_blocking
    functools.update_wrapper(entry, func, assigned=("__module__", "__qualname__"), updated=())
    entry.__doc__ = inspect.getdoc(func if inspect.isroutine(func) else inner)
    entry.__dict__["streams"] = _streams(inner)
    return entry


def _streams(inner: Any) -> bool:
    """Whether a function is a generator, or says that it gives one."""
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return True
    return "Generator" in _gives(inner) or "Iterator" in _gives(inner)


def _gives_one(inner: Any) -> bool:
    """Whether a function surely gives one response: nothing has to be done to it."""
    return not _streams(inner) and "ToolResponse" in _gives(inner)


def _gives(inner: Any) -> str:
    gives = getattr(inner, "__annotations__", {}).get("return")
    return gives if isinstance(gives, str) else str(getattr(gives, "__origin__", gives))


def is_stream(entry: Any) -> bool:
    """Whether a function made here gives many responses, as far as that is known before."""
    return getattr(entry, "streams", False)


def _called(func: Any) -> Any:
    """The plain function that runs in the end."""
    while isinstance(func, functools.partial):
        func = func.func
    return func if inspect.isroutine(func) else type(func).__call__


def _shown(value: Any) -> Any:
    """What a function returned, its responses as blocks."""
    if isinstance(value, Generator):
        return _chunks(value)
    if isinstance(value, AsyncGenerator):
        return _async_chunks(value)
    if inspect.isawaitable(value):
        return _awaited(value)
    return value


async def _awaited(value: Any) -> Any:
    return _shown(await value)


def _chunks(stream: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    chunks = Chunks()
    try:
        for item in stream:
            yield from _each(chunks, item)
    finally:
        stream.close()


async def _async_chunks(stream: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    chunks = Chunks()
    try:
        async for item in stream:
            for block in _each(chunks, item):
                yield block
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def _each(chunks: Chunks, item: Any) -> list[Block | Any]:
    return list(chunks.blocks(item)) if isinstance(item, ToolResponse) else [item]
