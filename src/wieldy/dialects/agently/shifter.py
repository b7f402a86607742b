"""The same function for blocking code and for coroutines."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from wieldy.core.signature import is_async
from wieldy.core.sync import border

P = ParamSpec("P")
R = TypeVar("R")


class FunctionShifter:
    """Turns functions of one kind into the other."""

    @staticmethod
    def syncify(func: Callable[P, Awaitable[R]] | Callable[P, R]) -> Callable[P, R]:
        """A blocking form of the function, with and without a running event loop."""
        if not is_async(func):
            return func  # type: ignore[return-value]

        @_like(func)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> R:
            value: R = border().wait(lambda home: _awaited(func(*args, **kwargs)))
            return value

        return blocking  # type: ignore[no-any-return]

    @staticmethod
    def asyncify(
        func: Callable[P, Awaitable[R]] | Callable[P, R],
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """A coroutine function of the function; a blocking one runs beside the event loop."""
        if not callable(func):
            raise TypeError(f"a function is needed, not {type(func).__name__}")
        if is_async(func):
            return func  # type: ignore[return-value]

        @_like(func)
        async def awaitable(*args: P.args, **kwargs: P.kwargs) -> R:
            value: R = await _awaited(await asyncio.to_thread(func, *args, **kwargs))
            return value

        return awaitable  # type: ignore[no-any-return]


def _like(func: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Name the shifted function after the one it stands for."""
    return functools.wraps(func) if hasattr(func, "__name__") else lambda shifted: shifted


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
