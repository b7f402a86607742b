"""Run a tool's function, whatever kind it is, and turn what happens into an outcome."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from functools import partial
from types import CoroutineType, GeneratorType
from typing import Any

from .call import Outcome, Status
from .context import Context
from .errors import ToolFailed, describe
from .run import Executor, Handler, Run
from .secret import redact
from .signature import is_async
from .tool import Tool

Enter = Callable[[Run], Any]

_OK = Status.OK
# What goes on through everything: somebody at the keyboard, or the loop, ends more than a call.
_ENDS = (KeyboardInterrupt, GeneratorExit)
# Values that need no further look: nothing to await and nothing to iterate.
FINAL = frozenset({str, int, float, bool, bytes, dict, list, tuple, type(None)})


def bare_function(tool: Tool) -> Callable[..., Any] | None:
    """The function itself, where a call is that and nothing more, on the loop."""
    signature = tool.signature
    on_loop = inspect.iscoroutinefunction(tool.function) or tool.limits.isolation == "inline"
    bare = on_loop and tool.postprocess is None
    return tool.function if bare and not signature.context and not signature.positional else None


def invoker(tool: Tool, executor: Executor | None) -> Handler:
    """The innermost handler of a tool: on the loop, or where the executor says."""
    if executor is None or is_async(tool.function):
        return _on_loop(tool, executor)
    return _elsewhere(tool, executor)


def _on_loop(tool: Tool, executor: Executor | None) -> Handler:
    enter = _entrance(tool)

    async def invoke_here(run: Run) -> Outcome:
        try:
            value = enter(run)
            if type(value) is CoroutineType:
                value = await value
            if type(value) not in FINAL or tool.postprocess is not None:
                value = await settled(run, value, executor)
            return Outcome(run.call, _OK, value)
        except BaseException as error:
            return failed(run, error)

    return invoke_here


def _elsewhere(tool: Tool, executor: Executor) -> Handler:
    enter = _entrance(tool)
    # A call with a deadline must be able to leave its function behind, so it gets a worker
    # even where the waiting caller's own thread would do.
    may_stay_home = tool.limits.timeout is None and tool.limits.isolation in (None, "thread")

    def body(run: Run) -> Any:
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
                return failure(run, value.error)
            if type(value) not in FINAL or tool.postprocess is not None:
                value = await settled(run, value, place)
            return Outcome(run.call, _OK, value)
        except BaseException as error:
            return failed(run, error)

    return invoke_there


class _Stopped:
    """A `StopIteration` on its way from another thread."""

    __slots__ = ("error",)

    def __init__(self, error: StopIteration) -> None:
        self.error = error


def failed(run: Run, error: BaseException) -> Outcome:
    """What a tool raised, as a value; a cancellation that was asked for goes on.

    A tool that exits does not end the process.
    """
    asked_for = isinstance(error, asyncio.CancelledError) and run.cancel_requested()
    if asked_for or isinstance(error, _ENDS):
        raise error
    return failure(run, error)


def failure(run: Run, error: BaseException) -> Outcome:
    """The outcome that an exception makes, its secrets covered."""
    message = describe(error)
    covered = redact(message, run.secrets) if run.secrets else message
    reason = ToolFailed(error, None if covered == message else covered)
    return Outcome(run.call, Status.ERROR, error=reason)


def _entrance(tool: Tool) -> Enter:
    """How the function is called, with what it asks for besides the model's arguments."""
    function = tool.function
    signature = tool.signature
    context, positional = signature.context, signature.positional

    def enter(run: Run) -> Any:
        values = run.values
        if context is not None:
            values = {**values, context: Context(run)}
        return function(**values) if not positional else _by_place(function, values, positional)

    return enter


def _by_place(function: Callable[..., Any], values: dict[str, Any], names: Sequence[str]) -> Any:
    """Call a function some of whose parameters have no names for its callers."""
    given = [name in values for name in names]
    last = len(names) - given[::-1].index(True) if True in given else 0
    defaults = inspect.signature(function).parameters
    ordered = [values.get(name, defaults[name].default) for name in names[:last]]
    named = {name: value for name, value in values.items() if name not in names}
    return function(*ordered, **named)


async def settled(run: Run, value: Any, place: Executor | None) -> Any:
    """The final value: awaited, drained and postprocessed."""
    if inspect.isawaitable(value):
        value = await value
    if hasattr(value, "__anext__"):
        value = await _drain(run, value)
    elif isinstance(value, GeneratorType):
        drain = partial(_drain_blocking, stream=value)
        value = drain(run) if place is None else await place.execute(run, drain)
    postprocess = run.tool.postprocess
    if postprocess is not None:
        value = postprocess(value)
        if inspect.isawaitable(value):
            value = await value
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
