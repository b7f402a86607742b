"""Functions that run Python code and shell commands as the original's did: in plain processes.

They have the caller's working folder and environment, and nothing holds them back. The
sandboxed form comes with the built-in tools.
"""

import asyncio
import os
import signal
import sys
import tempfile
from contextlib import suppress
from typing import Any

from wieldy.core.task import time_limit

from .tool_response import ToolResponse, text_response

# The most output that is kept: a model reads no more, and memory has an end.
_MAX_BYTES = 10_000_000
_CHUNK = 1 << 16


async def execute_python_code(code: str, timeout: float = 300) -> ToolResponse:  # noqa: ASYNC109
    """Execute Python code in a temporary file, and give its return code and output.

    Args:
        code: The code. What it prints is what comes back.
        timeout: How many seconds it may take.
    """
    late = f"TimeoutError: The code execution exceeded the timeout of {timeout} seconds."
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(code)
        file.flush()
        return await _run_program([sys.executable, "-u", file.name], timeout, late)


async def execute_shell_command(
    command: str,
    timeout: float = 300,  # noqa: ASYNC109 - the original's signature
) -> ToolResponse:
    """Execute a shell command, and give its return code and output.

    Args:
        command: The command.
        timeout: How many seconds it may take.
    """
    late = f"TimeoutError: The command execution exceeded the timeout of {timeout} seconds."
    return await _run_program(["/bin/sh", "-c", command], timeout, late)


async def _run_program(words: list[str], seconds: float, late: str) -> ToolResponse:
    """Run a program to its end, or to the end of its time, and give what it printed."""
    # Pipes of our own: asyncio waits for those it makes to be closed, and what a program
    # leaves behind keeps them open.
    pipes = [os.pipe() for _ in range(2)]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipes[0][1],
            stderr=pipes[1][1],
            # A group of its own, so that what it starts can be ended with it.
            start_new_session=True,
        )
    finally:
        for _, written in pipes:
            os.close(written)
    outputs = [asyncio.create_task(_read_pipe(read)) for read, _ in pipes]
    timed_out = False
    try:
        try:
            async with time_limit(seconds):
                await process.wait()
        except TimeoutError:
            timed_out = True
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        out, err = await asyncio.gather(*outputs)
    if timed_out:
        return _make_response(-1, out, f"{err}\n{late}" if err else late, timed_out=True)
    return _make_response(process.returncode or 0, out, err)


async def _read_pipe(pipe: int) -> str:
    """Read the output up to a limit. The rest is read and dropped, so that the program goes on."""
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(pipe, "rb", 0)
    )
    chunks, size, lost = [], 0, 0
    while chunk := await stream.read(_CHUNK):
        kept = chunk[: max(0, _MAX_BYTES - size)]
        chunks.append(kept)
        size += len(kept)
        lost += len(chunk) - len(kept)
    transport.close()
    text = b"".join(chunks).decode("utf-8", "replace")
    return f"{text}\n[{lost:,} more bytes]" if lost else text


def _make_response(code: int, out: str, err: str, timed_out: bool = False) -> ToolResponse:
    facts: dict[str, Any] = {"sandbox": False, "returncode": code, "timed_out": timed_out}
    response = text_response(
        f"<returncode>{code}</returncode><stdout>{out}</stdout><stderr>{err}</stderr>"
    )
    response.metadata = facts
    return response
