"""The working folder of a call: one that a session keeps, or the folder of a file service."""

import hashlib
import os
import threading
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from wieldy.core.call import Scope
from wieldy.tools.files.disk_files import DiskFiles
from wieldy.tools.files.file_backend import FileInfo, Names
from wieldy.tools.files.file_errors import FileError, FileNotThere, UnfitFile
from wieldy.tools.files.file_grants import split_path
from wieldy.tools.files.file_service import FileService

from .session_folders import SessionFolders

WORKSPACE = "/workspace"
# How far one looks into a folder that code has filled.
_MAX_DEPTH = 30
_MAX_KEPT = 100_000
_MAX_SIZE = 100_000_000
_MAX_NOTES = 10


class OpenFolder(NamedTuple):
    """A folder of the host for one call.

    `writable` says whether the code may write there, and `untrusted` whether something in it
    comes from outside. `entrances` tells when each folder for files from outside was changed.
    """

    path: str
    writable: bool
    untrusted: bool = False
    entrances: tuple[tuple[int, int] | None, ...] = ()


class Workspace(Protocol):
    """The source of a call's working folder. The methods block."""

    def open_folder(self, scope: Scope) -> OpenFolder:
        """The folder for a call of this scope."""

    def keep_changes(self, folder: OpenFolder) -> list[str]:
        """Keep what a call has changed; what could not be kept, in words."""

    def shows_untrusted(self, folder: OpenFolder) -> bool:
        """Whether something in the folder comes from outside, or did since it was opened."""

    def close(self) -> None:
        """Remove what is not kept."""


class SessionWorkspace:
    """A folder of its own for each session, until the toolbox is closed."""

    def __init__(self) -> None:
        self._folders = SessionFolders()

    def open_folder(self, scope: Scope) -> OpenFolder:
        """The folder of the session; calls without one share a folder for each caller."""
        kind, name = ("caller", scope.caller or "")
        if scope.session is not None:
            kind, name = ("session", scope.session)
        return OpenFolder(self._folders.open_folder(f"{kind}:{name}"), True)

    def keep_changes(self, folder: OpenFolder) -> list[str]:
        """Nothing is to be done: the folder stays."""
        return []

    def shows_untrusted(self, folder: OpenFolder) -> bool:
        """Nobody but code writes here."""
        return False

    def close(self) -> None:
        """Remove all folders."""
        self._folders.close()


class DiskWorkspace:
    """The folder of a file service on disk, as it is there."""

    def __init__(self, path: str, service: FileService) -> None:
        self._path = path
        self._service = service
        self._writable = is_writable(service)

    def open_folder(self, scope: Scope) -> OpenFolder:
        """The folder, whoever asks."""
        os.makedirs(self._path, exist_ok=True)
        untrusted = self._service.shows_untrusted(WORKSPACE)
        return OpenFolder(self._path, self._writable, untrusted, self._look_at_entrances())

    def keep_changes(self, folder: OpenFolder) -> list[str]:
        """Nothing is to be done: the code wrote to the folder itself."""
        return []

    def shows_untrusted(self, folder: OpenFolder) -> bool:
        """Whether there is a file from outside, or was one that the code has moved away."""
        changed = self._look_at_entrances() != folder.entrances
        return changed or self._service.shows_untrusted(WORKSPACE)

    def close(self) -> None:
        """Nothing is removed: the files belong to the service."""

    def _look_at_entrances(self) -> tuple[tuple[int, int] | None, ...]:
        """Which folders for files from outside there are, and when something came or went."""
        found: list[tuple[int, int] | None] = []
        for place in self._service.outside_folders(WORKSPACE):
            path = os.path.join(self._path, *split_path(place)[1:])
            try:
                seen = os.lstat(path)
            except OSError:
                found.append(None)
            else:
                found.append((seen.st_ino, seen.st_mtime_ns))
        return tuple(found)


