"""The file of a backup: lines of JSON between a heading and a digest.

The first line says what the file is and the step of the schema. Then each table has a line with its
name and columns, followed by a line for each row. The last line has the number of rows and the
SHA-256 of all lines before it, so that a file that was cut or changed is noticed.
"""

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.errors import WieldyError

FORMAT = 1
_KIND = "wieldy backup"
_OWNER_ONLY = 0o600
# Links to the files that this process has open; Linux has them.
_OPEN_FILES = "/proc/self/fd"
# What a file system says that can't do something.
_MISSING = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
# A line holds one row, and a row at most a few large results.
_MAX_LINE = 1 << 30


class BackupError(WieldyError, ValueError):
    """A backup can't be written or read; nothing was changed.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"{os.fspath(path)}: {reason}")
        self.path = Path(path)


class BackupWriter:
    """Writes the lines of a backup, and counts its rows."""

    def __init__(self, file: BinaryIO, step: int) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.rows = 0
        self._put({"kind": _KIND, "format": FORMAT, "step": step, "made_at": time.time()})

    def begin_table(self, name: str, columns: Sequence[str]) -> None:
        """Write that the rows of a table follow."""
        self._put({"table": name, "columns": list(columns)})

    def write_row(self, values: Sequence[Any]) -> None:
        """Write one row, in the order of the columns."""
        self._put(list(values))
        self.rows += 1

    def end(self) -> None:
        """Write the digest; without it the file is refused."""
        self._put({"rows": self.rows, "sha256": self._digest.hexdigest()})

    def _put(self, content: object) -> None:
        line = dump_json(content, MAX_WRAPPED, separators=(",", ":")).encode() + b"\n"
        self._digest.update(line)
        self._file.write(line)


@contextmanager
def new_backup(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that appears under its name only when it is whole and on the disk.

    Only its owner may read it. A file that is there already is never replaced.
    """
    target = Path(path)
    if os.path.lexists(target):
        raise BackupError(path, "is there already. Name another file, or remove it.")
    try:
        opened = _open_unnamed(target.parent)
        whole = _hidden_file(target) if opened is None else _unnamed_file(opened, target)
        with whole as file:
            yield file
    except OSError as error:
        raise BackupError(path, f"can't be written: {error.strerror or error}.") from error


def _open_unnamed(folder: Path) -> int | None:
    """A file without a name, of which nothing is left if this process is killed.

    None where the system or the file system has no such files.
    """
    try:
        if os.path.isdir(_OPEN_FILES):
            return os.open(folder, os.O_WRONLY | os.O_TMPFILE, _OWNER_ONLY)
    except AttributeError:
        return None
    except OSError as error:
        if error.errno not in (*_MISSING, errno.EISDIR, errno.EINVAL):
            raise
    return None


@contextmanager
def _unnamed_file(opened: int, target: Path) -> Iterator[BinaryIO]:
    """A file that gets its name at the end."""
    with open(opened, "wb") as file:
        yield file
        _sync(file)
        with _opened_folder(target.parent) as folder:
            # With a folder, Python uses `linkat`, which follows this link to the file itself.
            os.link(f"{_OPEN_FILES}/{opened}", target.name, dst_dir_fd=folder)


@contextmanager
def _hidden_file(target: Path) -> Iterator[BinaryIO]:
    """A hidden file beside the one that it is to be; a process that is killed leaves it."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with open(opened, "wb") as file:
            yield file
            _sync(file)
        with _opened_folder(target.parent):
            _give_name(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()


def _give_name(beside: Path, target: Path) -> None:
    """Name a file, unless another has got that name meanwhile."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError as error:
        # Some file systems have no second names for a file.
        if error.errno not in _MISSING:
            raise
        beside.rename(target)


@contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    """A folder whose names are on the disk at the end."""
    folder = os.open(path, os.O_RDONLY)
    try:
        yield folder
        os.fsync(folder)
    finally:
        os.close(folder)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


class BackupReader:
    """Reads a backup from its beginning to its end, and checks it on the way."""

    def __init__(self, path: str | os.PathLike[str], newest: int) -> None:
        self.path = path
        self._newest = newest
        self.step = 0
        self.rows = 0

    def read_tables(self) -> Iterator[Any]:
        """Each table as its name and columns, and each row as a list.

        `BackupError` is raised at the end if the file is not whole, so what was read counts only
        if the iteration ended.
        """
        try:
            with open(self.path, "rb") as file:
                yield from self._read(file)
        except OSError as error:
            said = error.strerror or error
            raise BackupError(self.path, f"can't be read: {said}.") from error

    def check(self) -> None:
        """Read the whole file, and refuse one that is cut, changed or too new."""
        for _ in self.read_tables():
            pass

    def _read(self, file: BinaryIO) -> Iterator[Any]:
        digest, rows, columns = hashlib.sha256(), 0, None
        line = self._read_line(file)
        self._check_heading(self._parse(line))
        while True:
            digest.update(line)
            line = self._read_line(file)
            content = self._parse(line)
            if isinstance(content, list):
                if columns is None or len(content) != columns:
                    raise BackupError(self.path, _CHANGED)
                rows += 1
                yield content
            elif "table" in content:
                columns = len(content["columns"])
                yield content
            else:
                break
        if content != {"rows": rows, "sha256": digest.hexdigest()} or file.read(1):
            raise BackupError(self.path, _CHANGED)
        self.rows = rows

    def _read_line(self, file: BinaryIO) -> bytes:
        line = file.readline(_MAX_LINE)
        if not line.endswith(b"\n"):
            raise BackupError(self.path, _CUT)
        return line

    def _parse(self, line: bytes) -> Any:
        try:
            content = parse_json(line, MAX_WRAPPED)
        except ValueError:
            raise BackupError(self.path, _CHANGED) from None
        if isinstance(content, list) or _is_line(content):
            return content
        raise BackupError(self.path, _CHANGED)

    def _check_heading(self, heading: Any) -> None:
        if not isinstance(heading, Mapping) or heading.get("kind") != _KIND:
            raise BackupError(self.path, "is not a backup of wieldy.")
        made, step = heading.get("format"), heading.get("step")
        if not isinstance(made, int) or not isinstance(step, int):
            raise BackupError(self.path, _CHANGED)
        if made > FORMAT or step > self._newest:
            raise BackupError(self.path, "was made by a newer version of wieldy. Upgrade first.")
        self.step = step


def _is_line(content: object) -> bool:
    """Whether this is one of the lines that are no rows."""
    if not isinstance(content, dict):
        return False
    columns = content.get("columns")
    if "table" in content:
        named = isinstance(columns, list) and all(isinstance(each, str) for each in columns)
        return isinstance(content["table"], str) and named
    return "kind" in content or "sha256" in content


_CUT = "is cut short. Use another copy."
_CHANGED = "is damaged, or was changed after it was made. Use another copy."
