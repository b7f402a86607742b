"""The values that programs read: an artifact, an item of a list, a version, a change."""

from dataclasses import dataclass

from wieldy.core.limits.handles import format_handle


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
