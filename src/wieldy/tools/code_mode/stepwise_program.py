"""Run one program in the sandbox, step by step: it stops at its calls, and goes on with answers."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from pydantic_monty import (
    ExternalSettledResult,
    FunctionSnapshot,
    FutureSnapshot,
    Monty,
    MontyComplete,
    MontyError,
    MontySession,
    NameLookupSnapshot,
    SyncSnapshot,
)

from wieldy.core.call import Outcome, Status
from wieldy.core.context import Context
from wieldy.core.permission.waiting_calls import CallsNeeded
from wieldy.core.secrets.covered_content import shown_value

from .inner_calls import Foretold, InnerCalls, ended_early
from .program_errors import ProgramFailed, count_made, explain_program_failure
from .program_functions import KnownAnswer, ProgramFunctions, WantedCall
from .program_thread import NobodyListens, ProgramThread
from .program_values import plain_value, replace_surrogates, value_for_program
from .worker_pool import WorkerPool

_Answers: TypeAlias = dict[int, ExternalSettledResult]
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_SLEEPS = ("asyncio.sleep", "time.sleep")
_EXCEPTIONS = {
    Status.DENIED: "PermissionError",
    Status.TIMEOUT: "TimeoutError",
}


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What a program may use up."""

    seconds: float
    memory: int
    calls: int
    output: int
    code: int


@dataclass(frozen=True, slots=True)
class _Inner:
    """A call of the program that has no answer yet: what it wants, and its place among all."""

    index: int
    name: str
    wanted: WantedCall | KnownAnswer | float


