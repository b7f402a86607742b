"""Totals of columns."""

from collections.abc import Iterable
from decimal import Decimal


def add_numbers(values: Iterable[str]) -> Decimal:
    """The sum of numbers, rounded after they were added."""
    return sum(map(Decimal, values), Decimal()).quantize(Decimal("0.01"))
