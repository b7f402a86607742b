"""The service that the file tools work on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .fs_errors import FileSystemError, InvalidArgumentError
from .fs_handle import FsHandle


class FileDomainService:
    """What tools do with the files of a handle.

    Args:
        handle: The files, with what is granted.
    """

    def __init__(self, handle: FsHandle) -> None:
        self._handle = handle

    def read_text_file(
        self, path: str, start_line: int | None = None, read_lines: int | None = None
    ) -> str:
        """The text of a file, or `read_lines` lines of it from `start_line` on, counted from 1."""
        if start_line is not None and start_line < 1:
            raise InvalidArgumentError("start_line is 1 or more")
        index = None if start_line is None else start_line - 1
        return self._handle.read_file(path, index, read_lines)

    def read_multiple_files(self, paths: Iterable[str]) -> list[dict[str, Any]]:
        """The text of several files, each with its own error."""
        found: list[dict[str, Any]] = []
        for path in paths:
            try:
                found.append({"path": path, "ok": True, "content": self._handle.read_file(path)})
            except FileSystemError as error:
                found.append({"path": path, "ok": False, "error": str(error)})
        return found

    def write_file(self, path: str, content: str) -> dict[str, Any]:
        """Put a file there."""
        return self._handle.write(path, content)

    def edit_file(self, path: str, edits: Iterable[Mapping[str, str]]) -> dict[str, Any]:
        """Replace passages, one after the other: `[{"oldText": …, "newText": …}]`."""
        try:
            pairs = [(each["oldText"], each["newText"]) for each in edits]
        except (KeyError, TypeError) as error:
            raise InvalidArgumentError("an edit is {'oldText': …, 'newText': …}") from error
        return self._handle.edit(path, pairs)

    def delete_file(self, path: str) -> dict[str, Any]:
        """Remove a file."""
        self._handle.delete(path)
        return {"path": path, "deleted": True}

    def list_directory(self, path: str) -> list[dict[str, Any]]:
        """What is in a folder."""
        return self._handle.list(path)

    def search_files(self, path: str, pattern: str) -> list[str]:
        """The paths of files whose name matches a pattern such as `*.md`."""
        return self._handle.search(path, pattern)

    def get_file_info(self, path: str) -> dict[str, Any]:
        """What is known of a file."""
        return self._handle.file(path)

    def list_allowed_directories(self) -> list[str]:
        """The folders for which something is granted."""
        return self._handle.prefixes

    def describe_permissions_markdown(self) -> str:
        """What is granted, a line for each folder."""
        return self._handle.describe_grants_markdown()

    def tools(self) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
        """The tool functions, each with what `register_tool_function` takes beside it."""
        from .fs_tools import TOOLS  # noqa: PLC0415 - the tools name this class

        return [(function, {"preset_kwargs": {"service": self}}) for function in TOOLS]
