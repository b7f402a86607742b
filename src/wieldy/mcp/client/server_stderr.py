"""Keep the stderr of a server's process in an unnamed temporary file."""

import os
import tempfile
import threading

_MAX_COUNT = 4 * 1024 * 1024
_KEPT = 64 * 1024


class ErrorLog:
    """The stderr of a server, across restarts.

    A file, unlike a pipe, never blocks the server. `trim` is called from time to time, and cuts
    a file that is too long to its end.
    """

    def __init__(self) -> None:
        first, path = tempfile.mkstemp(prefix="wieldy-mcp-")
        # Every writer appends, so that new output comes after the part that `trim` has kept.
        self.fd = os.open(path, os.O_RDWR | os.O_APPEND)
        os.close(first)
        os.unlink(path)
        self._lock = threading.Lock()
        self._final: bytes | None = None
        self._begun = 0

    def begin(self) -> None:
        """Note that another process starts to write here."""
        with self._lock:
            if self._final is None:
                self._begun = os.fstat(self.fd).st_size

    def text(self, of_last: bool = False) -> str:
        """The end of the output, of the last process alone if that is wanted."""
        with self._lock:
            tail = self._read_tail()
            if of_last:
                written = self._size() - self._begun
                tail = tail[len(tail) - min(len(tail), written) :]
            return tail.decode("utf-8", "replace")

    def trim(self) -> None:
        """Keep only the end of a file that is too long."""
        with self._lock:
            if self._final is None and os.fstat(self.fd).st_size > _MAX_COUNT:
                kept = self._read_tail()
                self._begun -= os.fstat(self.fd).st_size - len(kept)
                os.ftruncate(self.fd, 0)
                os.write(self.fd, kept)

    def close(self) -> None:
        """Close the file; the end of its content can still be read."""
        with self._lock:
            if self._final is None:
                self._begun -= self._size() - len(self._read_tail())
                self._final = self._read_tail()
                os.close(self.fd)

    def _size(self) -> int:
        return os.fstat(self.fd).st_size if self._final is None else len(self._final)

    def _read_tail(self) -> bytes:
        if self._final is not None:
            return self._final
        size = os.fstat(self.fd).st_size
        return os.pread(self.fd, _KEPT, max(0, size - _KEPT))