class CopiedWorkspace:
    """The folder of a file service elsewhere: copied in before each call, and back after it.

    A file counts as changed where its content differs from what both sides last had.
    """

    def __init__(self, service: FileService) -> None:
        self._service = service
        self._folders = SessionFolders()
        self._lock = threading.Lock()
        self._known: dict[Names, str] = {}
        self._writable = is_writable(service)

    def open_folder(self, scope: Scope) -> OpenFolder:
        """The folder, with what the service has now."""
        with self._lock:
            path = self._folders.open_folder("files")
            files = DiskFiles(path)
            found = {
                split_path(place)[1:]: self._service.read_bytes(place)
                for place in self._service.list_files(WORKSPACE)
            }
            for names in self._known.keys() - found.keys():
                _try_delete(files, names)
                del self._known[names]
            for names, content in found.items():
                if self._known.get(names) != _hash_content(content):
                    files.write(names, content)
                    self._known[names] = _hash_content(content)
            untrusted = self._service.shows_untrusted(WORKSPACE)
            return OpenFolder(path, self._writable, untrusted)

    def keep_changes(self, folder: OpenFolder) -> list[str]:
        """Write to the service what the code wrote, and delete what it deleted."""
        if not folder.writable:
            return []
        with self._lock:
            files, notes = DiskFiles(folder.path), []
            walked = list(walk_files(files, _MAX_KEPT))
            found = {names for names, info in walked if not info.is_folder}
            if len(walked) == _MAX_KEPT:
                notes.append(f"Not kept: what is beyond {_MAX_KEPT:,} files and folders")
            for names in sorted(found):
                try:
                    self._keep(names, files.read(names, _MAX_SIZE))
                except FileError as error:
                    notes.append(f"Not kept: {error}")
            for names in self._known.keys() - found:
                # A file that was not reached may still be there.
                if _is_gone(files, names):
                    del self._known[names]
                    _try_delete(self._service, names)
            more = len(notes) - _MAX_NOTES
            return notes if more <= 0 else [*notes[:_MAX_NOTES], f"Not kept: {more} more files"]

    def shows_untrusted(self, folder: OpenFolder) -> bool:
        """Whether there is a file from outside. The copy gets none that comes meanwhile."""
        return self._service.shows_untrusted(WORKSPACE)

    def close(self) -> None:
        """Remove the copy."""
        self._folders.close()

    def _keep(self, names: Names, content: bytes) -> None:
        digest = _hash_content(content)
        if self._known.get(names) != digest:
            self._service.write(_logical_path(names), content)
            self._known[names] = digest


def find_service(files: FileService | str | os.PathLike[str] | None) -> FileService | None:
    """The file service that is given, or that of a folder."""
    if files is None or isinstance(files, FileService):
        return files
    return FileService(DiskFiles(files))


def make_workspace(service: FileService | None) -> Workspace:
    """The workspace for a service, or without one."""
    if service is None:
        return SessionWorkspace()
    if not (service.allows("list", WORKSPACE) and service.allows("read", WORKSPACE)):
        raise ValueError(
            f"Code sees all of {WORKSPACE}/, so the file service must grant list and read there."
        )
    path = service.find_disk_folder(WORKSPACE)
    if path is None:
        return CopiedWorkspace(service)
    return DiskWorkspace(path, service)


def is_writable(service: FileService) -> bool:
    """Whether code may write: it can then replace and delete every file, so both are needed."""
    return service.allows("write", WORKSPACE) and service.allows("delete", WORKSPACE)


def walk_files(files: DiskFiles, most: int) -> Iterator[tuple[Names, FileInfo]]:
    """Walk a folder and those below, without links and devices, up to a number of entries."""
    rest: list[Names] = [()]
    seen = 0
    while rest:
        above = rest.pop(0)
        try:
            inside = files.list_folder(above)
        except FileError:
            continue  # The code has removed it, or closed it to everybody.
        for info in inside:
            names = (*above, info.name)
            yield names, info
            seen += 1
            if seen == most:
                return
            if info.is_folder and len(names) < _MAX_DEPTH:
                rest.append(names)


def _try_delete(files: FileService | DiskFiles, names: Names) -> None:
    try:
        if isinstance(files, DiskFiles):
            files.delete(names)
        else:
            files.delete(_logical_path(names))
    except FileError:
        pass  # The other side has deleted it too.


def _is_gone(files: DiskFiles, names: Names) -> bool:
    try:
        return files.info(names).is_folder
    except (FileNotThere, UnfitFile):
        return True
    except FileError:
        return False


def _logical_path(names: Names) -> str:
    return "/".join((WORKSPACE, *names))


def _hash_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
