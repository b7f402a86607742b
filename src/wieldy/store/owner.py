"""Who runs a call: a process, alive as long as its machine or its pulse says so."""

import math
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, exists, insert, or_, select, text, update

from .tables import IS_OPEN, calls, owners

PULSE_SECONDS = 10.0
_SILENT_SECONDS = 60.0
_NO_PROC = "?"
# A clock that is further behind than this was set back, and is believed.
_CLOSE = 0.001


class Owner:
    """This process, as one opened store knows it."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.pid = os.getpid()
        self._host = _host()
        self._born = _born(self.pid)
        self._lock = threading.Lock()
        self._last = 0.0

    def moment(self) -> float:
        """Now, and never twice the same: a start is known by its owner and its time."""
        with self._lock:
            now = time.time()
            if self._last - _CLOSE < now <= self._last:
                now = math.nextafter(self._last, math.inf)
            self._last = now
            return now

    def beat(self, connection: Connection) -> None:
        """Say that we are here."""
        pulse = clock(connection)
        beaten = update(owners).where(owners.c.id == self.id).values(pulse=pulse)
        if connection.execute(beaten).rowcount == 0:
            facts = {"host": self._host, "pid": self.pid, "born": self._born}
            connection.execute(insert(owners).values(id=self.id, pulse=pulse, **facts))

    def leave(self, connection: Connection) -> None:
        """Say that we are gone, unless calls of ours are still open."""
        running = or_(calls.c.state == "started", calls.c.state == "approved")
        open_calls = exists().where(calls.c.owner == self.id, IS_OPEN, running)
        connection.execute(delete(owners).where(owners.c.id == self.id, ~open_calls))

    def sweep(self, connection: Connection) -> list[str]:
        """Take what dead owners left: started calls become unknown, approved ones free.

        Gives the ids of the calls that changed.
        """
        now = clock(connection)
        for row in connection.execute(select(owners).where(owners.c.id != self.id)).all():
            if not self._is_alive(row, now):
                connection.execute(delete(owners).where(owners.c.id == row.id))
        left = update(calls).where(calls.c.owner.not_in(select(owners.c.id)), IS_OPEN)
        started = left.where(calls.c.state == "started").values(state="unknown")
        approved = left.where(calls.c.state == "approved").values(owner=None)
        return [
            call_id
            for statement in (started, approved)
            for call_id in connection.scalars(statement.returning(calls.c.id)).all()
        ]

    def _is_alive(self, row: Any, now: float) -> bool:
        if row.host == self._host and row.born != _NO_PROC:
            return bool(_born(row.pid) == row.born)
        return bool(row.pulse > now - _SILENT_SECONDS)


def clock(connection: Connection) -> float:
    """A clock that all processes on this store share."""
    if connection.dialect.name == "postgresql":
        asked = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8"))
        return float(asked or 0.0)
    return time.time()


def _host() -> str:
    """Where process ids mean the same: this machine, since it started, in this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()}/{uuid.getnode()}"


def _born(pid: int) -> str:
    """When the process of this id was started: ids are used again, moments are not."""
    if not Path("/proc/self/stat").exists():
        return _NO_PROC
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone"
    # A zombie has ended and only waits for its parent to notice.
    return "gone" if stat[0] in "ZX" else stat[19]
