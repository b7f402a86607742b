"""The answer to one request. It can be read in several ways, but the model is asked once."""

import asyncio
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from wieldy.core.invoke import carried_run
from wieldy.core.names import listed_names
from wieldy.core.run_errors import KeysMissing, RunCancelled, RunInterrupted
from wieldy.core.sync import blocking_border
from wieldy.models.model import Said

from .event_log import EventLog
from .extension_handlers import run_handler
from .nested_data import PathStyle
from .request import Request
from .response_stream import StreamType, blocking_items, read_events
from .run_loop import RunLoop
from .run_state import Step
from .runs.resumption import Resumption
from .sent_requests import SentRequests

T = TypeVar("T")
_END = object()
_KNOWN = EventLog()
_KNOWN.close()
DataType = Literal["parsed", "original", "all"]

# The response whose `finally` handlers run now. They may read it while other readers still wait.
_finishing: ContextVar["Response | None"] = ContextVar("wieldy_finishing", default=None)


class Response:
    """An answer. The first read asks the model, and all reads share that one answer.

    Each way to read it has a blocking and an async form: `get_data` and `async_get_data`.

    Example:
        `response = agent.input("Who wrote Emma?").get_response(); response.get_text()`
    """

    def __init__(self, request: Request, resumption: Resumption | None = None) -> None:
        self._lock = threading.Lock()
        self._log = EventLog(self._lock)
        # Only the request of a run that goes on is not known at once.
        self._opened = _KNOWN if resumption is None else EventLog(self._lock)
        self._run = RunLoop(request, self._log, resumption)
        self._goes_on = resumption is not None
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0

    @property
    def run_id(self) -> str:
        """The id of the run in the store."""
        return self._run.run_id

    @property
    def spent(self) -> dict[str, Any]:
        """The used-up part of the budget: this run's budget, or that of a run around it."""
        return {name: amount for name, amount in self._run.state.spent.items() if name != "below"}

    @property
    def waits_for(self) -> list[str]:
        """The ids of the calls for which an interrupted run waits."""
        return list(self._run.state.pending)

    @property
    def _request(self) -> Request:
        return self._run.request

    @property
    def prompt(self) -> Any:
        """The prompt of this request, as it was when it started."""
        return self._request.prompt

    @property
    def full_result_data(self) -> dict[str, Any]:
        """All that is known so far; `extra["tool_logs"]` has the calls of tools as they ended."""
        return self._run.result

    @property
    def session(self) -> str | None:
        """The chat session that was active when the request was made."""
        return self._request.session

    @property
    def user_text(self) -> str:
        """The text of the request's own message."""
        said = [turn for turn in self._run.state.turns if isinstance(turn, Said)]
        own = next((turn.content for turn in reversed(said) if turn.role == "user"), "")
        return own if isinstance(own, str) else str(own[0].get("text", ""))

    # Views

    async def async_get_text(self) -> str:
        """Return the answer's text, whatever form `output()` asked for."""
        await self._wait_end()
        text: str = self._read_result()["text_result"]
        return text

    async def async_get_meta(self) -> dict[str, Any]:
        """Return the model's name, the tokens used, and why the answer ended."""
        await self._wait_end()
        meta: dict[str, Any] = self._read_result()["meta"]
        return meta

    async def async_get_data(
        self,
        *,
        type: DataType = "parsed",
        ensure_keys: Iterable[str] | str | None = None,
        key_style: PathStyle = "dot",
        max_retries: int = 3,
        raise_ensure_failure: bool = True,
    ) -> Any:
        """Return the answer as data: text, or what `output()` asked for.

        Args:
            type: "parsed", "original" for the text, or "all" for everything known.
            ensure_keys: Paths that the answer must have, such as `items[*].name`.
            key_style: How these paths are written, "dot" or "slash".
            max_retries: How many further requests are made for missing keys.
            raise_ensure_failure: Whether keys that are still missing are an error.

        Raises:
            KeysMissing: Keys were still missing after the last request. It is a `ValueError`.
            StructuredError: The answer is not what `output()` asked for. It is a `ValueError`.
            RunInterrupted: A call waits for a person; `pending` has it.
            RunCancelled: The request was cancelled.
            ModelError: The model gave no answer that can be used.

        Example:
            `data = await response.async_get_data(ensure_keys=["author"])`
        """
        keys = listed_names(ensure_keys)
        if keys:
            self._ensure_keys(keys, key_style, max_retries)
        await self._wait_end()
        result = self._read_result()
        if keys:
            missing = await self._missing_keys(keys, key_style, max_retries)
            if missing and raise_ensure_failure:
                raise KeysMissing(missing, max_retries)
        if type == "all":
            return result
        if type == "original":
            return result["text_result"]
        return self._parsed_result()

    async def async_get_data_object(self, **options: Any) -> BaseModel:
        """Return the answer as a pydantic object.

        Args:
            **options: The options of `async_get_data`.

        Raises:
            TypeError: No `output()` was defined, so that the answer is text.
        """
        if self._goes_on:
            # The form of the answer is known only after the run has been read.
            self._start()
            await self._wait_guarded(self._opened.wait_closed())
        if self._request.form.kind == "text":
            self._request.form.make_object(None)
        await self.async_get_data(**options)
        return self._request.form.make_object(self._parsed_result())

    def get_async_generator(
        self, type: StreamType = "delta", *, events: Iterable[str] | str | None = None
    ) -> AsyncGenerator[Any]:
        """Iterate over the answer while it comes.

        Args:
            type: "delta" for pieces of text; "original" for the model's own events;
                "instant" for what is known of each value of the JSON; "all" for
                `(event, data)` pairs; "specific" for those pairs that `events` names.
            events: The names of the events for "specific".

        Returns:
            The pieces, as they come.

        Example:
            `async for piece in response.get_async_generator(): print(piece, end="")`
        """
        view = read_events(self._log, lambda: self._request, type, events)
        return self._follow_view(view)

    # The same for blocking code

    def get_text(self) -> str:
        """Return the answer's text."""
        return _wait_blocking(self.async_get_text)

    def get_meta(self) -> dict[str, Any]:
        """Return the model's name, the tokens used, and why the answer ended."""
        return _wait_blocking(self.async_get_meta)

    def get_data(self, **options: Any) -> Any:
        """Return the answer as data, and raise what `async_get_data` raises.

        Args:
            **options: The options of `async_get_data`.

        Returns:
            Text, or what `output()` asked for.
        """
        return _wait_blocking(lambda: self.async_get_data(**options))

    def get_data_object(self, **options: Any) -> BaseModel:
        """Return the answer as a pydantic object.

        Args:
            **options: The options of `async_get_data`.

        Raises:
            TypeError: No `output()` was defined, so that the answer is text.
        """
        return _wait_blocking(lambda: self.async_get_data_object(**options))

    def get_generator(
        self, type: StreamType = "delta", *, events: Iterable[str] | str | None = None
    ) -> Generator[Any]:
        """Iterate over the answer while it comes.

        Args:
            type: What to iterate over; see `get_async_generator`.
            events: The names of the events for "specific".

        Returns:
            The pieces, as they come.
        """
        return blocking_items(self.get_async_generator(type, events=events))

    # About the request

    def explain(self) -> SentRequests:
        """Return the messages that were sent so far, with estimates of their tokens."""
        return SentRequests(self._request.model, self._run.sent, sent=True)

    def cancel(self) -> None:
        """Stop the request and its running calls; does nothing after the request has ended."""
        if self._task is None or self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._task.cancel)

    def hand_over(self) -> None:
        """Stop here, and leave the run for another process to take up, as after a crash."""
        self._run.left_as = "crashed"
        self.cancel()

    def put_down(self) -> None:
        """Stop here, and leave the run to whoever resumes it by its id."""
        self._run.left_as = "interrupted"
        self.cancel()

    # How it is run

    def _start(self) -> None:
        with self._lock:
            if self._task is None:
                self._loop = asyncio.get_running_loop()
                self._task = self._loop.create_task(self._perform_run())

    async def _perform_run(self) -> None:
        try:
            await self._run.open()
            self._opened.close()
            await self._run.run()
            if self._run.state.step is Step.INTERRUPTED:
                raise await self._make_interruption()
            self._log.close()
            if not self._run.given:
                await self._run_finally()
                await self._run.settle()
        except asyncio.CancelledError:
            self._run.journal.leave_soon(self._run.left_as or "cancelled")
            self._error = RunCancelled()
            raise
        except Exception as error:
            self._error = error
            if not isinstance(error, RunInterrupted):
                await self._run.journal.leave("failed", str(error))
        except BaseException as error:
            self._run.journal.leave_soon("failed")
            self._error = error
            raise
        finally:
            self._opened.close()
            self._log.end()

    async def _run_finally(self) -> None:
        token = _finishing.set(self)
        try:
            for handler in self._request.handlers.get("finally"):
                async for _ in run_handler(handler, self, self._request.settings):
                    pass
        finally:
            _finishing.reset(token)

    async def _make_interruption(self) -> RunInterrupted:
        run = self._run
        desk = self._request.box.desk
        parked = [each for called in run.state.pending for each in await desk.find_open(called)]
        return RunInterrupted(parked, run.run_id, run.journal.pointer(run.request, run.state))

    def _wait_end(self) -> Awaitable[None]:
        self._start()
        # A `finally` handler reads what there is before the request has ended.
        is_own = _finishing.get() is self
        return self._wait_guarded(self._log.wait_closed() if is_own else self._log.wait_ended())

    def _read_result(self) -> dict[str, Any]:
        """The result of a run that has ended; raises the error with which it failed."""
        if self._error is not None:
            raise self._error
        return self._run.result

    async def _follow_view(self, view: AsyncGenerator[Any]) -> AsyncGenerator[Any]:
        self._start()
        await self._wait_guarded(self._opened.wait_closed())
        async with aclosing(view):
            while (item := await self._wait_guarded(anext(view, _END))) is not _END:
                yield item
        await self._wait_end()
        self._read_result()

    async def _wait_guarded(self, waited: Awaitable[Any]) -> Any:
        """Wait; a reader that is cancelled while nobody else waits cancels the request."""
        with self._lock:
            self._waiting += 1
        try:
            return await waited
        except asyncio.CancelledError:
            if self._waiting == 1 and _finishing.get() is not self:
                around = carried_run.get()
                if around is not None and around.left_as is not None:
                    # The run goes on with the one around it.
                    self._run.left_as = around.left_as
                self.cancel()
                await self._log.wait_ended()
            raise
        finally:
            with self._lock:
                self._waiting -= 1

    def _parsed_result(self) -> Any:
        for error in self._run.result["errors"]:
            raise error
        return self._run.result["parsed_result"]

    # Keys that the answer must have

    def _ensure_keys(self, keys: Sequence[str], style: PathStyle, retries: int) -> None:
        with self._lock:
            if self._task is None:
                self._run.ensured = (keys, style, retries)

    async def _missing_keys(self, keys: Sequence[str], style: PathStyle, retries: int) -> list[str]:
        """The keys that are still missing, after further requests if none was made for them yet."""
        run = self._run
        before, run.ensured = run.ensured, (keys, style, retries)
        missing = run.missing_keys()
        if missing and before is None and retries and not run.given:
            await self._ask_again(missing, retries)
            missing = run.missing_keys()
        return missing

    async def _ask_again(self, missing: list[str], retries: int) -> None:
        """Continue a run that had ended before anybody asked for these keys."""
        run = self._run
        run.log = EventLog()
        run.result["errors"].clear()
        run.ask_again(missing)
        run.state.step = Step.ASK
        await run.run()
        await run.settle()


def _wait_blocking(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return blocking_border().wait(lambda home: start())
