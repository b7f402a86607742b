"""A worker's side of its connection: the events, reports and requests of a running function."""

import asyncio
import contextlib
import logging
import operator
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pickle import loads
from typing import Any

from wieldy.core.active_call import CallStopped
from wieldy.core.call import Call

from .frames import Frame, Inbox, TooLarge, encode_large, encode_small
from .remote_box import ask, ask_blocking
from .shipping import make_pickler, unpack_error
from .worker_errors import CLOSED_CONNECTION, call_is_over

_CHUNK = 32 * 1024


class WorkerConnection:
    """The socket of a worker, which any of its threads may write to and read from.

    Of several threads that wait for a message, one reads for all of them.
    """

    def __init__(self, descriptor: int) -> None:
        # The number of the call that runs, or 0 while functions are loaded. None between calls.
        self.serial: int | None = None
        self._socket = socket.socket(fileno=descriptor)
        self._identity = self._socket_identity()
        self._inbox = Inbox()
        self._sending = threading.Lock()
        self._turn = threading.Condition()
        self._reading = False
        self._calls: list[tuple[Frame, Any]] = []
        self._requests: dict[int, Future[Any]] = {}
        self._parts: dict[int, Callable[[Any], None]] = {}
        self._numbers = 0
        self._pumping = False

    def send(self, kind: Frame, *content: Any) -> None:
        """Send a message. An error of pickling is raised before anything is sent."""
        with self._sending:
            try:
                pieces = [encode_small(kind, content, make_pickler)]
            except TooLarge:
                pieces = encode_large(kind, content, make_pickler)
            # A function may have closed this descriptor and opened a file that has its number now.
            if self._socket_identity() != self._identity:
                os._exit(CLOSED_CONNECTION)
            for piece in pieces:
                self._socket.sendall(piece)

    def next_call(self) -> tuple[Frame, Any]:
        """Wait for the next function to load or call to run."""
        self._wait_until(lambda: bool(self._calls))
        return self._calls.pop(0)

    def request(
        self, serial: int | None, *content: Any, part: Callable[[Any], None] | None = None
    ) -> "Future[Any]":
        """Send a request to the engine. The thread that waits for the answer reads it.

        `serial` is the number of the call in which it is nested; None is the one that runs.
        """
        if self.serial is None or serial not in (None, self.serial):
            raise call_is_over()
        answer: Future[Any] = Future()
        with self._turn:
            self._numbers += 1
            number = self._numbers
            self._requests[number] = answer
            if part is not None:
                self._parts[number] = part
        self.send(Frame.REQUEST, number, serial, *content)
        return answer

    def wait_for(self, answer: "Future[Any]") -> Any:
        """Block until an answer is there."""
        self._wait_until(answer.done)
        return answer.result()

    async def await_for(self, answer: "Future[Any]") -> Any:
        """Wait for an answer without blocking the worker's own loop."""
        with self._turn:
            starts, self._pumping = not self._pumping, True
        if starts:
            threading.Thread(target=self._pump_answers, name="wieldy-answers", daemon=True).start()
        return await asyncio.wrap_future(answer)

    def close_in_child(self) -> None:
        """Close the connection in a forked child, because it belongs to the worker."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _pump_answers(self) -> None:
        """Read messages as long as coroutines wait for answers."""
        while True:
            self._wait_until(lambda: not self._requests)
            with self._turn:
                if not self._requests:
                    self._pumping = False
                    return

    def _wait_until(self, done: Callable[[], bool]) -> None:
        while True:
            with self._turn:
                while self._reading and not done():
                    self._turn.wait()
                if done():
                    return
                self._reading = True
            try:
                messages = self._receive_messages()
            finally:
                with self._turn:
                    self._reading = False
                    self._turn.notify_all()
            with self._turn:
                for kind, content in messages:
                    self._sort_message(kind, content)
                self._turn.notify_all()

    def _receive_messages(self) -> list[tuple[Frame, Any]]:
        data = self._socket.recv(_CHUNK)
        if not data:
            # The process that uses this worker is gone.
            os._exit(0)
        found: list[tuple[Frame, Any]] = []
        while True:
            try:
                for kind, payload in self._inbox.feed(data):
                    found.append((kind, _try_loading(partial(loads, payload))))
                return found
            except TooLarge:
                kind, large = self._inbox.take_large(self._socket)
                found.append((kind, _try_loading(large.load)))
                data = b""

    def _sort_message(self, kind: Frame, content: Any) -> None:
        if kind in (Frame.ANSWER, Frame.PART) and isinstance(content, Unreadable):
            # Nobody knows which request the message was for, so all of them fail.
            for waiting in self._requests.values():
                waiting.set_exception(content.error)
            self._requests.clear()
        elif kind is Frame.ANSWER:
            number, fine, value = content
            self._parts.pop(number, None)
            answer = self._requests.pop(number, None)
            if answer is None:
                return
            if fine:
                answer.set_result(value)
            else:
                answer.set_exception(unpack_error(*value))
        elif kind is Frame.PART:
            number, value = content
            if number in self._parts:
                self._parts[number](value)
        else:
            self._calls.append((kind, content))

    def _socket_identity(self) -> tuple[int, int]:
        try:
            found = os.fstat(self._socket.fileno())
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino


class Unreadable:
    """A message that can't be unpickled here, with the error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _try_loading(load: Callable[[], Any]) -> Any:
    try:
        return load()
    except EOFError:
        os._exit(0)  # The process that uses this worker is gone.
    except Exception as error:
        return Unreadable(error)


