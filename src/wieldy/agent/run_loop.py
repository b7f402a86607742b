"""The loop of a run: ask the model, run its calls, ask again, until there is an answer.

The loop is a small state machine. Each step reads and changes the `RunState` and says which
step comes next. Events are written to a log that any number of readers can follow. A call that
waits for a person interrupts the run, in a state from which it can be resumed.
"""

import sys
import threading
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from wieldy.core.active_call import around_here
from wieldy.core.call import Call, Outcome, Scope, Status
from wieldy.core.invoke import CarriedRun, carried_run
from wieldy.core.limits.budget import Budget
from wieldy.core.limits.spending import Spending, current_spending
from wieldy.core.run_errors import NoAnswer
from wieldy.models.model import ModelEvent, ModelRequest, Reply, Said
from wieldy.wire.cost import stable_json
from wieldy.wire.stream_events import TextDelta, ThinkingDelta
from wieldy.wire.structured.json_document import StructuredError

from .answer_meta import add_usage, make_meta
from .answer_watch import OUT_OF_TIME, watch_answer
from .call_runner import CallRunner
from .event_log import EventLog
from .extension_handlers import run_handler
from .nested_data import PathStyle, find_values
from .prices import request_cost
from .prompt_text import make_turns
from .request import Request
from .run_clock import NO_CLOCK, RunClock
from .run_state import RunState, Step, new_result
from .runs.resumed_calls import ResumedCalls
from .runs.resumption import Resumption
from .runs.run_journal import Journal, MemoryJournal, Settling, StoreJournal
from .strategies.strategy import TextReader
from .subagents.nesting import OuterRun, current_outer
from .subagents.shared_toolbox import own_tool_name
from .tool_log import ToolLog

SHOW_TOOL_LOGS = "runtime.show_tool_logs"
_making_result = threading.Lock()
_LIMIT_TOLD = "{reason}, and no more calls are run.{left} Answer now with what you know."


