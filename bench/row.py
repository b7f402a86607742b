"""One line of the table: a number of ours, its reference, and the target."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .effort import Effort

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, and whether it is good enough.

    `figure` is what the target limits: most often the ratio of ours to the
    reference, else an amount in `sign`. No target means that the row informs.
    """

    name: str
    ours: float
    reference: float
    unit: str
    against: str
    figure: float
    sign: str
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        return None if self.target is None else self.figure <= self.target

    def to_dict(self) -> dict[str, Any]:
        """The row for programs."""
        return {
            "name": self.name,
            "ours": self.ours,
            "reference": self.reference,
            "unit": self.unit,
            "against": self.against,
            "figure": self.figure,
            "sign": self.sign,
            "target": self.target,
            "met": self.met,
        }


Subject = Callable[[Effort], list[Row]]


def ratio(
    name: str, ours: float, reference: float, unit: str, against: str, target: float | None
) -> Row:
    """A row that asks how many times the reference we take."""
    return Row(name, ours, reference, unit, against, ours / reference, TIMES, target)


def amount(
    name: str, ours: float, reference: float, unit: str, against: str, target: float | None
) -> Row:
    """A row that asks how much we take, with the reference for comparison."""
    return Row(name, ours, reference, unit, against, ours, unit, target)


def excess(
    name: str, ours: float, reference: float, unit: str, against: str, target: float | None
) -> Row:
    """A row that asks how much more than the reference we take."""
    return Row(name, ours, reference, unit, against, ours - reference, f"{unit} more", target)
