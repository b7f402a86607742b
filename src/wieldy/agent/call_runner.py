"""Run the calls of one answer at the same time, and emit an event for each thing that happens."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from wieldy.core.active_call import Entrance, Extras, Sink
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallDenied, CallInterrupted, InvalidResult, ToolFailed
from wieldy.core.permission.decisions import awaited_entrance
from wieldy.core.permission.parked import make_receipt
from wieldy.core.streaming import TellingChannel, tell_pushed
from wieldy.core.task import current_task, run_in_copy

from .request import Decider, Request
from .run_clock import RunClock
from .run_state import RunState
from .runs.resumed_calls import ResumedCalls
from .tool_log import ToolLog, make_log, show_arguments, show_item

# The number of calls of one answer that are run; a model that makes more is told so.
_MAX_CALLS = 64
# Every run shares it, because the garbage collector looks at each that is kept.
_NOTHING: frozenset[str] = frozenset()
_ENTERED = (Status.OK, Status.TIMEOUT, Status.INTERRUPTED, Status.UNKNOWN)


class CallHost(Protocol):
    """The run to which the calls belong."""

    request: Request
    state: RunState
    again: ResumedCalls | None
    clock: RunClock

    async def emit(self, event: str, data: Any) -> None:
        """Emit an event."""

    async def tell_log(self, log: ToolLog) -> None:
        """Report a call that has ended to programs."""


class CallRunner:
    """Runs the calls of one answer. A run keeps none, because the two would keep each other.

    `settled` gets the outcomes as the model reads them, in the order in which the calls end.
    """

    def __init__(self, run: CallHost, settled: list[Outcome]) -> None:
        self._run = run
        self._settled = settled
        # The ids of the calls for which the run no longer waits.
        self._cut = _NOTHING
        self._stopping: asyncio.Future[None] | None = None

    def run_calls(
        self, calls: Sequence[Call], streams: bool = True
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Run calls at the same time; those that wait for a person are noted in the state."""
        if len(calls) == 1 and not self._run.clock.will_ring:
            return self._run_alone(calls[0], streams)
        return self._run_several(calls, streams)

    def _note_waiting(self, outcomes: list[Outcome]) -> list[Outcome]:
        waiting = [each.call.id for each in outcomes if each.status is Status.PENDING]
        self._run.state.pending = waiting
        return outcomes

    async def _run_alone(self, call: Call, streams: bool) -> list[Outcome]:
        """Run the only call without a task of its own, but in a context of its own."""
        task = current_task()
        before = task.cancelling()
        performed = self._stream_call(call) if streams else self._plain_call(call)
        outcome = await run_in_copy(performed)
        if task.cancelling() > before:
            # The tool has ignored that the run was cancelled.
            raise asyncio.CancelledError
        return self._note_waiting([outcome])

    async def _run_several(self, calls: Sequence[Call], streams: bool) -> list[Outcome]:
        perform = self._stream_call if streams else self._plain_call
        allowed, refused = calls[:_MAX_CALLS], calls[_MAX_CALLS:]
        reason = f"one answer may have {_MAX_CALLS} calls, and this is one more"
        denied = [
            Outcome(call, Status.DENIED, error=CallDenied(call.tool, reason)) for call in refused
        ]
        self._settled += denied
        tasks = [asyncio.ensure_future(self._cut_off(perform(call), call)) for call in allowed]
        with self._run.clock.ringing(lambda: self._stop_soon(allowed, tasks)):
            outcomes = [*await _run_together(tasks), *denied]
        return self._note_waiting(outcomes)

    def _stop_soon(self, calls: Sequence[Call], tasks: Sequence[asyncio.Task[Outcome]]) -> None:
        self._stopping = asyncio.ensure_future(self._stop_calls(calls, tasks))

    async def _stop_calls(
        self, calls: Sequence[Call], tasks: Sequence[asyncio.Task[Outcome]]
    ) -> None:
        """End the calls that still run, because the run has no time left."""
        for call, task in zip(calls, tasks, strict=True):
            if not task.done() and not await self._run.request.box.interrupt(call.id):
                # The call does not run in this process; the run only waits for it.
                self._cut |= {call.id}
                task.cancel()

    async def _cut_off(self, performed: Coroutine[Any, Any, Outcome], call: Call) -> Outcome:
        """The outcome of a call; it is interrupted if the run no longer waits for the call."""
        try:
            return await performed
        except asyncio.CancelledError:
            if call.id not in self._cut:
                raise
            outcome = Outcome(call, Status.INTERRUPTED, error=CallInterrupted(call.tool))
            self._settled.append(outcome)
            return outcome

    async def _stream_call(self, call: Call) -> Outcome:
        tell = _Teller(self._run, call)
        channel = TellingChannel(tell)
        made = await tell_pushed(channel, self._run_one(call, tell, tell.entered, channel))
        tell.raise_failure()
        outcome = await self._decide_outcome(made, tell)
        tell.raise_failure()
        await self._settle(outcome)
        if outcome.status is not Status.PENDING:
            await self._run.tell_log(make_log(outcome, self._run.request.view.get(call.tool)))
            await tell.completed(outcome)
        return outcome

    async def _settle(self, outcome: Outcome) -> None:
        """Keep an outcome as the model reads it. Programs are told of the whole."""
        place = len(self._settled)
        # A run that is cancelled while the rest is kept must not lose the outcome.
        self._settled.append(outcome)
        self._settled[place] = await self._run.request.for_model(outcome)

    async def _plain_call(self, call: Call) -> Outcome:
        tell = _Teller(self._run, call)
        made = await self._run_one(call, tell, tell.entered_after_asking)
        outcome = await self._decide_outcome(made, tell)
        tell.raise_failure()
        # The log of a call that runs before the answer is the first event, unless a person was
        # asked about the call.
        if outcome.status is not Status.PENDING and tell.has_asked:
            await tell.completed(outcome)
        return outcome

    def _run_one(
        self, call: Call, tell: "_Teller", entered: Entrance, sink: Sink | None = None
    ) -> Coroutine[Any, Any, Outcome]:
        """The outcome of a call, which may have been made before the run stopped."""
        request, again = self._run.request, self._run.again
        extras = Extras(request.deps, sink, entered=entered)
        if again is not None and again.concerns(call):
            return self._settle_again(again, call, extras, tell)
        return request.view.call_observed(call, extras, session=request.call_session)

    async def _settle_again(
        self, again: ResumedCalls, call: Call, extras: Extras, tell: "_Teller"
    ) -> Outcome:
        request = self._run.request
        outcome = await again.settle(call, extras, tell.decided)
        if outcome is not None:
            return outcome
        return await request.view.call_observed(call, extras, session=request.call_session)

    async def _decide_outcome(self, outcome: Outcome, tell: "_Teller") -> Outcome:
        """The outcome; a call that waits is decided first, if somebody is there to decide."""
        while outcome.status is Status.PENDING:
            receipt, outcome = outcome, await self._decide_below(outcome, tell)
            if outcome is receipt:
                break
        return outcome

    async def _decide_below(self, receipt: Outcome, tell: "_Teller") -> Outcome:
        """Ask about a call that waits, or about the calls that it waits for.

        Returns the outcome, or the receipt if nobody has decided.
        """
        request = self._run.request
        if "waits_for" not in receipt.metadata:
            return await self._decide_one(receipt, tell)
        desk = request.box.desk
        for parked in await desk.find_open(receipt.call.id):
            tell_below, outcome = _Teller(self._run, parked.call), make_receipt(parked)
            while outcome.status is Status.PENDING:
                asked, outcome = outcome, await self._decide_one(outcome, tell_below)
                if outcome is asked:
                    break
            tell.has_asked = True
        # The call may run again now, and shows what it shows.
        channel = TellingChannel(tell)
        going_on = desk.go_on(receipt.call.id, Extras(request.deps, channel))
        resumed = await tell_pushed(channel, going_on)
        return resumed or receipt

    async def _decide_one(self, receipt: Outcome, tell: "_Teller") -> Outcome:
        await tell.asked(receipt)
        decide = self._run.request.decide
        if decide is None:
            return receipt
        outcome = await self._ask_now(receipt, decide, tell)
        if outcome.status is not Status.PENDING:
            await tell.decided(outcome.call, outcome.status is not Status.DENIED, None)
        return outcome

    async def _ask_now(self, receipt: Outcome, decide: Decider, tell: "_Teller") -> Outcome:
        """Ask somebody about a call, and return its outcome. The clock of the run is stopped."""
        with ExitStack() as waiting:
            waiting.enter_context(self._run.clock.asking())

            async def entered() -> None:
                waiting.close()
                await tell.entered()

            token = awaited_entrance.set((receipt.call.id, entered))
            try:
                return await decide(receipt)
            finally:
                awaited_entrance.reset(token)


