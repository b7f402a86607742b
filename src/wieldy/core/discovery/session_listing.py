"""The tools that each session is shown: a few always, and behind them those that it loaded."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol, TypeVar

from wieldy.core.call import Scope
from wieldy.core.sync import blocking_border
from wieldy.core.tool import Tool

# The names of the tools with which a model finds and loads others.
SEARCH_TOOL, LOAD_TOOL = "search_tools", "load_tools"

T = TypeVar("T")
# Given the names that a session was shown, in order: those that it is shown from now on, and
# what to tell. It may be called more than once, so it changes nothing itself.
Change = Callable[[Sequence[str]], tuple[Sequence[str], T]]

# The list of a client that has no session, set by whoever serves it.
client_listing: ContextVar[str | None] = ContextVar("wieldy_client_listing", default=None)


class ListKeeper(Protocol):
    """The place that keeps the lists of sessions for every process."""

    async def read_list(self, session: str) -> Sequence[str] | None:
        """The names that a session was shown, in order; None if it has loaded nothing."""

    async def change_list(self, session: str, change: Change[T]) -> tuple[Sequence[str], T]:
        """Change the list of a session; one process at a time does so."""


class SessionListing:
    """The list of each session.

    A list only grows at its end, so that the definitions before stay the same for a provider's
    cache. A tool that is gone leaves its place to itself: the others keep theirs, and it has the
    same place if it comes back.

    Args:
        find_pinned: Finds among all tools the names of those that are always shown, in order.
        fit: Leaves out, of the tools that a session is shown, those that there is no room for. It
            is given the tools, and the names of those that are always shown.
        most: How many lists are held in memory. Without a keeper, the session that was used
            least recently starts again with the tools that are always shown.
        keeper: Where lists outlive the process.
    """

    def __init__(
        self,
        find_pinned: Callable[[Mapping[str, Tool]], Iterable[str]],
        fit: Callable[[Sequence[Tool], Collection[str]], list[Tool]],
        most: int,
        keeper: ListKeeper | None = None,
    ) -> None:
        self._find_pinned = find_pinned
        self._fit = fit
        self._most = most
        self._keeper = keeper
        self._lists: OrderedDict[str, Sequence[str]] = OrderedDict()
        self._lock = threading.Lock()
        self._watchers: list[Callable[[str], None]] = []

    def arrange(self, tools: Mapping[str, Tool], session: str) -> list[Tool]:
        """Those of the tools that the session is shown, in its order."""
        return self.arrange_names(tools, self._known_names(session))

    def arrange_names(self, tools: Mapping[str, Tool], names: Iterable[str]) -> list[Tool]:
        """The tools of these names, and after them those that are always shown."""
        pinned = dict.fromkeys(self._find_pinned(tools))
        listed = [tools[name] for name in dict.fromkeys((*names, *pinned)) if name in tools]
        return self._fit(listed, pinned.keys())

    async def refresh(self, session: str) -> None:
        """Read what other processes have loaded for the session."""
        if self._keeper is not None:
            self._keep_names(session, await self._keeper.read_list(session) or ())

    async def change(self, session: str, change: Change[T]) -> T:
        """Change the list of a session, and tell those who watch."""
        before = self._known_here(session)
        if self._keeper is None:
            with self._lock:
                after, told = change(self._lists.get(session, ()))
                self._put_names(session, after)
        else:
            after, told = await self._keeper.change_list(session, change)
            self._keep_names(session, after)
        if list(after) != list(before or ()):
            for watcher in tuple(self._watchers):
                watcher(session)
        return told

    def watch(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Have a function called with each session whose list changes; ends with what it gives."""
        self._watchers.append(told)
        return lambda: self._watchers.remove(told)

    def _known_names(self, session: str) -> Sequence[str]:
        known = self._known_here(session)
        keeper = self._keeper
        if known is None and keeper is not None:
            # A caller that does not await blocks while the store is read, once per session.
            known = blocking_border().wait(lambda home: keeper.read_list(session)) or ()
            self._keep_names(session, known)
        return known or ()

    def _known_here(self, session: str) -> Sequence[str] | None:
        with self._lock:
            known = self._lists.get(session)
            if known is not None:
                self._lists.move_to_end(session)
            return known

    def _keep_names(self, session: str, names: Sequence[str]) -> None:
        with self._lock:
            self._put_names(session, names)

    def _put_names(self, session: str, names: Sequence[str]) -> None:
        self._lists[session] = tuple(names)
        self._lists.move_to_end(session)
        while len(self._lists) > self._most:
            self._lists.popitem(last=False)


def listing_of(scope: Scope) -> str | None:
    """The owner of the list that a call changes: its session, its agent's run, or its client."""
    if scope.session is not None:
        return scope.session
    return client_listing.get() if scope.run is None else run_listing(scope.run)


def run_listing(run: str) -> str:
    """The list of an agent's run that has no session."""
    return f"run:{run}"