class Program:
    """One program, run once from its start.

    The sandbox is a process, and talking to it blocks. So a thread of its own walks the program
    from stop to stop: a stop is where all its tasks wait for calls. These are made on the loop,
    all at once, and the program gets their outcomes together: that way it does the same whenever
    it is run.
    """

    def __init__(
        self,
        code: str,
        functions: ProgramFunctions,
        calls: InnerCalls,
        limits: CodeLimits,
        context: Context,
    ) -> None:
        self._code = code
        self._functions = functions
        self._calls = calls
        self._limits = limits
        self._context = context
        self._thread: ProgramThread[list[int], _Answers] = ProgramThread()
        self._lock = threading.Lock()
        self._worker: int | None = None
        self._stopped = threading.Event()
        # Set unless the program has been given an outcome that is not durable yet.
        self._recorded = threading.Event()
        self._recorded.set()
        self._open: dict[int, _Inner] = {}
        # The call that the loop was asked for before the program waits for it.
        self._asked: int | None = None
        # How many calls the program has begun, and how many of these were made or found again.
        self._begun = 0
        self._made = 0
        self._slept = 0.0
        self._printed = 0

    async def run(self, pool: WorkerPool) -> Any:
        """Run the program to its end; returns its last value.

        Raises:
            ProgramFailed: It could not be run to its end.
            CallsNeeded: It waits for calls on which somebody has to decide.
        """
        self._thread.start(partial(self._converse, pool))
        try:
            while (ids := await self._thread.next_question()) is not None:
                answers = await (self._answer(ids) if len(ids) > 1 else self._answer_one(ids[0]))
                if answers is not None:
                    self._thread.answer(answers)
            return self._thread.result()
        except MontyError as error:
            raise explain_program_failure(error, self._count_calls()) from None
        finally:
            if self._thread.busy:
                self._end_worker()
            self._recorded.set()
            await self._thread.close()

    def _end_worker(self) -> None:
        """End the process of the sandbox, in which the program would go on by itself."""
        self._stopped.set()
        with self._lock, suppress(ProcessLookupError):
            if self._worker is not None:
                os.kill(self._worker, _KILL)

    def _converse(self, pool: WorkerPool) -> Any:
        """Run the program, on its thread; returns its last value."""
        session = self._check_out(pool.open())
        try:
            with self._lock:
                self._worker = pid = session.worker_pid
            if self._stopped.is_set():
                raise NobodyListens
            with pool.watched(pid):
                return self._walk_whole(session)
        finally:
            with self._lock:
                # From here on the process may be that of another program.
                self._worker = None
            session.__exit__(None, None, None)

    def _walk_whole(self, session: MontySession) -> Any:
        snapshot = self._walk(session.feed_start(self._code, print_callback=self._print))
        while not isinstance(snapshot, MontyComplete):
            answers = self._ask(snapshot.pending_call_ids)
            snapshot = self._walk(snapshot.resume(answers))
        self._refuse_unawaited()
        self._refuse_early_end()
        return self._read(snapshot)

    def _check_out(self, pool: Monty) -> MontySession:
        limits = self._limits
        session = pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                # A call takes one, and so does waiting for it. Names that are not there do too.
                "max_suspensions": 4 * limits.calls + 1_000,
            },
            os_policy={
                "datetime": datetime.fromtimestamp(self._calls.started_at, UTC),
                "random_start": {"seed": self._context.call_id},
                "sleep": "call_host",
            },
        )
        try:
            return session.__enter__()
        except TimeoutError:
            raise self._stop("too many programs run at once; try again") from None

    def _ask(self, ids: list[int]) -> _Answers:
        """What the calls gave that the program waits for; the loop may have one of them already."""
        answers: _Answers = {}
        if self._asked is not None:
            answers = self._thread.hear()
            ids = [call_id for call_id in ids if call_id != self._asked]
            self._asked = None
        if ids:
            self._thread.ask(sorted(ids))
            answers |= self._thread.hear()
        return answers

    def _walk(self, snapshot: SyncSnapshot) -> FutureSnapshot | MontyComplete:
        """Let the program run until it waits for calls, or ends."""
        while not isinstance(snapshot, FutureSnapshot | MontyComplete):
            if isinstance(snapshot, NameLookupSnapshot):
                snapshot = self._look_up(snapshot)
            elif snapshot.is_os_function:
                snapshot = self._ask_system(snapshot)
            else:
                snapshot = self._take_call(snapshot)
        return snapshot

    def _look_up(self, snapshot: NameLookupSnapshot) -> SyncSnapshot:
        name = snapshot.variable_name
        if snapshot.object_id is not None or self._functions.find(name) is None:
            return snapshot.resume()

        def function() -> None:
            """Stands for a function of the program; the sandbox needs its name alone."""

        function.__name__ = name
        return snapshot.resume(value=function)

    def _ask_system(self, snapshot: FunctionSnapshot) -> SyncSnapshot:
        """A program may sleep; it has no files, no network and no environment."""
        if snapshot.function_name not in _SLEEPS:
            return snapshot.resume_not_handled()
        seconds = snapshot.args[0] if snapshot.args else 0
        self._slept += max(0.0, float(seconds))
        if not self._slept <= self._limits.seconds:
            raise self._stop(f"it slept for more than {self._limits.seconds:g} seconds")
        if snapshot.function_name == "time.sleep":
            # Nothing else of the program can run meanwhile, and this thread is its own.
            self._stopped.wait(seconds)
            return snapshot.resume({"return_value": None})
        self._open[snapshot.call_id] = _Inner(-1, "sleep", float(seconds))
        return snapshot.resume({"future": ...})

    def _take_call(self, snapshot: FunctionSnapshot) -> SyncSnapshot:
        name = str(snapshot.function_name)
        want = None if snapshot.object_id is not None else self._functions.find(name)
        if want is None:
            message = self._functions.explain_unknown(name)
            return snapshot.resume(
                {"exc_type": "NameError", "message": replace_surrogates(message)}
            )
        try:
            wanted = want(*snapshot.args, **snapshot.kwargs)
        except (TypeError, ValueError) as error:
            return snapshot.resume(
                {"exc_type": "TypeError", "message": replace_surrogates(str(error))}
            )
        index = self._begun if isinstance(wanted, WantedCall) else -1
        if index >= self._limits.calls:
            raise self._stop(f"it made more than {self._limits.calls:,} calls")
        self._begun += index >= 0
        alone = not self._open and self._asked is None and snapshot.allow_eager_await
        self._open[snapshot.call_id] = _Inner(index, name, wanted)
        if alone:
            # The program is about to wait for this call and for nothing else, so it is made while
            # the sandbox takes note of that.
            self._asked = snapshot.call_id
            self._thread.ask([snapshot.call_id])
        return snapshot.resume({"future": ...})

    async def _answer_one(self, call_id: int) -> _Answers | None:
        """What the program waits for, or None if it has got that already.

        The program gets the outcome while that is being recorded. What it prints, its next call
        and its end come after the record, so that nobody else sees a result before.
        """
        foretold: list[Outcome] = []

        def tell(outcome: Outcome) -> None:
            answers = self._to_answers({call_id: outcome})
            foretold.append(outcome)
            self._recorded.clear()
            self._thread.answer(answers)

        inner = self._open.pop(call_id)
        self._made += inner.index >= 0
        found = await self._settle(inner, tell)
        if not foretold:
            return self._to_answers({call_id: found})
        if found is not foretold[0]:
            assert isinstance(found, Outcome)
            raise self._stop(f"its call of {inner.name} came to an unknown end: {found.text}")
        self._recorded.set()
        return None

    async def _answer(self, ids: list[int]) -> _Answers:
        """What the program waits for, once all of it is there."""
        waiting = [self._open.pop(call_id) for call_id in ids]
        self._made += sum(inner.index >= 0 for inner in waiting)
        found = await asyncio.gather(*map(self._settle, waiting), return_exceptions=True)
        settled: dict[int, Outcome | KnownAnswer] = {}
        for call_id, each in zip(ids, found, strict=True):
            if isinstance(each, BaseException):
                raise each
            settled[call_id] = each
        return self._to_answers(settled)

    def _to_answers(self, found: dict[int, Outcome | KnownAnswer]) -> _Answers:
        outcomes = [each for each in found.values() if isinstance(each, Outcome)]
        parked = [each for each in outcomes if each.status is Status.PENDING]
        if parked:
            raise CallsNeeded(parked)
        for each in outcomes:
            self._pass_on(each)
        return {call_id: _to_result(each) for call_id, each in found.items()}

    async def _settle(
        self, inner: _Inner, foretold: Foretold | None = None
    ) -> Outcome | KnownAnswer:
        wanted = inner.wanted
        if isinstance(wanted, float):
            await asyncio.sleep(wanted)
            return KnownAnswer(None)
        if isinstance(wanted, KnownAnswer):
            return wanted
        return await self._calls.make(inner.index, wanted.tool, wanted.arguments, foretold)

    def _pass_on(self, outcome: Outcome) -> None:
        """Pass on what the program itself does not get: its pictures, and where it comes from."""
        if outcome.metadata.get("untrusted"):
            self._context.mark_untrusted()
        if outcome.ok and (outcome._content is not None or not _is_plain(shown_value(outcome))):
            for block in outcome.content:
                if block.type != "text":
                    self._context.emit(block)

    def _print(self, stream: str, text: str) -> None:
        """Show what the program prints, on its own thread, up to a limit."""
        self._recorded.wait()
        if self._stopped.is_set():
            return
        room = self._limits.output - self._printed
        self._printed += len(text)
        if room > 0:
            self._context.emit(text[:room])
            if self._printed > self._limits.output:
                self._context.emit(
                    f"\n[cut: the program printed more than {self._limits.output:,}]\n"
                )

    def _refuse_unawaited(self) -> None:
        left = self._open.values()
        names = [inner.name for inner in left if not isinstance(inner.wanted, float)]
        if names:
            listed = ", ".join(dict.fromkeys(names))
            raise self._stop(f"{listed} was called without await, and has not run: write `await`")

    def _refuse_early_end(self) -> None:
        if self._begun < self._calls.count_known():
            raise ended_early(self._begun, self._calls.count_known())

    def _count_calls(self) -> int:
        """How many calls were made, also those that the program made only before a pause."""
        return max(self._made, self._calls.count_known())

    def _read(self, snapshot: MontyComplete) -> Any:
        try:
            value = plain_value(snapshot.output)
        except ValueError as error:
            raise self._stop(f"its last value can't be shown: {error}") from None
        if isinstance(value, str) and value.startswith("<coroutine"):
            raise self._stop("its last value is not awaited: write `await` before it")
        return value

    def _stop(self, reason: str) -> ProgramFailed:
        made = count_made(self._count_calls())
        return ProgramFailed("\n".join([f"The program was stopped: {reason}.", *made]))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | dict)


def _to_result(found: Outcome | KnownAnswer) -> ExternalSettledResult:
    if isinstance(found, KnownAnswer):
        return {"return_value": found.value}
    if found.ok:
        return {"return_value": value_for_program(found)}
    kind: Any = _EXCEPTIONS.get(found.status, "RuntimeError")
    return {"exc_type": kind, "message": replace_surrogates(found.text)}
