"""Run functions in worker processes, which are killed if their call is cancelled or times out."""

import asyncio
import contextlib
import itertools
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Coroutine
from typing import Any

from wieldy.core.active_call import ActiveCall, Handler, Middleware, held_places
from wieldy.core.call import Outcome
from wieldy.core.forking import renewed_in_child
from wieldy.core.invoke import outcome_of_exception
from wieldy.core.limits.limits import parse_size
from wieldy.core.task import time_limit
from wieldy.core.work import Forbidden, Stopped, Work

from .frames import Frame
from .process_state import ProcessState, carried_variables
from .shipment import Shipment, explain_values
from .shipping import pack, unpack_error
from .supervisor_link import SupervisorLink, WorkerEnd
from .worker_errors import FunctionInterrupted, MemoryExceeded, WorkerDied
from .worker_link import WorkerLink, WorkerLost

# How long a call waits for the report that its worker is gone, which takes milliseconds.
_KILL_SECONDS = 2.0


class Processes:
    """Worker processes, as many as are needed at the same time, up to `most`.

    A call nested in one that holds a worker never waits for a free place.
    """

    kind = "worker processes"

    def __init__(self, most: int | None = None) -> None:
        self._most = most or os.cpu_count() or 1
        self._state = ProcessState()
        self.forget()
        _pools.add(self)

    def forget(self) -> None:
        """Start again without the workers, which in a forked child belong to the parent."""
        self._lock = threading.Lock()
        self._names = itertools.count(1)
        self._supervisor: SupervisorLink | None = None
        self._links: dict[int, WorkerLink] = {}
        self._idle: list[WorkerLink] = []
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def hold_worker(self, work: Work) -> Middleware:
        """A middleware that gets a worker with the function before the call's timeout starts."""

        async def with_worker(active: ActiveCall, proceed: Handler) -> Outcome:
            lease = Lease(self)
            try:
                await lease.begin(work, active)
                active.lease = lease
            except BaseException as error:
                lease.end()
                return outcome_of_exception(active, error)
            try:
                return await proceed(active)
            finally:
                lease.end()

        return with_worker

    async def execute(self, work: Work, values: dict[str, Any], channel: ActiveCall) -> Any:
        """Run the function in the worker that the call holds."""
        lease: Lease = channel.lease
        why_not = None if work.objection is None else work.objection(channel)
        if isinstance(why_not, Coroutine):
            why_not = await why_not
        if why_not is not None:
            return Forbidden(why_not)
        if channel.entered is not None:
            await channel.tell_entered()
        return await lease.perform(work, values, channel)

    @property
    def held(self) -> bool:
        """Whether any processes have been started."""
        return self._supervisor is not None

    async def close(self) -> None:
        """End every worker and the supervisor."""
        with self._lock:
            supervisor, self._supervisor = self._supervisor, None
            links, self._links = self._links, {}
            self._idle = []
        if supervisor is not None:
            await asyncio.to_thread(supervisor.close)
        for link in links.values():
            link.close()

    async def take_place(self) -> None:
        """Wait until fewer than `most` calls hold a worker."""
        with self._lock:
            if self._busy < self._most:
                self._busy += 1
                return
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                waiting = turn in self._waiting
                if waiting:
                    self._waiting.remove(turn)
            if not waiting:
                self.give_place()
            raise

    def give_place(self) -> None:
        """Free a place, so that the next waiting call can have a worker."""
        with self._lock:
            self._busy -= 1
            while self._waiting and self._busy < self._most:
                turn = self._waiting.popleft()
                try:
                    turn.get_loop().call_soon_threadsafe(_give_turn, turn)
                except RuntimeError:
                    continue  # The loop of the waiting call has been closed.
                self._busy += 1

    def go_on(self) -> None:
        """Take back a lent place, even if that makes more than `most` for a while."""
        with self._lock:
            self._busy += 1

    def find_link(self, key: int) -> WorkerLink:
        """An idle worker, preferably one that has loaded the function, or else a new one."""
        with self._lock:
            idle = [link for link in self._idle if link.usable]
            chosen = next((link for link in reversed(idle) if key in link.works), None)
            chosen = chosen or (idle[-1] if idle else None)
            self._idle = [link for link in idle if link is not chosen]
            return chosen or self._start_worker()

    def give_back(self, link: WorkerLink) -> None:
        """Keep a worker for the next call."""
        with self._lock:
            if link.name in self._links:
                self._idle.append(link)

    def tell(self, link: WorkerLink, do: str, memory: int | None = None) -> None:
        """Send a command about a worker to the supervisor."""
        supervisor = self._supervisor
        if supervisor is not None:
            supervisor.tell(link.name, do, memory)

    def state_for(self, link: WorkerLink) -> dict[str, Any] | None:
        """The state of this process, or None if the worker already has it."""
        edition = self._state.current()
        if link.edition == edition:
            return None
        link.edition = edition
        return self._state.facts

    def _start_worker(self) -> WorkerLink:
        if self._supervisor is None:
            ended, lost = _weak_callbacks(self)
            self._supervisor = SupervisorLink(ended, lost)
        ours, theirs = socket.socketpair()
        name = next(self._names)
        supervisor = self._supervisor
        link = WorkerLink(name, ours, lambda: supervisor.tell(name, "lost"))
        self._links[name] = link
        with theirs:
            supervisor.start_worker(name, theirs.fileno())
        return link

    def _handle_end(self, name: int, ending: WorkerEnd) -> None:
        """Handle the end of a worker. Called on the supervisor's thread."""
        with self._lock:
            link = self._links.pop(name, None)
            idle = link in self._idle
            self._idle = [each for each in self._idle if each is not link]
        if link is not None:
            link.end(ending)
            if idle:
                link.close()

    def _handle_loss(self, supervisor: SupervisorLink) -> None:
        """Handle the end of the supervisor, which has ended every worker too."""
        with self._lock:
            if self._supervisor is not supervisor:
                return
            self._supervisor = None
            names = list(self._links)
        for name in names:
            self._handle_end(name, WorkerEnd(None, "ended because its supervisor was killed"))
        supervisor.close()


