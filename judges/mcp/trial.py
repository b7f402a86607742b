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

    async def read_resource(self, uri: str) -> str:
        """What a resource says, as text."""

    async def read_prompt(self, name: str) -> str:
        """What a prompt says, as text."""


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


async def _try_gateway(connect: Open, target: Target) -> dict[str, Any]:
    """Use a gateway while a call is approved elsewhere, and after it was killed."""
    async with asyncio.timeout(3 * SECONDS):
        async with connect(target) as session:
            report: dict[str, Any] = {"names": await session.names()}
            for name, arguments in target["calls"].items():
                report[name] = await session.call(name, arguments)
            for uri in target["resources"]:
                report[uri] = await attempt(lambda uri=uri: session.read_resource(uri))
            for name in target["prompts"]:
                report[name] = await attempt(lambda name=name: session.read_prompt(name))
            parked = await session.call("wipe", {"path": target["who"]})
            await _pause({"parked": parked[1]})
            await _pause({"kill": "the gateway"})
            try:
                async with asyncio.timeout(20):
                    report["same session"] = await session.call("add", {"a": 2, "b": 3})
            except Exception as error:
                report["same session"] = (False, repr(error))
        return report


async def _pause(said: dict[str, Any]) -> None:
    """Tell the judge how far we are, and go on when it says so."""
    print(json.dumps(said), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def _try_again(connect: Open, target: Target) -> tuple[bool, str]:
    async with asyncio.timeout(SECONDS), connect(target) as session:
        return await session.call("add", {"a": 2, "b": 3})


async def attempt(call: Callable[[], Awaitable[Any]]) -> tuple[bool, str]:
    """For libraries in which a failing call raises."""
    try:
        return True, str(await call())
    except Exception as error:
        return False, str(error)


def run(connect: Open) -> None:
    """Try the library on the server that the command line describes, and report."""
    [described] = sys.argv[1:]
    target = json.loads(described)
    if "calls" not in target:
        print(json.dumps(asyncio.run(_try(connect, target))))
        return
    report = asyncio.run(_try_gateway(connect, target))
    report["new session"] = asyncio.run(_try_again(connect, target))
    print(json.dumps(report))
