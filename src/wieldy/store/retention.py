"""How much of the past a store keeps."""

from dataclasses import dataclass, fields

_MAX_COUNT = 10**15


@dataclass(frozen=True, slots=True)
class Retention:
    """What a store keeps; None is no bound.

    Calls that are pending, approved, started or of unknown end are always kept. A process without
    any bound removes nothing.

    Attributes:
        days: How long calls are kept after their end, sessions after their last message, and
            artifacts after their last change.
        calls: How many of the newest calls the whole store keeps.
        messages: How many of the newest messages each session keeps.
        versions: How many of the newest versions each artifact keeps.

    Raises:
        ValueError: A bound is not a number above 0.

    Example:
        `Toolbox(store="sqlite:///wieldy.db", retention=Retention(days=30))`
    """

    days: float | None = 90
    calls: int | None = 1_000_000
    messages: int | None = 100_000
    versions: int | None = 1_000

    @classmethod
    def unbounded(cls) -> "Retention":
        """No bound at all, for a process that only reads a store that others prune."""
        return cls(days=None, calls=None, messages=None, versions=None)

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if bound is None:
                continue
            number = type(bound) is int or (field.name == "days" and type(bound) is float)
            if not number or not 0 < bound < _MAX_COUNT:
                raise ValueError(f"{field.name} must be a number above 0 or None, not {bound!r}")