class Lease:
    """A worker that one call holds. Its place can be lent while the call waits in a queue."""

    def __init__(self, pool: Processes) -> None:
        self._pool = pool
        self._link: WorkerLink | None = None
        self._lent = 0
        self._counts = False
        self._clean = True
        self._outer = held_places.get()

    @property
    def held(self) -> bool:
        """Whether the call still holds a worker."""
        return self._link is not None

    def lend(self) -> None:
        """Give the place to another call while this one waits."""
        self._lent += 1
        if self._lent == 1 and self._counts:
            self._pool.give_place()

    def take_back(self) -> None:
        """Take the place back after waiting."""
        self._lent -= 1
        if self._lent == 0 and self._counts:
            self._pool.go_on()

    async def begin(self, work: Work, active: ActiveCall) -> None:
        """Wait for a worker, and load the function there."""
        nested = any(isinstance(place, Lease) and place.held for place in self._outer)
        if not nested:
            await self._pool.take_place()
            self._counts = True
        if work.shipped is None:
            made = await asyncio.to_thread(Shipment, work)
            # Two first calls at the same time must share one shipment.
            work.shipped = work.shipped or made
        shipment: Shipment = work.shipped
        for _ in range(3):
            # An idle worker may have ended a moment ago. Trying another one is safe, because the
            # function has only been loaded and not called.
            link = self._link = self._pool.find_link(shipment.key)
            try:
                await self._load_function(link, shipment, active)
                return
            except WorkerLost:
                if link.works:
                    continue
                raise await self._explain_death(link, active) from None
        raise await self._explain_death(link, active)

    def end(self) -> None:
        """Give the worker back, or have it killed if the call left it while it was busy."""
        link, self._link = self._link, None
        if self._counts:
            self._counts = False
            if not self._lent:
                self._pool.give_place()
        if link is None:
            return
        if self._clean and link.usable:
            self._pool.give_back(link)
        else:
            self._pool.tell(link, "kill")
            link.close()

    async def perform(self, work: Work, values: dict[str, Any], active: ActiveCall) -> Any:
        """Run the function in the worker. A worker that does not answer is killed."""
        link = self._link
        assert link is not None
        active.note("isolation", "process")
        active.note("pid", link.pid)
        memory = active.tool.limits.memory
        if memory is not None:
            self._pool.tell(link, "watch", parse_size(memory))
        link.serial += 1
        facts = _call_facts(active) if work.context is not None else {}
        state = self._pool.state_for(link)
        content = (link.serial, work.shipped.key, values, facts, carried_variables(), state)
        before = held_places.set((*self._outer, self))
        self._clean = False
        try:
            kind, answer = await link.ask(Frame.CALL, content, active)
        except WorkerLost:
            raise await self._explain_death(link, active) from None
        except asyncio.CancelledError:
            await self._kill_worker(link, active)
            raise
        except Exception as error:
            self._clean = link.at_rest
            link.edition = 0
            raise explain_values(values, error) from None
        finally:
            held_places.reset(before)
        self._clean = True
        if memory is not None:
            self._pool.tell(link, "watch", None)
        _, first, second, (cpu_ms, peak) = answer
        active.note("cpu_ms", round(cpu_ms, 3))
        active.note("peak_bytes", peak)
        if kind is Frame.RESULT:
            return first
        raised = _restore_error(active, first, second)
        if isinstance(raised, StopIteration):
            return Stopped(raised)
        raise raised

    async def _load_function(
        self, link: WorkerLink, shipment: Shipment, active: ActiveCall
    ) -> None:
        if shipment.key in link.works:
            return
        self._clean = False
        content = (shipment.key, self._pool.state_for(link), shipment.packed)
        _, (_, failed, pid) = await link.ask(Frame.LOAD, content, active)
        self._clean = True
        link.pid = pid
        if failed is not None:
            raise _restore_error(active, *failed)
        link.works.add(shipment.key)

    async def _kill_worker(self, link: WorkerLink, active: ActiveCall) -> None:
        """Kill the worker and all processes that it has started, and wait until they are gone."""
        self._pool.tell(link, "kill")
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            ending = await _wait_gone(link)
            _note_usage(active, ending)

    async def _explain_death(self, link: WorkerLink, active: ActiveCall) -> WorkerDied:
        """The error for a worker that ended before it answered."""
        try:
            ending = await _wait_gone(link)
        except TimeoutError:
            ending = WorkerEnd(None, "was killed and has not ended yet")
        _note_usage(active, ending)
        memory = active.tool.limits.memory
        if ending.reason == "memory" and memory is not None:
            return MemoryExceeded(active.tool.name, memory, ending.peak)
        return WorkerDied(active.tool.name, ending.status, ending.reason)