class WorkerChannel:
    """The channel of a call for a function that runs in a worker."""

    def __init__(self, connection: WorkerConnection, serial: int, facts: Mapping[str, Any]) -> None:
        self.connection = connection
        self.serial = serial
        self.stopped = False
        self.streamed = False
        self._facts = facts
        self._yielded: list[Any] = []

    @property
    def call(self) -> Call:
        """The call."""
        call: Call = self._facts["call"]
        return call

    @property
    def tool_name(self) -> str:
        """The name under which the tool was called."""
        name: str = self._facts["tool"]
        return name

    @property
    def attempts(self) -> int:
        """1 on the first attempt, 2 on the first retry, and so on."""
        attempts: int = self._facts["attempts"]
        return attempts

    @property
    def deps(self) -> Any:
        """The dependencies that the caller passed for this call; `TypeError` if not sendable."""
        packed, why_not = self._facts["deps"]
        if packed is None and why_not is not None:
            raise TypeError(f"what was passed as deps can't be sent to a process: {why_not}")
        return None if packed is None else loads(packed)

    def cancel_requested(self) -> bool:
        """Always False, because a worker is killed when its call is cancelled."""
        return False

    def on_loop(self) -> bool:
        """Always True: emitting only sends a message, so it never has to wait for a loop."""
        return True

    def begin_stream(self) -> None:
        """Mark the beginning of a stream: the emitted items are the content from now on."""
        self.streamed = True
        self._send_frame(Frame.STREAM)

    def show(self, item: Any) -> Awaitable[None] | None:
        """Emit an item. This blocks while the reader is too far behind."""
        self._send_frame(Frame.ITEM, item, False)
        return None

    async def emit(self, item: Any) -> None:
        """Emit what a generator has yielded."""
        self.emit_blocking(item)

    def emit_blocking(self, item: Any) -> None:
        """Emit what a generator has yielded."""
        self._send_frame(Frame.ITEM, item, True)
        self._yielded.append(item)

    def has_sent(self, value: Any) -> bool:
        """Whether the value is the list of the yielded items, which need not be sent again."""
        sent = self._yielded
        return (
            self.streamed
            and type(value) is list
            and len(value) == len(sent)
            and all(map(operator.is_, value, sent))
        )

    def is_around(self) -> bool:
        """Always True: the engine nests what a worker asks for in the call that the worker runs."""
        return True

    def call_nested(self, call: str | Call, arguments: Any = None, deps: Any = None) -> Any:
        """Run a nested call in the engine's process."""
        return ask(self.serial, None, "call", call, arguments, deps)

    def call_nested_blocking(
        self, call: str | Call, arguments: Any = None, deps: Any = None
    ) -> Any:
        """The same from blocking code."""
        return ask_blocking(self.serial, None, "call", call, arguments, deps)

    def report(self, cost: float, meta: Mapping[str, Any]) -> None:
        """Report costs and metadata of this call."""
        self._send_frame(Frame.REPORT, cost, dict(meta))

    def mark_untrusted(self) -> None:
        """Note that what the call gives comes from outside."""
        self._send_frame(Frame.UNTRUSTED)

    def keep_secret(self, secrets: tuple[str, ...]) -> None:
        """Also mask these strings in everything that the call shows."""
        self._send_frame(Frame.SECRET, secrets)

    def _send_frame(self, kind: Frame, *content: Any) -> None:
        if self.stopped:
            raise CallStopped
        self.connection.send(kind, self.serial, *content)


class LogSender(logging.Handler):
    """Sends the log records of a worker to the loggers of the engine's process."""

    def __init__(self, connection: WorkerConnection) -> None:
        super().__init__()
        self._connection = connection
        self._inside = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record as text, without arguments that would have to be pickled."""
        if getattr(self._inside, "sending", False):
            return
        self._inside.sending = True
        try:
            facts = dict(vars(record), msg=record.getMessage(), args=None, exc_info=None)
            if record.exc_info and not record.exc_text:
                facts["exc_text"] = logging.Formatter().formatException(record.exc_info)
            try:
                self._connection.send(Frame.LOG, facts)
            except OSError:
                raise
            except Exception:
                # A value in `extra=` can't be sent, but the rest of the record can.
                plain = {key: value for key, value in facts.items() if _is_plain(value)}
                self._connection.send(Frame.LOG, plain)
        finally:
            self._inside.sending = False


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
