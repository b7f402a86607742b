"""Have foreign documents read in processes of their own, which are killed if they take too long.

A few kilobytes can keep the libraries that read documents busy for minutes, and nobody can end a
thread. The processes belong to a loop of their own, so callers on any loop share them.
"""

import asyncio
import json
import os
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from wieldy.core.errors import ServiceError
from wieldy.core.sync import LoopThread
from wieldy.core.task import time_limit

from .page_text import PageText, is_pdf

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; from wieldy.tools.web.document_reader import main; main()"
)
# What some interpreters need to start. Documents of strangers are read beside no secret.
_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TEMP", "TMPDIR")
# How long one page of a PDF document may take.
_PAGE_SECONDS = 5.0
# How many PDF documents are read at once, and how many others: they don't wait for each other.
_AT_ONCE = 2
_IDLE_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_MAX_LINE = 1 << 24


class ForeignDocument(NamedTuple):
    """A document as it came, and how much of its text is wanted."""

    content: bytes
    content_type: str
    url: str
    most: int


class ReadDocument(NamedTuple):
    """The text of a document, and whether its scripts seem to make more of it."""

    page: PageText
    unfinished: bool = False


class DocumentProcesses:
    """Reads documents for callers on any loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._group: _ProcessGroup | None = None

    @property
    def held(self) -> bool:
        """Whether there may be processes."""
        return self._group is not None

    async def read(self, document: ForeignDocument, end: float) -> ReadDocument:
        """The text of a document, or of the pages that are read when `time.monotonic()` is `end`.

        Raises:
            ServiceError: It can't be read as text, or nothing of it was read in time.
        """
        with self._lock:
            if self._group is None or self._group.pid != os.getpid():
                # A forked child has its parent's memory, but not its threads.
                self._group = _ProcessGroup()
            group = self._group
        return await group.home.perform(group.read(document, end))

    async def close(self) -> None:
        """End the processes; others are started when they are needed."""
        with self._lock:
            group, self._group = self._group, None
        if group is not None and group.pid == os.getpid():
            with suppress(TimeoutError):
                await asyncio.wait_for(group.home.perform(group.end()), _CLOSE_SECONDS)
            await asyncio.to_thread(group.home.stop)


class _ProcessGroup:
    """The processes, and the loop on which they are used."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.home = LoopThread("wieldy-documents")
        self._turns = {True: asyncio.Semaphore(_AT_ONCE), False: asyncio.Semaphore(_AT_ONCE)}
        # Also those that are killed and not gone yet.
        self._readers: set[_Reader] = set()
        self._idle: list[_Reader] = []

    async def read(self, document: ForeignDocument, end: float) -> ReadDocument:
        """Read a document when it is its turn."""
        paged = is_pdf(document.content, document.content_type)
        async with self._turns[paged]:
            reader = await self._find_reader()
            try:
                return await reader.read(document, end, _PAGE_SECONDS if paged else None)
            finally:
                self._give_back(reader)

    async def end(self) -> None:
        """Kill every process."""
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for reader in self._readers:
            self._drop(reader)
            await reader.process.wait()

    async def _find_reader(self) -> "_Reader":
        while self._idle:
            reader = self._idle.pop()
            if reader.process.returncode is None:
                return reader
            self._drop(reader)
        reader = await _Reader.start()
        self._readers = {each for each in self._readers if each.process.returncode is None}
        self._readers.add(reader)
        return reader

    def _give_back(self, reader: "_Reader") -> None:
        if reader.busy or reader.process.returncode is not None:
            self._drop(reader)
            return
        self._idle.append(reader)
        asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._drop_idle, reader, reader.count)

    def _drop_idle(self, reader: "_Reader", count: int) -> None:
        if reader in self._idle and reader.count == count:
            self._drop(reader)

    def _drop(self, reader: "_Reader") -> None:
        if reader in self._idle:
            self._idle.remove(reader)
        reader.kill()


class _Reader:
    """One process, which reads one document at a time."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.busy = False
        # How many documents it was given.
        self.count = 0

    @classmethod
    async def start(cls) -> "_Reader":
        """Start a process."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_MAX_LINE,
                env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
            )
        except OSError as error:
            raise ServiceError(f"no process could be started to read it: {error}") from error
        return cls(process)

    async def read(
        self, document: ForeignDocument, end: float, page_seconds: float | None
    ) -> ReadDocument:
        """Read a document. After an error, a cancellation, or in time the process is busy."""
        self.busy, self.count = True, self.count + 1
        self._send(document, end)
        # A process that has just been started imports its libraries first.
        await self._hear(end)
        title = ""
        parts: list[str] = []
        while True:
            until = end if page_seconds is None else min(end, monotonic() + page_seconds)
            try:
                told = await self._hear(until)
            except TimeoutError:
                if not parts:
                    raise ServiceError("reading it takes too long") from None
                text = "\n\n".join(parts)[: document.most]
                return ReadDocument(PageText(title, text, "pdf", complete=False))
            if "part" not in told:
                break
            title = told["title"]
            parts.append(told["part"])
        self.busy = False
        if "error" in told:
            raise ServiceError(told["error"])
        unfinished = told.pop("unfinished")
        return ReadDocument(PageText(**told), unfinished)

    def kill(self) -> None:
        """End the process, whatever it does."""
        with suppress(ProcessLookupError):
            self.process.kill()

    def _send(self, document: ForeignDocument, end: float) -> None:
        content, *_ = document
        facts = {
            "size": len(content),
            "content_type": document.content_type,
            "url": document.url,
            "most": document.most,
            "seconds": max(0.0, end - monotonic()),
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(facts).encode() + b"\n" + content)

    async def _hear(self, end: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with time_limit(max(0.0, end - monotonic())):
            line = await self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ServiceError("the process that read it has ended")
        told: dict[str, Any] = json.loads(line)
        return told
