"""Run a tool's function, whatever kind it is, and turn what happens into an outcome."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import CoroutineType, GeneratorType
from typing import Any, Protocol

from .active_call import ActiveCall, Executor, Handler, RemoteExecutor
from .block import FINAL, Block, to_blocks, to_text
from .call import Outcome, Status
from .errors import CallInterrupted, CallUnknown, ToolFailed, describe_exception
from .schema.result_check import checked_outcome
from .schema.signature import is_async
from .secrets.covered_content import covered_content, has_covered
from .secrets.secret import redact_data, redact_text
from .tool import Tool
from .work import Drainage, Forbidden, Stopped, Work, drain, drain_blocking


class CarriedRun(Protocol):
    """An agent's run, as the calls that are made in it see it.

    `left_as` is the state in which the run is left to be resumed later; None while it goes on.
    """

    run_id: str
    left_as: str | None


# The run that is carried on here: what waits for its calls goes on beside it, not inside.
carried_run: ContextVar[CarriedRun | None] = ContextVar("wieldy_carried_run", default=None)
_OK = Status.OK
# The most characters of an exception's text for a model, if the tool has no limit of its own.
_MAX_ERROR = 20_000


def bare_function(tool: Tool, executor: Executor | None) -> Callable[..., Any] | None:
    """The function itself, if a call is nothing but that function on the loop."""
    signature = tool.signature
    stays = executor is None or (
        inspect.iscoroutinefunction(tool.function) and not isinstance(executor, RemoteExecutor)
    )
    bare = stays and tool.postprocess is None
    return tool.function if bare and not signature.context and not signature.positional else None


def make_invoker(tool: Tool, work: Work, executor: Executor | None) -> Handler:
    """The innermost handler of a tool: on the loop, or where the executor says."""
    remote = isinstance(executor, RemoteExecutor)
    if executor is None or (is_async(tool.function) and not remote):
        return _on_loop(tool, work, executor)
    return _invoke_elsewhere(tool, work, executor)


def _on_loop(tool: Tool, work: Work, executor: Executor | None) -> Handler:
    enter, function = work.enter, work.function
    plain = work.context is None and not work.positional

    async def invoke_here(active: ActiveCall) -> Outcome:
        try:
            if active.entered is not None:
                await active.tell_entered()
            value = function(**active.values) if plain else enter(active.values, active)
            if type(value) is CoroutineType:
                value = await value
            if type(value) not in FINAL or tool.postprocess is not None:
                value = await settle_value(active, value, executor)
            return Outcome(active.call, _OK, value)
        except BaseException as error:
            return outcome_of_exception(active, error)

    return invoke_here


def _invoke_elsewhere(tool: Tool, work: Work, executor: Executor) -> Handler:
    # A call with a deadline must be able to leave its function behind, so it gets a worker
    # even where the waiting caller's own thread would do.
    may_stay_home = tool.limits.timeout is None and tool.limits.isolation in (None, "thread")

    async def invoke_there(active: ActiveCall) -> Outcome:
        place = active.home if active.home is not None and may_stay_home else executor
        try:
            value = await place.execute(work, active.values, active)
            if type(value) is Stopped:
                return failure_outcome(active, value.error)
            if type(value) is Forbidden:
                return await value.refusal.outcome()
            if type(value) not in FINAL or tool.postprocess is not None:
                value = await settle_value(active, value, place)
            return Outcome(active.call, _OK, value)
        except BaseException as error:
            return outcome_of_exception(active, error)

    return invoke_there


def outcome_of_exception(active: ActiveCall, error: BaseException) -> Outcome:
    """The outcome of an exception of the tool; a requested cancellation is raised again.

    A tool that calls `sys.exit` does not end the process. A KeyboardInterrupt, or the end of the
    loop, ends more than a call.
    """
    asked_for = isinstance(error, asyncio.CancelledError) and active.cancel_requested()
    closed = isinstance(error, GeneratorExit) and not _goes_on(active)
    if asked_for or closed or isinstance(error, KeyboardInterrupt):
        raise error
    return failure_outcome(active, error)


def _goes_on(active: ActiveCall) -> bool:
    """Whether the call's task is running now; a coroutine that is being closed is not in a step."""
    try:
        return asyncio.current_task() is active.task
    except RuntimeError:
        return False


