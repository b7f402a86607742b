"""Starts programs as forks of a process that has loaded what they import.

`fork_server.py FOLDER LISTENER [MODULE ...]` accepts connections from a socket, which it has as
the descriptor LISTENER. Each connection asks for one program, and is told the number of its
process and at last how that has ended. A connection that is closed before kills its program. The
modules are loaded when the first program is asked for. The server removes the folder and ends when
its standard input ends.
"""

import atexit
import contextlib
import gc
import marshal
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it was asked for; its target is a script, or `module:function`."""

    target: str
    words: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


class ForkServer:
    """The listener, the forks that run, and the connections that wait for their end."""

    def __init__(self, listener: socket.socket, modules: list[str]) -> None:
        self._listener = listener
        self._modules = modules
        self._forks: dict[int, socket.socket] = {}
        self._bell, self._ringer = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def run(self) -> Program | None:
        """Serve until the owner is gone. A fork comes back from here with its program."""
        self._ringer.setblocking(False)
        signal.set_wakeup_fd(self._ringer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for readable in (0, self._listener, self._bell):
            self._selector.register(readable, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in self._selector.select()]
            if 0 in ready:
                self._kill_forks()
                return None
            if self._bell in ready:
                self._report_ends()
            for connection in self._forks.values():
                if connection in ready:
                    self._drop_fork(connection)
            if self._listener in ready and (program := self._start_fork()):
                return program

    def _start_fork(self) -> Program | None:
        self._load_modules()
        connection, _ = self._listener.accept()
        try:
            program = _read_program(connection)
        except (OSError, EOFError, ValueError, TypeError):
            # Who asked was killed before the question was whole.
            connection.close()
            return None
        process = os.fork()
        if not process:
            self._leave(connection)
            return program
        for stream in program.streams:
            os.close(stream)
        self._forks[process] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        _report(connection, process)
        return None

    def _load_modules(self) -> None:
        if self._modules:
            for module in self._modules:
                import_module(module)
            # The collector of a fork would touch, and so copy, everything that is loaded.
            gc.freeze()
            self._modules = []

    def _leave(self, connection: socket.socket) -> None:
        """Let go of what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for held in (connection, *self._forks.values(), self._listener, self._bell, self._ringer):
            held.close()

    def _report_ends(self) -> None:
        self._bell.recv(4096)
        while self._forks:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            with self._forks.pop(process) as connection:
                if connection in self._selector.get_map():
                    self._selector.unregister(connection)
                _report(connection, status)

    def _drop_fork(self, connection: socket.socket) -> None:
        """Kill the fork of a connection that was closed."""
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
            [process] = [each for each, held in self._forks.items() if held is connection]
            os.kill(process, signal.SIGKILL)

    def _kill_forks(self) -> None:
        for process in self._forks:
            os.kill(process, signal.SIGKILL)


def _report(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(number.to_bytes(_LENGTH, "big"))


def _read_program(connection: socket.socket) -> Program:
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH, 3)
    with connection.makefile("rb") as file:
        target, words, folder, environment = marshal.loads(file.read(int.from_bytes(head, "big")))
    return Program(target, words, folder, environment, streams)


def _become(program: Program) -> None:
    """Be the program, up to the end of this process, which is that of the interpreter."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(program.folder)
    os.environ.clear()
    os.environ.update(program.environment)
    time.tzset()
    for number, stream in enumerate(program.streams):
        os.dup2(stream, number)
        os.close(stream)
    _open_streams()
    # Python reads it when it starts.
    if action := program.environment.get("PYTHONWARNINGS"):
        warnings.simplefilter(action)  # type: ignore[arg-type]
    sys.argv = program.words
    sys.path[0] = str(Path(program.words[0]).parent)
    module, _, function = program.target.partition(":")
    if function:
        getattr(import_module(module), function)()
    else:
        runpy.run_path(program.target, run_name="__main__")


def _open_streams() -> None:
    lines = 1 if os.isatty(1) else -1
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", lines, "utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)


def main() -> None:
    """Serve, or be what a fork was asked to be."""
    folder, listener, *modules = sys.argv[1:]
    program = ForkServer(socket.socket(fileno=int(listener)), modules).run()
    if program is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    code = 0
    try:
        _become(program)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    _end_quickly(code)


def _end_quickly(code: int) -> None:
    """End without taking apart what the server has loaded, which would take longest."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
