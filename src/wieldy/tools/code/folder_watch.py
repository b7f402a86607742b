"""How much a folder holds while a program writes to it, measured again and again in a thread.

A walk through a large folder takes seconds, in which the other limits of the program must be
looked at. Nothing but the standard library is imported, because the process that keeps a sandbox
uses this.
"""

import os
import threading
import time

from .folder_usage import measure_folder

# How often a folder is measured, unless that takes more than this share of the time.
_LOOK_SECONDS = 0.1
_LOOK_SHARE = 0.1
_NO_LIMIT = 1 << 62


class FolderWatch:
    """The size of one folder. It may grow up to the limit, or not at all if it had more before.

    Args:
        folder: The folder that the program writes to.
        limit: How many bytes it may hold.
    """

    def __init__(self, folder: str, limit: int) -> None:
        self._folder = folder
        self._free = self._free_bytes()
        self.most = _NO_LIMIT
        self.size = self.before = self._measure(backwards=False)
        self.most = max(limit, self.before)
        self._due = threading.Event()
        self._next_look = 0.0

    def begin(self) -> None:
        """Measure from now on, until this process ends."""
        threading.Thread(target=self._measure_on, daemon=True).start()

    def hurry(self) -> bool:
        """Measure now if so much was written to the disk that the limit may be exceeded."""
        written = self._free - self._free_bytes()
        if written <= self.most - self.size or time.monotonic() < self._next_look:
            return False
        self._due.set()
        return True

    def measure_rest(self) -> int:
        """The size when nothing writes there any more."""
        self.size = self._measure(backwards=False)
        return self.size

    def _measure_on(self) -> None:
        while True:
            began, free = time.monotonic(), self._free_bytes()
            # What is moved about meanwhile may be missed by one walk, and by another one less.
            self.size = max(self._measure(backwards) for backwards in (False, True))
            self._free = free
            took = time.monotonic() - began
            # Others may write to the same disk all the time.
            self._next_look = time.monotonic() + took
            self._due.wait(max(_LOOK_SECONDS, took / _LOOK_SHARE))
            self._due.clear()

    def _measure(self, backwards: bool) -> int:
        try:
            return measure_folder(self._folder, self.most, backwards)
        except OSError:
            return 0  # The folder itself was removed from outside.

    def _free_bytes(self) -> int:
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return 0
        return found.f_bfree * found.f_frsize