def failure_outcome(active: ActiveCall, error: BaseException) -> Outcome:
    """The outcome of an exception, with secrets covered and its text cut."""
    if isinstance(error, CallUnknown):
        reason = redact_text(error.reason, active.secrets) if active.secrets else error.reason
        return Outcome(active.call, Status.UNKNOWN, error=CallUnknown(error.tool, reason))
    message = describe_exception(error)
    redacted = False
    if active.secrets:
        message = redact_text(message, active.secrets)
        redacted = any(redact_text(said, active.secrets) != said for said in _all_said(error))
    # A call without a tool is that of a bare function, which has no limits.
    tool: Tool | None = getattr(active, "tool", None)
    most = (tool and tool.limits.max_result) or _MAX_ERROR
    if len(message) > most:
        message = f"{message[:most]}\n[cut: {most:,} of {len(message):,} characters shown]"
    failed = ToolFailed(error, message, redacted, active.streamed)
    return Outcome(active.call, Status.ERROR, error=failed)


def cancelled_outcome(active: ActiveCall, error: asyncio.CancelledError) -> Outcome:
    """The outcome of a call whose task was cancelled, or whose tool raised the error itself."""
    if not active.cancel_requested():
        return failure_outcome(active, error)
    active.unwinding = error
    active.eventful = True
    carried, tool = carried_run.get(), getattr(active, "tool", None)
    left = carried is not None and carried.left_as is not None
    if left and tool is not None and tool.resumable:
        unknown = CallUnknown(tool.name, "its run was stopped, and it goes on with the run")
        return Outcome(active.call, Status.UNKNOWN, error=unknown)
    return Outcome(active.call, Status.INTERRUPTED, error=CallInterrupted(active.call.tool))


def _all_said(error: BaseException) -> Iterator[str]:
    """The text of an exception, of its notes and of all chained exceptions."""
    seen: set[int] = set()
    rest: list[BaseException | None] = [error]
    while rest:
        each = rest.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield describe_exception(each)
        notes = getattr(each, "__notes__", ())
        yield from map(to_text, notes if isinstance(notes, list | tuple) else [notes])
        rest += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            rest += each.exceptions


async def settle_value(active: ActiveCall, value: Any, place: Executor | None) -> Any:
    """The final value: awaited, drained and postprocessed."""
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__anext__"):
        value = await drain(active, value)
    elif isinstance(value, GeneratorType):
        if place is None:
            value = drain_blocking(active, value)
        else:
            value = await place.execute(Drainage(value), {}, active)
    if isinstance(value, Outcome):
        value = _taken_over(active, value)
    postprocess = active.tool.postprocess
    if postprocess is not None:
        value = postprocess(value)
        if inspect.isawaitable(value):
            value = await value
    return value


def _taken_over(active: ActiveCall, inner: Outcome) -> Any:
    """The value of another call, if the tool returned that call's outcome as its result.

    What the other call showed is shown here, and its error is raised.
    """
    if inner.metadata.get("untrusted"):
        active.come_from_outside()
    value = inner.unwrap()
    if inner.content != to_blocks(value):
        active.begin_stream()
        for block in inner.content:
            active.show_result(block)
    return value


def add_events(active: ActiveCall, outcome: Outcome) -> Outcome:
    """The outcome with everything that was shown and noted, checked against the output schema."""
    if active.checks_result:
        outcome = checked_outcome(active, outcome)
    if active.blocks is not None:
        outcome = _with_content(active, outcome, active.blocks)
    if active.metadata is not None:
        outcome.metadata.update(redact_data(active.metadata, active.secrets))
    return outcome


def render_content(outcome: Outcome) -> None:
    """Have the content of a large result made; an error of it is raised again when it is read."""
    with suppress(Exception):
        _ = outcome.content


def finish_outcome(active: ActiveCall, outcome: Outcome) -> Outcome:
    """The outcome with its events, or an error if they can't be shown."""
    try:
        wound_up = add_events(active, outcome)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # The blocks are other people's code, and may raise anything when they are read.
        wound_up = failure_outcome(active, error)
        wound_up.metadata.update(redact_data(active.metadata or {}, active.secrets))
    wound_up.seconds = outcome.seconds
    return wound_up


def cover_outcome(active: ActiveCall, outcome: Outcome) -> Outcome:
    try:
        content = covered_content(outcome.content, active.secrets)
    except Exception as error:
        return failure_outcome(active, error)
    return Outcome(active.call, outcome.status, outcome.value, outcome.error, content)


def _with_content(active: ActiveCall, outcome: Outcome, shown: Sequence[Block]) -> Outcome:
    ended_well = outcome.status is Status.OK
    rest = () if active.streamed and ended_well else outcome.content
    content = (*shown, *rest) if shown else rest
    if active.secrets:
        content = covered_content(content, active.secrets)
        if has_covered(outcome.value, active.secrets):
            active.note("covered", True)
    active.end_stream(rest if ended_well else ())
    if content is outcome.content:
        return outcome
    return Outcome(
        outcome.call,
        outcome.status,
        outcome.value,
        outcome.error,
        content,
        outcome.metadata,
    )
