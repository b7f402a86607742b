"""What every client library is asked to do, and the JSON in which it reports it.

Only the standard library is used here: it runs in the libraries' own environments.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

SECONDS = 60


class Session(Protocol):
    """A connection, as one library has it."""

    async def names(self) -> list[str]:
        """The tools that the server offers."""

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Whether a call went well, and everything that was said about it, as text."""


Target = dict[str, Any]
Open = Callable[[Target], AbstractAsyncContextManager[Session]]


async def _try(connect: Open, target: Target) -> dict[str, Any]:
    async with asyncio.timeout(SECONDS), connect(target) as session:
        return {
            "names": await session.names(),
            "add": await session.call("add", {"a": 2, "b": 3}),
            "default": await session.call("add", {"a": 5}),
            "repeat": await session.call("repeat", {"text": "こんにちは\n<b>&", "times": 2}),
            "fail": await session.call("fail", {"reason": "no such thing"}),
            "refuse": await session.call("repeat", {"text": "x", "times": 1000}),
            "misfit": await session.call("misfit", {}),
        }


async def attempt(call: Callable[[], Awaitable[Any]]) -> tuple[bool, str]:
    """For libraries in which a failing call raises."""
    try:
        return True, str(await call())
    except Exception as error:
        return False, str(error)


def run(connect: Open) -> None:
    """Try the library on the server that the command line describes, and report."""
    [described] = sys.argv[1:]
    print(json.dumps(asyncio.run(_try(connect, json.loads(described)))))
