"""The connections of one server where each caller has their own."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextvars import Context
from typing import Any, Generic, Protocol, TypeVar

from wieldy.core.errors import ServerUnavailable
from wieldy.core.secrets.secret import reveal_secret

from .server_source import Address, Command, PerCaller

# A connection that was handed out is about to be used, so it does not make room for another.
_HANDED_OUT_SECONDS = 0.5
# How long a caller waits for room, and how often they look for it.
_ROOM_SECONDS, _LOOK_SECONDS = 5.0, 0.1
# A caller whose connection could not be opened is told so again for this time.
_REST_SECONDS = 1.0
_MAX_FAILURES = 1000


class CallerLink(Protocol):
    """The server as one caller reaches it."""

    @property
    def busy(self) -> bool:
        """Whether a request runs on its connection, or somebody follows a resource."""

    async def close_here(self) -> None:
        """Close the connection, from its own loop."""


L = TypeVar("L", bound=CallerLink)
Own = Command | Address
# Opens the connection of a caller.
Open = Callable[[str | None, Own], Awaitable[L]]


class CallerLinks(Generic[L]):
    """The links by caller and by what they are opened with, so that none is ever shared.

    A caller who comes with other values, such as a new token, gets another link. All methods run
    on the loop of the connections.
    """

    def __init__(self, name: Callable[[], str], source: PerCaller, open_link: Open[L]) -> None:
        self._name = name
        self._source = source
        self._open_link = open_link
        self._opened: dict[Hashable, asyncio.Task[L]] = {}
        self._used: dict[Hashable, float] = {}
        self._failures: dict[Hashable, tuple[float, ServerUnavailable]] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._closed = False

    async def find(self, caller: str | None, own: Own) -> L:
        """The link of a caller, opened if there is none; `ServerUnavailable` says why not."""
        loop, key = asyncio.get_running_loop(), _key_of(caller, own)
        if self._closed:
            raise ServerUnavailable(self._name(), "it was closed")
        self._refuse_resting(key, loop.time())
        task = self._opened.get(key)
        if task is None:
            await self._make_room()
            # Somebody else may have opened it while there was no room.
            task = self._opened.get(key) or self._start_opening(key, caller, own)
        self._used[key] = loop.time()
        return await asyncio.shield(task)

    def __len__(self) -> int:
        return len(self._opened)

    @property
    def links(self) -> list[L]:
        """The links that are open."""
        done = [task for task in self._opened.values() if task.done() and not task.cancelled()]
        return [task.result() for task in done if task.exception() is None]

    async def close(self) -> None:
        """Close every link for good."""
        self._closed = True
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
        self._failures.clear()
        await asyncio.gather(*(self._drop(key) for key in list(self._opened)))

    def forget(self) -> None:
        """Drop everything in a forked child, because the loop and the links are the parent's."""
        self._opened, self._used, self._failures = {}, {}, {}
        self._sweeping = None

    def _start_opening(self, key: Hashable, caller: str | None, own: Own) -> asyncio.Task[L]:
        loop = asyncio.get_running_loop()

        async def open_link() -> L:
            return await self._open_link(caller, own)

        # An empty context, because the link outlives the call that needs it first.
        task = loop.create_task(open_link(), context=Context())
        self._opened[key] = task
        task.add_done_callback(lambda done: self._note_opened(key, done))
        if self._sweeping is None:
            self._sweeping = loop.create_task(self._sweep(), context=Context())
        return task

    def _note_opened(self, key: Hashable, done: "asyncio.Task[L]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            return
        if self._opened.get(key) is done:
            self._opened.pop(key)
            self._used.pop(key, None)
        if isinstance(error, ServerUnavailable):
            now = asyncio.get_running_loop().time()
            self._failures[key] = (now + _REST_SECONDS, error)
            while len(self._failures) > _MAX_FAILURES:
                self._failures.pop(next(iter(self._failures)))

    def _refuse_resting(self, key: Hashable, now: float) -> None:
        until, error = self._failures.get(key, (0.0, None))
        if error is None:
            return
        if now < until:
            raise ServerUnavailable(self._name(), error.reason, error.stderr)
        self._failures.pop(key, None)

    async def _make_room(self) -> None:
        """Close the link that has been idle longest, if there are as many as there may be."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _ROOM_SECONDS
        while len(self._opened) >= self._source.most:
            before = loop.time() - _HANDED_OUT_SECONDS
            idle = [key for key in self._opened if self._is_idle(key, before)]
            if idle:
                await self._drop(min(idle, key=lambda key: self._used.get(key, 0.0)))
            elif loop.time() < give_up:
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                reason = f"{self._source.most} connections of callers are in use; try again later"
                raise ServerUnavailable(self._name(), reason)

    def _is_idle(self, key: Hashable, before: float) -> bool:
        """Whether a link was last asked for before a time, and nothing runs on it."""
        task = self._opened[key]
        return task.done() and self._used.get(key, 0.0) <= before and not task.result().busy

    async def _drop(self, key: Hashable) -> None:
        task = self._opened.pop(key, None)
        self._used.pop(key, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled() and task.exception() is None:
            await task.result().close_here()

    async def _sweep(self) -> None:
        """Close links that nobody has used for a while, as long as there are any."""
        loop, idle = asyncio.get_running_loop(), self._source.idle
        try:
            while self._opened:
                await asyncio.sleep(idle / 2)
                unused = [key for key in self._opened if self._is_idle(key, loop.time() - idle)]
                for key in unused:
                    await self._drop(key)
        finally:
            if self._sweeping is asyncio.current_task():
                self._sweeping = None


def _key_of(caller: str | None, own: Own) -> Hashable:
    """What tells links apart: the caller, and every value that the link is opened with."""
    if isinstance(own, Command):
        return (caller, tuple(own.command), _plain_items(own.env), own.cwd)
    assert not callable(own.headers)
    return (caller, own.url, own.transport, _plain_items(own.headers))


def _plain_items(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(reveal_secret(value))) for name, value in values.items()))
