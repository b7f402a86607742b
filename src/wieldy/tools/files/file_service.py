"""Operations on files, checked against grants: the one way to files for every tool."""

import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from wieldy.core.errors import describe_exception

from .disk_files import DiskFiles
from .file_backend import FileBackend, FileInfo, Names
from .file_errors import AccessDenied, FileBusy, FileError, UnfitFile
from .file_grants import Grant, Grants, read_grants

_MAX_ENTRIES = 1_000
_MAX_MATCHES = 200
_MAX_LINE = 400
_MAX_SEARCHED = 50_000_000
_MAX_DEPTH = 30
_MAX_TRIES = 100
_STOPPED = "The search stopped after {:,} matches, and there may be more. Look in a folder below."
_STAYS_OUTSIDE = (
    "comes from outside, and elsewhere nobody would know that any more. Read it, and write what "
    "you need of it."
)


class FileService:
    """Files of a place, for a caller with grants.

    Args:
        files: Where they are: `DiskFiles(root)` or `MemoryFiles()`.
        grants: `{"/workspace/": ["list", "read", "write", "delete"]}`, or `Grant`s; without
            them `/userinput/` can be read, `/workspace/` is free, and in `/internal/`
            nothing is deleted.
        max_bytes: How large a file may be that is read or written.
    """

    def __init__(
        self,
        files: FileBackend,
        grants: Mapping[str, Iterable[str]] | Iterable[Grant] | Grants | None = None,
        max_bytes: int = 1_000_000,
    ) -> None:
        self._files = files
        self._grants = grants if isinstance(grants, Grants) else read_grants(grants)
        self._largest = max_bytes

    def is_untrusted(self, path: str) -> bool:
        """Whether what is at a path comes from outside."""
        return self._grants.is_untrusted(path)

    def shows_untrusted(self, path: str) -> bool:
        """Whether there is something from outside at a path, or below it."""
        return self.is_untrusted(path) or any(
            map(self._has_files, self._grants.untrusted_below(path))
        )

    def outside_folders(self, path: str) -> list[str]:
        """The folders below a path whose files come from outside."""
        return self._grants.untrusted_below(path)

    def covers_untrusted(self, place: str) -> bool:
        """Whether a path of this machine is in a folder from outside, or has one below it."""
        if not isinstance(self._files, DiskFiles):
            return False
        root, place = f"{self._files.root}/", f"{place.rstrip('/')}/"
        folders = [root + prefix[1:] for prefix in self._grants.untrusted_below("/")]
        return any(each.startswith(place) or place.startswith(each) for each in folders)

    def _has_files(self, path: str) -> bool:
        try:
            return bool(self.list_folder(path))
        except FileError:
            return False

    def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        return self._files.read(self._grants.check("read", path), self._largest)

    def read_text(self, path: str) -> str:
        """The text of a file; `UnfitFile` if it is not text."""
        return _decode(path, self.read_bytes(path))

    def read_lines(self, path: str, start: int = 1, count: int | None = None) -> dict[str, Any]:
        """Some lines of a file, from `start` on, counted from 1."""
        if start < 1 or (count is not None and count < 1):
            raise ValueError("start and count are 1 or more")
        lines = self.read_text(path).splitlines(keepends=True)
        chosen = lines[start - 1 :] if count is None else lines[start - 1 : start - 1 + count]
        return {"path": path, "lines": len(lines), "start": start, "content": "".join(chosen)}

    def read_many(self, paths: Iterable[str]) -> list[dict[str, Any]]:
        """The text of several files, each with its own error."""
        found: list[dict[str, Any]] = []
        for path in paths:
            try:
                found.append({"path": path, "content": self.read_text(path)})
            except FileError as error:
                found.append({"path": path, "error": describe_exception(error)})
        return found

    def write(self, path: str, content: str | bytes) -> dict[str, Any]:
        """Put a file there, whole or not at all."""
        names = self._grants.check("write", path)
        data = content.encode("utf-8") if isinstance(content, str) else content
        self._check_size(path, data)
        new = self._files.write(names, data)
        return {"path": path, "bytes": len(data), "created": new}

    def edit(self, path: str, edits: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Replace passages, each of which stands in the file exactly once."""
        names = self._grants.check("write", path)
        self._grants.check("read", path)
        listed = list(edits)
        for _ in range(_MAX_TRIES):
            before = self.read_bytes(path)
            text = _decode(path, before)
            for old, new in listed:
                text = _replace_once(path, text, old, new)
            after = text.encode("utf-8")
            self._check_size(path, after)
            # Somebody may have changed it meanwhile; then the passages are looked for again.
            if self._files.replace(names, before, after):
                return {"path": path, "edits": len(listed), "bytes": len(after)}
        raise FileBusy(path, f"was changed {_MAX_TRIES} times by others meanwhile")

    def delete(self, path: str) -> dict[str, Any]:
        """Remove a file, or an empty folder."""
        names = self._grants.check("delete", path)
        if len(names) < 2:
            raise UnfitFile(path, "is a namespace, which stays")
        self._files.delete(names)
        return {"path": path, "deleted": True}

    def move(self, source: str, target: str) -> dict[str, Any]:
        """Move a file to where nothing is."""
        self._grants.check("read", source)
        before = self._grants.check("delete", source)
        after = self._grants.check("write", target)
        if self.is_untrusted(source) and not self.is_untrusted(target):
            raise AccessDenied(source, _STAYS_OUTSIDE)
        self._files.move(before, after)
        return {"path": target, "moved_from": source}

    def list_folder(self, path: str) -> list[dict[str, Any]]:
        """What is in a folder; in `/`, the namespaces that are granted."""
        if path == "/":
            return [{"name": each, "folder": True} for each in self._grants.namespaces]
        found = self._files.list_folder(self._grants.check("list", path))
        return [_describe_entry(info) for info in found]

    def list_files(self, path: str) -> Iterator[str]:
        """The paths of all files below a folder, however many there are."""
        for _, chain in self._walk(path, _MAX_DEPTH):
            if not chain[-1].is_folder:
                yield _join(path, chain)

    def info(self, path: str) -> dict[str, Any]:
        """What is known of a file or a folder."""
        return {"path": path, **_describe_entry(self._files.info(self._grants.check("list", path)))}

    def tree(self, path: str, depth: int = 3) -> str:
        """What is in a folder and in the folders in it, indented."""
        if not 1 <= depth <= _MAX_DEPTH:
            raise ValueError(f"depth is 1 to {_MAX_DEPTH}")
        lines: list[str] = []
        for level, info in self._walk(path, depth):
            if len(lines) == _MAX_ENTRIES:
                lines.append(f"[truncated after {_MAX_ENTRIES:,} entries]")
                break
            lines.append(f"{'  ' * level}{info[-1].name}{'/' if info[-1].is_folder else ''}")
        return "\n".join(lines)

    def find(self, pattern: str, path: str = "/") -> list[str]:
        """The paths of files whose name matches a pattern such as `*.md`."""
        return [each for each in self.list_files(path) if _matches_name(each, pattern)]

    def search(self, text: str, path: str = "/", ignore_case: bool = False) -> list[dict[str, Any]]:
        """The lines of files in which a text stands; a last entry says what was not searched."""
        if not text:
            raise ValueError("text is empty. Say what to look for.")
        wanted = text.casefold() if ignore_case else text
        found: list[dict[str, Any]] = []
        large, budget = 0, _MAX_SEARCHED
        for _, chain in self._walk(path, _MAX_DEPTH):
            size = chain[-1].size
            if chain[-1].is_folder or size > self._largest:
                large += not chain[-1].is_folder
                continue
            if len(found) >= _MAX_MATCHES or size > budget:
                return [*found[:_MAX_MATCHES], {"note": _STOPPED.format(len(found))}]
            budget -= size
            found += self._find_matches(_join(path, chain), wanted, ignore_case)
        if len(found) > _MAX_MATCHES:
            return [*found[:_MAX_MATCHES], {"note": _STOPPED.format(_MAX_MATCHES)}]
        note = f"Files with more than {self._largest:,} bytes were not searched: {large:,}."
        return [*found, {"note": note}] if large else found

    def allows(self, operation: str, path: str) -> bool:
        """Whether "list", "read", "write" or "delete" is granted for a path."""
        return self._grants.allows(operation, path)

    def find_disk_folder(self, path: str) -> str | None:
        """The path of a folder on this machine's disk, made if missing; None if it has none."""
        names = self._grants.check("list", path)
        if not isinstance(self._files, DiskFiles):
            return None
        self._files.make_folder(names)
        return os.path.join(self._files.root, *names)

    def describe(self) -> str:
        """What is granted, in words."""
        return self._grants.describe()

    def _find_matches(self, path: str, wanted: str, ignore_case: bool) -> Iterator[dict[str, Any]]:
        try:
            text = self.read_text(path)
        except FileError:
            # It is not text, is not granted, or has gone meanwhile.
            return
        for number, line in enumerate(text.splitlines(), start=1):
            if wanted in (line.casefold() if ignore_case else line):
                yield {"path": path, "line": number, "text": line[:_MAX_LINE]}

    def _walk(self, path: str, depth: int) -> Iterator[tuple[int, list[FileInfo]]]:
        """Everything below a folder that may be listed, with its level and the way to it."""
        if path == "/":
            yield from self._walk_granted(depth)
            return
        yield from self._walk_below(self._grants.check("list", path), [], depth)

    def _walk_granted(self, depth: int) -> Iterator[tuple[int, list[FileInfo]]]:
        """Everything in all folders that may be listed, with the folders on the way to them."""
        shown: set[Names] = set()
        for names in self._grants.listed_folders:
            above = [FileInfo(name, True) for name in names]
            for count in range(1, min(len(names), depth) + 1):
                if names[:count] not in shown:
                    shown.add(names[:count])
                    yield count - 1, above[:count]
            yield from self._walk_below(names, above, depth - len(names))

    def _walk_below(
        self, names: Names, above: list[FileInfo], depth: int
    ) -> Iterator[tuple[int, list[FileInfo]]]:
        if depth < 1:
            return
        try:
            inside = self._files.list_folder(names)
        except FileError:
            if not above:
                raise
            # It has gone meanwhile.
            return
        for info in inside:
            chain = [*above, info]
            yield len(above), chain
            if info.is_folder:
                yield from self._walk_below((*names, info.name), chain, depth - 1)

    def _check_size(self, path: str, content: bytes) -> None:
        if len(content) > self._largest:
            raise UnfitFile(path, f"would be larger than {self._largest:,} bytes")


def _matches_name(path: str, pattern: str) -> bool:
    return fnmatchcase(path.rpartition("/")[2], pattern)


def _decode(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        reason = f"is not text in UTF-8 ({len(content):,} bytes)"
        raise UnfitFile(path, reason) from None


def _replace_once(path: str, text: str, old: str, new: str) -> str:
    if not old:
        raise ValueError("the text to replace is empty")
    at = text.find(old)
    # Two matches may overlap. More of them are not counted, which would take very long for some.
    if at < 0 or text.find(old, at + 1) >= 0:
        found = "does not hold the text to replace" if at < 0 else "holds it more than once"
        hint = "Read the file again." if at < 0 else "Give more of what is around it."
        raise UnfitFile(path, f"{found}. {hint}")
    return text[:at] + new + text[at + len(old) :]


def _describe_entry(info: FileInfo) -> dict[str, Any]:
    if info.is_folder:
        return {"name": info.name, "folder": True}
    return {"name": info.name, "bytes": info.size}


def _join(path: str, chain: list[FileInfo]) -> str:
    return f"{path.rstrip('/')}/{'/'.join(each.name for each in chain)}"
