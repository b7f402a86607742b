"""The values that programs read: an artifact, an item of a list, a version, a change."""

from dataclasses import dataclass
from urllib.parse import quote, unquote

_SCHEME = "artifact://"
# No version number is longer.
_MOST_DIGITS = 15


def format_handle(id: str, version: int) -> str:
    """`artifact://id@version`, whatever characters are in the id."""
    return f"{_SCHEME}{quote(id, safe='', errors='surrogatepass')}@{version}"


def parse_handle(reference: str) -> tuple[str, int | None]:
    """The id and the version of a handle, or of a bare id; no version means the current one."""
    if not reference.startswith(_SCHEME):
        return reference, None
    address = reference.removeprefix(_SCHEME)
    id, at, digits = address.rpartition("@")
    if not (at and digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        id, digits = address, ""
    try:
        return unquote(id, errors="surrogatepass"), int(digits) if digits else None
    except UnicodeDecodeError:
        raise ValueError(f"{reference!r} is no handle: its id is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact, with its text.

    `kind` is how the version came about: `create`, `update`, `update_fuzzy` or
    `rewrite`. `at` is when, in seconds since the epoch, and `by` who made it. `untrusted` says
    that the text came from outside.
    """

    id: str
    version: int
    content: str
    title: str | None
    content_type: str
    session: str | None
    kind: str
    at: float
    by: str | None
    untrusted: bool = False

    @property
    def handle(self) -> str:
        """The address of this version."""
        return format_handle(self.id, self.version)


@dataclass(frozen=True, slots=True)
class Head:
    """An artifact in a list, without its text; `version` is the current one."""

    id: str
    version: int
    title: str | None
    content_type: str
    session: str | None
    created_at: float
    changed_at: float

    @property
    def handle(self) -> str:
        """The address of the current version."""
        return format_handle(self.id, self.version)


@dataclass(frozen=True, slots=True)
class Version:
    """One line of an artifact's history; `size` is in characters."""

    version: int
    kind: str
    size: int
    at: float
    by: str | None
    similarity: float | None


@dataclass(frozen=True, slots=True)
class ArtifactEdit:
    """What a change did: the version it made, and for an update what it replaced.

    `similarity` is 1 if the passage was there word for word.
    """

    id: str
    version: int
    kind: str
    similarity: float = 1.0
    matched: str | None = None

    @property
    def handle(self) -> str:
        """The address of the version that was made."""
        return format_handle(self.id, self.version)
