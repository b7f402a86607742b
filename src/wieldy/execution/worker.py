"""The main loop of a worker: load functions, run one call at a time, and clean up after it."""

import asyncio
import contextlib
import inspect
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextvars import Context
from importlib import import_module
from pickle import loads
from types import GeneratorType
from typing import Any

from wieldy.core.forking import at_fork
from wieldy.core.work import Work, drain, drain_blocking

from . import remote_box
from .frames import Frame
from .process_state import raw_environment
from .process_tree import kill_descendants
from .shipping import find_variable, pack_error
from .supervisor_link import MARK
from .worker_channel import LogSender, Unreadable, WorkerChannel, WorkerConnection

# The plain module avoids the enums of `signal`, which cost more than the rest of a call.
_signal: Any = import_module("_signal")
# A function may change the handlers of these signals. The next call must not inherit them.
_SIGNALS = [int(number) for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]


def serve_calls(descriptor: int) -> None:
    """Run calls from a connection until it ends."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    connection = WorkerConnection(descriptor)
    at_fork(connection.close_in_child)
    logging.root.addHandler(LogSender(connection))
    remote_box.link_to(connection)
    Worker(connection).serve()


class Worker:
    """The loaded functions, and the process state that is restored between calls."""

    def __init__(self, connection: WorkerConnection) -> None:
        self._connection = connection
        self._works: dict[int, Work] = {}
        self._boxes: dict[str, dict[str, Any]] = {}
        self._pid = os.getpid()
        self._base: Mapping[str, Any] = {}
        self._mark = {key: os.environb[key] for key in (MARK.encode(),) if key in os.environb}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handlers = [(number, _signal.getsignal(number)) for number in _SIGNALS]
        self._mask = _signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._umask = os.umask(0)
        os.umask(self._umask)

    def serve(self) -> None:
        """Handle messages until the process is ended."""
        while True:
            kind, content = self._connection.next_call()
            if kind is Frame.LOAD:
                self._load_function(content)
            elif isinstance(content, Unreadable):
                error = TypeError(f"the arguments can't be read in the worker: {content.error}")
                self._connection.send(Frame.FAILURE, None, *pack_error(error), (0.0, 0))
            else:
                self._run_call(*content)

    def _load_function(self, content: Any) -> None:
        key, base, packed = content
        self._restore_base(base)
        self._connection.serial = 0
        try:
            function, context, positional, self._boxes = loads(packed)
            self._replace_boxes()
            self._works[key] = Work(function, context, positional)
            failed = None
        except BaseException as error:
            # Loading imports other people's modules, which may raise anything.
            failed = pack_error(error)
        self._connection.serial = None
        _stop_timers()
        _flush_output()
        _kill_children()
        self._tidy_up()
        self._connection.send(Frame.LOADED, key, failed, self._pid)

    def _run_call(
        self,
        serial: int,
        key: int,
        values: dict[str, Any],
        facts: Mapping[str, Any],
        variables: list[tuple[tuple[str, str, str], bytes]],
        base: Mapping[str, Any] | None,
    ) -> None:
        self._restore_base(base)
        self._replace_boxes()
        channel = WorkerChannel(self._connection, serial, facts)
        self._connection.serial = serial
        before = _spent_milliseconds()
        context = Context()
        context.run(remote_box.current_serial.set, serial)
        try:
            for name, packed in variables:
                # A value that can't be restored here is useful only in its own process.
                with contextlib.suppress(Exception):
                    context.run(find_variable(*name).set, loads(packed))
            value = context.run(self._perform_work, self._works[key], values, channel)
            sent = channel.has_sent(value)
            answer: tuple[Frame, tuple[Any, ...]] = (
                Frame.RESULT,
                (None if sent else value, sent),
            )
        except BaseException as error:
            answer = (Frame.FAILURE, pack_error(error))
        if os.getpid() != self._pid:
            os._exit(0)  # This is a child that the function forked, and it returned to here.
        channel.stopped = True
        self._connection.serial = None
        del values, context
        _stop_timers()
        _flush_output()
        _kill_children()
        used = (_spent_milliseconds() - before, _peak_memory())
        kind, content = answer
        try:
            self._connection.send(kind, serial, *content, used)
        except OSError:
            raise
        except Exception as error:
            wrong = TypeError(f"the result can't be sent back from the process: {error}")
            self._connection.send(Frame.FAILURE, serial, *pack_error(wrong), used)
        # The answer has been sent, so the caller does not wait while this prepares the next call.
        self._tidy_up()

    def _perform_work(self, work: Work, values: dict[str, Any], channel: WorkerChannel) -> Any:
        value = work.enter(values, channel)
        if isinstance(value, GeneratorType):
            return drain_blocking(channel, value)
        if inspect.isawaitable(value) or hasattr(value, "__anext__"):
            return self._complete_coroutine(_settle_value(value, channel))
        return value

    def _complete_coroutine(self, coroutine: Any) -> Any:
        """Run a coroutine to its end, and cancel whatever it leaves on the loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        loop = self._loop
        try:
            return loop.run_until_complete(coroutine)
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def _replace_boxes(self) -> None:
        """Replace the boxes that modules created when they were imported here with stand-ins."""
        for place in [place for place in self._boxes if place in sys.modules]:
            vars(sys.modules[place]).update(self._boxes.pop(place))

    def _restore_base(self, base: Mapping[str, Any] | None) -> None:
        """Set folder, environment, path and log levels to those of the engine's process."""
        if base is not None:
            self._base = {**base, "environment": {**base["environment"], **self._mark}}
            sys.path[:] = base["path"]
            _set_levels(base["levels"])
        if raw_environment() != self._base["environment"]:
            os.environ.clear()
            os.environb.update(self._base["environment"])
        try:
            if os.getcwd() != self._base["folder"]:
                os.chdir(self._base["folder"])
        except OSError:
            os.chdir("/")

    def _tidy_up(self) -> None:
        """Restore what a function may have changed: signal handlers, masks, the memory peak."""
        for number, handler in self._handlers:
            if _signal.getsignal(number) is not handler:
                _signal.signal(number, handler)
        _signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        os.umask(self._umask)
        _reset_peak()


async def _settle_value(value: Any, channel: WorkerChannel) -> Any:
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__anext__"):
        return await drain(channel, value)
    if isinstance(value, GeneratorType):
        return drain_blocking(channel, value)
    return value


def _stop_timers() -> None:
    """Stop all timers, so that no alarm goes off while the answer is being sent."""
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)


def _flush_output() -> None:
    """Flush what the function has printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _kill_children() -> None:
    """Kill the processes that a function has left; the worker is the parent of every orphan."""
    while _has_children():
        kill_descendants(os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        # This returns as soon as the first of the killed processes is gone.
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _spent_milliseconds() -> float:
    """Milliseconds of processor time, including those of children that have ended."""
    total = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(whose)
        total += usage.ru_utime + usage.ru_stime
    return total * 1000


def _peak_memory() -> int:
    """The largest amount of memory that this process has used since the last reset."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        pass  # On such a system the peak is that of the worker's whole life.


def _set_levels(levels: Mapping[str, Any]) -> None:
    logging.disable(levels["disabled"])
    for name, level in levels["loggers"].items():
        logging.getLogger(name or None).setLevel(level)
