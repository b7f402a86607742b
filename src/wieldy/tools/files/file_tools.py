"""The file tools, and how they are added to a toolbox."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field

from wieldy.core.context import Context
from wieldy.core.tool import Permission, Tool
from wieldy.toolbox import Toolbox

from .disk_files import DiskFiles
from .file_grants import Grant, read_grants
from .file_service import FileService

_MAX_FILES = 50
_MAX_EDITS = 500
_MAX_SHOWN = 1_000


class TextEdit(BaseModel):
    """A passage that stands in the file exactly once, and what takes its place."""

    old_text: str
    new_text: str


def add_file_tools(
    box: Toolbox,
    root: str | os.PathLike[str] | FileService,
    grants: Mapping[str, Iterable[str]] | Iterable[Grant] | None = None,
) -> list[Tool]:
    """Add tools that read and write files below a folder.

    Reading runs without asking; writing, moving and deleting ask first.

    Args:
        box: The toolbox that gets them.
        root: The folder, or a `FileService` for files that are elsewhere.
        grants: What is granted: `{"/workspace/": ["list", "read", "write"]}`, or `Grant`s.
            Without them `/userinput/` can be read, `/workspace/` is free, and in
            `/internal/` nothing is deleted.

    Returns:
        The tools.

    Example:
        `add_file_tools(box, "project", {"/docs/": ["list", "read"]})`
    """
    if isinstance(root, FileService):
        if grants is not None:
            raise ValueError("The service has grants already: give them to FileService(…).")
        service = root
    else:
        files, granted = DiskFiles(root), read_grants(grants)
        for folder in granted.folders:
            files.make_folder(folder)
        service = FileService(files, granted)
    tools = _FileTools(service)
    reading: dict[str, Any] = {"read_only": True}
    writing: dict[str, Any] = {"permission": Permission.CONFIRM, "destructive": True}
    return [
        box.add(tools.read_file, "read_file", **reading),
        box.add(tools.read_files, "read_files", **reading),
        box.add(tools.write_file, "write_file", **writing),
        box.add(tools.edit_file, "edit_file", **writing),
        box.add(tools.delete_file, "delete_file", **writing),
        box.add(tools.move_file, "move_file", **writing),
        box.add(tools.list_directory, "list_directory", **reading),
        box.add(tools.tree, "tree", **reading),
        box.add(tools.find_files, "find_files", **reading),
        box.add(tools.search_text, "search_text", **reading),
        box.add(tools.describe_permissions, "describe_permissions", **reading),
    ]


class _FileTools:
    """The tools as a model sees them. They block, so the engine runs them on threads."""

    def __init__(self, service: FileService) -> None:
        self._service = service

    def read_file(
        self,
        path: str,
        start: Annotated[int, Field(ge=1)] = 1,
        count: Annotated[int, Field(ge=1)] | None = None,
        *,
        context: Context,
    ) -> dict[str, Any]:
        """Read a text file, or some of its lines.

        Args:
            path: the file, such as /workspace/notes.md
            start: the first line, counted from 1
            count: how many lines; all if not given
        """
        self._mark(context, [path])
        return self._service.read_lines(path, start, count)

    def read_files(
        self,
        paths: Annotated[list[str], Field(min_length=1, max_length=_MAX_FILES)],
        context: Context,
    ) -> list[dict[str, Any]]:
        """Read several text files; one that can't be read has an error in its place.

        Args:
            paths: the files
        """
        self._mark(context, paths)
        return self._service.read_many(paths)

    def write_file(self, path: str, content: str) -> dict[str, Any]:
        """Write a text file; one that is there is replaced.

        Args:
            path: the file, such as /workspace/notes.md
            content: its whole text
        """
        return self._service.write(path, content)

    def edit_file(
        self,
        path: str,
        edits: Annotated[list[TextEdit], Field(min_length=1, max_length=_MAX_EDITS)],
    ) -> dict[str, Any]:
        """Replace passages of a text file. Each must stand there exactly once.

        Args:
            path: the file
            edits: what is replaced by what, one after the other
        """
        return self._service.edit(path, [(each.old_text, each.new_text) for each in edits])

    def delete_file(self, path: str) -> dict[str, Any]:
        """Delete a file, or an empty folder.

        Args:
            path: the file
        """
        return self._service.delete(path)

    def move_file(self, source: str, target: str) -> dict[str, Any]:
        """Move or rename a file; nothing may be where it goes.

        Args:
            source: the file
            target: its new path
        """
        return self._service.move(source, target)

    def list_directory(self, context: Context, path: str = "/") -> list[dict[str, Any]]:
        """List a folder.

        Args:
            path: the folder; / lists the folders that are granted
        """
        self._mark(context, [path])
        found = self._service.list_folder(path)
        more = len(found) - _MAX_SHOWN
        return found if more <= 0 else [*found[:_MAX_SHOWN], {"note": f"{more:,} more"}]

    def tree(
        self, context: Context, path: str = "/", depth: Annotated[int, Field(ge=1, le=30)] = 3
    ) -> str:
        """Show the folders and files below a folder, indented.

        Args:
            path: the folder
            depth: how many levels
        """
        if self._service.shows_untrusted(path):
            context.mark_untrusted()
        return self._service.tree(path, depth)

    def find_files(self, pattern: str, context: Context, path: str = "/") -> list[str]:
        """Find files by name.

        Args:
            pattern: a name with wildcards, such as *.md
            path: the folder to look in
        """
        found = self._service.find(pattern, path)
        shown, more = found[:_MAX_SHOWN], len(found) - _MAX_SHOWN
        self._mark(context, shown)
        return shown if more <= 0 else [*shown, f"[{more:,} more]"]

    def search_text(
        self, text: str, context: Context, path: str = "/", ignore_case: bool = False
    ) -> list[dict[str, Any]]:
        """Find lines of files that hold a text.

        Args:
            text: what to look for, word for word
            path: the folder to look in
            ignore_case: whether capitals and small letters are the same
        """
        found = self._service.search(text, path, ignore_case)
        self._mark(context, [str(each.get("path", "")) for each in found])
        return found

    def describe_permissions(self) -> str:
        """Say what may be done in which folder."""
        return self._service.describe()

    def _mark(self, context: Context, paths: Iterable[str]) -> None:
        """Say so if one of the paths leads to what somebody brought from outside."""
        if any(self._service.is_untrusted(path) for path in paths):
            context.mark_untrusted()
