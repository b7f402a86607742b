"""What the tests do where something is refused, with warnings, and when one hangs or fails."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.waiting import alive

ROOT = Path(__file__).parents[1]
SECONDS = 240


def run_tests(folder: Path, source: str, *options: str, **variables: str) -> tuple[int, str]:
    """Run a test file of its own as the others are run; gives the status and what was printed."""
    file = folder / "test_it.py"
    file.write_text(source)
    settings = {name: value for name, value in os.environ.items() if name != "CI"}
    of_the_tests = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    alone = ["--rootdir", str(folder), "-p", "no:cacheprovider", "-n0"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *of_the_tests, *alone, *options, str(file)],
        cwd=ROOT,
        env={**settings, "WIELDY_TESTS_REFUSED": '{"mounts": "not\\npermitted"}', **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout


SKIPPING = {
    "needs": "@pytest.mark.needs('mounts')\ndef test_it(): ...",
    "skip": "def test_it(): pytest.skip('no moon tonight')",
    "skipif": "@pytest.mark.skipif(True, reason='no moon tonight')\ndef test_it(): ...",
    "fixture": (
        "@pytest.fixture\ndef moon(): pytest.skip('no moon tonight')\ndef test_it(moon): ..."
    ),
    "file": "pytest.importorskip('the_moon', reason='no moon tonight')\ndef test_it(): ...",
}


@pytest.mark.parametrize("way", SKIPPING)
def test_a_skipped_test_is_told_at_the_end_and_fails_in_ci(way: str, tmp_path: Path) -> None:
    source = f"import pytest\n{SKIPPING[way]}\ndef test_other(): ...\n"
    reason = "this machine refuses mounts (permitted); what allows it: in a container: --cap-add"
    reason = reason if way == "needs" else "no moon tonight"

    status, said = run_tests(tmp_path, source)
    # A file without tests is no success of pytest's.
    assert status == (5 if way == "file" else 0), said
    assert f"NOT RUN: 1 test, because {reason}" in said

    status, said = run_tests(tmp_path, source, CI="true")
    assert status in (1, 2)
    assert reason in said
    assert "skipped" not in said.splitlines()[-1]


def test_a_mistaken_name_of_an_ability_is_an_error(tmp_path: Path) -> None:
    source = "import pytest\n@pytest.mark.needs('monts')\ndef test_it(): ...\n"
    assert "KeyError: 'monts'" in run_tests(tmp_path, source)[1]


def test_a_name_that_is_another_in_each_process_is_refused(tmp_path: Path) -> None:
    source = (
        "import pytest\n@pytest.mark.parametrize('a', [object()], ids=str)\ndef test_it(a): ...\n"
    )
    status, said = run_tests(tmp_path, source)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "test_it[<object object at 0x" in said


# A warning, and whether it makes a test fail.
WARNINGS = {
    "warnings.warn('old', DeprecationWarning)": True,
    "warnings.warn('odd', Warning)": True,
    "strange.tell(DeprecationWarning)": False,
    "strange.tell(UserWarning)": False,
    "strange.tell(RuntimeWarning)": False,
    "strange.tell(SyntaxWarning)": False,
    "strange.tell(type('Own', (Warning,), {}))": False,
    # What a test leaves behind, wherever it was made.
    "strange.forget_file(__file__)": True,
    "strange.forget_coroutine()": True,
}
STRANGE = """
import warnings

def tell(kind): warnings.warn('from elsewhere', kind)
def forget_file(path): open(path)
def forget_coroutine(): _wait()
async def _wait(): ...
"""


@pytest.mark.parametrize("statement", WARNINGS)
def test_a_warning_of_our_own_fails_a_test_and_one_of_others_does_not(
    statement: str, tmp_path: Path
) -> None:
    (tmp_path / "strange.py").write_text(STRANGE)
    # The name that a module of the tests has.
    head = "__name__ = 'tests.test_it'\nimport strange, warnings\n"
    source = f"{head}def test_it():\n    {statement}\n"

    status, said = run_tests(tmp_path, source, PYTHONPATH=str(tmp_path))

    assert status == WARNINGS[statement], said


HANGING = """
import signal, threading, time

def hold_on(): threading.Event().wait()
def deaf(): signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); hold_on()
def test_it():
    threading.Thread(target=hold_on, daemon=True).start()
    WAY()
def test_other(): print("the other one ran")
"""


def test_a_test_that_hangs_shows_every_stack_and_the_others_run(tmp_path: Path) -> None:
    source = HANGING.replace("WAY", "hold_on")
    status, said = run_tests(tmp_path, source, "-o", "timeout=1")
    assert status == 1
    assert "1 failed, 1 passed" in said
    assert "in hold_on" in said
    assert "Timeout" in said


def test_a_test_that_hears_no_signal_ends_its_process_and_shows_every_stack(tmp_path: Path) -> None:
    source = HANGING.replace("WAY", "deaf")
    options = ("-o", "timeout=1", "-o", "faulthandler_timeout=2")
    status, said = run_tests(tmp_path, source, *options)
    assert status != 0
    assert "in deaf" in said
    assert said.count("in hold_on") == 2


def test_a_child_of_a_test_ends_with_it_whatever_an_assertion_says(tmp_path: Path) -> None:
    source = """
from pathlib import Path
import pytest
from tests.child_process import ChildProcess

SLEEPER = ["sleep", "600"]

@pytest.fixture(scope="module")
def lasting(): return ChildProcess(SLEEPER)
def test_it(lasting):
    Path(__file__).with_name("pid").write_text(str(ChildProcess(SLEEPER).pid))
    assert False
def test_other(lasting):
    assert lasting.poll() is None
    lasting.kill()
    lasting.wait()
"""
    said = run_tests(tmp_path, source)[1]
    assert "1 failed, 1 passed" in said
    assert not alive(int((tmp_path / "pid").read_text()))


# What they start lasts longer than a test, or is a child of a process that a test has started.
LASTING = {
    "tests/execution/test_process_kills.py",
    "tests/forking/launch_files.py",
    "tests/mcp/servers/raw.py",
    "tests/mcp/web.py",
    "tests/store/psql.py",
}


def test_a_process_that_a_test_starts_by_hand_is_one_that_ends_with_it() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("tests/**/*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("subprocess.Popen")
    }
    assert found == LASTING
