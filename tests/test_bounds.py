"""Bounds on waiting: a busy machine must not miss one, and a person must see that tests go on."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("tests/**/*.py"))
# A test may watch for a moment that nothing happens, or try once more after a few seconds.
# Every other wait ends when something happens, and its bound only stops a test that hangs.
WATCHED = 5
PATIENT = 120
_WAITS = {"acquire", "get", "join", "result", "run", "timeout", "wait", "wait_for"}
_POSITIONAL = {"join": 0, "result": 0, "timeout": 0, "wait": 0, "wait_for": 1}


def read_bounds(source: str) -> Iterator[tuple[int, float]]:
    """The line and the seconds of each wait whose bound is written as a number or a constant."""
    tree = ast.parse(source)
    known = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            for bound in _bounds_of(node, node.func.attr):
                value = known.get(bound.id) if isinstance(bound, ast.Name) else bound
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                    yield node.lineno, value.value


def _bounds_of(call: ast.Call, name: str) -> Iterator[ast.expr]:
    if name not in _WAITS:
        return
    yield from (word.value for word in call.keywords if word.arg in ("timeout", "seconds"))
    if len(call.args) > (place := _POSITIONAL.get(name, len(call.args))):
        yield call.args[place]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_wait_has_a_bound_that_a_busy_machine_can_miss(path: Path) -> None:
    short = [
        f"line {line}: {seconds:g} s"
        for line, seconds in read_bounds(path.read_text(encoding="utf-8"))
        if WATCHED < seconds < PATIENT
    ]
    assert short == []


def test_bounds_are_read_from_numbers_and_constants() -> None:
    source = "SOON = 10.0\nwait_for(x, 7)\na.wait_for(x, SOON)\nb.run([], timeout=50)\nc.join(3)"
    assert [*read_bounds(source)] == [(3, 10.0), (4, 50), (5, 3)]


def test_make_test_says_what_it_is_doing() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENT,
        check=True,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("echo")]
    in_browser = "Checking types, and running the tests of the console in a browser"
    steps = ("Checking style", in_browser, "Running the other tests")
    assert said[-3:] == [f'echo "{words}"' for words in steps]
    # The line of dots is followed by the share of tests that have run.
    assert "--no-header" not in done.stdout
    assert "console_output_style" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
