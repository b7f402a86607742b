"""How the parts of a store read, write, and wait for what others write."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from wieldy.core.errors import CallNotFound, StoreUnavailable
from wieldy.core.forking import renewed_in_child
from wieldy.core.holdings import Holdings

from .databases.database import Operation, parse_address, shown_address
from .doorway import Doorway
from .ledger_entry import Entry, read_entry, read_off_loop, read_shown
from .open_store import Opened, StoreClosed
from .pruning import Pruning
from .transitions import find_row
from .wakeups import Bell

T = TypeVar("T")
_LOOK_FOR_DEAD = 0.2


class StoreAccess:
    """A database that is opened when it is first needed and can be closed at any time."""

    def __init__(self, url: str, durability: str, pruning: Pruning) -> None:
        self._url = parse_address(url, durability)
        self._durability = durability
        self._doorway = Doorway(self._url, durability, pruning)
        self._holdings: Holdings | None = None
        self.bell = Bell()
        _stores.add(self)

    def is_at(self, url: str) -> bool:
        """Whether this is the store of an address."""
        return self._url == parse_address(url, self._durability)

    @property
    def address(self) -> str:
        """The address of the store, without the password."""
        return shown_address(self._url)

    def leave_as_is(self) -> None:
        """Don't bring a store of an earlier version up to date: read it as it is, or say so."""
        self._doorway.upgrades = False

    def renew(self) -> None:
        """Start again in a forked child, which has none of its parent's threads."""
        self.bell = Bell()
        self._doorway.renew()

    @property
    def in_use(self) -> Opened | None:
        """The opened store, while it is open."""
        return self._doorway.in_use

    def held_by(self, holdings: Holdings) -> None:
        """Let a toolbox's holdings close this store."""
        self._holdings = holdings
        holdings.add(self._doorway)

    async def opened(self) -> Opened:
        """The opened store; the first caller opens it."""
        if self.in_use is None and self._holdings is not None and self._holdings.dropped:
            # The program dropped the toolbox, but kept a part of the store, such as the ledger.
            self._holdings.give_back_after(self)
        return await self._doorway.opened()

    def write(self, operation: Operation[T]) -> Awaitable[T]:
        """Run an operation and answer with its result when it is durable.

        Among many writers the answer is a future, because thousands may wait at the same time.
        """
        opened = self.in_use
        if opened is None or opened.database.quiet:
            return self._write_patiently(operation)
        try:
            return opened.write(operation)
        except StoreClosed:
            return self._write_patiently(operation)

    async def _write_patiently(self, operation: Operation[T]) -> T:
        while True:
            opened = self.in_use or await self.opened()
            try:
                return await opened.write(operation)
            except StoreClosed:
                # The store was closed at this moment; it is opened again.
                continue

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation beside the writer, or read-only if the store can't be written."""
        while True:
            try:
                opened = await self.opened()
            except StoreUnavailable as error:
                if self._url.get_backend_name() != "sqlite":
                    raise
                return await asyncio.to_thread(self._read_unwritable_file, operation, error)
            with suppress(StoreUnavailable):
                found = opened.read(operation)
                break
        return await asyncio.wrap_future(found)

    def insist(self, operation: Operation[Any]) -> None:
        """Run an operation as soon as the store can be written, if it is open, without waiting."""
        opened = self.in_use
        if opened is not None:
            with suppress(StoreUnavailable):
                opened.insist(operation)

    def owe(self, operation: Operation[Any]) -> None:
        """Repeat an operation that just failed, when the store can be written again."""
        opened = self.in_use
        if opened is not None:
            opened.owe(operation)

    async def sweep(self) -> bool:
        """Settle the calls of dead processes; returns whether there were any."""
        opened = await self.opened()
        changed = await opened.write(opened.owner.sweep)
        for call_id in changed:
            self.bell.ring(call_id)
        return bool(changed)

    async def entry(self, call_id: str, shown: bool = False) -> Entry:
        """The recorded call of this id; `CallNotFound` if there is none.

        With `shown`, the secrets that are kept while the call waits are covered.
        """
        row = await self.read(lambda connection: find_row(connection, call_id))
        if row is None:
            raise CallNotFound(call_id, recorded=True)
        return await read_off_loop([row], lambda: read_shown(row) if shown else read_entry(row))

    async def until(self, call_id: str, done: Callable[[Entry], bool]) -> Entry:
        """Wait until a call meets a condition, or its process is gone; returns its entry."""
        opened = await self.opened()
        with self.bell.listening(call_id) as listener:
            while not done(entry := await self.entry(call_id, shown=True)):
                elsewhere = entry.owner not in (None, opened.owner.id)
                if elsewhere and listener.pause > _LOOK_FOR_DEAD and await self.sweep():
                    continue
                await listener.wait()
        return entry

    async def vacuum(self) -> None:
        """Release the space of removed rows; `StoreUnavailable` if other processes prevent it."""
        await asyncio.wrap_future((await self.opened()).database.vacuum())

    async def close(self) -> None:
        """Close the database; the next call opens it again."""
        await self._doorway.close()

    def _read_unwritable_file(self, operation: Operation[T], why: StoreUnavailable) -> T:
        from .databases.sqlite_read_only import read_unwritable  # noqa: PLC0415 - hardly ever needed

        return read_unwritable(self._url, operation, why)


_stores = renewed_in_child(StoreAccess.renew)
