"""The one path of every call: find, accept, permit, limit, run, report."""

import asyncio
import inspect
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from sys import modules
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from .active_call import ActiveCall, Extras, Listener, Observer, Watcher, current_call
from .arguments.argument_repair import Receipt
from .block import FINAL, Block, Progress
from .call import Call, Outcome, Status, asked_for
from .errors import (
    CallDenied,
    CallError,
    CallInterrupted,
    CallTimeout,
    CallUnknown,
    InputNeeded,
    InvalidArguments,
    ToolFailed,
    ToolNotFound,
)
from .invoke import (
    add_events,
    cancelled_outcome,
    cover_outcome,
    failure_outcome,
    finish_outcome,
    outcome_of_exception,
    render_content,
    settle_value,
)
from .limits.model_results import ModelResults
from .limits.off_loop import is_large, run_off_loop, start_off_loop
from .limits.spending import current_spending
from .names import find_near_names
from .outside.admission import admit_outcome
from .permission.modes import ModeChange
from .permission.permits import Permits
from .plan import Plan, Planner
from .recording import Recorder, TakenIds
from .registry import Registry, Selection
from .schema.result_check import promised_result
from .secrets.credential import sent_secrets
from .secrets.secret import redact_text
from .streaming import Channel, iterate_pushed
from .sync import blocking_border
from .task import hear_observer
from .tool import Tool
from .tracing import OTEL_API, VARIABLE, close_span, is_tracing, open_span, probe, variables

if TYPE_CHECKING:
    from .limits.call_limits import CallLimits
    from .permission.explanation import Explanation

_MAX_DEPTH = 50
_OK = Status.OK
_STATUSES = {
    CallDenied: Status.DENIED,
    CallTimeout: Status.TIMEOUT,
    CallUnknown: Status.UNKNOWN,
}
Pause = Callable[[ActiveCall, InputNeeded], Awaitable[Outcome]]
_log = logging.getLogger("wieldy")


