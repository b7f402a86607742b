"""The locks in `requirements/` are those of the ranges in `pyproject.toml`."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
_PIN = re.compile(r"^([^\s\\]+==[^\\\n]+)", re.MULTILINE)


def read_pins(name: str) -> dict[str, str]:
    """The version of each package that a lock gives to this Python."""
    lock = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    pins = [Requirement(line.strip()) for line in _PIN.findall(lock)]
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pins
        if pin.marker is None or pin.marker.evaluate()
    }


def read_ranges() -> list[Requirement]:
    """Everything that `pyproject.toml` names: what the package, its extras and the tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    texts = [text for part in named for text in part if isinstance(text, str)]
    ranges = [Requirement(text) for text in texts]
    return [
        each
        for each in ranges
        if each.name != "wieldy" and (each.marker is None or each.marker.evaluate())
    ]


@pytest.mark.parametrize("lock", ["dev.txt", "oldest.txt"])
def test_every_range_has_a_version_in_the_lock(lock: str) -> None:
    pins = read_pins(lock)

    outside = [
        str(each)
        for each in read_ranges()
        if not each.specifier.contains(pins.get(canonicalize_name(each.name), "0"), True)
    ]

    assert outside == [], f"requirements/{lock} is older than pyproject.toml: run make lock"


def test_the_oldest_lock_has_the_releases_that_the_ranges_begin_with() -> None:
    pins = read_pins("oldest.txt")
    bounds: dict[str, list[str]] = {}
    for each in read_ranges():
        lower = [one.version for one in each.specifier if one.operator == ">="]
        bounds.setdefault(canonicalize_name(each.name), []).extend(lower)

    # Nobody installs a release below a bound that another package raises.
    unlocked = {
        name: (versions, pins[name])
        for name, versions in bounds.items()
        if not any(f"{pins[name]}.".startswith(f"{version}.") for version in versions)
    }

    assert unlocked == {}, "lower or raise the bound to what is installed, then run make lock"


def test_what_differs_between_two_locks_is_printed(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("a==1 \\\n    --hash=sha256:0\nb[c]==1.0\nd==3 ; python_version < '3.15'\n")
    new.write_text("a==1 \\\n    --hash=sha256:1\nb[c]==2.0\ne==4\n")

    def compare(first: Path, second: Path) -> str:
        command = [sys.executable, str(ROOT / "scripts/compare-locks"), str(first), str(second)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout

    assert compare(old, new).splitlines()[1:] == [
        "  b: 1.0 -> 2.0",
        "  d: 3 -> not there",
        "  e: not there -> 4",
    ]
    assert compare(old, old) == f"The same as {old}\n"
