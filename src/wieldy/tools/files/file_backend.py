"""The interface of a place for files."""

from dataclasses import dataclass
from typing import Protocol

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a folder says of something in it."""

    name: str
    is_folder: bool
    size: int = 0
    changed_at: float = 0.0


class FileBackend(Protocol):
    """A tree of files. Names come as they were checked; nothing leads out of the tree.

    All methods raise the errors of `file_errors`.
    """

    def read(self, names: Names, largest: int) -> bytes:
        """The content of a file that is no larger than this."""

    def write(self, names: Names, content: bytes) -> bool:
        """Put a file there, whole or not at all; whether it is new."""

    def replace(self, names: Names, before: bytes, after: bytes) -> bool:
        """Write a file if its content is still what it was; whether it was."""

    def delete(self, names: Names) -> None:
        """Remove a file, or an empty folder."""

    def move(self, source: Names, target: Names) -> None:
        """Move a file to where nothing is."""

    def list_folder(self, names: Names) -> list[FileInfo]:
        """What is in a folder, by name."""

    def info(self, names: Names) -> FileInfo:
        """What is known of a file or a folder."""
