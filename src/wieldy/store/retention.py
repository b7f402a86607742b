"""How much of the past a store keeps."""

from dataclasses import dataclass, fields

_MOST = 10**15


@dataclass(frozen=True, slots=True)
class Retention:
    """What a store keeps; None is no bound.

    `days` is how long calls stay after their end, sessions after their last message,
    and artifacts after their last change. `calls` are the newest calls of the whole
    store, `messages` the newest of each session, `versions` the newest of each
    artifact. What is pending, approved, started or unknown always stays.
    Without any bound a process removes nothing by itself, and leaves that to others.
    """

    days: float | None = 90
    calls: int | None = 1_000_000
    messages: int | None = 100_000
    versions: int | None = 1_000

    @classmethod
    def unbounded(cls) -> "Retention":
        """No bound at all: for who only looks at a store that others keep."""
        return cls(days=None, calls=None, messages=None, versions=None)

    def __post_init__(self) -> None:
        for field in fields(self):
            bound = getattr(self, field.name)
            if bound is None:
                continue
            number = type(bound) is int or (field.name == "days" and type(bound) is float)
            if not number or not 0 < bound < _MOST:
                raise ValueError(f"{field.name} must be a number above 0 or None, not {bound!r}")
