"""The process that starts one program in a sandbox, watches it, and ends all of it.

It is a fresh interpreter with nothing of the library but this file and those that it names. It
holds one end of a socket whose other end only the process that wants the program holds: when
that is gone, for whatever reason, the program is ended. If this process itself is killed, the
system ends bubblewrap, and with it everything in the sandbox.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from wieldy.execution.process_tree import kill_descendants
from wieldy.execution.supervisor import end_with_parent, set_subreaper

from .memory_group import MemoryGroup, make_group
from .usage_watch import UsageWatch

_WATCH_SECONDS = 0.03
# How long killed processes may take to be gone.
_DYING_SECONDS = 5.0
_STAGE = "/tmp"
_NEW_MOUNTS = 0x00020000
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 4096, 16384, 1 << 18


def main(control: int, parent: int) -> None:
    """Run one program, and report how it ended."""
    set_subreaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The host ends this process by closing the connection.
        signal.signal(number, signal.SIG_IGN)
    link = socket.socket(fileno=control)
    with link, link.makefile("rb") as lines:
        line = lines.readline()
        if line:
            plan = json.loads(line)
            report = ProgramKeeper(plan, link, parent).keep()
            with suppress(OSError):
                link.sendall(json.dumps(report).encode() + b"\n")


class ProgramKeeper:
    """One program, from its start to its end."""

    def __init__(self, plan: dict[str, Any], link: socket.socket, parent: int) -> None:
        self._plan = plan
        self._link = link
        self._parent = parent
        self._status = b""

    def keep(self) -> dict[str, Any]:
        """Run the program; what is to be reported about it."""
        plan = self._plan
        watch = UsageWatch(os.getpid(), plan["limits"], plan["watched"], plan["wrappers"])
        said, say = os.pipe()
        os.set_inheritable(say, True)
        wait, begin = os.pipe()
        own = os.getpid()
        pid = os.fork()
        if not pid:
            os.close(begin)
            self._become_program(say, wait, own)
        os.close(say)
        os.close(wait)
        for handle in (*plan["output"], *plan["handles"]):
            os.close(handle)
        reason, peak = None, 0
        try:
            watch.group = self._group(pid)
            watch.begin()
            os.close(begin)
            reason = self._watch(pid, watch, said)
        finally:
            status = _end_all(pid)
            reason, peak = reason or watch.find_excess_at_end(), watch.peak
            if watch.group is not None:
                watch.group.remove()
        self._hear(said)
        return {
            "status": status,
            "reason": reason,
            "said": self._status.decode("utf-8", "replace"),
            "cpu_ms": max(watch.cpu_ms, sum(os.times()[2:4]) * 1000),
            "peak": peak,
        }

    def _group(self, pid: int) -> MemoryGroup | None:
        """Put the program, which has not begun, into a cgroup of its own where that can be."""
        group = make_group(self._plan["limits"]["memory"])
        if group is None:
            return None
        try:
            group.add(pid)
        except OSError:
            group.remove()
            return None
        # The process that wants the program removes it if this one is killed.
        with suppress(OSError):
            self._link.sendall(json.dumps({"group": str(group.path)}).encode() + b"\n")
        return group

    def _watch(self, pid: int, watch: UsageWatch, said: int) -> str | None:
        """Wait for the end of the program, or for a reason to end it."""
        os.set_blocking(said, False)
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        with suppress(OSError):
            # It becomes ready in the moment in which the program ends.
            poll.register(os.pidfd_open(pid), select.POLLIN)
        while True:
            ready = [source for source, _ in poll.poll(_WATCH_SECONDS * 1000)]
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return None
            if self._link.fileno() in ready or os.getppid() != self._parent:
                return "cancelled"
            if watch.inside is None:
                self._hear(said)
                watch.inside = read_inside(self._status)
            reason = watch.find_excess()
            if reason is not None:
                return reason

    def _hear(self, said: int) -> None:
        with suppress(BlockingIOError):
            while data := os.read(said, 4096):
                self._status += data

    def _become_program(self, say: int, wait: int, keeper: int) -> NoReturn:
        """Become bubblewrap, or the program itself where there is no sandbox."""
        plan = self._plan
        try:
            end_with_parent()
            if os.getppid() != keeper:
                os._exit(126)  # It was killed in this very moment.
            os.read(wait, 1)
            words = list(plan["words"])
            if plan["status_word"] is not None:
                words[plan["status_word"]] = str(say)
            if plan["user"] is not None:
                stage_sources(plan["sources"])
                drop_user(plan["user"])
            if plan["folder"] is not None:
                os.chdir(plan["folder"])
            os.nice(plan["nice"])
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            if plan["wrappers"] == 0:
                os.setsid()
                os.set_inheritable(say, False)
            _take_handles(plan["output"], {say, *plan["handles"]})
            os.execve(words[0], words, plan["environment"])
        except BaseException as error:
            with suppress(OSError):
                os.write(say, json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        finally:
            os._exit(126)


def read_inside(status: bytes) -> int | None:
    """The first process in the sandbox, from what bubblewrap has said."""
    for line in status.splitlines():
        with suppress(ValueError):
            said = json.loads(line)
            if "child-pid" in said:
                return int(said["child-pid"])
    return None


def _take_handles(output: list[int], kept: set[int]) -> None:
    """Have nothing open but the three streams and what bubblewrap reads."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output[0], 1)
    os.dup2(output[1], 2)
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        if handle > 2:
            with suppress(OSError):
                os.set_inheritable(handle, handle in kept)


def stage_sources(sources: list[str]) -> None:
    """Give what the sandbox shows a path that any user can reach, for this process alone.

    The interpreter may live in a home folder that nobody else may enter. Each source appears
    as `/tmp/0`, `/tmp/1`, … in a mount namespace that is gone with the sandbox.
    """
    system = ctypes.CDLL(None, use_errno=True)
    _check(system.unshare(_NEW_MOUNTS), "a mount namespace")
    _check(system.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None), "private mounts")
    # Held open in the new namespace, before the stage hides some of them.
    held = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    folders = [os.path.isdir(source) for source in sources]
    _mount(system, "tmpfs", _STAGE, "tmpfs", _NOSUID | _NODEV, b"mode=0755,size=1m")
    for place, (handle, is_folder) in enumerate(zip(held, folders, strict=True)):
        target = f"{_STAGE}/{place}"
        if is_folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(system, f"/proc/self/fd/{handle}", target, None, _BIND | _RECURSIVE, None)
        os.close(handle)


def _mount(
    system: Any, source: str, target: str, kind: str | None, flags: int, options: bytes | None
) -> None:
    named = None if kind is None else kind.encode()
    done = system.mount(os.fsencode(source), os.fsencode(target), named, flags, options)
    _check(done, f"a mount at {target}")


def _check(answer: int, what: str) -> None:
    if answer:
        code = ctypes.get_errno()
        raise OSError(code, f"{what} was refused: {os.strerror(code)}")


def drop_user(user: int) -> None:
    """Become a user that owns nothing, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _end_all(pid: int) -> int | None:
    """End everything below this process; the exit status of the program itself."""
    status = None
    deadline = time.monotonic() + _DYING_SECONDS
    while time.monotonic() < deadline:
        kill_descendants(os.getpid())
        try:
            while True:
                ended, code = os.waitpid(-1, os.WNOHANG)
                if not ended:
                    break
                if ended == pid:
                    status = os.waitstatus_to_exitcode(code)
        except ChildProcessError:
            return status
        time.sleep(0.001)
    return status


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
