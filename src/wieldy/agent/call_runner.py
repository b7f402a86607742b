"""Run the calls of one answer at the same time, and tell what happens to each."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallDenied, InvalidResult, ToolFailed
from wieldy.core.run import Extras
from wieldy.core.streaming import iterate_pushed

from .request import Request
from .run_state import RunState
from .runs.resumed_calls import ResumedCalls
from .tool_log import ToolLog, make_log, show_arguments, show_item

# The number of calls of one answer that are run; a model that makes more is told so.
_MOST_CALLS = 64
_ENTERED = (Status.OK, Status.TIMEOUT, Status.INTERRUPTED, Status.UNKNOWN)


class CallHost(Protocol):
    """The run whose calls are run."""

    request: Request
    state: RunState
    again: ResumedCalls | None

    async def emit(self, event: str, data: Any) -> None:
        """Write an event."""

    async def tell_log(self, log: ToolLog) -> None:
        """Tell programs of a call that has ended."""


class CallRunner:
    """Runs the calls of a run.

    Attributes:
        settled: The outcomes of the calls of this answer, in the order of their ends.
    """

    def __init__(self, run: CallHost) -> None:
        self._run = run
        self.settled: list[Outcome] = []

    async def run_calls(self, calls: Sequence[Call], streams: bool) -> list[Outcome]:
        """Run calls at the same time; those that wait for a person are noted in the state."""
        allowed, refused = calls[:_MOST_CALLS], calls[_MOST_CALLS:]
        perform = self._stream_call if streams else self._plain_call
        reason = f"one answer may have {_MOST_CALLS} calls, and this is one more"
        denied = [
            Outcome(call, Status.DENIED, error=CallDenied(call.tool, reason)) for call in refused
        ]
        self.settled += denied
        outcomes = [*await _run_together(map(perform, allowed)), *denied]
        waiting = [each.call.id for each in outcomes if each.status is Status.PENDING]
        self._run.state.pending = waiting
        return outcomes

    async def _stream_call(self, call: Call) -> Outcome:
        tell = _Teller(self._run, call)
        async for item in self._items(call, tell):
            if isinstance(item, Outcome):
                outcome = await self._decided(item, tell)
                self.settled.append(outcome)
                if outcome.status is not Status.PENDING:
                    await self._run.tell_log(
                        make_log(outcome, self._run.request.view.get(call.tool))
                    )
                    await tell.completed(outcome)
                return outcome
            await tell.started()
            await self._run.emit(*show_item(call, item))
        raise AssertionError("a stream ends with its outcome")

    async def _plain_call(self, call: Call) -> Outcome:
        tell = _Teller(self._run, call)
        outcome = await self._decided(await self._observed(call, tell), tell)
        # The log of a call that runs before the answer is the first event, unless a person was
        # asked about the call.
        if outcome.status is not Status.PENDING and tell.has_asked:
            await tell.completed(outcome)
        return outcome

    def _items(self, call: Call, tell: "_Teller") -> AsyncIterator[Any]:
        request, again = self._run.request, self._run.again
        if again is not None and again.concerns(call):
            return self._resumed_items(again, call, tell)
        return request.view.stream(call, session=request.session, deps=request.deps, live=True)

    async def _resumed_items(
        self, again: ResumedCalls, call: Call, tell: "_Teller"
    ) -> AsyncIterator[Any]:
        """What a call shows that may have been made before the run stopped, its outcome last."""
        request = self._run.request
        settled = iterate_pushed(
            lambda sink: again.settle(call, Extras(request.deps, sink), tell.decided), live=True
        )
        async for item in settled:
            if item is not None:
                yield item
                continue
            made = request.view.stream(call, session=request.session, deps=request.deps, live=True)
            async for shown in made:
                yield shown

    async def _observed(self, call: Call, tell: "_Teller") -> Outcome:
        request, again = self._run.request, self._run.again
        if again is not None and again.concerns(call):
            outcome = await again.settle(call, Extras(request.deps), tell.decided)
            if outcome is not None:
                return outcome
        return await request.view.call_observed(call, session=request.session, deps=request.deps)

    async def _decided(self, outcome: Outcome, tell: "_Teller") -> Outcome:
        """The outcome; where the call waits and somebody is there to decide, its end."""
        decide = self._run.request.decide
        while outcome.status is Status.PENDING:
            await tell.asked(outcome)
            if decide is None:
                break
            receipt, outcome = outcome, await decide(outcome)
            if outcome is receipt:
                break
            if outcome.status is not Status.PENDING:
                await tell.decided(outcome.call, outcome.status is not Status.DENIED, None)
        return outcome


async def _run_together(calls: Iterable[Coroutine[Any, Any, Outcome]]) -> list[Outcome]:
    """The outcomes of all calls; where one raises, the others are cancelled and have ended."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class _Teller:
    """Tells what happens to one call, each thing once and in order."""

    def __init__(self, run: CallHost, call: Call) -> None:
        self.has_asked = False
        self._run = run
        self._named = {"tool_name": call.tool, "call_id": call.id}
        self._started = False

    async def asked(self, receipt: Outcome) -> None:
        """A person has to decide on the call, or to answer what its tool asks."""
        self.has_asked = True
        call, agent = receipt.call, self._run.request.agent
        reason = receipt.metadata.get("reason")
        data: dict[str, Any] = {
            **self._named,
            "type": "tool_permission",
            "agent": agent,
            "permission_level": "confirm",
            "params": show_arguments(call, self._run.request.view.get(call.tool)),
            "message": f"{agent} asks to run {call.tool}: {reason}",
        }
        if "input" in receipt.metadata:
            data["requests"] = receipt.metadata["input"]
        await self._run.emit("permission_request", data)

    async def decided(self, call: Call, approved: bool, reason: str | None) -> None:
        """Somebody has decided on the call."""
        self.has_asked = True
        data = {**self._named, "approved": approved, "reason": reason}
        await self._run.emit("permission_result", data)

    async def started(self) -> None:
        """The tool has shown that it runs."""
        if not self._started:
            self._started = True
            await self._run.emit("tool_start", self._named)

    async def completed(self, outcome: Outcome) -> None:
        """The call has ended; one that was refused never began."""
        failed = isinstance(outcome.error, ToolFailed | InvalidResult)
        if not self._started and outcome.status not in _ENTERED and not failed:
            return
        await self.started()
        ended = {
            "success": outcome.ok,
            "duration_ms": (outcome.seconds or 0.0) * 1000,
            "error": None if outcome.ok else outcome.text,
        }
        await self._run.emit("tool_complete", {**self._named, **ended})
