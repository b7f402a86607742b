"""The sandbox of people who are not root, and what root may not do in it."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.tools.code.conftest import PATIENCE, CodeBox, processes_of
from tests.tools.code.places import run_in_place
from wieldy.tools.code.sandbox_host import pick_user

# Nobody but root can measure a file that has no name and is only mapped.
MAPPING = """
import ctypes, os
while True:
    file = os.open("x", os.O_RDWR | os.O_CREAT)
    os.write(file, b"x" * 1_000_000)
    ctypes.CDLL(None).mmap(None, 4096, 1, 1, file, 0)
    os.close(file); os.unlink("x")
"""
# The attempts of somebody who can read the interpreter and nothing of root.
PROGRAM = """
import asyncio, json, os, tempfile
from wieldy.tools.code import Sandbox, SandboxLimits

LIMITS = SandboxLimits(memory=100_000_000, timeout=30, processes=8, disk=20_000_000)

async def run(*words):
    with tempfile.TemporaryDirectory() as folder:
        end = await Sandbox(LIMITS).run(words, folder)
        return [end.exit_code, end.stopped, end.stdout, end.stderr]

async def main():
    return [
        await run("sh", "-c", "id -u; touch here && ls; cat /proc/self/limits | grep processes"),
        await run("python", "-c", "held = []\\nwhile True: held.append(bytearray(1 << 22))"),
        await run("python", "-c", "import os, time\\nfor n in range(9):\\n"
                  "  if not os.fork(): time.sleep(1000)"),
        await run("sh", "-c", "mkdir d; head -c 15000000 /dev/zero > d/x; chmod 0 d; "
                  "head -c 15000000 /dev/zero > y; sleep 1000"),
        await run("python", "-c", {mapping!r}),
        await run("sh", "-c", "unshare -U true; kill -0 {own}"),
    ]

print(json.dumps([os.getuid(), asyncio.run(main())]))
"""


def test_somebody_who_is_not_root_has_the_same_walls() -> None:
    text = PROGRAM.format(own=os.getpid(), mapping=MAPPING)

    done = run_in_place("/opt", "wieldy", text, ordinary=True)

    assert done.stderr == ""
    user, [plain, memory, processes, disk, mapped, escapes] = json.loads(done.stdout)
    assert user != 0
    assert plain[:2] == [0, None]
    assert plain[2].split()[:2] == ["1000", "here"]
    assert memory[1] == "memory"
    assert "BlockingIOError" in processes[3]
    assert disk[1] == "disk"
    assert mapped[1] == "disk"
    assert "Operation not permitted" in escapes[3]
    assert "No such process" in escapes[3]


@pytest.mark.parametrize(
    ("end", "found"),
    [
        (4_294_967_295, range(0x70000000, 0x80000000)),
        (65_536, range(61_000, 65_535)),
        (5, range(1, 5)),
    ],
)
def test_code_of_root_runs_as_a_user_of_its_own(end: int, found: range) -> None:
    users = {pick_user(number, end) for number in (0, 1, 5_000, 2**32 - 1)}

    assert all(user in found for user in users)
    assert len(users) > 1 or end == 5


def test_where_there_is_nobody_but_root_no_user_is_picked() -> None:
    assert pick_user(7, end=1) is None


async def test_files_that_root_lends_are_nobodys_to_run(code_box: CodeBox) -> None:
    outcome = await code_box.shell(
        "umask 022; cp /bin/true t; chmod u+s t; chmod 6755 t; ls -l t | cut -c1-10"
    )

    assert outcome.value.stdout == "-rwxr-xr-x\n"
    assert not stat.S_IMODE((code_box.folder / "t").stat().st_mode) & 0o6000
    assert processes_of(code_box.folder) == set()


@pytest.mark.needs("the sandbox")
@pytest.mark.parametrize("place", ["roundabout", "environment in /tmp"])
def test_the_interpreter_is_found_wherever_it_is(tmp_path: Path, place: str) -> None:
    interpreter = os.path.relpath(sys.executable, tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        if place != "roundabout":
            made = [sys.executable, "-m", "venv", "--without-pip", f"{folder}/environment"]
            subprocess.run(made, check=True)
            interpreter = f"{folder}/environment/bin/python"
        code = f"import sys; sys.path[:0] = {sys.path!r}; import asyncio; "
        code += "from wieldy.tools.code import Sandbox; "
        code += "print(asyncio.run(Sandbox().run(['python', '-c', 'print(6 * 7)'], '.')).stdout)"

        # Python 3.14 itself warns when it is started by a path that goes to and fro.
        done = subprocess.run(
            [interpreter, "-W", "ignore::RuntimeWarning", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    assert (done.stdout, done.stderr) == ("42\n\n", "")
