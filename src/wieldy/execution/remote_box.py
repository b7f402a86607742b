"""A toolbox as a function in a worker has it: each call goes back to the engine."""

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wieldy.core.call import Call, Outcome

if TYPE_CHECKING:
    from .worker_channel import WorkerConnection

Arguments = Mapping[str, Any] | str | None
Narrowing = tuple[dict[str, Any], ...]


class Shareable:
    """A toolbox or a view of one: a worker has a stand-in for it, which sends its calls back."""


# What was shared with workers. Whoever sent it there has it, and so it is not kept here.
_shared: "weakref.WeakValueDictionary[int, Shareable]" = weakref.WeakValueDictionary()
_tokens: "weakref.WeakKeyDictionary[Shareable, int]" = weakref.WeakKeyDictionary()
_counter = itertools.count(1)
# Where the engine is, in a worker; empty elsewhere.
_links: "list[WorkerConnection]" = []


def share_box(box: Shareable) -> tuple[Any, tuple[Any, ...]]:
    """How a pickler sends a box: as a stand-in that knows its number."""
    token = _tokens.get(box)
    if token is None:
        token = _tokens[box] = next(_counter)
        _shared[token] = box
    return RemoteBox, (token,)


def find_box(token: int) -> Any:
    """The box that a stand-in stands for."""
    box = _shared.get(token)
    if box is None:
        raise LookupError("the toolbox that this call is meant for is gone")
    return box


def link_to(connection: "WorkerConnection") -> None:
    """Say where the engine is. A worker does this once."""
    _links.append(connection)


class RemoteBox:
    """A stand-in for a toolbox or a view, in a worker."""

    def __init__(self, token: int, narrowing: Narrowing = ()) -> None:
        self._target = (token, narrowing)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteBox, self._target

    async def call(self, call: str | Call, arguments: Arguments = None, **options: Any) -> Outcome:
        """Run one call where the engine is, nested in the one that runs here."""
        outcome: Outcome = await ask(self._target, "call", call, arguments, **options)
        return outcome

    def call_sync(self, call: str | Call, arguments: Arguments = None, **options: Any) -> Outcome:
        """Run one call from blocking code."""
        outcome: Outcome = ask_blocking(self._target, "call", call, arguments, **options)
        return outcome

    def call_many(
        self, calls: Iterable[Call | tuple[str, Arguments]], **options: Any
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Run calls at the same time; the outcomes come in the order of the calls."""
        return ask(self._target, "call_many", list(calls), **options)

    async def stream(
        self, call: str | Call, arguments: Arguments = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run one call and give what it shows as it comes, the outcome last."""
        parts: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def take(item: Any) -> None:
            loop.call_soon_threadsafe(parts.put_nowait, item)

        connection = _link()
        answer = connection.request(self._target, "stream", (call, arguments), options, part=take)
        answer.add_done_callback(lambda _: take(_END))
        ending = asyncio.ensure_future(connection.await_for(answer))
        while (item := await parts.get()) is not _END:
            yield item
        yield await ending

    def view(self, names: Any = None, tags: Any = None, groups: Any = None) -> "RemoteBox":
        """Fewer tools."""
        token, narrowing = self._target
        return RemoteBox(token, (*narrowing, {"names": names, "tags": tags, "groups": groups}))

    def schemas(self, provider: str = "openai", strict: bool = False) -> list[dict[str, Any]]:
        """The visible tools as a provider wants them described."""
        schemas: list[dict[str, Any]] = ask_blocking(self._target, "schemas", provider, strict)
        return schemas

    @property
    def names(self) -> list[str]:
        """The names of the visible tools, in order."""
        names: list[str] = ask_blocking(self._target, "names")
        return names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"In a worker process a toolbox can be called and read, and has no {name!r}. "
            'Do that outside of tools with isolation="process".'
        )


_END = object()


async def ask(target: Any, method: str, *arguments: Any, **options: Any) -> Any:
    """Ask the engine for something, and wait for it on this loop."""
    connection = _link()
    answer = connection.request(target, method, arguments, options)
    return await connection.await_for(answer)


def ask_blocking(target: Any, method: str, *arguments: Any, **options: Any) -> Any:
    """Ask the engine for something, and block until it is there."""
    connection = _link()
    return connection.wait_for(connection.request(target, method, arguments, options))


def _link() -> "WorkerConnection":
    if not _links:
        raise RuntimeError("this stand-in for a toolbox can be used only in a worker process")
    return _links[0]
