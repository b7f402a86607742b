"""Compute once per tool how its calls run: the middleware that it needs, folded."""

import threading
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .active_call import ActiveCall, Executor, Handler, Layer, Middleware, RemoteExecutor
from .arguments.intake import Accept, Intake
from .arguments.private_copy import private_arguments
from .call import Outcome, Status
from .errors import (
    CallDenied,
    CallError,
    CallInterrupted,
    CallTimeout,
    CallUnknown,
    DefinitionError,
    ToolFailed,
)
from .invoke import bare_function, make_invoker
from .limits.concurrency import limit_concurrency
from .limits.deadline import limit_time
from .limits.exclusive import Gate
from .limits.limits import parse_rate
from .limits.off_loop import start_off_loop
from .limits.result_cache import keep_results
from .limits.result_size import Spill, limit_size
from .limits.retry import retry_failures
from .limits.start_rate import limit_rate
from .outside.admission import mark_results
from .permission.permits import Permits
from .recording import RecordLayers
from .registry import Registry
from .schema.result_check import check_results, promised_result
from .secrets.credential import argument_secrets, meant_secrets, takes_secret
from .tool import Tool
from .work import Work

if TYPE_CHECKING:
    from .limits.call_limits import CallGate, CallLimits

# The limiters of a tool's calls, before their start is recorded and after it.
Limiters = tuple[list[Middleware], list[Middleware]]
# While tools are added all the time, a plan is used once and not kept.
_MAX_TRIES = 5


class Basis:
    """Facts that depend only on a tool, and therefore outlive its plans.

    `accept` gives what the function gets, from what was sent; `values` and `read`
    are its short ways for a dict and for text. `handler` runs the function; where a
    call is nothing but that, on the loop, `function` is it. The limiters have memory:
    slots, starts and results.
    """

    __slots__ = ("accept", "executor", "function", "handler", "limiters", "read", "tool", "values")

    def __init__(
        self,
        tool: Tool,
        intake: Intake,
        executor: Executor | None,
        limiters: Limiters,
        work: Work,
    ) -> None:
        self.tool = tool
        self.executor = executor
        self.limiters = limiters
        self.function = bare_function(tool, executor)
        self.handler = make_invoker(tool, work, executor)
        self.accept, self.values, self.read = intake.accept, intake.values, intake.read
        if tool.secrets or takes_secret(tool):
            self.function = None
            self.accept = partial(_accept_discreetly, intake.accept, tool.secrets)


class Plan:
    """How calls of a tool go: its basis, and around it what its box asks for.

    `handler` is the folded stack; where that is nothing but a function that runs on
    the loop, `function` is it.
    """

    __slots__ = ("accept", "call_gate", "executor", "function", "handler", "read", "tool", "values")

    def __init__(
        self, basis: Basis, stack: Sequence[Layer], call_gate: "CallGate | None" = None
    ) -> None:
        self.tool = basis.tool
        # This lets calls in if there are limits on calls.
        self.call_gate = call_gate
        self.executor = basis.executor
        self.accept, self.values, self.read = basis.accept, basis.values, basis.read
        self.function = None if stack or call_gate is not None else basis.function
        self.handler = basis.handler
        for layer in reversed(stack):
            self.handler = layer(self.handler)


