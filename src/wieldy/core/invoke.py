"""Run a tool's function, whatever kind it is, and turn what happens into an outcome."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from functools import partial
from types import CoroutineType, GeneratorType
from typing import Any

from .block import FINAL, to_blocks, to_text
from .call import Outcome, Status
from .context import Context
from .errors import CallDenied, CallUnknown, ToolFailed, describe_exception
from .run import Executor, Handler, Objection, Run
from .schema.signature import is_async
from .secrets.secret import redact_text
from .tool import Tool

Enter = Callable[[Run], Any]

_OK = Status.OK
# What an exception may say to a model where the tool has no limit of its own.
_LONGEST_ERROR = 20_000


def bare_function(tool: Tool) -> Callable[..., Any] | None:
    """The function itself, where a call is that and nothing more, on the loop."""
    signature = tool.signature
    on_loop = inspect.iscoroutinefunction(tool.function) or tool.limits.isolation == "inline"
    bare = on_loop and tool.postprocess is None
    return tool.function if bare and not signature.context and not signature.positional else None


def make_invoker(tool: Tool, executor: Executor | None, objection: Objection) -> Handler:
    """The innermost handler of a tool: on the loop, or where the executor says.

    `objection` says why a call may not run after all that had to wait for a worker.
    """
    if executor is None or is_async(tool.function):
        return _on_loop(tool, executor)
    return _elsewhere(tool, executor, objection)


def _on_loop(tool: Tool, executor: Executor | None) -> Handler:
    enter, function = _entrance(tool), tool.function
    plain = tool.signature.context is None and not tool.signature.positional

    async def invoke_here(run: Run) -> Outcome:
        try:
            value = function(**run.values) if plain else enter(run)
            if type(value) is CoroutineType:
                value = await value
            if type(value) not in FINAL or tool.postprocess is not None:
                value = await settle_value(run, value, executor)
            return Outcome(run.call, _OK, value)
        except BaseException as error:
            return outcome_of_exception(run, error)

    return invoke_here


def _elsewhere(tool: Tool, executor: Executor, objection: Objection) -> Handler:
    enter = _entrance(tool)
    # A call with a deadline must be able to leave its function behind, so it gets a worker
    # even where the waiting caller's own thread would do.
    may_stay_home = tool.limits.timeout is None and tool.limits.isolation in (None, "thread")

    def body(run: Run) -> Any:
        why_not = objection(run)
        if why_not is not None:
            return _Forbidden(why_not)
        try:
            value = enter(run)
            return _drain_blocking(run, value) if isinstance(value, GeneratorType) else value
        except StopIteration as error:
            # No coroutine can raise it, so it does not come back as it left.
            return _Stopped(error)

    async def invoke_there(run: Run) -> Outcome:
        place = run.home if run.home is not None and may_stay_home else executor
        try:
            value = await place.execute(run, body)
            if type(value) is _Stopped:
                return failure_outcome(run, value.error)
            if type(value) is _Forbidden:
                denied = CallDenied(tool.name, value.reason)
                return Outcome(run.call, Status.DENIED, error=denied)
            if type(value) not in FINAL or tool.postprocess is not None:
                value = await settle_value(run, value, place)
            return Outcome(run.call, _OK, value)
        except BaseException as error:
            return outcome_of_exception(run, error)

    return invoke_there


class _Stopped:
    """A `StopIteration` on its way from another thread."""

    __slots__ = ("error",)

    def __init__(self, error: StopIteration) -> None:
        self.error = error


class _Forbidden:
    """Why a function was not entered, on its way from another thread."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def outcome_of_exception(run: Run, error: BaseException) -> Outcome:
    """What a tool raised, as a value; a cancellation that was asked for goes on.

    A tool that exits does not end the process. Somebody at the keyboard, or the
    loop that ends, ends more than a call.
    """
    asked_for = isinstance(error, asyncio.CancelledError) and run.cancel_requested()
    closed = isinstance(error, GeneratorExit) and not _goes_on(run)
    if asked_for or closed or isinstance(error, KeyboardInterrupt):
        raise error
    return failure_outcome(run, error)


