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


# The error that each becomes, and the word that tells it apart in the text.
_KINDS: dict[type[FileError], tuple[type[FileSystemError], str]] = {
    InvalidPath: (InvalidPathError, "InvalidPath"),
    AccessDenied: (AccessDeniedError, "AccessDenied"),
    FileNotThere: (NotFoundError, "NotFound"),
    FileExists: (ConflictError, "AlreadyExists"),
}
_OTHERS = InvalidArgumentError, "InvalidFile"


@contextmanager
def in_their_words() -> Iterator[None]:
    """Raise what the file service raises as AgentScope's own errors."""
    try:
        yield
    except FileError as error:
        kind, word = _KINDS.get(type(error), _OTHERS)
        raise kind(f"{word}: {error}") from error
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error
