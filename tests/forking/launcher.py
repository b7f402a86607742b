"""Stands in for a program that is forked elsewhere: has its streams, its signals and its end.

It is loaded by the files that `launch_files` writes, and imports little, because it is started for
every program.
"""

import marshal
import os
import signal
import socket
import sys
from types import FrameType

_LENGTH = 8
# Kills the program, and then this process. A kill of this process reaches the program only later,
# when the fork server notices.
CRASH = signal.SIGUSR2
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


def launch(address: str, target: str, name: str) -> None:
    """Be a program until it ends: the one that a fork server starts for these words."""
    # A signal that comes while the program starts waits until it can be passed on.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, CRASH))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        words = [name, *sys.argv[1:]]
        process = ask_for_program(
            connection, target, words, os.getcwd(), dict(os.environ), [0, 1, 2]
        )

        def pass_on(number: int, frame: FrameType | None) -> None:
            os.kill(process, signal.SIGKILL if number == CRASH else number)

        for number in (*_PASSED_ON, CRASH):
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_PASSED_ON, CRASH))
        # Who reads what the program writes is waiting for the program to close it.
        for stream in range(3):
            os.close(stream)
        _end_as(read_end(connection))


def ask_for_program(
    connection: socket.socket,
    target: str,
    words: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[int],
) -> int:
    """Have a program started; gives the number of its process."""
    body = marshal.dumps((target, words, folder, environment))
    socket.send_fds(connection, [len(body).to_bytes(_LENGTH, "big")], streams)
    connection.sendall(body)
    return int.from_bytes(connection.recv(_LENGTH), "big")


def read_end(connection: socket.socket) -> int:
    """Wait for the end of the program; gives its exit code, negative if a signal ended it."""
    status = connection.recv(_LENGTH)
    assert status, "the fork server is gone"
    return os.waitstatus_to_exitcode(int.from_bytes(status, "big"))


def _end_as(code: int) -> None:
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
