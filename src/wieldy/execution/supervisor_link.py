"""The connection of a toolbox to the supervisor of its workers."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from wieldy.core.forking import renewed_in_child

from .process_tree import kill_marked

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from wieldy.execution.supervisor import main; main({control}, {parent})"
)
# The environment variable that every process started by a supervisor has.
MARK = "WIELDY_SUPERVISOR"
# How long a supervisor may take to end all its processes.
_CLOSING_SECONDS = 5.0


class WorkerEnd(NamedTuple):
    """How a worker ended: its exit code, negative for a signal, and the reason if it was killed."""

    status: int | None
    reason: str | None
    cpu_ms: float = 0.0
    peak: int = 0


OnEnd = Callable[[int, WorkerEnd], None]
OnLost = Callable[["SupervisorLink"], None]


class SupervisorLink:
    """A supervisor process and the connection to it. A thread receives its reports."""

    def __init__(self, on_end: OnEnd, on_lost: OnLost) -> None:
        self._on_end, self._on_lost = on_end, on_lost
        self._sending = threading.Lock()
        self._closing = False
        # All processes of the supervisor inherit this mark. It identifies them if the supervisor
        # is killed.
        self._mark = f"{MARK}={os.getpid()}-{os.urandom(8).hex()}"
        self._control, theirs = socket.socketpair()
        program = _PROGRAM.format(path=sys.path, control=theirs.fileno(), parent=os.getpid())
        try:
            self._process = subprocess.Popen(
                [sys.executable, *_interpreter_flags(), "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=_output_descriptor(),
                pass_fds=[theirs.fileno()],
                env={**os.environ, MARK: self._mark.partition("=")[2]},
                start_new_session=True,
            )
        finally:
            theirs.close()
        _running.add(self)
        self._thread = threading.Thread(
            target=self._receive_reports, name="wieldy-supervisor", daemon=True
        )
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process id of the supervisor."""
        return self._process.pid

    def start_worker(self, name: int, connection: int) -> None:
        """Have a worker started that communicates over this descriptor."""
        command = json.dumps({"do": "start", "worker": name}).encode() + b"\n"
        with self._sending, contextlib.suppress(OSError):
            socket.send_fds(self._control, [command], [connection])

    def tell(self, name: int, do: str, memory: int | None = None) -> None:
        """Have a worker killed, or its memory watched."""
        command = json.dumps({"do": do, "worker": name, "memory": memory}).encode() + b"\n"
        # If the supervisor is gone, so are its workers. The receiving thread handles that.
        with self._sending, contextlib.suppress(OSError):
            self._control.sendall(command)

    def close(self) -> None:
        """End the supervisor and every worker, and block until they are gone."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_CLOSING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSING_SECONDS)
        self._control.close()
        _running.discard(self)

    def forget(self) -> None:
        """Drop the connection in a forked child, because the supervisor belongs to the parent."""
        self._control.close()
        # The supervisor is not a child of this process, so there is nothing to wait for.
        self._process.returncode = 0

    def _receive_reports(self) -> None:
        heard = b""
        with contextlib.suppress(OSError):
            while data := self._control.recv(65536):
                *lines, heard = (heard + data).split(b"\n")
                for line in lines:
                    self._take_report(json.loads(line))
        if not self._closing:
            kill_marked(self._mark.encode())
        self._on_lost(self)

    def _take_report(self, report: dict[str, Any]) -> None:
        if "ended" in report:
            name = report.pop("ended")
            self._on_end(name, WorkerEnd(**report))


def _output_descriptor() -> int | None:
    """The descriptor that workers print to: this process's stdout, or stderr if it is no file."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return 2


def _interpreter_flags() -> list[str]:
    """The flags that this interpreter was started with, as multiprocessing passes them on."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def _forget_link(link: SupervisorLink) -> None:
    link.forget()
    _running.discard(link)


_running = renewed_in_child(_forget_link)


def _close_all() -> None:
    for link in list(_running):
        link.close()


atexit.register(_close_all)