class Engine:
    """Runs calls. Every call of every tool goes through `run`."""

    def __init__(
        self,
        registry: Registry,
        planner: Planner,
        results: ModelResults,
        observers: Sequence[Observer] = (),
        capture_content: bool = False,
        recorder: Recorder | None = None,
        pause: Pause | None = None,
    ) -> None:
        self.results = results
        self._registry = registry
        self._planner = planner
        self._plans = planner.plans
        self._capture_content = capture_content
        self._recorder = recorder
        self._ids = TakenIds() if recorder is None else None
        self._pause = pause
        self._set_observers(tuple(observers))
        self._listeners: tuple[Listener, ...] = ()
        self._running: set[ActiveCall] = set()
        self._late = _EngineLink(self)

    async def run(  # noqa: C901 - one frame on purpose: frames are what a call costs
        self, call: Call, selection: Selection | None = None, extras: Extras | None = None
    ) -> Outcome:
        """Run a call to its outcome; only the cancellation of the awaiting task is raised."""
        started = perf_counter()
        parent = origin = current_call.get()
        while parent is not None and parent.stopped:
            parent = parent.parent
        active = ActiveCall(call, parent)
        # The frame does not keep the extras, because thousands of calls may wait.
        handled, extras = extras is not None and extras.equip(active), None
        current_call.set(active)
        self._running.add(active)
        try:
            plan = self._plans.get(call.tool)
            traced = OTEL_API in modules and (probe.api._TRACER_PROVIDER or VARIABLE in variables)
            if plan is None or origin or selection or traced or call._id is not None:
                outcome = await self._walk_layers(active, selection, origin)
            elif plan.function is None or handled:
                outcome = await self._enter_plan(active, plan)
            else:
                # Most tools have no middleware. The call is written out here, because another
                # frame would cost a tenth of it.
                arguments = call.arguments
                try:
                    values = (plan.values if type(arguments) is dict else plan.read)(arguments)[1]
                except ValueError:
                    values = plan.accept(active)
                try:
                    value = plan.function(**values)
                    del values
                    if type(value) is CoroutineType:
                        value = await value
                    if type(value) not in FINAL:
                        active.late, active.tool = self._late, plan.tool
                        value = await settle_value(active, value, plan.executor)
                    outcome = Outcome(call, _OK, value, None, None, None, perf_counter() - started)
                except BaseException as error:
                    active.tool = plan.tool
                    outcome = outcome_of_exception(active, error)
            if outcome.error is not None:
                outcome = await self._pause_outcome(active, outcome)
        except Exception as error:
            outcome = _refused_outcome(active, error)
        except asyncio.CancelledError as error:
            outcome = cancelled_outcome(active, error)
        except BaseException:
            # The process or the loop is ending, so the observers are told without waiting.
            if current_call.get() is active:
                current_call.set(origin)
            self._tell_now(_interrupted_outcome(active), active)
            raise
        finally:
            active.stopped = True
            self._running.discard(active)
        current_call.set(origin)
        if outcome.seconds is None:
            outcome.seconds = perf_counter() - started
        if active.eventful:
            return await self._wind_up(active, outcome)
        return await (self._attend or self._end_run)(active, outcome) if self._attended else outcome

    def stream(
        self,
        call: Call,
        deps: Any = None,
        selection: Selection | None = None,
        live: bool = False,
        check_output: bool = False,
    ) -> AsyncIterator[Block | Progress | Outcome]:
        """Run a call and yield what it shows as it comes, and the outcome last.

        The call is interrupted when its reader stops.
        """

        def start(channel: Channel) -> Coroutine[Any, Any, Outcome]:
            return self.run(call, selection, Extras(deps, channel, check_output=check_output))

        return iterate_pushed(start, live)

    async def check(self, call: Call) -> tuple[Mapping[str, Any], list[Receipt], tuple[str, ...]]:
        """The arguments as they would be accepted, with repairs and secrets; or raise why not."""
        active = ActiveCall(call, None)
        await self._accept_values(active, self._find(active, None))
        return active.arguments, active.noted("repairs", []), active.secrets

    async def _accept_values(self, active: ActiveCall, plan: Plan) -> dict[str, Any]:
        """What the function would get; `InvalidArguments` without secrets if it can't."""
        active.tool = plan.tool
        try:
            return await run_off_loop(is_large(active.call.arguments), lambda: plan.accept(active))
        except InvalidArguments as error:
            raise _cover_error(active, error) from None

    @property
    def permits(self) -> Permits:
        """The part that decides which calls may run."""
        return self._planner.permits

    @property
    def call_limits(self) -> "CallLimits":
        """The limits on the calls of everybody, of each caller and of single ones."""
        return self._planner.call_limits

    @property
    def records(self) -> bool:
        """Whether calls are recorded."""
        return self._recorder is not None

    async def tell_shown(self, call: Call, item: Block | Progress) -> None:
        """Tell observers that have a method `shown` what a running call shows."""
        for watcher in self.watchers:
            try:
                waiting = watcher(call, item)
                if inspect.isawaitable(waiting):
                    await waiting
            except Exception:
                # Observers are other people's code, and their errors must not change what happens.
                _log.exception("An observer failed on what %s shows", call.tool)

    async def explain(self, call: Call, selection: Selection | None = None) -> "Explanation":
        """Predict what would become of a call, and why; nothing is run, parked or recorded."""
        from .permission.explanation import Explanation  # noqa: PLC0415

        active = ActiveCall(call, None)
        try:
            plan = self._find(active, selection)
        except CallDenied as denied:
            # It is held back, and not offered at all.
            return Explanation("deny", denied.reason)
        active.values = await self._accept_values(active, plan)
        limits = self.call_limits.find_states(plan.tool.name, call.scope.callers())
        return replace(await self.permits.explain(active), limits=limits)

    def set_mode(self, change: ModeChange) -> None:
        """Let a change of a permission mode count, and record it; a store's errors are raised.

        Nothing is let through before that is recorded, and nothing waits to be held back.
        """
        modes, recorder = self.permits.modes, self._recorder
        if change.mode == change.before:
            return
        if change.tightens:
            modes.apply(change)
        if recorder is not None:
            blocking_border().wait(lambda home: recorder.note_mode(change))
        if not change.tightens:
            modes.apply(change)

    async def report(self, outcome: Outcome) -> None:
        """Tell the observers of an outcome that no running call reports."""
        await self._tell_observers(outcome)

    def find_running(self, call_id: str) -> Call | None:
        """The call of this id that runs here."""
        return next(
            (active.call for active in tuple(self._running) if active.call.id == call_id), None
        )

    def interrupt(self, call_id: str) -> bool:
        """Stop a running call so that its caller gets an interrupted outcome.

        False means that no such call is running here. Safe from any thread.
        """
        running = tuple(self._running)
        # A call whose loop was closed never ends, so it is removed here.
        self._running.difference_update([active for active in running if active.loop.is_closed()])
        active = next((active for active in running if active.call.id == call_id), None)
        if active is None:
            return False

        def stop() -> None:
            if active in self._running:
                active.interrupt()

        if active.on_loop():
            stop()
            return True
        try:
            active.loop.call_soon_threadsafe(stop)
        except RuntimeError:
            # The call's loop was closed.
            return False
        return True

    def _wind_up(self, active: ActiveCall, outcome: Outcome) -> Awaitable[Outcome]:
        """Finish a call that had events, was interrupted or was cancelled."""
        if outcome._content is None and is_large(outcome.value):
            return self._wind_up_off_loop(active, outcome)
        return self._wind_up_rendered(active, outcome)

    async def _wind_up_off_loop(self, active: ActiveCall, outcome: Outcome) -> Outcome:
        try:
            await start_off_loop(lambda: render_content(outcome))
        except asyncio.CancelledError as error:
            # The function has ended, and that is recorded.
            active.unwinding = active.unwinding or error
        return await self._wind_up_rendered(active, outcome)

    def _wind_up_rendered(self, active: ActiveCall, outcome: Outcome) -> Awaitable[Outcome]:
        outcome = finish_outcome(active, outcome)
        if active.outside is None and active.unwinding is None and active.interruption is None:
            # The frame of a call that only showed something would wait with thousands of others.
            return (self._attend or self._end_run)(active, outcome)
        return self._unwind(active, outcome)

    async def _unwind(self, active: ActiveCall, outcome: Outcome) -> Outcome:
        if active.outside is not None:
            await admit_outcome(active, outcome, self.permits.sessions)
        left, active.unwinding = active.unwinding, None
        if active.interruption is not None:
            if left is None:
                left = await active.interruption.settle()
            elif active.interruption.taken_back():
                left = None
        outcome = await self._end_run(active, outcome)
        if left is not None:
            raise left
        return outcome

    def _walk_layers(
        self, active: ActiveCall, selection: Selection | None, origin: ActiveCall | None
    ) -> Awaitable[Outcome]:
        """Find the tool, accept the arguments, and go through its middleware."""
        if self._ids is not None and active.call.was_named and active.call.decision is None:
            self._ids.take(active.call)
        if origin is not None:
            if origin.secrets:
                active.keep_secret(origin.secrets)
            if active.call.decision is None:
                active.call = active.call.nested_in(origin.call)
        # A call that was decided on has counted when it came.
        spending = current_spending.get() if active.call.decision is None else None
        if spending is not None and (reason := spending.take_call(active.call)) is not None:
            raise CallDenied(active.call.tool, reason)
        if is_tracing():
            return self._run_traced(active, selection)
        return self._enter_plan(active, self._find(active, selection))

    def _enter_plan(
        self, active: ActiveCall, plan: Plan, let_in: bool = False
    ) -> Awaitable[Outcome]:
        active.late, active.tool = self._late, plan.tool
        if plan.call_gate is not None and not let_in:
            return plan.call_gate(active, lambda limited: self._enter_plan(limited, plan, True))
        if active.checks_result:
            promised_result(plan.tool)  # This raises if the schema can't be used.
        if is_large(active.call.arguments):
            return self._enter_off_loop(active, plan)
        active.values = plan.accept(active)
        return self._handle(active, plan)

    async def _enter_off_loop(self, active: ActiveCall, plan: Plan) -> Outcome:
        active.is_large = True
        active.values = await start_off_loop(lambda: plan.accept(active))
        return await self._handle(active, plan)

    def _handle(self, active: ActiveCall, plan: Plan) -> Awaitable[Outcome]:
        for listener in self._listeners:
            active.let_overhear(partial(listener, active.call))
        return plan.handler(active)

    async def _run_traced(self, active: ActiveCall, selection: Selection | None) -> Outcome:
        outcome = Outcome(active.call, Status.INTERRUPTED, error=CallInterrupted(active.call.tool))
        with open_span(active) as span:
            try:
                outcome = await self._enter_plan(active, self._find(active, selection))
                outcome = await self._pause_outcome(active, outcome)
            except Exception as error:
                outcome = _refused_outcome(active, error)
            finally:
                close_span(span, active, outcome, self._capture_content)
        return outcome

    def _find(self, active: ActiveCall, selection: Selection | None) -> Plan:
        """The plan of the tool that the caller means; raises if the caller has no such tool."""
        name = active.call.tool
        if active.depth > _MAX_DEPTH or len(active.call.scope.around) > _MAX_DEPTH:
            raise ToolFailed(RecursionError(f"calls are nested more than {_MAX_DEPTH} deep"))
        if selection is not None:
            active.selection = selection
        tool = self._registry.find(name) if isinstance(name, str) else None
        if tool is None or not _is_shown(tool, active, selection):
            tools = filter(self._registry.active, self._registry.tools())
            seen = [tool.name for tool in tools if _is_shown(tool, active, selection)]
            raise ToolNotFound(name, find_near_names(name, seen))
        if tool.hold is not None and not tool.hold.asks:
            raise CallDenied(tool.name, tool.hold.reason)
        if not self._registry.active(tool):
            reason = f"The tool {tool.name!r} is in the group {tool.group!r}, which is not active."
            raise ToolNotFound(name, reason=reason)
        return self._plans.get(tool.name) or self._planner.plan(tool)

    async def _pause_outcome(self, active: ActiveCall, outcome: Outcome) -> Outcome:
        """The receipt of a call whose tool asked for input; any other outcome unchanged."""
        needed = asked_for(outcome)
        # A function that stands in for a tool in a dry run has begun nothing that could go on.
        if needed is None or self._pause is None or active.noted("dry_run"):
            return outcome
        return await self._pause(active, needed)

    async def _end_run(self, active: ActiveCall, outcome: Outcome) -> Outcome:
        """Record how the call ended, if calls are recorded, and then tell the observers."""
        left = None
        if self._recorder is not None:
            try:
                outcome = await self._recorder.end(active, outcome)
            except asyncio.CancelledError as error:
                # The recorder writes what it was given even if this task is cancelled.
                left = error
        await self._tell_observers(outcome)
        if left is not None:
            raise left
        return outcome

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Tell one more observer of outcomes, until the returned function is called."""
        self._set_observers((*self._observers, observer))

        def stop() -> None:
            self._set_observers(tuple(each for each in self._observers if each is not observer))

        return stop

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener what calls show, until the returned function is called."""
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return stop

    def _set_observers(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._attended = bool(observers) or self._recorder is not None
        # Without observers, recording the end is all that is left to do.
        self._attend = None if self._recorder is None or observers else self._recorder.end

    def count_calls(self) -> tuple[int, int]:
        """How many calls run now, and how many of them wait for a slot."""
        running = tuple(self._running)
        return len(running), sum(active.queued for active in running)

    @property
    def watchers(self) -> list[Watcher]:
        """The methods of observers that want to hear what running calls show."""
        found = (getattr(observer, "shown", None) for observer in self._observers)
        return [each for each in found if callable(each)]

    async def _tell_observers(self, outcome: Outcome) -> None:
        left = None
        for observer in self._observers:
            try:
                waiting = observer(outcome)
                if waiting is not None and inspect.isawaitable(waiting):
                    left = await hear_observer(waiting) or left
            except (Exception, asyncio.CancelledError):
                # Observers are other people's code, and their errors must not change the outcome.
                _log.exception("An observer failed on %r", outcome)
        if left is not None:
            raise left

    def _tell_now(self, outcome: Outcome, active: ActiveCall | None = None) -> None:
        """Record an outcome and tell the observers, without awaiting anything."""
        if active is not None and self._recorder is not None:
            self._recorder.end_soon(active, outcome)
        for observer in self._observers:
            try:
                waiting = observer(outcome)
                if inspect.iscoroutine(waiting):
                    waiting.close()
            except Exception:
                _log.exception("An observer failed on %r", outcome)

    def _tell_late(self, active: ActiveCall, value: Any, error: BaseException | None) -> None:
        """Tell the observers that an abandoned function has ended. Called on its own thread."""
        # If the loop was closed, nothing else removes the call.
        self._running.discard(active)
        if not self._attended:
            return
        outcome = (
            Outcome(active.call, Status.OK, value)
            if error is None
            else failure_outcome(active, error)
        )
        if active.secrets:
            outcome = cover_outcome(active, outcome)
        outcome.metadata.update(abandoned=True, late=True)
        if active.outside is not None:
            outcome.metadata["untrusted"] = True
        if self._recorder is not None:
            self._recorder.late(active, outcome)
        telling = self._tell_observers(outcome)
        try:
            if active.loop.is_running():
                asyncio.run_coroutine_threadsafe(telling, active.loop)
                return
        except RuntimeError:
            pass  # The loop was closed at this moment.
        # The loop of the call ended before its function did.
        blocking_border().submit(telling)


class _EngineLink:
    """The engine of a call, if it still exists.

    A call lives as long as its thread, and must not keep a dropped toolbox alive.
    """

    __slots__ = ("_find",)

    def __init__(self, engine: Engine) -> None:
        self._find = weakref.ref(engine)

    def __call__(self, active: ActiveCall, value: Any, error: BaseException | None) -> None:
        engine = self._find()
        if engine is not None:
            engine._tell_late(active, value, error)

    async def run_call(self, call: Call, extras: Extras) -> Outcome:
        return await self._engine().run(call, None, extras)

    def run_blocking(self, call: Call, deps: Any) -> Outcome:
        run = self._engine().run
        return blocking_border().wait(lambda home: run(call, None, Extras(deps, home=home)))

    def taint_session(self, call: Call) -> None:
        self._engine().permits.sessions.add_soon(call)

    def _engine(self) -> Engine:
        engine = self._find()
        if engine is None:
            raise RuntimeError("the toolbox of this call is gone")
        return engine


def _is_shown(tool: Tool, active: ActiveCall, selection: Selection | None) -> bool:
    return selection is None or selection.shows(tool, active.call.scope)


def _interrupted_outcome(active: ActiveCall) -> Outcome:
    outcome = Outcome(active.call, Status.INTERRUPTED, error=CallInterrupted(active.call.tool))
    return add_events(active, outcome)


def _refused_outcome(active: ActiveCall, error: Exception) -> Outcome:
    """The outcome of a call that was stopped before it reached its function."""
    if not isinstance(error, CallError):
        return outcome_of_exception(active, error)
    if isinstance(error, InvalidArguments):
        error = _cover_error(active, error)
    status = _STATUSES.get(type(error), Status.ERROR)
    return Outcome(active.call, status, error=error)


def _cover_error(active: ActiveCall, error: InvalidArguments) -> InvalidArguments:
    """The error with every secret covered, including those in arguments that were not accepted."""
    tool: Tool | None = getattr(active, "tool", None)
    sent = () if tool is None else sent_secrets(active.accepted, tool)
    secrets = (*active.secrets, *sent)
    if not secrets:
        return error
    return InvalidArguments(error.tool, [redact_text(each, secrets) for each in error.problems])
