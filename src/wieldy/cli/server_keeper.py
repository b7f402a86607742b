"""Connect the servers of a gateway, and those again that can't be reached or have ended."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wieldy.core.errors import WieldyError

if TYPE_CHECKING:
    from wieldy.mcp.client.servers import Server

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
_log = logging.getLogger("wieldy")
# Connects a server that was never added; whether that has worked.
Connect = Callable[[str], Coroutine[Any, Any, bool]]


class ServerKeeper:
    """Tries each server by itself, so that one that hangs holds up no other.

    Pauses between the attempts double. A server that has ended gets a new session now, not with
    its next call, because its tools may have changed.

    Args:
        servers: The servers of the toolbox by name.
        connect: Connects a server that was never added.
    """

    def __init__(self, servers: "Mapping[str, Server]", connect: Connect) -> None:
        self._servers = servers
        self._connect = connect
        self._trying: dict[str, asyncio.Task[Any]] = {}

    def look(self, names: list[str]) -> None:
        """Begin to connect those of these servers that are not connected."""
        for name in names:
            if name not in self._trying and not self._is_there(name):
                self._keep(name, asyncio.create_task(self._try(name)))

    def begin(self, names: Iterable[str]) -> "list[asyncio.Task[Any]]":
        """Connect to servers for the first time, all at once; gives the attempts."""
        attempts: list[asyncio.Task[Any]] = []
        for name in names:
            attempts.append(asyncio.create_task(self._connect(name)))
            self._keep(name, attempts[-1])
        return attempts

    async def leave_alone(self, name: str) -> None:
        """Stop trying to connect a server."""
        task = self._trying.get(name)
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def close(self) -> None:
        """Stop trying anything."""
        for name in list(self._trying):
            await self.leave_alone(name)

    def _keep(self, name: str, task: "asyncio.Task[Any]") -> None:
        task.set_name(name)
        self._trying[name] = task
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._trying.pop(task.get_name(), None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s can't be tried again", task.get_name(), exc_info=task.exception())

    def _is_there(self, name: str) -> bool:
        server = self._servers.get(name)
        return server is not None and server.was_added and not server.is_lost

    async def _try(self, name: str) -> None:
        pause = _FIRST_PAUSE
        while not self._is_there(name):
            await asyncio.sleep(pause)
            server = self._servers.get(name)
            if server is not None and server.was_added:
                # The server says by itself why it can't be reached, also at /metrics.
                with suppress(WieldyError):
                    await server.revive()
            elif await self._connect(name):
                return
            pause = min(pause * 2, _MAX_PAUSE)
