"""A store: opened when it is first needed, and shared by every loop and thread of a process."""

import asyncio
import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from wieldy.core.call import Outcome
from wieldy.core.engine import Engine
from wieldy.core.errors import CallNotFound, StoreUnavailable
from wieldy.core.holdings import Holdings
from wieldy.core.permission.decisions import Desk
from wieldy.core.registry import Registry

from . import toolbox_states as states
from .artifacts.artifacts import Artifacts
from .crash_recovery import recover_calls
from .databases.database import Operation, parse_address, shown_address
from .doorway import Doorway
from .ledger import Ledger
from .ledger_entry import Entry, read_entry, read_shown
from .open_store import Opened, StoreClosed
from .pruning import Pruning, delete_session
from .recorder import LedgerRecorder
from .retention import Retention
from .sessions import Sessions
from .stored_approvals import StoredApprovals
from .stored_rules import Standing
from .transitions import find_row
from .wakeups import Bell

T = TypeVar("T")
_LOOK_FOR_DEAD = 0.2


class Store:
    """What a toolbox keeps, in a database: calls, approvals, artifacts, sessions, rules.

    `durability="full"` loses nothing that was acknowledged, whatever happens;
    `"normal"` may lose the last moments when the machine, not only the process,
    goes down.
    """

    def __init__(self, url: str, registry: Registry, durability: str, retention: Retention) -> None:
        self._url = parse_address(url, durability)
        self._durability = durability
        self.ledger = Ledger(self)
        self.approvals = StoredApprovals(self)
        self.artifacts = Artifacts(self)
        self.recorder = LedgerRecorder(self)
        self.sessions = Sessions(self)
        self.standing = Standing(self, registry)
        self._pruning = Pruning(retention, registry)
        self._doorway = Doorway(self._url, durability, self._pruning)
        self._holdings: Holdings | None = None
        self.bell = Bell()
        _stores.add(self)

    def is_at(self, url: str) -> bool:
        """Whether this is the store of an address."""
        return self._url == parse_address(url, self._durability)

    @property
    def address(self) -> str:
        """Where the store is, without the password."""
        return shown_address(self._url)

    def renew(self) -> None:
        """Start anew in a forked child, which has none of its parent's threads."""
        self.bell = Bell()
        self._doorway.renew()

    @property
    def in_use(self) -> Opened | None:
        """The opened store, while it is."""
        return self._doorway.in_use

    def held_by(self, holdings: Holdings) -> None:
        """Be closed with all that a toolbox holds."""
        self._holdings = holdings
        holdings.add(self._doorway)

    async def opened(self) -> Opened:
        """The opened store; the first who asks opens it."""
        if self.in_use is None and self._holdings is not None and self._holdings.dropped:
            # Somebody kept the ledger, say, and not the toolbox.
            self._holdings.give_back_after(self)
        return await self._doorway.opened()

    async def write(self, operation: Operation[T]) -> T:
        """Run an operation and give its result when it is durable."""
        while True:
            opened = self.in_use or await self.opened()
            try:
                return await opened.write(operation)
            except StoreClosed:
                # Somebody did so in this moment; it is opened once more.
                continue

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation beside the writer, or without one where nothing can be written."""
        while True:
            try:
                opened = await self.opened()
            except StoreUnavailable as error:
                if self._url.get_backend_name() != "sqlite":
                    raise
                return await asyncio.to_thread(self._glance, operation, error)
            with suppress(StoreUnavailable):
                found = opened.read(operation)
                break
        return await asyncio.wrap_future(found)

    def insist(self, operation: Operation[Any]) -> None:
        """Run an operation as soon as the store can be written, if it is open; nobody waits."""
        opened = self.in_use
        if opened is not None:
            with suppress(StoreUnavailable):
                opened.insist(operation)

    def owe(self, operation: Operation[Any]) -> None:
        """Run an operation that just failed when the store can be written again."""
        opened = self.in_use
        if opened is not None:
            opened.owe(operation)

    async def sweep(self) -> bool:
        """Find calls of dead processes; whether there were any."""
        opened = await self.opened()
        changed = await opened.write(opened.owner.sweep)
        for call_id in changed:
            self.bell.ring(call_id)
        return bool(changed)

    async def entry(self, call_id: str, shown: bool = False) -> Entry:
        """The recorded call of this id; `CallNotFound` if there is none.

        `shown`, it is without the secrets that are kept while the call waits.
        """
        row = await self.read(lambda connection: find_row(connection, call_id))
        if row is None:
            raise CallNotFound(call_id, recorded=True)
        return read_shown(row) if shown else read_entry(row)

    async def until(self, call_id: str, done: Callable[[Entry], bool]) -> Entry:
        """Wait until a call is as asked for, or its process is gone; gives what may be shown."""
        opened = await self.opened()
        with self.bell.listening(call_id) as listener:
            while not done(entry := await self.entry(call_id, shown=True)):
                elsewhere = entry.owner not in (None, opened.owner.id)
                if elsewhere and listener.pause > _LOOK_FOR_DEAD and await self.sweep():
                    continue
                await listener.wait()
        return entry

    async def recover(
        self,
        engine: Engine,
        desk: Desk,
        calls: Iterable[str] | None,
        by: str | None,
        unknown: bool,
    ) -> list[Outcome]:
        """Run what a crash left open."""
        if isinstance(calls, str):
            # A text is a sequence of texts as well: each letter would be looked up.
            raise TypeError(f"recover takes ids in a list: recover([{calls!r}])")
        named = None if calls is None else list(calls)
        return await recover_calls(self, engine, desk, named, by, unknown)

    async def outcome(self, call_id: str) -> Outcome:
        """How a recorded call stands; one that is running now is waited for."""
        entry = await self.until(call_id, lambda entry: entry.state != "started")
        return entry.outcome()

    async def save_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a toolbox's state under a name."""
        await self.write(states.save(name, state))

    async def load_state(self, name: str) -> Any:
        """The state of this name; `NotKept` if there is none."""
        return await self.read(states.load(name))

    async def prune(self) -> dict[str, int]:
        """Remove what the retention does not keep, now; gives how much of what."""
        counts: dict[str, int] = {}
        for what, operation in self._pruning.steps():
            counts.setdefault(what, 0)
            while removed := await self.write(operation):
                counts[what] += removed
        self.standing.forget()
        return counts

    async def delete_session(self, session: str) -> dict[str, int]:
        """Remove all that belongs to a session, at once; gives how much of what.

        Calls that are still open stay: `"open"` says how many.
        """
        try:
            return await self.write(lambda connection: delete_session(connection, session))
        finally:
            self.standing.forget()

    async def vacuum(self) -> None:
        """Give the space of what was removed back; `StoreUnavailable` if others are in the way."""
        await asyncio.wrap_future((await self.opened()).database.vacuum())

    async def close(self) -> None:
        """Let go of the database; the next call opens it again."""
        await self._doorway.close()

    def _glance(self, operation: Operation[T], why: StoreUnavailable) -> T:
        from .databases.sqlite_read_only import read_unwritable  # noqa: PLC0415 - hardly ever needed

        return read_unwritable(self._url, operation, why)


_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


def _renew_stores() -> None:
    for store in list(_stores):
        store.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_stores)
