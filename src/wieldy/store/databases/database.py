"""The interface of a database: operations from any thread, in shared transactions."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol, TypeVar, get_args

from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from wieldy.core.choices import Durability
from wieldy.core.errors import StoreUnavailable

from .database_errors import translate_error
from .prepared_statements import Write

T = TypeVar("T")
# A function of a connection, inside a transaction. It may run again before it is committed, or
# after a commit whose answer was lost, so it must recognise its own work.
Operation = Callable[[Connection], T]

DURABILITIES = get_args(Durability)
MAX_IN_ONE_COMMIT = 500


class CommitMeter:
    """How many commits there were since the database was opened, and how long they took."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one commit."""
        self.count += 1
        self.seconds += seconds


class Database(Protocol):
    """Runs operations."""

    commits: CommitMeter
    # Whether a lone caller may commit by itself, and until when in this turn of its loop.
    quiet: bool
    gives_way_at: float
    # What is done first in a file that has taken the place of the one that was opened.
    prepare: Operation[Any] | None

    async def give_way(self) -> None:
        """Let other tasks run, which may be about to write too."""

    def commit_here(self, write: Write) -> bool:
        """Commit on this thread if that is quicker than handing it over; returns whether it did."""

    def leave_to_writer(self) -> None:
        """Commit nothing on callers' threads from now on. It may block for a moment."""

    def submit(self, job: "StoreJob") -> None:
        """Run it in the writer's next transaction; the answer comes when it is durable."""

    def read(self, operation: Operation[T]) -> "Future[T]":
        """Run it beside the writer. From any thread."""

    def upgrade(self, operation: Operation[T]) -> "Future[T]":
        """Run an operation that may take as long as it needs. From any thread."""

    def vacuum(self) -> "Future[None]":
        """Release the space of deleted rows. From any thread."""

    def close(self) -> None:
        """Finish the submitted work and close. It blocks."""


class StoreJob:
    """An operation that waits for the writer, and the future for its answer.

    An operation that is `alone` runs outside of any transaction.
    """

    __slots__ = ("alone", "error", "future", "loop", "operation", "result")

    def __init__(
        self,
        operation: Operation[Any],
        future: "asyncio.Future[Any] | Future[Any]",
        loop: asyncio.AbstractEventLoop | None = None,
        alone: bool = False,
    ) -> None:
        self.operation = operation
        self.future = future
        self.loop = loop
        self.alone = alone
        self.result: Any = None
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        self.error = translate_error(error)


class JobIntake:
    """Takes work until it is closed; later work is answered with an error."""

    def __init__(self, put: "Callable[[StoreJob | None], object]") -> None:
        self._put = put
        self._lock = threading.Lock()
        self._open = True
        self.answers: set[Future[Any]] = set()

    def submit(self, job: StoreJob) -> None:
        """Hand a job to the writer."""
        with self._lock:
            if self._open:
                self._put(job)
                return
        fail_jobs([job], _closed_error())

    def begin(self, start: "Callable[[], Future[T]]") -> "Future[T]":
        """Start something beside the writer; `answers` are the futures that are not done."""
        with self._lock:
            if self._open:
                answer = start()
                self.answers.add(answer)
            else:
                answer = Future()
                answer.set_exception(_closed_error())
        answer.add_done_callback(self.answers.discard)
        return answer

    def close(self) -> None:
        """Take no more work, and tell the writer so."""
        with self._lock:
            self._open = False
            self._put(None)


def deliver_results(jobs: list[StoreJob]) -> None:
    """Answer finished jobs, which leave the list; consecutive jobs of one loop wake it once.

    If this raises, the jobs that are not answered are still in the list.
    """
    groups = [(loop, list(group)) for loop, group in groupby(jobs, attrgetter("loop"))]
    for loop, group in groups:
        count = len(group)
        if loop is None:
            _settle_all(group)
        else:
            # A loop that was closed has nobody who waits for the answer.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle_all, group)
        del jobs[:count]


def fail_jobs(jobs: Iterable[StoreJob], error: Exception) -> None:
    """Answer jobs with an error."""
    failed = list(jobs)
    for job in failed:
        job.fail(error)
    deliver_results(failed)


def open_database(url: URL, durability: str) -> Database:
    """A database by its address."""
    if url.get_backend_name() == "sqlite":
        from .sqlite import Sqlite  # noqa: PLC0415 - only one of the two is ever needed

        return Sqlite(url, durability)
    from .postgres import Postgres  # noqa: PLC0415 - needs an extra

    return Postgres(url, durability)


def parse_address(url: str, durability: str) -> URL:
    """The address of a store: `sqlite:///file.db`, or `postgresql://…`."""
    if durability not in DURABILITIES:
        raise ValueError(f"durability must be one of {', '.join(DURABILITIES)}")
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(_ADDRESSES) from None
    if parsed.drivername == "sqlite":
        if parsed.host:
            # After two slashes the file's name is read as a host.
            raise ValueError("a SQLite file comes after three slashes, as in sqlite:///file.db")
        if parsed.database in (None, "", ":memory:"):
            raise ValueError(
                "a store in memory would not outlive a crash. Name a file: sqlite:///file.db"
            )
        return parsed
    if parsed.drivername in ("postgresql", "postgres", "postgresql+asyncpg"):
        _require_asyncpg()
        return parsed.set(drivername="postgresql+asyncpg")
    raise ValueError(_ADDRESSES)


def shown_address(url: str | URL) -> str:
    """The address of a store for people: without its password and its settings."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return "URL"
    name = None if parsed.database is None else _encodable_name(parsed.database)
    shown = parsed.set(drivername=parsed.get_backend_name(), database=name, query={})
    return shown.render_as_string(hide_password=True)


def _encodable_name(name: str) -> str:
    """A file's name in which bytes that are not text are replaced by U+FFFD."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


_ADDRESSES = "a store is sqlite:///file.db or postgresql://user@host/name"


def _closed_error() -> StoreUnavailable:
    return StoreUnavailable("it was closed meanwhile", "Try again; it opens again when needed.")


def _settle_all(jobs: list[StoreJob]) -> None:
    """Answer jobs, and drop each one.

    If hundreds were dropped at once, the garbage collector would count the objects of those who
    are woken as new ones, and would run more often.
    """
    jobs.reverse()
    while jobs:
        job = jobs.pop()
        future = job.future
        if future.done():
            continue
        if job.error is None:
            future.set_result(job.result)
        else:
            future.set_exception(job.error)


def _require_asyncpg() -> None:
    try:
        import asyncpg  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ImportError(
            'A store on PostgreSQL needs asyncpg: pip install "wieldy[postgres]"'
        ) from None
