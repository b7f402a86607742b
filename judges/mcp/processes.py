"""Processes of the judges: started, waited for, and ended."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 30
# A server may let its calls end first.
STOP_SECONDS = 60
CLOSE_SECONDS = 15


def node_of(folder: Path) -> Path:
    """The Node that was installed with the packages in a folder."""
    [node] = folder.glob("node_modules/node-linux-*/bin/node")
    return node


@contextmanager
def running(command: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process while inside. It has to end when it is asked to."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            sys.exit(f"{command[1]} did not end within {STOP_SECONDS} s of being asked to")


def wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a server listens on a port of this machine."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"no server on port {port} (exit code {process.poll()})")


def processes() -> dict[int, str]:
    """The processes in sight that run, but this one, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                # One that has ended and that nobody asked about has no command line.
                if words:
                    found[int(entry.name)] = words
    return found


def left_behind() -> dict[int, str]:
    """What still runs some time after everything was closed."""
    end = time.monotonic() + CLOSE_SECONDS
    while (found := processes()) and time.monotonic() < end:
        time.sleep(0.1)
    return found
