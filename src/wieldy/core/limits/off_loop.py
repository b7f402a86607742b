"""Do work on large values in a thread, so that the calls of others go on meanwhile."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from wieldy.core.block import Block

T = TypeVar("T")
# About a millisecond of work; handing that to a thread takes a tenth of it.
_FEW = 1_000
# Some of the work looks at each character.
_CHARACTERS = 100
# Reading and writing a number of thousands of digits takes as long as many short ones.
_BITS = 256
# Text that is JSON may have a value in every second character.
_LONG_JSON = 10_000


async def run_off_loop(is_much: bool, work: Callable[[], T]) -> T:
    """The result of the work, which is done in a thread if it is much."""
    return await start_off_loop(work) if is_much else work()


def start_off_loop(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Begin the work in a thread, or do it here if there is no memory for another thread."""
    loop = asyncio.get_running_loop()
    try:
        return loop.run_in_executor(None, partial(copy_context().run, work))
    except RuntimeError:
        done: asyncio.Future[T] = loop.create_future()
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)
        return done


def is_large(value: Any) -> bool:
    """Whether a value holds so much that walking through it is noticed; only a part is read."""
    try:
        return _holds_much(value)
    except Exception:
        # Values of other people's classes may raise when they are read; whoever renders such a
        # value says so.
        return False


def _holds_much(value: Any) -> bool:
    left, waiting = _FEW, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str | bytes):
            left -= len(inner) // _CHARACTERS
        elif isinstance(inner, int):
            left -= inner.bit_length() // _BITS
        elif isinstance(inner, Block):
            left -= 1
            waiting += (getattr(inner, "text", None), getattr(inner, "data", None))
        elif isinstance(inner, list | tuple | Mapping):
            left -= len(inner)
            if left >= 0:
                waiting += inner.values() if isinstance(inner, Mapping) else inner
        if left < 0:
            return True
    return False


def is_long_json(*texts: str | bytes | None) -> bool:
    """Whether JSON texts are so long that reading them is noticed."""
    return sum(len(text) for text in texts if text is not None) > _LONG_JSON