class RunLoop:
    """One run of one request."""

    def __init__(
        self, request: Request, log: EventLog, resumption: Resumption | None = None
    ) -> None:
        self.request = request
        self.log = log
        self.state = RunState()
        self.run_id = _choose_id(request, resumption)
        # The state in which the run is left to be resumed; None while it goes on.
        self.left_as: str | None = None
        self.journal: Journal = _open_journal(request, self.run_id)
        self.again: ResumedCalls | None = None
        self.spending: Spending | None = None
        self.clock = NO_CLOCK
        # Whether the answer had been recorded before and is only returned again.
        self.given = False
        self.sent: list[ModelRequest] = []
        self._result: dict[str, Any] | None = None
        self.ensured: tuple[Sequence[str], PathStyle, int] | None = None
        self.options = request.options
        self._resumption = resumption
        self._logs: Sequence[ToolLog] = ()
        self._quiet = not request.handlers.has("broadcast_suffixes")

    @property
    def result(self) -> dict[str, Any]:
        """What programs can read of the run so far. It is made when it is first needed."""
        if self._result is None:
            with _making_result:
                self._result = self._result or new_result()
        return self._result

    async def run(self) -> None:
        """Go from step to step until there is an answer, or a call waits."""
        self.spending = self._open_spending()
        self.clock = NO_CLOCK if self.spending is None else RunClock(self.spending)
        around = current_spending.get(), current_outer.get(), carried_run.get()
        _set_current(self.spending, self, self)
        try:
            while not self.state.ended:
                self.state.step = await _STEPS[self.state.step](self)
                if self.state.step is not Step.DONE:
                    # A run is done only after all its `finally` handlers have run.
                    await self.settle()
        finally:
            _set_current(*around)

    async def open(self) -> None:
        """Restore the state of a run that is resumed."""
        if self._resumption is None:
            self.request = replace(self.request, around=around_here())
            return
        found = await self._resumption.open(self.request)
        self.request, self.state, self.again = found.request, found.state, found.calls
        self.journal = found.journal
        self.options = self.request.options
        if self.state.logs:
            self.result["extra"]["tool_logs"] = list(self.state.logs)
        if found.meta is not None:
            self.given = True
            self.read_answer(found.meta)
            # Handlers heard of these events when the run ended.
            events = {"delta": self.state.text, "done": self.state.text, "meta": found.meta}
            for event, data in events.items():
                self.log.add(event, data)

    def settle(self) -> Settling:
        """Write the state of the run durably, if there is a store."""
        if self.spending is not None:
            self.state.spent = self.spending.to_dict()
        done = self.state.step is Step.DONE
        answer = {"text": self.state.text, "meta": self.result["meta"]} if done else None
        return self.journal.settle(self.request, self.state, answer)

    # The steps

    async def _plan_run(self) -> Step:
        request = self.request
        await self._refresh_tools()
        await request.strategy.plan(self)
        if self.state.pending:
            return Step.INTERRUPTED
        for handler in request.handlers.get("request_prefixes"):
            async for _ in run_handler(handler, request.prompt, request.settings):
                pass
        self.options = request.options
        if request.handlers.has("broadcast_prefixes"):
            # These handlers add the first events, and whoever reads an event may read the row.
            await self.settle()
        system = request.strategy.system_text()
        self.state.turns = make_turns(request.prompt.values(), request.form, system)
        logs, self._logs = self._logs, ()
        for log in logs:
            await self.tell_log(log)
        for handler in request.handlers.get("broadcast_prefixes"):
            await self._join_handler(handler, self.result, request.settings)
        self._tell_limit()
        return Step.ASK

    async def _ask_model(self) -> Step:
        state, strategy = self.state, self.request.strategy
        await self._refresh_tools()
        reader = strategy.open_reader()
        shown: list[str] = []
        async with aclosing(self.watch(self._make_request())) as events:
            async for event in events:
                await self._hear_event(event, reader, shown)
        assert state.reply is not None
        state.text = "".join(shown)
        state.turns.append(state.reply)
        state.calls = self.name_calls(strategy.find_calls(state.reply, reader), str(state.round))
        if not state.calls:
            return Step.CHECK
        await self.emit("tool_calls", [_call_facts(call) for call in state.calls])
        if state.limited or state.reply.finish_reason == OUT_OF_TIME:
            state.turns.append(strategy.answer_turn((), state.calls))
            state.calls = ()
            return Step.CHECK
        return Step.CALL

    async def _hear_event(self, event: ModelEvent, reader: TextReader, shown: list[str]) -> None:
        """Pass on the events of an answer; `shown` is its visible text so far."""
        if isinstance(event, Reply):
            self.state.reply = event
            if not shown and event.text:
                # A model that does not stream says all in its reply.
                await self._show_words(reader.feed(event.text), shown)
            await self._show_words(reader.close(), shown)
            return
        await self.emit("original_delta", event)
        if isinstance(event, TextDelta):
            # An entry without words says that the model streams.
            shown.append("")
            await self._show_words(reader.feed(event.text), shown)
        elif isinstance(event, ThinkingDelta):
            await self.emit("reasoning_delta", event.text)

    async def _run_answer_calls(self) -> Step:
        state, strategy = self.state, self.request.strategy
        settled = list(state.answered)
        try:
            await CallRunner(self, settled).run_calls(_open_calls(state))
        except BaseException:
            # The run is cancelled: a call that has no outcome was interrupted.
            state.turns.append(strategy.answer_turn(settled, state.calls))
            raise
        if state.pending:
            state.answered = [each for each in settled if each.status is not Status.PENDING]
            return Step.INTERRUPTED
        state.turns.append(strategy.answer_turn(settled, state.calls))
        state.calls, state.answered = (), ()
        self.count_round(settled)
        self._catch_up(settled)
        self._tell_limit([each.call.tool for each in settled if each.status is Status.DENIED])
        return Step.ASK

    async def _check_answer(self) -> Step:
        missing = self.missing_keys()
        if missing and self._may_retry():
            self.ask_again(missing)
            await self.emit("retry", {"missing": missing})
            return Step.ASK
        limit = self._reached_limit()
        if limit is not None and not self.state.text.strip():
            raise NoAnswer(limit)
        self.read_answer(make_meta(self.request.model.name, self.state, limit))
        await self.emit("done", self.state.text)
        await self.emit("meta", self.result["meta"])
        return Step.DONE

    # Helpers for the steps and the strategies

    def watch(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Send a request and yield its events, within limits."""
        self.sent.append(request)
        self.state.requests += 1
        seconds = self.clock.request_seconds()
        return watch_answer(self.request.model, request, seconds, self._note_usage)

    def count_round(self, outcomes: Sequence[Outcome]) -> None:
        """Count one round of calls, and what they cost."""
        self.state.round += 1
        self._spend_amounts(rounds=1, cost=sum(map(_tool_cost, outcomes)))

    def name_calls(self, calls: Sequence[Call], place: str) -> list[Call]:
        """The calls with permanent ids, and with keys that identify them in a resumed run."""
        request, calls = self.request, list(map(self._find_own, calls))
        session, around = request.call_session, request.around
        scope = Scope(request.agent, session, run=self.run_id, around=around)
        if not self.journal.recorded:
            return [call.replace(scope=scope) for call in calls]
        keys = (f"{self.run_id}:{place}:{index}" for index in range(len(calls)))
        return [
            call.replace(scope=scope, idempotency_key=key)
            for call, key in zip(calls, keys, strict=True)
        ]

    def _find_own(self, call: Call) -> Call:
        """The call, with the name that the tool has among those of other agents."""
        view, name = self.request.view, own_tool_name(self.request.agent, call.tool)
        renamed = view.get(call.tool) is None and view.get(name) is not None
        return call.replace(tool=name) if renamed else call

    async def run_calls(self, calls: Sequence[Call], streams: bool = True) -> list[Outcome]:
        """Run calls at the same time; those that wait for a person are noted in the state."""
        return await CallRunner(self, []).run_calls(calls, streams)

    def read_answer(self, meta: dict[str, Any]) -> None:
        """Read the answer's text into the result."""
        self.result["text_result"] = self.state.text
        self.result["meta"] = meta
        try:
            self.result["parsed_result"] = self.request.form.read_data(self.state.text)
        except StructuredError as error:
            # Reading the data raises this error, but the text can still be read.
            self.result["errors"].append(error)

    def add_log(self, log: ToolLog) -> None:
        """Keep a log entry until the stream begins."""
        self._logs = (*self._logs, log)

    def ask_again(self, missing: Sequence[str]) -> None:
        """Tell the model which keys its answer lacks."""
        self.state.retries += 1
        keys = ", ".join(missing)
        self.state.turns.append(
            Said(
                "user",
                f"Your answer can't be used: it has no {keys}. Answer again, whole, with JSON "
                "and nothing else, in the structure that was asked for.",
            )
        )

    def missing_keys(self) -> list[str]:
        """The required keys that the answer lacks."""
        if self.ensured is None:
            return []
        keys, style, _ = self.ensured
        try:
            data = self.request.form.read_data(self.state.text)
        except StructuredError:
            return list(keys)
        return [key for key in keys if find_values(data, key, style) is None]

    async def emit(self, event: str, data: Any) -> None:
        """Write an event, followed by the events that handlers add."""
        self.log.add(event, data)
        if self._quiet:
            return
        for handler in self.request.handlers.get("broadcast_suffixes", event):
            await self._join_handler(handler, event, data, self.result, self.request.settings)

    async def _refresh_tools(self) -> None:
        """Offer what is loaded by now, where the toolbox has search tools."""
        listed = self.request.list_tools(self.run_id)
        if listed is not None:
            await listed.refresh_list()

    def _make_request(self) -> ModelRequest:
        strategy = self.request.strategy
        # A provider that enforces the schema for every answer would leave no room for calls.
        last = self.state.limited
        schema = None if strategy.has_rounds and not last else self.request.form.schema
        offered = None if last else self.request.offered_tools
        return ModelRequest(self.state.turns, offered, self.options, schema)

    def _tell_limit(self, refused: Sequence[str] = ()) -> None:
        """Tell the model, once, that a limit is reached, and which of its calls were refused."""
        reason = self.find_limit()
        if reason is None or not self.request.strategy.has_rounds:
            return
        self.state.limited = True
        left = f" These calls did not run: {', '.join(refused)}." if refused else ""
        told = _LIMIT_TOLD.format(reason=reason[0].upper() + reason[1:], left=left)
        self.state.turns.append(Said("user", told))

    def find_limit(self) -> str | None:
        """A description of the limit that is reached, or None."""
        budget, most = self.request.budget, self.request.max_rounds
        if (budget is None or budget.rounds is None) and self.state.round >= most:
            return f"the limit of {most} rounds with tools is reached"
        return None if self.spending is None else self.spending.used_up()

    def _reached_limit(self) -> str | None:
        """The limit because of which the model was asked to answer, or was cut off."""
        reply = self.state.reply
        cut_off = reply is not None and reply.finish_reason == OUT_OF_TIME
        return self.find_limit() if self.state.limited or cut_off else None

    def _may_retry(self) -> bool:
        if self.spending is not None and self.spending.used_up() is not None:
            return False
        return self.ensured is not None and self.state.retries < self.ensured[2]

    def _open_spending(self) -> Spending | None:
        """The counter of what the run uses; a nested run also counts for the one around it."""
        above, budget = current_spending.get(), self.request.budget
        if self.spending is not None or (budget is None and above is None):
            return self.spending
        if budget is None:
            budget = Budget(repeats=None if above is None else above.repeats)
        spending = Spending(budget, above, self.state.spent, self.run_id)
        if spending.bounds_cost:
            request_cost(self.request.prices, self.request.model.name, None)
        return spending

    def _spend_amounts(self, **amounts: float) -> None:
        if self.spending is not None:
            self.spending.add(**amounts)

    def _catch_up(self, settled: Sequence[Outcome]) -> None:
        """Count what nested runs have used while this run was interrupted."""
        for outcome in settled:
            run = outcome.metadata.get("meta", {}).get("run")
            if self.spending is not None and isinstance(run, dict) and "spent" in run:
                self.spending.catch_up(run["id"], run["spent"])

    def _spend_tokens(self, reply: Reply) -> None:
        usage, request = reply.usage, self.request
        if self.spending is None or usage is None:
            return
        self._spend_amounts(tokens=(usage.input_tokens or 0) + (usage.output_tokens or 0))
        if request.prices is not None or self.spending.bounds_cost:
            self._spend_amounts(cost=request_cost(request.prices, request.model.name, usage))

    def _note_usage(self, reply: Reply) -> None:
        self.state.usage = add_usage(self.state.usage, reply.usage)
        self._spend_tokens(reply)

    async def _show_words(self, words: str, shown: list[str]) -> None:
        if words:
            shown.append(words)
            await self.emit("delta", words)

    async def tell_log(self, log: ToolLog) -> None:
        """Report a call that has ended to programs."""
        self.state.logs = (*self.state.logs, log)
        self.result["extra"].setdefault("tool_logs", []).append(log)
        if self.request.settings.get(SHOW_TOOL_LOGS):
            shown = stable_json(log)
            sys.stdout.write(f"[{self.request.agent}] TOOL {shown}\n")
        await self.emit("tool", log)

    async def _join_handler(self, handler: Any, *arguments: Any) -> None:
        """Call a handler, and write the events that it yields."""
        async for item in run_handler(handler, *arguments):
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise TypeError(f"A handler yields (event, data) pairs, not {item!r:.200}")
            self.log.add(str(item[0]), item[1])


_STEPS = {
    Step.PLAN: RunLoop._plan_run,
    Step.ASK: RunLoop._ask_model,
    Step.CALL: RunLoop._run_answer_calls,
    Step.CHECK: RunLoop._check_answer,
}


def _set_current(
    spending: Spending | None, outer: OuterRun | None, carried: CarriedRun | None
) -> None:
    """Make this the current run. No tokens are kept, because thousands of runs may wait."""
    current_spending.set(spending)
    current_outer.set(outer)
    carried_run.set(carried)


def _choose_id(request: Request, resumption: Resumption | None) -> str:
    if resumption is not None:
        return resumption.run_id
    return uuid.uuid4().hex if request.nesting is None else request.nesting.run_id


def _open_journal(request: Request, run_id: str) -> Journal:
    if not request.box.recorded:
        return MemoryJournal(run_id)
    outer, nesting = current_outer.get(), request.nesting
    around = None if outer is None else outer.run_id
    parent = around if nesting is None else nesting.parent
    return StoreJournal(request.box.store.runs, run_id, parent=parent)


def _open_calls(state: RunState) -> Sequence[Call]:
    """The calls of an answer that have no outcome yet."""
    if not state.answered:
        return state.calls
    known = {outcome.call.id for outcome in state.answered}
    return [call for call in state.calls if call.id not in known]


def _tool_cost(outcome: Outcome) -> float:
    """The cost of a call that its tool has reported."""
    cost = outcome.metadata.get("cost")
    return cost if isinstance(cost, int | float) else 0.0


def _call_facts(call: Call) -> dict[str, Any]:
    return {"id": call.provider_id or call.id, "name": call.tool, "call_id": call.id}
