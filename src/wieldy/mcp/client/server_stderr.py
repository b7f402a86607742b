"""Keep the stderr of a server's process in an unnamed temporary file."""

import os
import tempfile
import threading

_MOST = 4 * 1024 * 1024
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

    def text(self) -> str:
        """The end of the output."""
        with self._lock:
            return self._read_tail().decode("utf-8", "replace")

    def trim(self) -> None:
        """Keep only the end of a file that is too long."""
        with self._lock:
            if self._final is None and os.fstat(self.fd).st_size > _MOST:
                kept = self._read_tail()
                os.ftruncate(self.fd, 0)
                os.write(self.fd, kept)

    def close(self) -> None:
        """Close the file; the end of its content can still be read."""
        with self._lock:
            if self._final is None:
                self._final = self._read_tail()
                os.close(self.fd)

    def _read_tail(self) -> bytes:
        if self._final is not None:
            return self._final
        size = os.fstat(self.fd).st_size
        return os.pread(self.fd, _KEPT, max(0, size - _KEPT))
