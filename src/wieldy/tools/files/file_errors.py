"""Why a file was not read or written: `FileError` and its kinds."""

from wieldy.core.errors import WieldyError


class FileError(WieldyError):
    """A file could not be read or written.

    Attributes:
        path: The file or folder.
        reason: Why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path!r:.300} {reason}")
        self.path = path
        self.reason = reason


class InvalidPath(FileError):
    """The path is not one that names a file here, whatever is granted."""


class AccessDenied(FileError):
    """The path is not granted for this, or would lead out of what is granted."""


class FileNotThere(FileError):
    """There is no such file or folder."""


class FileExists(FileError):
    """There is something already where a new file should be."""


class UnfitFile(FileError):
    """The file is not what it would have to be: text, small enough, or a folder."""


class FileBusy(FileError):
    """Others use the file all the time; it can be tried again."""
