"""Files below one folder of the disk, which no name, link or race leads out of.

Every step is taken relative to a folder that is held open, and no step follows a link. So
what was checked is what is used, whoever changes the tree meanwhile.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .file_backend import FileInfo, Names
from .file_errors import AccessDenied, FileBusy, FileError, FileExists, FileNotThere, UnfitFile

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BEGUN = ".wieldy-"
_CHUNK = 1 << 20
_LOCK_SECONDS = 5.0
_LOCK_PAUSE = 0.01


class DiskFiles:
    """A tree of files in a folder.

    Args:
        root: The folder; it is made if it is not there.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        Path(root).mkdir(parents=True, exist_ok=True)
        self.root = os.path.realpath(root)

    def make_folder(self, names: Names) -> None:
        """Make a folder, and those above it, where they are missing."""
        with self._open_folder(names, make=True):
            pass

    def read(self, names: Names, largest: int) -> bytes:
        """The content of a file that is no larger than this."""
        with self._open_parent(names) as folder, _open_file(folder, names, _FILE) as file:
            return _read_regular(file, names, largest)

    def write(self, names: Names, content: bytes) -> bool:
        """Put a file there, whole or not at all; whether it is new."""
        with self._open_parent(names, make=True) as folder:
            return _replace_file(folder, names, content)

    def replace(self, names: Names, before: bytes, after: bytes) -> bool:
        """Write a file if its content is still what it was; whether it was."""
        with self._open_parent(names) as folder:
            # Others that edit through this class wait here, also in other processes.
            _lock_folder(folder, names)
            with _open_file(folder, names, _FILE) as file:
                if _read_regular(file, names, len(before)) != before:
                    return False
            _replace_file(folder, names, after)
            return True

    def delete(self, names: Names) -> None:
        """Remove a file, a link, or an empty folder."""
        with self._open_parent(names) as folder, _translate_errors(names):
            if _is_folder(folder, names[-1]):
                os.rmdir(names[-1], dir_fd=folder)
            else:
                os.unlink(names[-1], dir_fd=folder)

    def move(self, source: Names, target: Names) -> None:
        """Move a file to where nothing is."""
        with self._open_parent(source) as before, self._open_parent(target, make=True) as after:
            with _translate_errors(source):
                found = os.stat(source[-1], dir_fd=before, follow_symlinks=False)
                if not stat.S_ISREG(found.st_mode):
                    raise UnfitFile(_join_path(source), "is not a regular file")
            with _translate_errors(target):
                # A second name fails where something is; renaming would replace it.
                os.link(
                    source[-1],
                    target[-1],
                    src_dir_fd=before,
                    dst_dir_fd=after,
                    follow_symlinks=False,
                )
            with _translate_errors(source):
                os.unlink(source[-1], dir_fd=before)

    def list_folder(self, names: Names) -> list[FileInfo]:
        """What is in a folder, by name; links and devices are not shown."""
        found = []
        with self._open_folder(names) as folder, _translate_errors(names):
            for name in sorted(os.listdir(folder)):
                with suppress(FileNotFoundError):
                    info = _read_info(folder, name)
                    if info is not None:
                        found.append(info)
        return found

    def info(self, names: Names) -> FileInfo:
        """What is known of a file or a folder."""
        if not names:
            return FileInfo("", True)
        with self._open_parent(names) as folder, _translate_errors(names):
            found = _read_info(folder, names[-1])
        if found is None:
            raise AccessDenied(_join_path(names), "is a link or a device, which is not followed")
        return found

    @contextmanager
    def _open_parent(self, names: Names, make: bool = False) -> Iterator[int]:
        """The folder that a file is in, held open."""
        if not names:
            raise UnfitFile("/", "is a folder, not a file")
        with self._open_folder(names[:-1], make) as folder:
            yield folder

    @contextmanager
    def _open_folder(self, names: Names, make: bool = False) -> Iterator[int]:
        folder = os.open(self.root, _FOLDER)
        try:
            for count, name in enumerate(names, start=1):
                with _translate_errors(names[:count]):
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, dir_fd=folder)
                    inner = _enter(folder, name, names[:count])
                folder, outer = inner, folder
                os.close(outer)
            yield folder
        finally:
            os.close(folder)


def _lock_folder(folder: int, names: Names) -> None:
    """Lock a folder. Code that works in it may hold that lock for as long as it likes."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                said = f"is in a folder that somebody has locked for over {_LOCK_SECONDS:g} s"
                raise FileBusy(_join_path(names), said) from None
        time.sleep(_LOCK_PAUSE)


def _enter(folder: int, name: str, names: Names) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise AccessDenied(_join_path(names), "is a link, which is not followed") from None
        raise UnfitFile(_join_path(names), "is a file, not a folder") from None


@contextmanager
def _open_file(folder: int, names: Names, flags: int) -> Iterator[int]:
    with _translate_errors(names):
        file = os.open(names[-1], flags, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _read_regular(file: int, names: Names, largest: int) -> bytes:
    found = os.fstat(file)
    if stat.S_ISDIR(found.st_mode):
        raise UnfitFile(_join_path(names), "is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise AccessDenied(_join_path(names), "is not a regular file")
    chunks, size = [], 0
    # It may grow while it is read.
    while chunk := os.read(file, _CHUNK):
        size += len(chunk)
        if size > largest:
            raise UnfitFile(_join_path(names), f"is larger than {largest:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _replace_file(folder: int, names: Names, content: bytes) -> bool:
    """Write a file beside its place, and move it there when it is whole."""
    name, begun = names[-1], f"{_BEGUN}{os.urandom(8).hex()}"
    with _translate_errors(names):
        mode = _find_mode(folder, names)
        file = os.open(begun, _NEW, mode or 0o666, dir_fd=folder)
        try:
            with os.fdopen(file, "wb") as stream:
                if mode is not None:
                    # The umask has taken rights away that the file had.
                    os.fchmod(file, mode)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(begun, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(begun, dir_fd=folder)
            raise
    return mode is None


def _find_mode(folder: int, names: Names) -> int | None:
    """The mode of the file that is there, or None; raises where a file can't take its place."""
    try:
        found = os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise UnfitFile(_join_path(names), "is a folder, not a file")
    if not stat.S_ISREG(found):
        raise AccessDenied(_join_path(names), "is a link or a device, which is not written to")
    return stat.S_IMODE(found)


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _read_info(folder: int, name: str) -> FileInfo | None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        return FileInfo(name, True, 0, found.st_mtime)
    if stat.S_ISREG(found.st_mode):
        return FileInfo(name, False, found.st_size, found.st_mtime)
    return None


@contextmanager
def _translate_errors(names: Names) -> Iterator[None]:
    """What the system raises, as one of our errors."""
    try:
        yield
    except FileError:
        raise
    except FileNotFoundError:
        raise FileNotThere(_join_path(names), "is not there") from None
    except FileExistsError:
        raise FileExists(_join_path(names), "is there already") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise AccessDenied(_join_path(names), "is a link, which is not followed") from None
        if error.errno == errno.ENOTEMPTY:
            raise UnfitFile(_join_path(names), "is a folder with something in it") from None
        raise FileError(_join_path(names), f"could not be used: {error.strerror}") from error


def _join_path(names: Names) -> str:
    return "/" + "/".join(names)
