"""Run the same programs on an original library and on the dialect, and show where they differ.

    python examples/compare/compare.py [agently] [agentscope] [sage] [--check]

The originals are installed from PyPI into environments of their own, in a cache
folder, as the locks in requirements/ say. `--check` fails unless the differences are
exactly those that the pages in docs/ list.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The package of each original.
ORIGINALS = {"agently": "agently", "agentscope": "agentscope", "sage": "isage-agentic"}
# The programs of an original, where there are others than the one named after it.
PROGRAMS = {"agently": ["agently", "agently_agent", "agently_extensions"]}
MINUTES = 10


def python_of(name: str) -> Path:
    """The interpreter of the environment with an original in it; made when first needed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "wieldy" / f"compare-{name}"
    make = [sys.executable, str(ROOT / "scripts" / "make-environment"), str(folder)]
    subprocess.run([*make, str(lock_of(name))], check=True, timeout=60 * MINUTES)
    return folder / "bin" / "python"


def lock_of(name: str) -> Path:
    """The packages of an original's environment."""
    return ROOT / "requirements" / f"judges-{name}.txt"


def release_of(name: str) -> str:
    """The package of an original and its version, as the lock has them."""
    pinned = re.search(rf"^{ORIGINALS[name]}==(\S+)", lock_of(name).read_text(), re.MULTILINE)
    assert pinned
    return f"{ORIGINALS[name]} {pinned[1]}"


def results(python: Path, name: str, side: str) -> dict[str, str]:
    """What came of each step of all programs."""
    found: dict[str, str] = {}
    for program in PROGRAMS.get(name, [name]):
        found |= run_program(python, HERE / f"{program}_program.py", side)
    return found


def run_program(python: Path, program: Path, side: str) -> dict[str, str]:
    """What came of each step of one program."""
    done = subprocess.run(
        [python, "-W", "ignore", program, side],
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
        cwd=HERE,
    )
    if done.returncode:
        raise SystemExit(f"{program.name} failed on the side of {side}:\n{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    return dict(json.loads(line) for line in lines)


def compare(name: str) -> list[str]:
    """Print both sides' results where they differ; gives the names of those steps."""
    original = results(python_of(name), name, "original")
    ours = results(Path(sys.executable), name, "wieldy")
    if original.keys() != ours.keys():
        raise SystemExit(f"{name}: the two sides ran different steps")
    different = [step for step in original if original[step] != ours[step]]
    print(f"\n{name}: {len(original)} steps, {len(original) - len(different)} the same")
    for step in different:
        print(f"\n  {step}\n    original  {original[step]}\n    wieldy    {ours[step]}")
    return different


def listed(name: str) -> list[str]:
    """The steps that the page of a dialect lists as different."""
    text = (ROOT / "docs" / f"from-{name}.md").read_text(encoding="utf-8")
    table = text.partition("<!-- differences -->")[2].partition("<!-- end -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return [row.split("|")[1].strip() for row in rows]


def main(arguments: list[str]) -> int:
    """Compare what was asked for; 1 if a page is not true."""
    names = [each for each in arguments if each in ORIGINALS] or ORIGINALS
    untrue = 0
    for name in names:
        different = compare(name)
        if "--check" in arguments and set(different) != set(listed(name)):
            print(f"\n{name}: the page lists {sorted(set(listed(name)) ^ set(different))} wrongly")
            untrue = 1
    return untrue


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
