"""A launched program is a process as any other to whoever starts it."""

import asyncio
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.child_process import ChildProcess
from tests.forking.launch_files import launch_file, run_script
from tests.forking.launcher import CRASH
from tests.mcp.waiting import alive, until

PROGRAM = """
import os, signal, sys
print(os.getpid(), os.getcwd(), sys.argv[1:], os.environ["SAID"], __name__, flush=True)
sys.stderr.write(sys.stdin.readline())
match sys.argv[1]:
    case "exit": sys.exit(7)
    case "fail": raise ValueError("no")
    case "die": os.kill(os.getpid(), signal.SIGKILL)
    case "wait": signal.pause()
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    return launch_file(script)


def start(program: str, folder: Path, way: str) -> "subprocess.Popen[str]":
    return ChildProcess(
        [program, way],
        cwd=folder,
        env={"SAID": "hello"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("way", "code"), [("exit", 7), ("fail", 1), ("die", -9), ("end", 0)])
def test_it_has_its_words_folder_environment_streams_and_end(
    program: str, tmp_path: Path, way: str, code: int
) -> None:
    with start(program, tmp_path, way) as process:
        out, err = process.communicate("asked\n", timeout=120)

    assert out.split(" ", 1)[1] == f"{tmp_path} ['{way}'] hello __main__\n"
    assert err.startswith("asked\n")
    assert ("ValueError: no" in err) is (way == "fail")
    assert process.returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_it_and_ends_it_as_it_would_end_any_process(
    program: str, tmp_path: Path, number: signal.Signals
) -> None:
    with start(program, tmp_path, "wait") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        process.communicate("", timeout=120)

    assert process.returncode == -number


async def test_it_is_gone_when_the_process_that_stands_for_it_is_killed(
    program: str, tmp_path: Path
) -> None:
    with start(program, tmp_path, "wait") as process:
        assert process.stdout is not None
        forked = int((await asyncio.to_thread(process.stdout.readline)).split()[0])
        assert alive(forked)
        process.kill()

    await until(lambda: not alive(forked))


def test_it_is_gone_as_soon_as_the_process_that_stands_for_it_after_a_crash(
    program: str, tmp_path: Path
) -> None:
    with start(program, tmp_path, "wait") as process:
        assert process.stdout is not None
        forked = int(process.stdout.readline().split()[0])
        process.send_signal(CRASH)
        process.wait(120)

        assert not alive(forked)
    assert process.returncode == -signal.SIGKILL


def test_the_server_goes_on_after_somebody_who_was_killed_while_asking(
    program: str, tmp_path: Path
) -> None:
    for sent in (b"", b"\x00", (9).to_bytes(8, "big") + b"half"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(Path(program).parents[1] / "socket"))
            connection.sendall(sent)

    with start(program, tmp_path, "exit") as process:
        process.communicate("", timeout=120)

    assert process.returncode == 7


def test_a_warning_is_an_error_where_the_environment_says_so(tmp_path: Path) -> None:
    script = tmp_path / "warns.py"
    script.write_text("import warnings; warnings.warn('old')")
    said = [
        run_script(script, tmp_path, {**os.environ, **more}, 120)
        for more in ({}, {"PYTHONWARNINGS": "error"})
    ]

    assert [each.returncode for each in said] == [0, 1]
    assert all("UserWarning: old" in each.stderr for each in said)