async def _wait_gone(link: WorkerLink) -> WorkerEnd:
    async with time_limit(_KILL_SECONDS):
        return await asyncio.shield(asyncio.wrap_future(link.gone))


def _restore_error(active: ActiveCall, packed: bytes | None, said: str) -> BaseException:
    """What a worker's function raised. Its `KeyboardInterrupt` is not one of this process."""
    raised = unpack_error(packed, said)
    if not isinstance(raised, KeyboardInterrupt):
        return raised
    interrupted = FunctionInterrupted(active.tool.name)
    interrupted.__cause__ = raised
    return interrupted


def _note_usage(active: ActiveCall, ending: WorkerEnd) -> None:
    if ending.cpu_ms:
        active.note("cpu_ms", ending.cpu_ms)
    if ending.peak:
        active.note("peak_bytes", ending.peak)


def _call_facts(active: ActiveCall) -> dict[str, Any]:
    """The facts about a call for a function that asks for its context."""
    deps: tuple[bytes | None, str | None] = (None, None)
    if active.deps is not None:
        try:
            deps = (pack(active.deps), None)
        except Exception as error:
            deps = (None, str(error))
    return {
        "call": active.call,
        "tool": active.tool.name,
        "attempts": active.attempts,
        "deps": deps,
    }


def _give_turn(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


def _weak_callbacks(pool: Processes) -> Any:
    """Callbacks for a supervisor's thread, which don't keep the pool alive."""
    found = weakref.ref(pool)

    def ended(name: int, ending: WorkerEnd) -> None:
        there = found()
        if there is not None:
            there._handle_end(name, ending)

    def lost(supervisor: SupervisorLink) -> None:
        there = found()
        if there is not None:
            there._handle_loss(supervisor)

    return ended, lost


def _forget_workers(pool: Processes) -> None:
    for link in pool._links.values():
        link.close_here()
    pool.forget()


_pools = renewed_in_child(_forget_workers)