class Planner:
    """Makes plans and keeps them until something they depend on changes."""

    def __init__(
        self,
        registry: Registry,
        permits: Permits,
        executors: Mapping[str, Executor],
        *,
        middleware: Sequence[Middleware] = (),
        validation: str = "repair",
        spill: Spill | None = None,
        record: RecordLayers | None = None,
        check_output: bool = False,
    ) -> None:
        self.plans: dict[str, Plan] = {}
        self._changes = 0
        self._lock = threading.Lock()
        self._registry = registry
        self.permits = permits
        self._executors = executors
        self._middleware = tuple(middleware)
        self._validation = validation
        self._spill = spill
        self._record = record
        self._check_output = check_output
        self._call_limits: CallLimits | None = None
        self._gate = Gate()
        self._gated = False
        self._bases: dict[str, Basis] = {}
        registry.watch(self.forget)

    @property
    def call_limits(self) -> "CallLimits":
        """The limits on the calls of everybody, of each caller and of single ones."""
        # Most toolboxes have none: they are made when somebody first asks for them.
        from .limits.call_limits import CallLimits  # noqa: PLC0415

        with self._lock:
            if self._call_limits is None:
                self._call_limits = CallLimits(self.forget)
            return self._call_limits

    def forget(self, name: str | None = None) -> None:
        """Plan one tool anew at its next call, or all."""
        tool = None if name is None else self._registry.find(name)
        if tool is not None and tool.limits.exclusive and not self._gated:
            self._gated = True
            name = None
        with self._lock:
            self._changes += 1
            if name is None:
                self.plans.clear()
                return
            self.plans.pop(name, None)
            basis = self._bases.get(name)
            if basis is not None and basis.tool is not tool:
                del self._bases[name]

    def plan(self, tool: Tool) -> Plan:
        """How calls of this tool go; kept only while the tool can be called."""
        basis = self._find_basis(tool)
        for _ in range(_MAX_TRIES):
            before = self._changes
            limits = self._call_limits
            call_gate = None if limits is None else limits.find_call_gate(tool.name)
            plan = Plan(basis, self._stack_layers(basis), call_gate)
            current = self._registry.find(tool.name) is tool and self._registry.active(tool)
            with self._lock:
                # A plan must not ignore a rule that was made while it was computed.
                if before == self._changes:
                    if current:
                        self.plans[tool.name] = plan
                    break
        return plan

    def _find_basis(self, tool: Tool) -> Basis:
        """The part of a plan that is kept as long as the tool is in the toolbox."""
        known = self._bases.get(tool.name)
        if known is not None and known.tool is tool:
            return known
        executor, takes = self._find_executor(tool), tool.signature
        work = Work(tool.function, takes.context, takes.positional, self.permits.late_check(tool))
        before, after = _make_limiters(tool, self._spill, self._gate, self.permits)
        if self._checks_output(tool):
            after = [check_results, *after]
        if tool.is_untrusted:
            after = [mark_results(self.permits.sessions), *after]
        if isinstance(executor, RemoteExecutor):
            after.append(executor.hold_worker(work))
        if tool.limits.timeout is not None:
            # A worker in another process is killed, which may take a moment.
            leave = not isinstance(executor, RemoteExecutor)
            after.append(limit_time(tool.limits.timeout, leave))
        made = Basis(tool, Intake(tool, self._validation), executor, (before, after), work)
        with self._lock:
            # Two concurrent callers must share its slots.
            known = self._bases.get(tool.name)
            if known is not None and known.tool is tool:
                return known
            if self._registry.find(tool.name) is tool:
                self._bases[tool.name] = made
        return made

    def _stack_layers(self, basis: Basis) -> list[Layer]:
        """The layers around a tool's function, the outermost first."""
        tool, (before, after) = basis.tool, basis.limiters
        record = self._record
        queues = self._gated or tool.limits.concurrency is not None
        waits = bool(self._middleware) or record is not None or queues
        guard = self.permits.guard(tool, always=waits)
        stack: list[Layer] = [] if record is None else [_hold_fast, record.once]
        if self._middleware:
            stack += map(_make_layer, (_expect_outcome, *self._middleware))
            if record is not None:
                stack.append(_make_layer(_when_awaited))
        if guard is not None:
            stack.append(guard)
        if self._gated:
            stack.append(
                _make_layer(self._gate.alone if tool.limits.exclusive else self._gate.share)
            )
        stack += map(_make_layer, before)
        if guard is not None and (queues or self.permits.approver is not None):
            # A rule made while a call waits, in a queue or for an approver, applies to that call.
            stack.append(guard)
        if record is not None:
            objects = self.permits.late_check(tool)
            stack.append(lambda proceed: record.start(proceed, objects))
        return [*stack, *map(_make_layer, after)]

    def _checks_output(self, tool: Tool) -> bool:
        asked = self._check_output if tool.check_output is None else tool.check_output
        return asked and promised_result(tool) is not None

    def _find_executor(self, tool: Tool) -> Executor | None:
        isolation = tool.limits.isolation or "thread"
        if isolation == "inline":
            return None
        executor = self._executors.get(isolation)
        if executor is None:
            raise DefinitionError(tool.name, f"isolation={isolation!r} is not available here")
        return executor


