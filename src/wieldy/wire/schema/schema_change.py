"""What became of a schema on its way to a provider."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One thing that a provider gets differently from how the tool says it.

    `lost` tells apart what no longer holds the model, or can no longer be sent,
    from what only looks different and is undone on the way back. What is lost
    is still checked when the call runs.
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
    """A schema as a provider takes it, and how it differs from the tool's own.

    `strict` says whether the provider may be asked to hold the model to it.
    """

    schema: dict[str, Any]
    changes: tuple[SchemaChange, ...] = ()
    strict: bool = False

    @property
    def lost(self) -> tuple[SchemaChange, ...]:
        """The changes that are not undone on the way back."""
        return tuple(change for change in self.changes if change.lost)
