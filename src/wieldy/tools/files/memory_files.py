"""Files in memory, for tests and for agents that leave nothing behind."""

import threading
import time
from collections import Counter

from .file_backend import FileInfo, Names
from .file_errors import FileExists, FileNotThere, UnfitFile


class MemoryFiles:
    """A tree of files that is gone with the process. Folders are there while they hold a file."""

    def __init__(self) -> None:
        self._files: dict[Names, tuple[bytes, float]] = {}
        # How many files are below each folder.
        self._folders: Counter[Names] = Counter()
        self._lock = threading.Lock()

    def read(self, names: Names, largest: int) -> bytes:
        """The content of a file that is no larger than this."""
        with self._lock:
            content = self._find(names)[0]
        if len(content) > largest:
            raise UnfitFile(_join_path(names), f"is larger than {largest:,} bytes")
        return content

    def write(self, names: Names, content: bytes) -> bool:
        """Put a file there; whether it is new."""
        with self._lock:
            self._check_free(names)
            new = names not in self._files
            if new:
                self._folders.update(_folders_above(names))
            self._files[names] = (content, time.time())
            return new

    def replace(self, names: Names, before: bytes, after: bytes) -> bool:
        """Write a file if its content is still what it was; whether it was."""
        with self._lock:
            if self._find(names)[0] != before:
                return False
            self._files[names] = (after, time.time())
            return True

    def delete(self, names: Names) -> None:
        """Remove a file."""
        with self._lock:
            self._find(names)
            self._remove(names)

    def move(self, source: Names, target: Names) -> None:
        """Move a file to where nothing is."""
        with self._lock:
            found = self._find(source)
            if target in self._files or self._is_folder(target):
                raise FileExists(_join_path(target), "is there already")
            self._check_free(target)
            self._files[target] = found
            self._folders.update(_folders_above(target))
            self._remove(source)

    def list_folder(self, names: Names) -> list[FileInfo]:
        """What is in a folder, by name."""
        with self._lock:
            if names in self._files:
                raise UnfitFile(_join_path(names), "is a file, not a folder")
            found: dict[str, FileInfo] = {}
            for each, (content, changed) in self._files.items():
                if each[: len(names)] == names:
                    name = each[len(names)]
                    is_file = len(each) == len(names) + 1 and len(each) > 1
                    found[name] = (
                        FileInfo(name, False, len(content), changed)
                        if is_file
                        else FileInfo(name, True)
                    )
            return [found[name] for name in sorted(found)]

    def info(self, names: Names) -> FileInfo:
        """What is known of a file or a folder."""
        with self._lock:
            return self._describe_file(names)

    def _describe_file(self, names: Names) -> FileInfo:
        if self._is_folder(names) or len(names) <= 1:
            return FileInfo(names[-1] if names else "", True)
        content, changed = self._find(names)
        return FileInfo(names[-1], False, len(content), changed)

    def _find(self, names: Names) -> tuple[bytes, float]:
        found = self._files.get(names)
        if found is None:
            if self._is_folder(names):
                raise UnfitFile(_join_path(names), "is a folder, not a file")
            raise FileNotThere(_join_path(names), "is not there")
        return found

    def _is_folder(self, names: Names) -> bool:
        return self._folders[names] > 0

    def _remove(self, names: Names) -> None:
        del self._files[names]
        self._folders.subtract(_folders_above(names))

    def _check_free(self, names: Names) -> None:
        """Refuse to put a file where a folder is, or below another file."""
        if len(names) < 2 or self._is_folder(names):
            raise UnfitFile(_join_path(names), "is a folder, not a file")
        for count in range(1, len(names)):
            if names[:count] in self._files:
                raise UnfitFile(_join_path(names[:count]), "is a file, not a folder")


def _folders_above(names: Names) -> list[Names]:
    return [names[:count] for count in range(len(names))]


def _join_path(names: Names) -> str:
    return "/" + "/".join(names)
