"""Show tables: as text on a terminal, as Markdown on a page."""

from collections.abc import Collection, Sequence

from .row import Row

Line = Sequence[str]


def lines_of(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The cells of measured rows under their headings."""
    headings = ("what", "ours", "reference", "which is", "figure", "target", "")
    return [headings, *(_cells(row) for row in rows)]


def text(lines: Sequence[Line], left: Collection[int]) -> str:
    """A table for the terminal; the columns in `left` start at their left edge."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_aligned(line, widths, left) for line in lines)


def markdown(lines: Sequence[Line], left: Collection[int]) -> str:
    """The same table for a page."""
    first, *rest = lines
    rule = ["---" if place in left else "--:" for place in range(len(first))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (first, rule, *rest))


def number(value: float) -> str:
    """About three digits that count."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {True: "met", False: "missed", None: ""}[row.met]
    # A figure is shown with one digit more than its target, so that a near miss shows as one.
    figure = f"{row.figure:.3f}" if row.figure < 2 else f"{row.figure:.2f}"
    return (
        row.name,
        f"{number(row.ours)} {row.unit}",
        f"{number(row.reference)} {row.unit}",
        row.against,
        f"{figure} {row.sign}",
        "" if row.target is None else f"≤ {row.target:g} {row.sign}",
        verdict,
    )


def _aligned(cells: Line, widths: Sequence[int], left: Collection[int]) -> str:
    padded = (
        cell.ljust(width) if place in left else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()
