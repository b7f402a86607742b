"""Records of how a schema was changed for a provider."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference between a tool's schema and the form that a provider gets.

    `lost` means that the provider no longer enforces the keyword, or that a value can no
    longer be sent. Other changes only look different and are undone when a call arrives. A
    constraint that is lost is still checked when the call runs.
    """

    path: str
    keyword: str
    what: str
    why: str
    lost: bool

    def __str__(self) -> str:
        mark = "lost" if self.lost else "changed"
        return f"{self.path or 'arguments'}: {mark}: {self.keyword} {self.what} ({self.why})"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A schema in the form that a provider accepts, and its differences from the tool's own.

    `strict` says whether the provider can enforce it.
    """

    schema: dict[str, Any]
    changes: tuple[SchemaChange, ...] = ()
    strict: bool = False

    @property
    def lost(self) -> tuple[SchemaChange, ...]:
        """The changes that are not undone when a call arrives."""
        return tuple(change for change in self.changes if change.lost)
