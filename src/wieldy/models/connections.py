"""The loop on which all connections to models live, and the SDK clients that share them.

An SDK's client belongs to the loop it was used on. Callers come from any loop, or from none,
and go; the connections stay, and every request with the same key shares them.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from wieldy.core.crossing import cross, wind_down
from wieldy.core.sync import LoopThread

from .settings import ModelSettings

_CLOSE_SECONDS = 5.0
# Makes an SDK's client over an HTTP client of ours.
Connect = Callable[[ModelSettings, Any], Any]


class Pool:
    """An SDK's client and the requests that may use it at a time."""

    def __init__(self, settings: ModelSettings, connect: Connect) -> None:
        # Loaded with the first request, with the HTTP library.
        from .answer_guard import make_http  # noqa: PLC0415

        self.places = asyncio.Semaphore(settings.connections)
        self._http = make_http(settings.connect_timeout, settings.connections)
        self.client = connect(settings, self._http)

    async def close(self) -> None:
        """Let go of the connections."""
        with suppress(Exception):
            await self._http.aclose()


class Connections:
    """A loop on a thread of its own, and a pool for every provider, address and key."""

    def __init__(self) -> None:
        self.home = LoopThread("wieldy-models")
        self._pools: dict[tuple[Any, ...], asyncio.Future[Pool]] = {}

    async def pool(self, kind: str, settings: ModelSettings, connect: Connect) -> Pool:
        """The pool of an SDK with these settings. It is asked for on the home loop."""
        headers = tuple(sorted((name, str(value)) for name, value in settings.headers.items()))
        where = (kind, settings.base_url, settings.api_key, headers)
        key = (*where, settings.connect_timeout, settings.connections)
        found = self._pools.get(key)
        if found is None:
            # Loading an SDK takes a second; the answers that are under way go on meanwhile.
            made = asyncio.get_running_loop().run_in_executor(None, _load, settings, connect)
            found = self._pools[key] = asyncio.ensure_future(made)
        try:
            return await asyncio.shield(found)
        except Exception:
            self._pools.pop(key, None)
            raise

    async def close(self) -> None:
        """End what is under way, and let go of all connections."""
        pools, self._pools = self._pools, {}
        for each in pools.values():
            if each.done() and not each.cancelled() and each.exception() is None:
                await each.result().close()


def _load(settings: ModelSettings, connect: Connect) -> Pool:
    return Pool(settings, connect)


def connections() -> Connections:
    """The connections of this process, made when first needed."""
    if not _made:
        _made.append(Connections())
    return _made[0]


async def close_connections() -> None:
    """Let go of every connection to a model; they are opened again when needed again."""
    if not _made:
        return
    kept = _made.pop()
    if kept.home.running:
        await cross(kept.home, kept.close)
        await wind_down(kept.home, _CLOSE_SECONDS)


# A list, not a variable, so that a forked child can drop its parent's dead thread.
_made: list[Connections] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_made.clear)
