"""The process that starts workers, watches them, and kills them with all that they started.

It is a fresh interpreter that never has a second thread, so that a worker can be forked from
it at any time. It holds one end of a socket, and only the process that uses the workers holds
the other end. When that process is gone, for whatever reason, the supervisor kills all workers
and exits.

Commands and reports are JSON, one per line. A `start` comes with the worker's connection.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from .process_tree import (
    find_descendants,
    kill_descendants,
    measure_tree,
    read_process,
    send_signal,
)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# How often a tree with a memory limit is measured, and how often the parent is checked.
_MEMORY_SECONDS = 0.03
_PARENT_SECONDS = 1.0
# How long the supervisor waits for a killed worker to be gone before it serves others again.
_DYING_SECONDS = 1.0
_HAS_PROC = os.path.isdir("/proc/self")


def main(control: int, parent: int) -> None:
    """Serve until the process that started this one is gone."""
    # This import comes before the first fork, so that a worker starts with everything in memory.
    from .worker import serve_calls  # noqa: PLC0415

    set_subreaper()
    gc.collect()
    gc.freeze()
    Supervisor(socket.socket(fileno=control), parent, serve_calls).serve()


def set_subreaper() -> None:
    """Make this process the parent of descendants that lose their own parent; on Linux only."""
    _control_process(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Have this process killed when its parent dies; on Linux only."""
    _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _control_process(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class _Worker:
    """The supervisor's record of one worker."""

    def __init__(self, name: int, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.memory: int | None = None
        self.peak = 0
        self.reason: str | None = None
        self.cpu_ms = 0.0


class Supervisor:
    """Starts, watches and kills workers for the process at the other end of a socket."""

    def __init__(self, control: socket.socket, parent: int, serve: Any) -> None:
        self._control = control
        self._parent = parent
        self._serve = serve
        self._workers: dict[int, _Worker] = {}
        self._heard = b""
        self._connections: list[int] = []
        self._woken, wake = os.pipe()
        self._wake = wake
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # The supervisor ends when its connection is closed, and not by a signal.
            signal.signal(number, signal.SIG_IGN)

    def serve(self) -> None:
        """Carry out commands until the other process is gone."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while os.getppid() == self._parent:
            watched = any(worker.memory is not None for worker in self._workers.values())
            seconds = _MEMORY_SECONDS if watched else _PARENT_SECONDS
            ready = {source for source, _ in poll.poll(seconds * 1000)}
            if self._woken in ready:
                self._reap_workers()
            if self._control.fileno() in ready and not self._read_commands():
                break
            if watched:
                self._check_memory()
        self._end_all()

    def _read_commands(self) -> bool:
        """Read and carry out commands; returns False when the connection has ended."""
        try:
            data, connections, _, _ = socket.recv_fds(self._control, 65536, 16)
        except ConnectionError:
            return False
        self._connections += connections
        if not data:
            return False
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._follow_command(json.loads(line))
        return True

    def _follow_command(self, command: dict[str, Any]) -> None:
        name = command["worker"]
        if command["do"] == "start":
            self._start_worker(name, self._connections.pop(0))
            return
        worker = next((each for each in self._workers.values() if each.name == name), None)
        if worker is None:
            return  # The worker has ended, which was reported.
        if command["do"] == "watch":
            worker.memory, worker.peak = command["memory"], 0
        elif command["do"] == "lost":
            self._await_end(worker)
            if worker.pid in self._workers:
                self._kill_worker(worker, "closed")
        else:
            self._kill_worker(worker, "killed")

    def _start_worker(self, name: int, connection: int) -> None:
        own = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(connection)
            self._send_report(ended=name, status=None, reason=f"can't be started: {error}")
            return
        if pid == 0:
            self._become_worker(connection, own)
        os.close(connection)
        self._workers[pid] = _Worker(name, pid)
        self._send_report(started=name, pid=pid)

    def _become_worker(self, connection: int, supervisor: int) -> NoReturn:
        status = 1
        try:
            end_with_parent()
            if os.getppid() != supervisor:
                os._exit(1)  # The supervisor was killed a moment ago.
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._control.close()
            os.close(self._woken)
            os.close(self._wake)
            os.setsid()
            # Processes that a tool starts and leaves stay descendants of the worker this way,
            # so that they can be found.
            set_subreaper()
            self._serve(connection)
            status = 0
        finally:
            os._exit(status)

    def _kill_worker(self, worker: _Worker, reason: str) -> None:
        """Kill a worker and all its descendants, and report what they used."""
        worker.reason = worker.reason or reason
        send_signal(worker.pid, signal.SIGSTOP)
        facts = measure_tree(worker.pid)
        if facts is not None:
            worker.cpu_ms = facts.cpu_ms
            worker.peak = max(worker.peak, facts.resident, _peak_of(worker.pid))
        kill_descendants(worker.pid)
        _kill_group(worker.pid)
        send_signal(worker.pid, signal.SIGKILL)
        worker.memory = None
        # A worker inside a system call that can't be interrupted dies when the call returns, and
        # is reported then.
        self._await_end(worker)

    def _await_end(self, worker: _Worker) -> None:
        """Wait a moment for a worker that is about to end."""
        deadline = time.monotonic() + _DYING_SECONDS
        while not self._bury_dead(worker) and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _reap_workers(self) -> None:
        """Report the workers that have ended by themselves."""
        while True:
            try:
                if not os.read(self._woken, 512):
                    break
            except BlockingIOError:
                break
        for worker in list(self._workers.values()):
            self._bury_dead(worker)
        self._kill_orphans()

    def _bury_dead(self, worker: _Worker) -> bool:
        """Report a worker if it has ended and nothing is left of it; returns whether it has."""
        ended, status = os.waitpid(worker.pid, os.WNOHANG)
        if not ended:
            return False
        if not _HAS_PROC:
            _kill_group(worker.pid)
        del self._workers[worker.pid]
        self._kill_orphans()
        self._send_report(
            ended=worker.name,
            status=os.waitstatus_to_exitcode(status),
            reason=worker.reason,
            cpu_ms=worker.cpu_ms,
            peak=worker.peak,
        )
        return True

    def _kill_orphans(self) -> None:
        """Kill the processes that have lost their worker: all children that are not workers."""
        own = os.getpid()
        while kill_descendants(own, spared=self._workers):
            pass
        self._take_dead()

    def _take_dead(self) -> None:
        """Reap the dead children that are not workers."""
        for entry in os.listdir("/proc") if _HAS_PROC else ():
            pid = int(entry) if entry.isdigit() else 0
            facts = read_process(pid) if pid and pid not in self._workers else None
            if facts is not None and facts.parent == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _check_memory(self) -> None:
        """Kill the workers whose process trees use more memory than their limit."""
        for worker in list(self._workers.values()):
            if worker.memory is None:
                continue
            facts = measure_tree(worker.pid)
            if facts is None:
                continue
            worker.peak = max(worker.peak, facts.resident)
            if facts.resident > worker.memory:
                self._kill_worker(worker, "memory")

    def _end_all(self) -> None:
        own = os.getpid()
        for _ in range(100):
            kill_descendants(own)
            for worker in self._workers.values():
                _kill_group(worker.pid)
                send_signal(worker.pid, signal.SIGKILL)
            if not self._any_left():
                return
            time.sleep(0.01)

    def _any_left(self) -> bool:
        """Whether a child is still alive. Dead children are reaped."""
        with contextlib.suppress(ChildProcessError):
            while True:
                ended, _ = os.waitpid(-1, os.WNOHANG)
                if not ended:
                    return True
        return bool(find_descendants([os.getpid()]))

    def _send_report(self, **facts: Any) -> None:
        # If this fails, the other process is gone, which the next check will find.
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(facts).encode() + b"\n")


def _peak_of(pid: int) -> int:
    """The largest amount of memory that a process has used."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            lines = [line for line in status if line.startswith(b"VmHWM:")]
    except OSError:
        return 0
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _kill_group(pid: int) -> None:
    """Kill the process group of a worker, which is all that can be found without /proc."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
