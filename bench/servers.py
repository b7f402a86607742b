"""Servers in processes of their own, on free ports of this machine."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .child import ROOT

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class RunningServer:
    """A server that accepts connections."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}/mcp"

    @property
    def resident_mb(self) -> float:
        """The memory that its process holds now."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def running_server(command_on: Callable[[int], Sequence[str]]) -> Iterator[RunningServer]:
    """A server while inside; `command_on` gives the command that serves on a port."""
    port = _free_port()
    command = [*command_on(port)]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            if not _wait_for_port(port, process):
                said.seek(0)
                raise RuntimeError(f"{command} does not serve: {said.read()[-2000:].decode()}")
            yield RunningServer(process, port)
        finally:
            _end_process(process)


def serve_find(port: int) -> list[str]:
    """The command for the server whose tool is called: one of the SDK's own, over HTTP."""
    return [sys.executable, "-m", "bench.mcp_server", str(port)]


@contextmanager
def running_gateway(upstream: RunningServer) -> Iterator[RunningServer]:
    """A gateway in front of a server, as `wieldy serve gateway.toml` starts it, with a store."""
    with tempfile.TemporaryDirectory() as folder:

        def command_on(port: int) -> list[str]:
            file = Path(folder) / "gateway.toml"
            file.write_text(
                f'store = "sqlite:///{folder}/wieldy.db"\n'
                f'[listen]\nport = {port}\n[servers.bench]\nurl = "{upstream.url}"\n'
            )
            return [str(Path(sys.executable).with_name("wieldy")), "serve", str(file)]

        with running_server(command_on) as server:
            yield server


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> bool:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
