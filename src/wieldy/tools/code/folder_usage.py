"""How much a folder holds, and how it is removed, whatever the code in a sandbox made of it.

No link is followed, and every step is taken relative to a folder that is held open. Nothing but
the standard library is imported, because the process that keeps a sandbox uses this too.
"""

import os
import stat
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# An entry takes room even where it is empty.
_ENTRY_BYTES = 4096
# How many folders one walk has open.
_MAX_OPEN = 100
# So deep a folder changes its owner with what is in it.
_MAX_DEPTH = 100


def measure_folder(path: str, most: int, backwards: bool = False) -> int:
    """The bytes that a folder takes on its disk; counting stops above `most`.

    A file counts once, whatever names it has. `backwards` walks in the opposite order.
    """
    folder = os.open(path, _FOLDER)
    try:
        return _Walk(folder, most, backwards).measure()
    finally:
        os.close(folder)


class _Level:
    """A folder on the way of a walk, and the names in it that are still to be looked at."""

    __slots__ = ("handle", "identity", "names")

    def __init__(self, handle: int, found: os.stat_result, names: list[str]) -> None:
        self.handle: int | None = handle
        self.identity = (found.st_dev, found.st_ino)
        self.names = names


class _Walk:
    """One walk through a folder, to any depth with a limited number of open folders."""

    def __init__(self, top: int, most: int, backwards: bool) -> None:
        self._most = most
        self._backwards = backwards
        self._seen: set[tuple[int, int]] = set()
        self._total = 0
        self._levels: list[_Level] = []
        self._enter(os.dup(top))

    def measure(self) -> int:
        """What there is, or more than `most`."""
        try:
            while self._levels and self._total <= self._most:
                level = self._levels[-1]
                if not level.names:
                    self._leave()
                elif level.handle is not None:
                    with suppress(OSError):
                        self._look_at(level.handle, level.names.pop())
        except OSError:
            # Nobody but the program moves such deep folders about, and it may hide something there.
            return self._most + 1
        finally:
            for level in self._levels:
                self._close(level)
        return self._total

    def _look_at(self, folder: int, name: str) -> None:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        identity = (found.st_dev, found.st_ino)
        if identity not in self._seen:
            self._seen.add(identity)
            self._total += max(found.st_blocks * 512, _ENTRY_BYTES)
            if stat.S_ISDIR(found.st_mode):
                self._enter(open_inner(folder, name))

    def _enter(self, handle: int) -> None:
        names = sorted(_list_names(handle), reverse=not self._backwards)
        self._levels.append(_Level(handle, os.fstat(handle), names))
        if len(self._levels) > _MAX_OPEN:
            self._close(self._levels[-1 - _MAX_OPEN])

    def _leave(self) -> None:
        """Go on in the folder above, which is opened again if it was closed meanwhile."""
        left = self._levels.pop()
        try:
            above = self._levels[-1] if self._levels else None
            if above is not None and above.handle is None and left.handle is not None:
                above.handle = open_inner(left.handle, "..")
                found = os.fstat(above.handle)
                if above.identity != (found.st_dev, found.st_ino):
                    raise FileNotFoundError
        finally:
            self._close(left)

    @staticmethod
    def _close(level: _Level) -> None:
        if level.handle is not None:
            os.close(level.handle)
            level.handle = None


def open_inner(folder: int, name: str) -> int:
    """A folder in a folder, held open, also where its mode forbids that to its owner."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            # By its handle: by its name it could be a link by now.
            os.chmod(f"/proc/self/fd/{held}", 0o700)
            return os.open(f"/proc/self/fd/{held}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(held)


def remove_folder(path: str) -> None:
    """Remove a folder with all that is in it, however deep it goes and whatever its modes are."""
    try:
        top = os.open(path, _FOLDER)
    except FileNotFoundError:
        return
    try:
        _empty_folder(top)
    finally:
        os.close(top)
    with suppress(OSError):
        os.rmdir(path)


def _empty_folder(top: int) -> None:
    """Remove everything in a folder. Inner folders are moved up first, so depth is no matter."""
    while names := _list_names(top):
        before = len(names)
        for name in names:
            with suppress(OSError):
                if _is_folder(top, name):
                    inner = open_inner(top, name)
                    try:
                        _lift_folders(inner, top)
                    finally:
                        os.close(inner)
                    os.rmdir(name, dir_fd=top)
                else:
                    os.unlink(name, dir_fd=top)
                before -= 1
        if before == len(names):
            return  # Nothing of it can be removed by this user.


def _lift_folders(folder: int, top: int) -> None:
    with suppress(OSError):
        os.fchmod(folder, 0o700)
    for name in _list_names(folder):
        if _is_folder(folder, name):
            with suppress(OSError):
                os.close(open_inner(folder, name))
            os.rename(name, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=folder)


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _list_names(folder: int) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def give_folder(path: str, owner: int) -> None:
    """Make a user the owner of a folder and of all files in it that have no second name."""
    folder = os.open(path, _FOLDER)
    try:
        os.fchown(folder, owner, owner)
        _give_folder(folder, owner, 0)
    finally:
        os.close(folder)


def _give_folder(folder: int, owner: int, depth: int) -> None:
    for name in _list_names(folder) if depth <= _MAX_DEPTH else ():
        with suppress(OSError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_folder = stat.S_ISDIR(found.st_mode)
            if found.st_uid != owner and (is_folder or found.st_nlink == 1):
                os.chown(name, owner, owner, dir_fd=folder, follow_symlinks=False)
            if is_folder:
                inner = open_inner(folder, name)
                try:
                    _give_folder(inner, owner, depth + 1)
                finally:
                    os.close(inner)
