"""The stand-in for a toolbox in a worker, which sends every call back to the engine."""

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from wieldy.core.call import Call, Outcome

if TYPE_CHECKING:
    from .worker_channel import WorkerConnection

Arguments = Mapping[str, Any] | str | None
Narrowing = tuple[dict[str, Any], ...]


class Shareable:
    """A toolbox or a view, for which a worker gets a stand-in that sends its calls back."""


# The boxes that were shared with workers. These references are weak: the program that shared a
# box also keeps it.
_shared: "weakref.WeakValueDictionary[int, Shareable]" = weakref.WeakValueDictionary()
_tokens: "weakref.WeakKeyDictionary[Shareable, int]" = weakref.WeakKeyDictionary()
_counter = itertools.count(1)
# In a worker, the connection to the engine. In other processes the list is empty.
_links: "list[WorkerConnection]" = []
# In a worker, the number of the call for which this code works. A thread that a function starts by
# itself has none.
current_serial: ContextVar[int | None] = ContextVar("wieldy_serial", default=None)


def share_box(box: Shareable) -> tuple[Any, tuple[Any, ...]]:
    """The pickled form of a box: a stand-in with the number of the box."""
    token = _tokens.get(box)
    if token is None:
        token = _tokens[box] = next(_counter)
        _shared[token] = box
    return RemoteBox, (token,)


def find_box(token: int) -> Any:
    """The box with this number."""
    box = _shared.get(token)
    if box is None:
        raise LookupError("the toolbox that this call is meant for is gone")
    return box


def link_to(connection: "WorkerConnection") -> None:
    """Set the connection to the engine. A worker does this once."""
    _links.append(connection)


class RemoteBox:
    """A stand-in for a toolbox or a view, in a worker."""

    def __init__(self, token: int, narrowing: Narrowing = ()) -> None:
        self._target = (token, narrowing)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteBox, self._target

    async def call(self, call: str | Call, arguments: Arguments = None, **options: Any) -> Outcome:
        """Run one call in the engine's process, nested in the call that runs here."""
        outcome: Outcome = await ask(*self._place(), "call", call, arguments, **options)
        return outcome

    def call_sync(self, call: str | Call, arguments: Arguments = None, **options: Any) -> Outcome:
        """Run one call from blocking code."""
        outcome: Outcome = ask_blocking(*self._place(), "call", call, arguments, **options)
        return outcome

    def call_many(
        self, calls: Iterable[Call | tuple[str, Arguments]], **options: Any
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Run calls at the same time; the outcomes come in the order of the calls."""
        return ask(*self._place(), "call_many", list(calls), **options)

    async def stream(
        self, call: str | Call, arguments: Arguments = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run one call and yield its events while they arrive; the outcome is the last item."""
        parts: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def take(item: Any) -> None:
            loop.call_soon_threadsafe(parts.put_nowait, item)

        connection = _engine_link()
        where = self._place()
        answer = connection.request(*where, "stream", (call, arguments), options, part=take)
        answer.add_done_callback(lambda _: take(_END))
        ending = asyncio.ensure_future(connection.await_for(answer))
        while (item := await parts.get()) is not _END:
            yield item
        yield await ending

    def view(self, names: Any = None, tags: Any = None, groups: Any = None) -> "RemoteBox":
        """A stand-in for a view with fewer tools."""
        token, narrowing = self._target
        return RemoteBox(token, (*narrowing, {"names": names, "tags": tags, "groups": groups}))

    def schemas(self, provider: str = "openai", strict: bool = False) -> list[dict[str, Any]]:
        """The descriptions of the visible tools in a provider's format."""
        schemas: list[dict[str, Any]] = ask_blocking(*self._place(), "schemas", provider, strict)
        return schemas

    @property
    def names(self) -> list[str]:
        """The names of the visible tools, in order."""
        names: list[str] = ask_blocking(*self._place(), "names")
        return names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def _place(self) -> tuple[int | None, Any]:
        """The call that this code works for, and the box that is meant."""
        return current_serial.get(), self._target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"In a worker process a toolbox can be called and read, and has no {name!r}. "
            'Do that outside of tools with isolation="process".'
        )


_END = object()


async def ask(serial: int | None, target: Any, method: str, *arguments: Any, **options: Any) -> Any:
    """Send a request to the engine, and wait for the answer on this loop.

    `serial` is the number of the call in which it is nested; None is the one that runs.
    """
    connection = _engine_link()
    answer = connection.request(serial, target, method, arguments, options)
    return await connection.await_for(answer)


def ask_blocking(
    serial: int | None, target: Any, method: str, *arguments: Any, **options: Any
) -> Any:
    """Send a request to the engine, and block until the answer is there."""
    connection = _engine_link()
    answer = connection.request(serial, target, method, arguments, options)
    return connection.wait_for(answer)


def _engine_link() -> "WorkerConnection":
    if not _links:
        raise RuntimeError("this stand-in for a toolbox can be used only in a worker process")
    return _links[0]