def _goes_on(run: Run) -> bool:
    """Whether the call's task takes a step now; a coroutine that is closed is in none."""
    try:
        return asyncio.current_task() is run.task
    except RuntimeError:
        return False


def failure_outcome(run: Run, error: BaseException) -> Outcome:
    """The outcome that an exception makes, its secrets covered and its text not endless."""
    if isinstance(error, CallUnknown):
        reason = redact_text(error.reason, run.secrets) if run.secrets else error.reason
        return Outcome(run.call, Status.UNKNOWN, error=CallUnknown(error.tool, reason))
    message = describe_exception(error)
    redacted = False
    if run.secrets:
        message = redact_text(message, run.secrets)
        redacted = any(redact_text(said, run.secrets) != said for said in _all_said(error))
    # A function with nothing around it has no limits, and its run need not know its tool.
    tool: Tool | None = getattr(run, "tool", None)
    most = (tool and tool.limits.max_result) or _LONGEST_ERROR
    if len(message) > most:
        message = f"{message[:most]}\n[cut: {most:,} of {len(message):,} characters shown]"
    failed = ToolFailed(error, message, redacted, run.streamed)
    return Outcome(run.call, Status.ERROR, error=failed)


def _all_said(error: BaseException) -> Iterator[str]:
    """What an exception, its notes and all those that it is chained to say."""
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


def _entrance(tool: Tool) -> Enter:
    """How the function is called, with what it asks for besides the model's arguments."""
    function = tool.function
    signature = tool.signature
    context, positional = signature.context, signature.positional

    def enter(run: Run) -> Any:
        values = run.values
        if context is not None:
            values = {**values, context: Context(run)}
        return function(**values) if not positional else call_by_place(function, values, positional)

    return enter


def call_by_place(
    function: Callable[..., Any],
    values: dict[str, Any],
    names: Sequence[str],
    rest: Sequence[Any] = (),
) -> Any:
    """Call a function with some of the values by place, and with whatever else goes after them."""
    given = [name in values for name in names]
    last = len(names) - given[::-1].index(True) if True in given else 0
    if rest:
        last = len(names)
    defaults = inspect.signature(function).parameters
    ordered = [values.get(name, defaults[name].default) for name in names[:last]]
    named = {name: value for name, value in values.items() if name not in names}
    return function(*ordered, *rest, **named)


async def settle_value(run: Run, value: Any, place: Executor | None) -> Any:
    """The final value: awaited, drained and postprocessed."""
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__anext__"):
        value = await _drain(run, value)
    elif isinstance(value, GeneratorType):
        drain = partial(_drain_blocking, stream=value)
        value = drain(run) if place is None else await place.execute(run, drain)
    if isinstance(value, Outcome):
        value = _taken_over(run, value)
    postprocess = run.tool.postprocess
    if postprocess is not None:
        value = postprocess(value)
        if inspect.isawaitable(value):
            value = await value
    return value


def _taken_over(run: Run, inner: Outcome) -> Any:
    """What another call gave, where a tool gives that call's outcome as its own result.

    Its value is the value and what it showed is shown here; what it failed with is
    raised.
    """
    value = inner.unwrap()
    if inner.content != to_blocks(value):
        run.begin_stream()
        for block in inner.content:
            run.show_result(block)
    return value


async def _drain(run: Run, stream: AsyncIterator[Any]) -> list[Any]:
    run.begin_stream()
    items = []
    try:
        async for item in stream:
            items.append(item)
            await run.emit(item)
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return items


def _drain_blocking(run: Run, stream: Generator[Any, None, Any]) -> Any:
    run.begin_stream()
    items = []
    try:
        while True:
            item = next(stream)
            items.append(item)
            run.emit_blocking(item)
    except StopIteration as stop:
        return items if stop.value is None else stop.value
    finally:
        stream.close()
