"""Convert functions between blocking and async forms."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, overload

from wieldy.core.schema.signature import is_async
from wieldy.core.sync import blocking_border

P = ParamSpec("P")
R = TypeVar("R")


class FunctionShifter:
    """Converts blocking functions to coroutine functions and back."""

    @overload
    @staticmethod
    def syncify(func: Callable[P, Awaitable[R]]) -> Callable[P, R]: ...
    @overload
    @staticmethod
    def syncify(func: Callable[P, R]) -> Callable[P, R]: ...
    @staticmethod
    def syncify(func: Callable[..., Any]) -> Callable[..., Any]:
        """A blocking form of the function, with and without a running event loop."""
        if not is_async(func):
            return func

        @_copy_name(func)
        def blocking(*args: Any, **kwargs: Any) -> Any:
            return blocking_border().wait(lambda home: _await_value(func(*args, **kwargs)))

        shifted: Callable[..., Any] = blocking
        return shifted

    @overload
    @staticmethod
    def asyncify(
        func: Callable[P, Coroutine[Any, Any, R]],
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    @staticmethod
    def asyncify(func: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @staticmethod
    def asyncify(func: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A coroutine function of the function; a blocking one runs beside the event loop."""
        if not callable(func):
            raise TypeError(f"a function is needed, not {type(func).__name__}")
        if is_async(func):
            return func

        @_copy_name(func)
        async def awaitable(*args: Any, **kwargs: Any) -> Any:
            return await _await_value(await asyncio.to_thread(func, *args, **kwargs))

        shifted: Callable[..., Coroutine[Any, Any, Any]] = awaitable
        return shifted


def _copy_name(func: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that copies the name and docstring of the original function."""
    return functools.wraps(func) if hasattr(func, "__name__") else lambda shifted: shifted


async def _await_value(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
