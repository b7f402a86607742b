"""Print wieldy beside other libraries: `python -m bench.peers [--env FOLDER] [--write]`."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from time import monotonic

from bench.page import circumstances, write
from bench.table import markdown, number, text

from .peer import FOLDER, PEERS, Finding, Peer, measure, prepare_folder, probed

COLUMNS = {
    "import": "import",
    "memory": "MB",
    "schema": "schema",
    "call": "call",
    "sync": "sync call",
    "concurrent": "1,000 at once",
    "blocking": "200 blocking",
    "round": "agent round, µs",
}


def main(arguments: list[str] | None = None) -> int:
    """Measure each library that was asked for and show all of them."""
    options = _parse(arguments)
    started = monotonic()
    folder = prepare_folder(options.env)
    findings = [_ourselves()]
    for peer in options.peers:
        print(f"measuring {peer.name} ...", file=sys.stderr, flush=True)
        if monotonic() - started > options.seconds:
            findings.append(Finding(peer.name, "", failure="no time left"))
        else:
            findings.append(measure(peer, folder))
    lines = lines_of_findings(findings)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print(f"{circumstances()}\n\n{text(lines, left=(0, 1))}")
    if options.write:
        write("peers", markdown(lines, left=(0, 1)))
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure peers.")
    parser.add_argument(
        "--env", type=Path, default=FOLDER, help="the folder for their environments"
    )
    parser.add_argument("--peers", type=_peers, default=PEERS, help="some of them, by name")
    parser.add_argument("--seconds", type=float, default=480, help="start none after this long")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="also rewrite docs/performance.md")
    return parser.parse_args(arguments)


def _peers(given: str) -> list[Peer]:
    known = {peer.name: peer for peer in PEERS}
    for name in given.split(","):
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no {name!r}; there are {', '.join(known)}")
    return [known[name] for name in given.split(",")]


def _ourselves() -> Finding:
    figures = probed(sys.executable, "import wieldy", "wieldy_box")
    return Finding("wieldy", version("wieldy"), figures)


def lines_of_findings(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """The cells of all libraries under their headings."""
    lines: list[tuple[str, ...]] = [("library", "version", *COLUMNS.values())]
    for finding in findings:
        figures = finding.figures
        cells = [number(figures[name]) if name in figures else "-" for name in COLUMNS]
        failure = f" ({finding.failure})" if finding.failure else ""
        lines.append((finding.name + failure, finding.version, *cells))
    return lines


if __name__ == "__main__":
    sys.exit(main())
