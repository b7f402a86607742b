"""How much to measure: everything for a table, next to nothing for a test."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """A share of the full counts and rounds."""

    share: float = 1.0

    def count(self, full: int) -> int:
        """So many of something, at least one."""
        return max(1, round(full * self.share))

    def rounds(self, full: int) -> int:
        """So many repetitions; a noisy machine may ask for more than the full number."""
        return max(1, round(full * self.share))
