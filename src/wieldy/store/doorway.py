"""Open a database when it is first needed, close it, and open it again."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress

from sqlalchemy.engine import URL

from .databases.database import shown_address
from .open_store import Opened
from .pruning import Pruning
from .wakeups import shared_future

_inherited: list[Opened] = []


class Doorway:
    """Opens and closes a store's database, for every loop and thread of a process.

    It does not refer to the store, and can therefore be closed when the store is gone.
    """

    kind = "an open store"

    def __init__(self, url: URL, durability: str, pruning: Pruning) -> None:
        self._url = url
        self._durability = durability
        self._pruning = pruning
        # Whether a store of an earlier version is brought up to date.
        self.upgrades = True
        # The opened store, while it is open.
        self.in_use: Opened | None = None
        self.renew()

    def renew(self) -> None:
        """Start again in a forked child, which must not use its parent's threads and files.

        The child must not close those files either, so it keeps what it inherited, untouched.
        """
        if self.in_use is not None:
            _inherited.append(self.in_use)
        self._lock = threading.Lock()
        self._opening: Future[Opened] | None = None
        self.in_use = None

    async def opened(self) -> Opened:
        """The opened store; the first caller opens it."""
        opened = self.in_use
        if opened is not None:
            return opened
        with self._lock:
            if self._opening is None:
                self._opening = shared_future()
                threading.Thread(
                    target=self._open_store, args=(self._opening,), daemon=True
                ).start()
            opening = self._opening
        return await asyncio.wrap_future(opening)

    @property
    def held(self) -> bool:
        """Whether it is open, or being opened."""
        return self._opening is not None

    async def close(self) -> None:
        """Close the database; the next call opens it again."""
        with self._lock:
            opening, self.in_use, self._opening = self._opening, None, None
        opened = None
        if opening is not None:
            with suppress(Exception):
                # If opening failed, those who asked for it get the error.
                opened = await asyncio.wrap_future(opening)
        if opened is not None:
            await asyncio.to_thread(opened.close)

    def _open_store(self, opening: "Future[Opened]") -> None:
        try:
            opened = Opened(self._url, self._durability, self._pruning, self.upgrades)
        except BaseException as error:
            with self._lock:
                if self._opening is opening:
                    self._opening = None
            try:
                error.add_note(f"The store in use is {shown_address(self._url)}.")
            finally:
                # Callers wait for this future, so it is answered whatever happens.
                opening.set_exception(error)
            return
        with self._lock:
            if self._opening is opening:
                self.in_use = opened
        opening.set_result(opened)
