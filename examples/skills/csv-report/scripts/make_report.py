"""Sum a column of a CSV file, and write a report from the template of this skill."""

import csv
import sys
from pathlib import Path

from parts.totals import add_numbers

TEMPLATE = Path(__file__).parents[1] / "assets" / "template.md"


def main(file: str, column: str) -> None:
    with open(file, encoding="utf-8", newline="") as lines:
        values = [row[column] for row in csv.DictReader(lines)]
    report = TEMPLATE.read_text(encoding="utf-8")
    report = report.format(column=column, rows=len(values), total=add_numbers(values))
    Path("report.md").write_text(report, encoding="utf-8")
    sys.stdout.write(report)


if __name__ == "__main__":
    main(*sys.argv[1:])
