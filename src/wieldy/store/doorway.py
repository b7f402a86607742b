"""The way into a database: opened when it is first needed, closed, and opened again."""

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
    """Shared by every loop and thread of a process.

    It knows nothing of the store whose database it is, and can therefore be closed when
    that is gone.
    """

    kind = "an open store"

    def __init__(self, url: URL, durability: str, pruning: Pruning) -> None:
        self._url = url
        self._durability = durability
        self._pruning = pruning
        # The opened store, while it is.
        self.in_use: Opened | None = None
        self.renew()

    def renew(self) -> None:
        """Start anew; a forked child has none of its parent's threads and must not use its files.

        It must not close them either, so what it inherited is kept and never touched.
        """
        if self.in_use is not None:
            _inherited.append(self.in_use)
        self._lock = threading.Lock()
        self._opening: Future[Opened] | None = None
        self.in_use = None

    async def opened(self) -> Opened:
        """The opened store; the first who asks opens it."""
        opened = self.in_use
        if opened is not None:
            return opened
        with self._lock:
            if self._opening is None:
                self._opening = shared_future()
                threading.Thread(target=self._open, args=(self._opening,), daemon=True).start()
            opening = self._opening
        return await asyncio.wrap_future(opening)

    @property
    def held(self) -> bool:
        """Whether it is open, or being opened."""
        return self._opening is not None

    async def close(self) -> None:
        """Let go of the database; the next call opens it again."""
        with self._lock:
            opening, self.in_use, self._opening = self._opening, None, None
        opened = None
        if opening is not None:
            with suppress(Exception):
                # Why it could not be opened is said to those who asked for it.
                opened = await asyncio.wrap_future(opening)
        if opened is not None:
            await asyncio.to_thread(opened.close)

    def _open(self, opening: "Future[Opened]") -> None:
        try:
            opened = Opened(self._url, self._durability, self._pruning)
        except BaseException as error:
            with self._lock:
                if self._opening is opening:
                    self._opening = None
            try:
                error.add_note(f"The store in use is {shown_address(self._url)}.")
            finally:
                # Somebody waits for this, whatever else happens.
                opening.set_exception(error)
            return
        with self._lock:
            if self._opening is opening:
                self.in_use = opened
        opening.set_result(opened)
