"""A working folder for each session, kept until the toolbox is closed."""

import fcntl
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import finalize

from .folder_usage import remove_folder

_PREFIX = "wieldy-code-"


class SessionFolders:
    """The working folders of one toolbox. They are made when they are first needed.

    They are removed with the last reference to this object, or at the end of the process. A
    process that is killed can't do that, so each process first removes the folders that
    nobody holds any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: str | None = None
        self._removal: Callable[[], object] | None = None

    def open_folder(self, key: str) -> str:
        """The folder of a session."""
        with self._lock:
            if self._base is None:
                _remove_orphans()
                self._base, handle = _make_base()
                self._removal = finalize(self, _remove_base, self._base, handle, os.getpid())
            name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            path = os.path.join(self._base, name)
            with suppress(FileExistsError):
                # The folder around it is open to nobody else.
                os.mkdir(path, 0o755)
            return path

    def close(self) -> None:
        """Remove all folders."""
        with self._lock:
            self._base = None
            if self._removal is not None:
                self._removal()


def _remove_base(base: str, handle: int, owner: int) -> None:
    # In a forked child the folders are still the parent's.
    if os.getpid() == owner:
        remove_folder(base)
    os.close(handle)


def _make_base() -> tuple[str, int]:
    """A new folder, and the handle that marks it as used until this process ends."""
    while True:
        base = tempfile.mkdtemp(prefix=_PREFIX)
        handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.path.isdir(base):
            return base, handle
        # Another process took it for an orphan before it was marked.
        os.close(handle)


def _remove_orphans() -> None:
    """Remove the folders of processes that were killed."""
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        if not name.startswith(_PREFIX):
            continue
        with suppress(OSError):
            path = os.path.join(parent, name)
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_folder(path)
            finally:
                os.close(handle)
