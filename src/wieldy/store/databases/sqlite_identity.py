"""Notice that a SQLite file, or its log, was deleted or replaced while it is open.

SQLite itself goes on with the file that it has opened, which nobody else sees any more: whatever
is committed then is gone when the program ends. Without the index of the log, which is also where
the locks are, two processes write over each other.
"""

import os
from typing import Any

from wieldy.core.errors import StoreUnavailable

# What distinguishes a file from another of the same name.
_Identity = tuple[int, int]
_Log = tuple[_Identity | None, _Identity | None]


class FileIdentity:
    """Which file a connection has opened, and which log beside it."""

    __slots__ = ("_file", "_log", "_log_paths", "_path")

    def __init__(self, connection: Any) -> None:
        self._path = find_path(connection)
        # SQLite keeps the log beside the file itself, and not beside a link to it.
        real = os.path.realpath(self._path)
        self._log_paths = real + b"-wal", real + b"-shm"
        self._file = _identify(self._path)
        # The log and its index.
        self._log: _Log | None = None

    def note_log(self) -> None:
        """Remember the log, which is there at the latest when something was committed."""
        if self._log is None:
            self._log = self._find_log()

    def is_current(self) -> bool:
        """Whether the names still lead to the files that were opened."""
        if _identify(self._path) != self._file:
            return False
        return self._log is None or self._find_log() == self._log

    def _find_log(self) -> "_Log":
        log, index = self._log_paths
        return _identify(log), _identify(index)

    def is_same_file(self, other: "FileIdentity") -> bool:
        """Whether another connection has opened the same file."""
        return self._file == other._file

    def lost(self) -> StoreUnavailable:
        """The error for those who wanted to use the file."""
        path = os.fsdecode(self._path).encode(errors="replace").decode()
        reason = f"its file {path}, or the log beside it, was deleted or replaced while it was used"
        return StoreUnavailable(
            reason, "What is there now is opened; restore what is missing from a backup."
        )


def find_path(connection: Any) -> bytes:
    """The path of the file of a connection. It is not always valid text."""
    connection.text_factory = bytes
    _, _, path = connection.execute("PRAGMA database_list").fetchone()
    connection.text_factory = str
    found: bytes = path
    return found


def _identify(path: bytes) -> _Identity | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
