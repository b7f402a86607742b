"""The process that owns running calls, alive as long as its machine or its pulse says so."""

import math
import os
import socket
import threading
import time
import uuid
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    insert,
    or_,
    select,
    text,
    update,
)

from .databases.tables import IS_CARRIED_ON, IS_WAITING, calls, owners, runs

PULSE_SECONDS = 10.0
_SILENT_SECONDS = 60.0
# If our last pulse is older than this, others may soon take us for dead.
_FRESH_SECONDS = 30.0
_NO_PROC = "?"
# A clock that is further behind than this was set back on purpose.
_CLOSE = 0.001


class ProcessOwner:
    """This process, as one opened store knows it.

    Its row has the earliest time at which one of its running calls was proposed, so that these
    calls are found when the process is gone. The time moves on with every pulse, and back if an
    older call starts.
    """

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.pid = os.getpid()
        self._host = _host_scope()
        self._born = _birth_mark(self.pid)
        self._tokens = count()
        self._lock = threading.Lock()
        self._last = 0.0
        # When each running call was proposed, by its start, because one call may be made twice.
        self.running: dict[object, float] = {}
        # When the first call was proposed whose end can't be written while this process lives.
        self._given_up = math.inf
        # The latest time that our row may have. The row itself may have an earlier one.
        self._since = 0.0
        self._heard = -math.inf

    def make_token(self) -> str:
        """A token that nobody else has: a part of our id, and a number. From any thread."""
        return f"{self.id[:20]}{next(self._tokens):012x}"

    def begin(self, start: object, proposed_at: float) -> tuple[float, bool]:
        """The time at which a call starts, and whether our row in the store covers it already.

        The call runs until `end` or `give_up` gets the same `start`. No two starts have the same
        time, because a start is identified by its owner and its time.
        """
        with self._lock:
            now = time.time()
            if self._last - _CLOSE < now <= self._last:
                now = math.nextafter(self._last, math.inf)
            self._last = now
            self.running[start] = proposed_at
            return now, proposed_at >= self._since and abs(now - self._heard) < _FRESH_SECONDS

    def end(self, start: object) -> None:
        """Note that a call no longer runs and that its row says so. From any thread."""
        self.running.pop(start, None)

    def give_up(self, start: object) -> None:
        """Note that a call no longer runs but its end can't be written; it is found later."""
        with self._lock:
            self._given_up = min(self._given_up, self.running.pop(start, math.inf))

    def heard(self) -> None:
        """Note that our last pulse is durable."""
        self._heard = time.time()

    def beat(self, connection: Connection) -> None:
        """Write our pulse, and from when on our calls were proposed."""
        with self._lock:
            since = min(list(self.running.values()), default=time.time())
            since = min(since, self._given_up)
            self._since = max(self._since, since)
        said = {"pulse": shared_clock(connection), "since": since}
        beaten = update(owners).where(owners.c.id == self.id).values(said)
        if connection.execute(beaten).rowcount == 0:
            facts = {"host": self._host, "pid": self.pid, "born": self._born}
            connection.execute(insert(owners).values(id=self.id, **said, **facts))

    def resume(self, connection: Connection, call_id: str, start: object) -> None:
        """Note that a call starts that was proposed earlier."""
        proposed = select(calls.c.proposed_at).where(calls.c.id == call_id)
        self.running[start] = connection.scalar(proposed) or 0.0
        self.beat(connection)

    def leave(self, connection: Connection) -> None:
        """Remove our row, unless calls or runs of ours are still open."""
        claimed = and_(calls.c.owner == self.id, IS_WAITING, calls.c.state == "approved")
        since = select(owners.c.since).where(owners.c.id == self.id).scalar_subquery()
        carried = exists().where(runs.c.owner == self.id, IS_CARRIED_ON)
        ours = or_(exists().where(claimed), exists().where(_running_calls(self.id, since)), carried)
        connection.execute(delete(owners).where(owners.c.id == self.id, ~ours))

    def sweep(self, connection: Connection) -> list[str]:
        """Settle the calls of dead owners: started calls become unknown, approved ones free.

        Their runs have crashed, and may be resumed. Returns the ids of what changed.
        """
        now = shared_clock(connection)
        changed: list[str] = []
        dead: list[str] = []
        for row in connection.execute(select(owners).where(owners.c.id != self.id)).all():
            if self._is_alive(row, now):
                continue
            if _may_come_late(connection, row, now) or _remove_owner(connection, row):
                started = (
                    update(calls).where(_running_calls(row.id, row.since)).values(state="unknown")
                )
                changed += connection.scalars(started.returning(calls.c.id)).all()
                dead.append(row.id)
        alive = select(owners.c.id).where(owners.c.id.not_in(dead))
        orphaned = calls.c.owner.not_in(alive)
        approved = update(calls).where(orphaned, IS_WAITING, calls.c.state == "approved")
        changed += connection.scalars(approved.values(owner=None).returning(calls.c.id)).all()
        left = update(runs).where(runs.c.owner.not_in(alive), IS_CARRIED_ON)
        crashed = left.values(state="crashed", owner=None, changed_at=time.time())
        changed += connection.scalars(crashed.returning(runs.c.id)).all()
        return changed

    def _is_alive(self, row: Any, now: float) -> bool:
        if row.host == self._host and row.born != _NO_PROC:
            return bool(_birth_mark(row.pid) == row.born)
        return bool(row.pulse > now - _SILENT_SECONDS)


def _may_come_late(connection: Connection, row: Any, now: float) -> bool:
    """Whether a server may still commit what a dead process sent last."""
    return connection.dialect.name == "postgresql" and bool(row.pulse > now - _SILENT_SECONDS)


def _remove_owner(connection: Connection, row: Any) -> bool:
    """Remove an owner, unless it has written a pulse meanwhile."""
    found = and_(owners.c.id == row.id, owners.c.pulse == row.pulse)
    return connection.execute(delete(owners).where(found)).rowcount > 0


def _running_calls(owner: str, since: Any) -> ColumnElement[bool]:
    """The calls that an owner has started and not ended."""
    started = and_(calls.c.owner == owner, calls.c.state == "started")
    return and_(calls.c.proposed_at >= since, started)


def shared_clock(connection: Connection) -> float:
    """A clock that all processes on this store share."""
    if connection.dialect.name == "postgresql":
        asked = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8"))
        return float(asked or 0.0)
    return time.time()


def _host_scope() -> str:
    """The scope of process ids: this machine, since its start, in this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()}/{uuid.getnode()}"


def _birth_mark(pid: int) -> str:
    """When the process of this id was started, because ids are reused."""
    if not Path("/proc/self/stat").exists():
        return _NO_PROC
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone"
    # A zombie has ended already, and only waits for its parent.
    return "gone" if stat[0] in "ZX" else stat[19]
