"""The connection of the engine's process to one worker: messages out, messages in."""

import asyncio
import contextlib
import logging
import pickle
import socket
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any

from wieldy.core.active_call import ActiveCall

from .frames import Frame, Inbox, TooLarge, encode_large, encode_small, send_whole
from .nested_calls import answer_request
from .shipping import make_pickler, pack_error
from .supervisor_link import WorkerEnd
from .worker_errors import call_is_over

_CHUNK = 32 * 1024
_DONT_WAIT = getattr(socket, "MSG_DONTWAIT", 0)
_ENDS = (Frame.RESULT, Frame.FAILURE, Frame.LOADED)
Answer = tuple[Frame, Any]


class WorkerLost(Exception):
    """A worker ended, or closed its connection, before it answered."""


class WorkerLink:
    """The connection to one worker, used by one call at a time, each on its own loop."""

    def __init__(self, name: int, connection: socket.socket, on_lost: Callable[[], None]) -> None:
        self.name = name
        self.pid: int | None = None
        # The functions that the worker has loaded, and the edition of the state it has received.
        self.works: set[int] = set()
        self.edition = 0
        self.serial = 0
        # Whether no function runs in the worker now, as far as this process knows.
        self.at_rest = True
        self.gone: Future[WorkerEnd] = Future()
        self._connection = connection
        # A loop that is closed drops the callback that would have closed the connection.
        weakref.finalize(self, connection.close)
        self._descriptor = connection.fileno()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_lost = on_lost
        self._inbox = Inbox()
        self._outbox = _Outbox(connection)
        self._exchange: _Exchange | None = None

    @property
    def usable(self) -> bool:
        """Whether the worker can be given another call."""
        return not self.gone.done()

    async def ask(self, kind: Frame, content: tuple[Any, ...], channel: ActiveCall) -> Answer:
        """Send a message, serve the requests of its function, and return the answer."""
        exchange = self._exchange = _Exchange(self, channel, self.serial)
        self._listen_on(exchange.loop)
        try:
            self._outbox.send(kind, content, exchange.fail)
            self.at_rest = False
            if self.gone.done():
                raise WorkerLost
            return await exchange.answer
        finally:
            self._exchange = None
            exchange.close()

    def send(
        self, kind: Frame, content: tuple[Any, ...], failed: Callable[[Exception], Any]
    ) -> None:
        """Send a message while another one is being answered."""
        self._outbox.send(kind, content, failed)

    def hear_leftover(self, kind: Frame, load: Callable[[], Any]) -> None:
        """Pass on the log records of a thread whose call has ended, and refuse what it asks for."""
        if kind is Frame.LOG:
            _log_again(load()[0])
        elif kind is Frame.REQUEST:
            with contextlib.suppress(Exception):
                self.refuse_request(load()[0])

    def refuse_request(self, number: int) -> None:
        """Tell a thread that its call has ended. What it asks for is not nested in another call."""
        error = pack_error(call_is_over())
        self.send(Frame.ANSWER, (number, False, error), lambda error: None)

    def end(self, ending: WorkerEnd) -> None:
        """Record that the worker is gone. May be called from any thread."""
        self.gone.set_result(ending)
        exchange = self._exchange
        if exchange is not None:
            exchange.call_soon(exchange.lose)

    def close(self) -> None:
        """Close the connection and wake its readers and writers. May be called from any thread."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        loop, self._loop = self._loop, None
        if loop is None or not _call_on(loop, self._stop_listening, loop, True):
            self._connection.close()

    def _listen_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read on this loop only. Most calls come from the same loop as the call before."""
        if self._loop is loop:
            return
        before, self._loop = self._loop, loop
        if before is not None:
            _call_on(before, self._stop_listening, before, False)
        loop.add_reader(self._descriptor, self._on_readable, loop)

    def _stop_reading(self) -> None:
        """Read on no loop until the next call of `_listen_on`. Called on the loop that reads."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._descriptor)

    def _stop_listening(self, loop: asyncio.AbstractEventLoop, closes: bool) -> None:
        loop.remove_reader(self._descriptor)
        if closes:
            self._connection.close()

    def close_here(self) -> None:
        """Close the connection in a forked child, while the parent continues to use it."""
        self._connection.close()

    def _on_readable(self, loop: asyncio.AbstractEventLoop) -> None:
        exchange = self._exchange
        if self._loop is not loop:
            return  # Another loop reads now.
        try:
            data = self._connection.recv(_CHUNK, _DONT_WAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._stop_reading()
            # The supervisor finds out how the worker ended, and kills it if it has not ended.
            self._on_lost()
        elif exchange is None:
            self._pass_over(data)
        else:
            self._read_frames(exchange, data)

    def _pass_over(self, data: bytes) -> None:
        """Read what a thread sends that a function has left, while no call runs."""
        try:
            for kind, payload in self._inbox.feed(data):
                self.hear_leftover(kind, partial(pickle.loads, payload))
        except TooLarge:
            # Nobody waits for this message, and it would block all messages after it.
            self._on_lost()

    def _read_frames(self, exchange: "_Exchange", data: bytes) -> None:
        try:
            for kind, payload in self._inbox.feed(data):
                exchange.take(kind, partial(pickle.loads, payload))
        except TooLarge:
            self.pause(exchange)
            kind, large = self._inbox.take_large(self._connection)

            def load() -> None:
                try:
                    value, error = large.load(), None
                except BaseException as caught:
                    value, error = None, caught
                exchange.call_soon(self._take_large, exchange, kind, value, error)

            threading.Thread(target=load, name="wieldy-large-result", daemon=True).start()

    def _take_large(
        self, exchange: "_Exchange", kind: Frame, value: Any, error: BaseException | None
    ) -> None:
        def give() -> Any:
            if error is not None:
                raise error
            return value

        exchange.take(kind, give)
        if self.resume(exchange):
            self._read_frames(exchange, b"")

    def pause(self, exchange: "_Exchange") -> None:
        """Stop reading for now. The worker's function waits once the connection is full."""
        exchange.paused += 1
        self._stop_reading()

    def resume(self, exchange: "_Exchange") -> bool:
        """Read again, unless there is another reason to pause; returns whether it does."""
        exchange.paused -= 1
        if exchange.paused or exchange is not self._exchange:
            return False
        self._listen_on(exchange.loop)
        return True


