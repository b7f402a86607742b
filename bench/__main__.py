"""Print the table: `python -m bench [--rows import,call] [--json] [--write]`."""

import argparse
import json
import sys

from .effort import Effort
from .page import circumstances, write
from .row import Row
from .rows import ROWS
from .table import lines_of, markdown, text

_LEFT = (0, 3, 6)


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and show it."""
    options = _parse(arguments)
    rows: list[Row] = []
    for name in options.rows:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += ROWS[name](Effort(options.effort))
    if options.json:
        print(json.dumps([row.to_dict() for row in rows], indent=2))
    else:
        missed = sum(row.met is False for row in rows)
        table = text(lines_of(rows), _LEFT)
        print(f"{circumstances()}\n\n{table}\n\n{missed} of {len(rows)} targets missed")
    if options.write:
        write("rows", markdown(lines_of(rows), _LEFT))
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure wieldy.")
    known = ", ".join(ROWS)
    parser.add_argument("--rows", type=_names, default=list(ROWS), help=f"some of: {known}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="also rewrite docs/performance.md")
    parser.add_argument("--effort", type=float, default=1.0, help="a share of the full counts")
    options = parser.parse_args(arguments)
    if options.write and (set(options.rows) != set(ROWS) or options.effort < 1):
        parser.error("--write needs all rows at full effort")
    return options


def _names(given: str) -> list[str]:
    names = given.split(",")
    for name in names:
        if name not in ROWS:
            raise argparse.ArgumentTypeError(
                f"there is no row {name!r}; there are {', '.join(ROWS)}"
            )
    return names


if __name__ == "__main__":
    sys.exit(main())