def _make_layer(middleware: Middleware) -> Layer:
    return lambda proceed: lambda active: middleware(active, proceed)


def _hold_fast(proceed: Handler) -> Handler:
    """Keep what was accepted from changing: what is recorded is what the function gets."""

    def hold_fast(active: ActiveCall) -> Awaitable[Outcome]:
        if active.is_large:
            return hold_off_loop(active)
        _hold_arguments(active)
        return proceed(active)

    async def hold_off_loop(active: ActiveCall) -> Outcome:
        await start_off_loop(lambda: _hold_arguments(active))
        return await proceed(active)

    return hold_fast


def _hold_arguments(active: ActiveCall) -> None:
    active.values = private_arguments(active.values)
    active.accepted = private_arguments(active.arguments)


def _accept_discreetly(
    accept: Accept, secrets: tuple[str, ...], active: ActiveCall
) -> dict[str, Any]:
    active.keep_secret(secrets)
    values = accept(active)
    # An argument that passes as it was sent is not of a secret's type; the schema tells it.
    sent = meant_secrets(active.arguments, active.tool)
    active.keep_secret((*sent, *argument_secrets(values)))
    return values


async def _expect_outcome(active: ActiveCall, proceed: Handler) -> Outcome:
    """Other people's middleware may give anything; what follows relies on an outcome."""
    outcome = await proceed(active)
    if not isinstance(outcome, Outcome):
        raise TypeError(f"a middleware gave {type(outcome).__name__}, not an Outcome")
    if outcome.error is None and outcome.status not in (Status.OK, Status.PENDING):
        outcome.error = _unsaid_error(active.tool, outcome.status)
    return outcome


def _unsaid_error(tool: Tool, status: Status) -> CallError:
    """The error of an outcome whose middleware gave none."""
    said = "a middleware ended the call, and did not say why"
    match status:
        case Status.DENIED:
            return CallDenied(tool.name, said)
        case Status.UNKNOWN:
            return CallUnknown(tool.name, said)
        case Status.INTERRUPTED:
            return CallInterrupted(tool.name)
        case Status.TIMEOUT:
            return CallTimeout(tool.name, tool.limits.timeout or 0)
    return ToolFailed(RuntimeError(said))


async def _when_awaited(active: ActiveCall, proceed: Handler) -> Outcome:
    """Other people's middleware may proceed and wait later, or never; until then nothing begins."""
    return await proceed(active)


def _make_limiters(tool: Tool, spill: Spill | None, gate: Gate, permits: Permits) -> Limiters:
    limits = tool.limits
    before: list[Middleware] = []
    if limits.max_result:
        before.append(limit_size(limits.max_result, spill))
    if limits.cache is not None:
        before.append(keep_results(limits.cache))
    if limits.concurrency is not None:
        before.append(limit_concurrency(limits.concurrency, limits.key, gate))
    after: list[Middleware] = []
    if limits.retries and (tool.retryable or limits.retry_unsafe):
        after.append(retry_failures(limits.retries, permits.forbids))
    if limits.rate is not None:
        after.append(limit_rate(*parse_rate(limits.rate), permits.forbids))
    return before, after
