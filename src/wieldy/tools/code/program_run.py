"""One program in a sandbox, from its start to its end, as the process that wants it sees it."""

import asyncio
import codecs
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from wieldy.core.bounded_json import parse_json
from wieldy.core.task import time_limit
from wieldy.execution.process_tree import kill_marked

from .sandbox_errors import SandboxUnavailable
from .sandbox_host import explain_failed_start
from .sandbox_limits import ProgramEnd
from .sandbox_root import made_files, script_path
from .syscall_filter import make_filter

OnOutput = Callable[[str], Awaitable[None]]

_SOURCE = os.fspath(Path(__file__).parents[3])
_PACKAGES = ("wieldy", "wieldy.execution", "wieldy.tools", "wieldy.tools.code")
# The packages are only names here: what their own files import would cost a tenth of a second.
_PROGRAM = """
import sys, types
for name in {packages!r}:
    module = types.ModuleType(name)
    module.__path__ = [{source!r} + "/" + name.replace(".", "/")]
    sys.modules[name] = module
from wieldy.tools.code.sandbox_keeper import main
main({control}, {parent})
"""
# Stands for the handle on which bubblewrap reports, which only the keeper knows.
STATUS_WORD = "{status}"
_LINKER = "LD_LIBRARY_PATH"
_CHUNK = 1 << 16
# Output is shown at most so often.
_PAUSE_SECONDS = 0.03
# How long the processes of a killed keeper may take to be gone.
_DYING_SECONDS = 5.0


class ProgramFiles:
    """Data that a program gets as files, without a name on the host."""

    def __init__(self, held: ExitStack, sandboxed: bool) -> None:
        self._held = held
        self._sandboxed = sandboxed
        self._bound: dict[str, int] = {}
        self.handles: list[int] = []

    def add(self, name: str, data: bytes) -> str:
        """Hand data over; the path under which the program finds it."""
        handle = self._hold(name, data)
        if not self._sandboxed:
            return f"/proc/self/fd/{handle}"
        self._bound[script_path(name)] = handle
        return script_path(name)

    def arguments(self, system: Mapping[str, str]) -> list[str]:
        """The arguments that make bubblewrap show the files, and apply the filter.

        Args:
            system: The text of more files, which are the same for each program, by their paths.
        """
        for path, text in {**made_files(), **system}.items():
            self._bound[path] = self._hold("system", os.fsencode(text))
        words = []
        for path, handle in self._bound.items():
            words += ["--perms", "0555", "--ro-bind-data", str(handle), path]
        rules = make_filter()
        if rules is not None:
            words += ["--seccomp", str(self._hold("rules", rules))]
        return [*words, "--json-status-fd", STATUS_WORD]

    def _hold(self, name: str, data: bytes) -> int:
        handle = os.memfd_create(name[:100])
        self._held.callback(_close, handle)
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(data)
        os.lseek(handle, 0, os.SEEK_SET)
        self.handles.append(handle)
        return handle


