"""A handle: what one holder may do with the files of a file system."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.outside.admission import mark_current_call
from wieldy.tools.files.file_backend import FileBackend
from wieldy.tools.files.file_grants import Grant, Grants, make_grant, split_path
from wieldy.tools.files.file_service import FileService

from .fs_errors import AccessDeniedError, InvalidArgumentError, in_their_words

_CHANGES = ("write", "delete")
GrantGiven = Mapping[str, Any]
_Entries = list[dict[str, Any]]
_Texts = list[str]
# AgentScope's name of an operation: the file service's name, and the words for people.
_OPERATIONS = {
    "list": ("list", "ls"),
    "file": ("list", "stat"),
    "read_binary": ("read", "read"),
    "read_file": ("read", "read"),
    "read_re": ("read", "read"),
    "read": ("read", "read"),
    "write": ("write", "write"),
    "delete": ("delete", "delete"),
}
_MAX_MATCHES = 10_000


def validate_path(path: str) -> str:
    """The path as it is, if it names a file; `InvalidPathError` otherwise."""
    with in_their_words():
        split_path(path)
    return path


class FsHandle:
    """Files of a file system, as far as they are granted."""

    def __init__(self, files: FileBackend, grants: Iterable[GrantGiven]) -> None:
        self._given = [_read_grant(each) for each in grants]
        with in_their_words():
            allowed = Grants(_make_grant(prefix, names) for prefix, names in self._given)
        self._service = FileService(files, allowed, max_bytes=50_000_000)

    def list(self, path: str) -> _Entries:
        """What is in a folder."""
        self._require_grant("list", path)
        with in_their_words():
            return self._service.list_folder(path)

    def file(self, path: str) -> dict[str, Any]:
        """What is known of a file."""
        self._require_grant("file", path)
        with in_their_words():
            return self._service.info(path)

    def read_binary(self, path: str) -> bytes:
        """The bytes of a file."""
        self._require_grant("read_binary", path)
        with in_their_words():
            return self._service.read_bytes(path)

    def read_file(self, path: str, index: int | None = None, line: int | None = None) -> str:
        """The text of a file, or `line` lines of it from line `index` on, counted from 0."""
        self._require_grant("read_file", path)
        if (index is not None and index < 0) or (line is not None and line < 1):
            raise InvalidArgumentError("index is 0 or more, and line is 1 or more")
        with in_their_words():
            text = self._service.read_text(path)
        if index is None and line is None:
            return text
        lines, first = text.splitlines(), index or 0
        return "\n".join(lines[first:] if line is None else lines[first : first + line])

    def read_re(self, path: str, pattern: str, overlap: int | None = None) -> _Texts:
        """The passages of a file that match; the next may begin `overlap` characters earlier."""
        self._require_grant("read_re", path)
        if overlap is not None and overlap < 0:
            raise InvalidArgumentError("overlap is 0 or more")
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise InvalidArgumentError(f"the pattern can't be read: {error}") from error
        with in_their_words():
            text = self._service.read_text(path)
        found: _Texts = []
        at = 0
        while len(found) < _MAX_MATCHES and (match := compiled.search(text, at)) is not None:
            found.append(match[0])
            at = max(match.end() - (overlap or 0), match.start() + 1)
        return found

    def write(self, path: str, data: str | bytes) -> dict[str, Any]:
        """Put a file there."""
        self._require_grant("write", path)
        if not isinstance(data, str | bytes | bytearray):
            kind = type(data).__name__
            raise InvalidArgumentError(f"a file holds text or bytes, not {kind}")
        with in_their_words():
            return self._service.write(path, data if isinstance(data, str) else bytes(data))

    def delete(self, path: str) -> None:
        """Remove a file."""
        self._require_grant("delete", path)
        with in_their_words():
            self._service.delete(path)

    def edit(self, path: str, edits: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Replace passages, each of which stands there once."""
        self._require_grant("write", path)
        with in_their_words():
            return self._service.edit(path, edits)

    def search(self, path: str, pattern: str) -> _Texts:
        """The paths of files whose name matches a pattern such as `*.md`."""
        self._require_grant("list", path)
        with in_their_words():
            return self._service.find(pattern, path)

    @property
    def prefixes(self) -> _Texts:
        """The folders for which something is granted."""
        return [prefix for prefix, _ in self._given]

    def describe_grants_markdown(self) -> str:
        """What is granted, a line for each folder."""
        lines = []
        for prefix, names in self._given:
            shown = dict.fromkeys(_OPERATIONS[name][1] for name in _OPERATIONS if name in names)
            lines.append(f"{prefix}: {', '.join(shown)}")
        return "\n".join(lines)

    def _require_grant(self, operation: str, path: str) -> None:
        """Refuse what is not granted by AgentScope's own names, which are finer than ours."""
        validate_path(path)
        whole = path if path.endswith("/") else f"{path}/"
        for prefix, names in self._given:
            if (path.startswith(prefix) or whole == prefix) and operation in names:
                if operation not in _CHANGES and self._service.shows_untrusted(path):
                    mark_current_call()
                return
        raise AccessDeniedError(f"AccessDenied: {path!r:.300} is not granted for {operation}")


def _read_grant(given: GrantGiven) -> tuple[str, frozenset[str]]:
    try:
        prefix, names = given["prefix"], frozenset(given["ops"])
    except (KeyError, TypeError) as error:
        raise InvalidArgumentError("a grant is {'prefix': …, 'ops': {…}}") from error
    if "read" in names:
        # The short form has one word for all ways of reading, and none for looking at one file.
        names |= {"file", "read_binary", "read_file", "read_re"}
    unknown = names - _OPERATIONS.keys()
    if unknown:
        listed = ", ".join(sorted(map(str, unknown)))
        raise InvalidArgumentError(f"a grant has {', '.join(_OPERATIONS)}, not {listed}")
    validate_path(prefix)
    return prefix if prefix.endswith("/") else f"{prefix}/", names


def _make_grant(prefix: str, names: frozenset[str]) -> Grant:
    granted = {_OPERATIONS[name][0] for name in names}
    if "write" in granted:
        # An edit reads what it changes.
        granted.add("read")
    return make_grant(prefix, granted)
