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
# The share of the limit that may be written beyond it before the program is stopped for a look.
_SPARE_SHARE = 0.25
# After an alarm that was for others, there is none for this many times as long as it took.
_QUIET_TIMES = 3
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
        self._spare = int(limit * _SPARE_SHARE)
        self._quiet_until = 0.0

    def begin(self) -> None:
        """Measure from now on, until this process ends."""
        threading.Thread(target=self._measure_on, daemon=True).start()

    @property
    def is_in_doubt(self) -> bool:
        """Whether so much was written to the disk meanwhile that the limit may be exceeded."""
        written = self._free - self._free_bytes()
        room = self.most - self.size + self._spare
        return written > room and time.monotonic() >= self._quiet_until

    def measure_still(self) -> int:
        """The size while nothing writes there."""
        began, free, before = time.monotonic(), self._free_bytes(), self.size
        self.size = self._measure(backwards=False)
        self._free = free
        if self.size - before < self._spare:
            now = time.monotonic()
            self._quiet_until = now + (now - began) * _QUIET_TIMES
        return self.size

    def _measure_on(self) -> None:
        while True:
            began, free = time.monotonic(), self._free_bytes()
            # What is moved about meanwhile may be missed by one walk, and by another one less.
            self.size = max(self._measure(backwards) for backwards in (False, True))
            self._free = free
            took = time.monotonic() - began
            time.sleep(max(_LOOK_SECONDS, took / _LOOK_SHARE))

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