class ProgramRun:
    """One program under way, as this process sees it."""

    def __init__(
        self, plan: dict[str, Any], most: int, handles: list[int], on_output: OnOutput | None
    ) -> None:
        self._plan = plan
        self._room = most
        self._handles = handles
        self._on_output = on_output
        self._flooded = asyncio.Event()

    async def follow(self, held: ExitStack) -> ProgramEnd:
        """Start the keeper, read what the program prints, and wait for the keeper's report."""
        began = time.monotonic()
        link, theirs = socket.socketpair()
        # The keeper ends the program when this is closed, whatever happens here.
        held.callback(link.close)
        link.setblocking(False)
        pipes = [os.pipe(), os.pipe()]
        for read, _ in pipes:
            held.callback(_close, read)
        self._plan["output"] = [write for _, write in pipes]
        try:
            handles = [*self._plan["output"], *self._handles]
            keeper = await _start_keeper(theirs.fileno(), handles)
        finally:
            theirs.close()
            for _, write in pipes:
                os.close(write)
        try:
            report, out, err = await self._listen(link, [read for read, _ in pipes])
        except ExceptionGroup as failed:
            # The reader of the output raised the first one; the other tasks were cancelled for it.
            raise failed.exceptions[0] from None
        finally:
            link.close()
            await _await_end(keeper)
        return self._conclude(report, out, err, time.monotonic() - began)

    async def _listen(
        self, link: socket.socket, pipes: list[int]
    ) -> tuple[dict[str, Any] | None, str, str]:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(link, json.dumps(self._plan).encode() + b"\n")
        async with asyncio.TaskGroup() as tasks:
            out, err = (tasks.create_task(self._read(pipe)) for pipe in pipes)
            told = tasks.create_task(_hear_report(link))
            flooded = tasks.create_task(self._flooded.wait())
            await asyncio.wait((told, flooded), return_when=asyncio.FIRST_COMPLETED)
            if not told.done():
                # Half of the connection is closed: the keeper hears that, and can still answer.
                link.shutdown(socket.SHUT_WR)
                await told
            flooded.cancel()
            if told.result() is None:
                # Without walls the system does not end what a killed keeper leaves.
                await asyncio.to_thread(kill_marked, self._plan["mark"].encode())
        return told.result(), out.result(), err.result()

    async def _read(self, pipe: int) -> str:
        """Read what is printed until nobody can print any more."""
        stream = asyncio.StreamReader(limit=_CHUNK)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(os.dup(pipe), "rb", 0)
        )
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        texts = []
        try:
            while chunk := await _read_some(stream):
                kept = chunk[: self._room]
                self._room -= len(kept)
                if len(kept) < len(chunk):
                    self._flooded.set()
                texts.append(await self._show(decoder.decode(kept)))
            texts.append(await self._show(decoder.decode(b"", final=True)))
        finally:
            transport.close()
        return "".join(texts)

    async def _show(self, text: str) -> str:
        if text and self._on_output is not None:
            await self._on_output(text)
        return text

    def _conclude(
        self, report: dict[str, Any] | None, out: str, err: str, seconds: float
    ) -> ProgramEnd:
        if report is None:
            raise SandboxUnavailable("The process that kept the sandbox was killed. Try again.")
        stopped = "output" if self._flooded.is_set() else report["reason"]
        code = exit_code(report, sandboxed=bool(self._plan["wrappers"]))
        if code is None and stopped is None:
            raise SandboxUnavailable(explain_failed_start(report["said"], err))
        code = 137 if code is None or stopped is not None else code
        return ProgramEnd(code, stopped, out, err, seconds, report["cpu_ms"], report["peak"])


async def _read_some(stream: asyncio.StreamReader) -> bytes:
    """Read the next output with all that follows at once: programs print lines in pieces."""
    chunk = await stream.read(_CHUNK)
    with suppress(TimeoutError):
        async with time_limit(_PAUSE_SECONDS):
            while chunk and len(chunk) < _CHUNK and (more := await stream.read(_CHUNK)):
                chunk += more
    return chunk


async def _start_keeper(control: int, handles: list[int]) -> asyncio.subprocess.Process:
    program = _PROGRAM.format(
        packages=_PACKAGES, source=_SOURCE, control=control, parent=os.getpid()
    )
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-c",
        program,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        pass_fds=[control, *handles],
        # Some interpreters don't start without it.
        env={_LINKER: os.environ[_LINKER]} if _LINKER in os.environ else {},
        cwd="/",
        start_new_session=True,
    )


async def _hear_report(link: socket.socket) -> dict[str, Any] | None:
    loop, heard = asyncio.get_running_loop(), b""
    with suppress(ConnectionError):
        while data := await loop.sock_recv(link, _CHUNK):
            heard += data
    told: dict[str, Any] = {}
    for line in heard.splitlines():
        with suppress(ValueError):
            told |= json.loads(line)
    if "status" in told:
        return told
    if "group" in told:
        # The keeper was killed, and the system is about to end what it kept.
        await asyncio.to_thread(_remove_group, told["group"])
    return None


def _remove_group(path: str) -> None:
    deadline = time.monotonic() + _DYING_SECONDS
    while os.path.isdir(path) and time.monotonic() < deadline:
        with suppress(OSError):
            os.rmdir(path)
            return
        time.sleep(_PAUSE_SECONDS)


async def _await_end(keeper: asyncio.subprocess.Process) -> None:
    """Wait for the keeper, which ends when nothing is left; also where the caller is cancelled."""
    ending = asyncio.ensure_future(keeper.wait())
    cancelled = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _close(handle: int) -> None:
    with suppress(OSError):
        os.close(handle)


def exit_code(report: Mapping[str, Any], sandboxed: bool) -> int | None:
    """The exit code of the program, or None where it was never started."""
    status: int | None = report["status"]
    if not sandboxed:
        if "failed" in report["said"]:
            return None
        return 128 - status if status is not None and status < 0 else status
    for line in report["said"].splitlines():
        with suppress(ValueError):
            said = parse_json(line)
            if "exit-code" in said:
                return int(said["exit-code"])
    return None
