"""AgentScope's code and shell functions: contract 001.15."""

import asyncio
from pathlib import Path

import pytest

from tests.mcp.waiting import alive, until
from wieldy.dialects.agentscope import ToolResponse, execute_python_code, execute_shell_command


def said(response: ToolResponse) -> str:
    return str(response.content[0].get("text"))


async def test_001_15_megabytes_of_output_never_hang() -> None:
    code = "import sys; sys.stdout.write('x' * 20_000_000); sys.stderr.write('y' * 100_000)"

    text = said(await execute_python_code(code))

    assert text.startswith("<returncode>0</returncode><stdout>xxx")
    assert "[10,000,000 more bytes]" in text
    assert "y" * 100_000 in text


async def test_001_15_code_runs_in_the_callers_folder_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHALE", "blue")

    response = await execute_python_code("import os; print(os.getcwd(), os.environ['WHALE'])")

    assert f"<stdout>{tmp_path} blue\n</stdout>" in said(response)
    assert response.metadata == {"sandbox": False, "returncode": 0, "timed_out": False}


@pytest.mark.parametrize("seconds", [0.5, 1])
async def test_001_15_what_takes_too_long_ends_with_all_that_it_started(
    tmp_path: Path, seconds: float
) -> None:
    pids = tmp_path / "pids"
    command = f"sleep 300 & echo $! > {pids}; echo begun; sleep 300"

    response = await execute_shell_command(command, timeout=seconds)

    late = f"TimeoutError: The command execution exceeded the timeout of {seconds} seconds."
    assert said(response) == (
        f"<returncode>-1</returncode><stdout>begun\n</stdout><stderr>{late}</stderr>"
    )
    await until(lambda: not alive(int(pids.read_text())))


async def test_001_15_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    response = await execute_shell_command("sleep 300 & echo $!")

    pid = said(response).split("<stdout>")[1].split("\n")[0]
    await until(lambda: not alive(int(pid)))


async def test_001_15_a_program_that_a_signal_ends_has_its_number() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"

    assert said(await execute_python_code(code)).startswith("<returncode>-11</returncode>")


def test_001_15_nothing_stays_of_the_code() -> None:
    text = said(asyncio.run(execute_python_code("print(__file__)")))

    assert not Path(text.split("<stdout>")[1].split("\n")[0]).exists()
