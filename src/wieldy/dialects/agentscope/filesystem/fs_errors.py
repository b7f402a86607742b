"""The errors of the file system under the names that AgentScope has for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from wieldy.tools.files.file_errors import (
    AccessDenied,
    FileError,
    FileExists,
    FileNotThere,
    InvalidPath,
)


class FileSystemError(Exception):
    """Something that the file system refuses."""


class InvalidPathError(FileSystemError):
    """The path names no file."""


class InvalidArgumentError(FileSystemError):
    """An argument makes no sense."""


class AccessDeniedError(FileSystemError):
    """The path is not granted for this."""


class NotFoundError(FileSystemError):
    """There is no such file."""


class ConflictError(FileSystemError):
    """Something that exists already is in the way."""


_KINDS: dict[type[FileError], type[FileSystemError]] = {
    InvalidPath: InvalidPathError,
    AccessDenied: AccessDeniedError,
    FileNotThere: NotFoundError,
    FileExists: ConflictError,
}


@contextmanager
def in_their_words() -> Iterator[None]:
    """Raise what the file service raises as AgentScope's own errors."""
    try:
        yield
    except FileError as error:
        kind = _KINDS.get(type(error), InvalidArgumentError)
        raise kind(str(error)) from error
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error