class _Exchange:
    """One message to a worker, and all messages from it until the answer."""

    def __init__(self, link: WorkerLink, channel: ActiveCall, serial: int) -> None:
        self.link = link
        self.channel = channel
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Answer] = self.loop.create_future()
        self.paused = 0
        self._serial = serial
        # Requests of the function are nested in this call, so they run in its context. The
        # callbacks of the loop have another one.
        self._context = copy_context()
        self._items: list[Any] = []
        self._waiting: deque[tuple[Frame, Callable[[], Any]]] = deque()
        self._behind = False
        self._tasks: set[asyncio.Task[None]] = set()

    def call_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop of this exchange, which may be closed."""
        _call_on(self.loop, function, *arguments)

    def fail(self, error: BaseException) -> None:
        """Fail, because the message can't be sent. May be called from any thread."""

        def give_up() -> None:
            # A thread that still reads what an earlier call left would take the next answer.
            self.link.at_rest = not self.paused
            self._set_error(error)

        self.call_soon(give_up)

    def lose(self) -> None:
        """Fail, because the worker is gone."""
        self._set_error(WorkerLost())

    def close(self) -> None:
        """Cancel the requests that are still being served."""
        for task in self._tasks:
            task.cancel()

    def take(self, kind: Frame, load: Callable[[], Any]) -> None:
        """Handle a message, in order, as soon as the reader of the call has room."""
        if self._behind:
            self._waiting.append((kind, load))
            return
        if self.answer.done():
            self.link.hear_leftover(kind, load)
            return
        if kind in _ENDS:
            self.link.at_rest = True
        try:
            self._handle_message(kind, load())
        except Exception as error:
            # The message can't be unpickled here, for example because only the worker has the
            # class.
            self._set_error(TypeError(f"what the process sent can't be read: {error}"))

    def _handle_message(self, kind: Frame, content: Any) -> None:
        if kind in _ENDS:
            self._finish_answer(kind, content)
        elif kind is Frame.LOG:
            _log_again(content[0])
        elif kind is Frame.REQUEST:
            self._serve_request(content)
        elif content[0] == self._serial:
            self._relay_item(kind, content[1:])

    def _finish_answer(self, kind: Frame, content: Any) -> None:
        if kind is Frame.RESULT and content[1] is None and content[2]:
            content = (content[0], self._items, True, content[3])
        if not self.answer.done():
            self.answer.set_result((kind, content))

    def _relay_item(self, kind: Frame, content: tuple[Any, ...]) -> None:
        if kind is Frame.ITEM:
            item, yielded = content
            if yielded:
                self._items.append(item)
            waiting = self.channel.show(item)
            if waiting is not None:
                self._wait_for_room(waiting)
        elif kind is Frame.STREAM:
            self.channel.begin_stream()
        elif kind is Frame.REPORT:
            self.channel.report(*content)
        elif kind is Frame.UNTRUSTED:
            self.channel.mark_untrusted()
        elif kind is Frame.SECRET:
            self.channel.keep_secret(content[0])

    def _wait_for_room(self, waiting: Awaitable[None]) -> None:
        """Handle no more messages until the reader has room."""
        self._behind = True
        self.link.pause(self)

        async def go_on() -> None:
            await waiting
            self._behind = False
            while self._waiting and not self._behind:
                self.take(*self._waiting.popleft())
            if self.link.resume(self):
                self.link._read_frames(self, b"")

        self._start_task(go_on())

    def _serve_request(self, content: tuple[Any, ...]) -> None:
        number, serial, *request = content
        if serial not in (None, self._serial):
            self.link.refuse_request(number)
            return

        def end(task: asyncio.Task[None]) -> None:
            # The call has ended before what a thread of it had asked for.
            if task.cancelled():
                self.link.refuse_request(number)

        answering = answer_request(self.channel, number, request, self.link.send)
        self._start_task(answering).add_done_callback(end)

    def _start_task(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.loop.create_task(coroutine, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _set_error(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _Outbox:
    """Sends messages to a worker in order. A thread sends those that can't be sent at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._left: deque[Callable[[], list[Any]]] = deque()
        self._writing = False

    def send(
        self, kind: Frame, content: tuple[Any, ...], failed: Callable[[Exception], Any]
    ) -> None:
        """Send a message. An error of pickling is raised, or passed to `failed` later."""
        try:
            data = encode_small(kind, content, make_pickler)
        except TooLarge:

            def encode() -> list[Any]:
                try:
                    return encode_large(kind, content, make_pickler)
                except Exception as error:
                    failed(error)
                    return []

            self._leave_to_thread(encode)
            return
        with self._lock:
            sent = 0 if self._writing else self._try_sending(data)
        if sent < len(data):
            rest = memoryview(data)[sent:]
            self._leave_to_thread(lambda: [rest])

    def _try_sending(self, data: bytes) -> int:
        try:
            return self._connection.send(data, _DONT_WAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # The worker is gone, which the reading side will find.

    def _leave_to_thread(self, pieces: Callable[[], list[Any]]) -> None:
        with self._lock:
            self._left.append(pieces)
            if self._writing:
                return
            self._writing = True
        threading.Thread(target=self._write_rest, name="wieldy-large-value", daemon=True).start()

    def _write_rest(self) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._writing = False
                    return
                pieces = self._left.popleft()
            with contextlib.suppress(OSError):
                for piece in pieces():
                    send_whole(self._connection, piece)


def _call_on(
    loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any
) -> bool:
    """Call a function on a loop, immediately on this loop; False if the loop is closed."""
    try:
        if asyncio.get_running_loop() is loop:
            function(*arguments)
            return True
    except RuntimeError:
        pass  # No loop runs here.
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return False
    return True


def _log_again(facts: dict[str, Any]) -> None:
    """Pass a worker's log record to the logger with its name in this process."""
    record = logging.makeLogRecord(facts)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