async def _run_together(tasks: Sequence[asyncio.Task[Outcome]]) -> list[Outcome]:
    """The outcomes of all calls. If one raises, the others are cancelled and awaited."""
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _name_call(call: Call) -> dict[str, Any]:
    return {"tool_name": call.tool, "call_id": call.id}


class _Teller:
    """Emits the events of one call, each once and in order."""

    def __init__(self, run: CallHost, call: Call) -> None:
        self.has_asked = False
        self._run = run
        self._call = call
        # Whether the call awaits a decision that has not been reported, and the calls whose
        # decisions have been reported.
        self._awaits = False
        self._told = _NOTHING
        self._named = _name_call(call)
        self._started = False
        self._failure: Exception | None = None

    async def asked(self, receipt: Outcome) -> None:
        """Report that a person has to decide on the call, or to answer a question of its tool."""
        self.has_asked = self._awaits = True
        self._told -= {receipt.call.id}
        call, request = receipt.call, self._run.request
        # The call may be one that a subagent has made.
        agent = call.scope.agent or request.agent
        reason = receipt.metadata.get("reason")
        data: dict[str, Any] = {
            **_name_call(call),
            "type": "tool_permission",
            "agent": agent,
            "permission_level": "confirm",
            "params": show_arguments(call, request.box.find_tool(call.tool)),
            "message": f"{agent} asks to run {call.tool}: {reason}",
        }
        if "input" in receipt.metadata:
            data["requests"] = receipt.metadata["input"]
        await self._run.emit("permission_request", data)

    async def decided(self, call: Call, approved: bool, reason: str | None) -> None:
        """Report once that somebody has decided on the call."""
        if call.id in self._told:
            return
        self._told |= {call.id}
        self.has_asked, self._awaits = True, False
        data = {**_name_call(call), "approved": approved, "reason": reason}
        await self._run.emit("permission_result", data)

    async def shown(self, item: Any) -> None:
        """Report an item that the running tool shows."""
        self.raise_failure()
        await self._run.emit(*show_item(self._call, item))

    async def entered(self) -> None:
        """Report that the tool's function is being entered. A failing handler does not stop it."""
        try:
            if self._awaits:
                await self.decided(self._call, True, None)
            await self._tell_start()
        except Exception as error:
            self._failure = error

    async def entered_after_asking(self) -> None:
        """Report the same, but only for a call about which a person was asked."""
        if self.has_asked:
            await self.entered()

    def raise_failure(self) -> None:
        """Raise the error of a handler of the start, which ends the run and not the call."""
        if self._failure is not None:
            raise self._failure

    async def _tell_start(self) -> None:
        if not self._started:
            self._started = True
            await self._run.emit("tool_start", self._named)

    async def completed(self, outcome: Outcome) -> None:
        """Report that the call has ended, unless its function was never entered."""
        if not self._started and not outcome.ok and not self._ran_elsewhere(outcome):
            return
        await self._tell_start()
        ended = {
            "success": outcome.ok,
            "duration_ms": (outcome.seconds or 0.0) * 1000,
            "error": None if outcome.ok else outcome.text,
        }
        await self._run.emit("tool_complete", {**self._named, **ended})

    def _ran_elsewhere(self, outcome: Outcome) -> bool:
        """Whether the function ran elsewhere: before the run stopped, or where it was approved."""
        again = self._run.again
        if not self.has_asked and (again is None or not again.concerns(self._call)):
            return False
        return outcome.status in _ENTERED or isinstance(outcome.error, ToolFailed | InvalidResult)
