"""Run each example as its reader would, and compare what it prints with what it says it prints."""

import os
from pathlib import Path

import pytest

from tests.forking.launch_files import run_script

# They serve until somebody ends them; tests/server/console/test_example.py is their test.
SERVED = {"console", "word_server"}
NEEDS_SANDBOX = pytest.mark.needs("the sandbox")
# They run code in it.
SANDBOXED = {"code_in_a_sandbox", "skill_scripts"}
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples").glob("*.py")
    if path.stem not in SERVED
)


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=NEEDS_SANDBOX if path.stem in SANDBOXED else ())
        for path in EXAMPLES
    ],
)
def test_the_example_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()
    expected = [line.removeprefix("# > ") for line in lines if line.startswith("# > ")]

    done = run_script(example, tmp_path, {**os.environ, "PYTHONWARNINGS": "error"}, 120)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == expected != []
