"""The loop on which all connections to models live, and the SDK clients that share them.

An SDK's client can be used only on one event loop, but callers come from any loop or from
blocking code. All requests therefore run on one loop of our own, and those with the same key
share their connections.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from wieldy.core.forking import at_fork
from wieldy.core.loop_bridge import run_on_loop, wind_down
from wieldy.core.sync import LoopThread

from .settings import ModelSettings

_CLOSE_SECONDS = 5.0
# A program that serves many people may have a key for each of them.
_MAX_POOLS = 50
# Makes an SDK's client that sends its requests through our HTTP client.
Connect = Callable[[ModelSettings, Any], Any]


class Pool:
    """An SDK's client, and a semaphore for the requests that may use it at the same time."""

    def __init__(self, settings: ModelSettings, connect: Connect) -> None:
        # This import loads the HTTP library, so it waits for the first request.
        from .answer_guard import make_http  # noqa: PLC0415

        self.places = asyncio.Semaphore(settings.connections)
        self._http = make_http(settings.connect_timeout, settings.connections)
        self.client = connect(settings, self._http)

    async def close(self) -> None:
        """Close the connections."""
        with suppress(Exception):
            await self._http.aclose()


class _Entry:
    """A pool that is made or being made, and the number of requests that use it."""

    __slots__ = ("making", "users")

    def __init__(self, making: "asyncio.Future[Pool]") -> None:
        self.making = making
        self.users = 0

    async def close(self) -> None:
        """Close the pool, if it could be made."""
        if self.making.done() and not self.making.cancelled() and not self.making.exception():
            await self.making.result().close()


class Connections:
    """A loop on a thread of its own, and a pool for every provider, address and key."""

    def __init__(self) -> None:
        self.home = LoopThread("wieldy-models")
        self._entries: dict[tuple[Any, ...], _Entry] = {}

    @asynccontextmanager
    async def pool(
        self, kind: str, settings: ModelSettings, connect: Connect
    ) -> AsyncIterator[Pool]:
        """The pool of an SDK with these settings. Call this on the home loop."""
        headers = tuple(sorted((name, str(value)) for name, value in settings.headers.items()))
        where = (kind, settings.base_url, settings.api_key, headers)
        key = (*where, settings.connect_timeout, settings.connections)
        # A pool that is used again moves to the end, so that the front has the least recently used.
        entry = self._entries.pop(key, None) or _Entry(_make_pool(settings, connect))
        self._entries[key] = entry
        entry.users += 1
        try:
            yield await asyncio.shield(entry.making)
        except BaseException:
            if entry.making.done() and entry.making.exception() is not None:
                self._entries.pop(key, None)
            raise
        finally:
            entry.users -= 1
            await self._close_idle()

    async def _close_idle(self) -> None:
        """Close the least recently used pools if there are too many."""
        if len(self._entries) <= _MAX_POOLS:
            return
        idle = [key for key, entry in self._entries.items() if not entry.users]
        leaving = [self._entries.pop(key) for key in idle[: len(self._entries) - _MAX_POOLS]]
        for entry in leaving:
            await entry.close()

    async def close(self) -> None:
        """Close all connections."""
        entries, self._entries = self._entries, {}
        for entry in entries.values():
            await entry.close()


def _make_pool(settings: ModelSettings, connect: Connect) -> "asyncio.Future[Pool]":
    # Loading an SDK takes a second, so a thread does it while other answers arrive on the loop.
    loop = asyncio.get_running_loop()
    return asyncio.ensure_future(loop.run_in_executor(None, Pool, settings, connect))


def connections() -> Connections:
    """The connections of this process, made when first needed."""
    if not _made:
        _made.append(Connections())
    return _made[0]


async def close_connections() -> None:
    """Close every connection to a model. The next request opens a new one."""
    if not _made:
        return
    kept = _made.pop()
    if kept.home.running:
        await run_on_loop(kept.home, kept.close)
        await wind_down(kept.home, _CLOSE_SECONDS)


# A list, not a variable, so that a forked child can drop its parent's dead thread.
_made: list[Connections] = []
at_fork(_made.clear)
