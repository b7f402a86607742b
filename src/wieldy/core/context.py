"""What a running tool can ask for: its caller, its call, and a way to show progress."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextvars import copy_context
from functools import wraps
from inspect import isasyncgenfunction, iscoroutine, iscoroutinefunction, isgeneratorfunction
from math import inf
from typing import Any, TypeVar, cast

from .active_call import CallChannel
from .block import Notice, Progress
from .call import Call, Outcome, Scope
from .schema.signature import Injected
from .task import run_in_copy

F = TypeVar("F", bound=Callable[..., Any])


class _Shown:
    """The return value of `emit` and `progress`. Awaiting it waits for a reader that is behind."""

    __slots__ = ("_waiting",)

    def __init__(self, waiting: Awaitable[None] | None) -> None:
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, None]:
        if self._waiting is not None:
            yield from self._waiting.__await__()


_SHOWN = _Shown(None)


class Context(Injected):
    """The running call, as its tool sees it.

    A parameter annotated with `Context` gets it, and the model never sees that parameter. The
    same methods serve both kinds of function: a coroutine may await `emit` and `progress`, a
    blocking function just calls them.

    Example:
        `async def report(year: int, context: Context) -> str:`
    """

    __slots__ = ("_run", "_variables")

    def __init__(self, run: CallChannel) -> None:
        self._run = run
        # A thread of the tool's own has none of the variables that say in which call it works.
        self._variables = copy_context()

    @property
    def call_id(self) -> str:
        """The id of this call."""
        return self._run.call.id

    @property
    def tool(self) -> str:
        """The name by which the tool was called."""
        return self._run.tool_name

    @property
    def scope(self) -> Scope:
        """The agent, the session, the parent call, the caller and the run."""
        return self._run.call.scope

    @property
    def deps(self) -> Any:
        """The object that the caller passed as `deps=` for this call alone."""
        return self._run.deps

    @property
    def attempt(self) -> int:
        """1 on the first attempt, 2 on the first retry, and so on."""
        return self._run.attempts

    @property
    def answers(self) -> Mapping[str, Any] | None:
        """The answers to the requests of `InputNeeded`, or None before they were asked for."""
        decision = self._run.call.decision
        return None if decision is None else decision.answers

    @property
    def state(self) -> Any:
        """The state that the tool passed to `InputNeeded`."""
        decision = self._run.call.decision
        return None if decision is None else decision.state

    @property
    def cancelled(self) -> bool:
        """Whether the call has ended without this function, so that its result is not needed."""
        return self._run.stopped or self._run.cancel_requested()

    def emit(self, item: Any) -> Awaitable[None]:
        """Show something while the tool runs.

        Args:
            item: A block, or a value that becomes one.

        Returns:
            An awaitable that waits for a reader that is behind. It need not be awaited.

        Example:
            `await context.emit("half of the pages are read")`
        """
        return self._show_item(item)

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Say how far the work has come.

        Args:
            done: How much is done.
            total: How much there is, if that is known.
            message: A word about it.

        Returns:
            An awaitable that waits for a reader that is behind. It need not be awaited.

        Example:
            `await context.progress(3, 10, "reading")`
        """
        return self._show_item(Progress(done, total, message))

    def notice(
        self, message: str, level: str = "info", logger: str | None = None
    ) -> Awaitable[None]:
        """Say something about the work that is not part of the result.

        Args:
            message: The text.
            level: How important it is, such as "info" or "warning".
            logger: The name of the part that says it.

        Returns:
            An awaitable that waits for a reader that is behind. It need not be awaited.

        Example:
            `await context.notice("the cache is cold", "warning")`
        """
        return self._show_item(Notice(message, level, logger))

    def report(self, cost: float = 0.0, **meta: Any) -> None:
        """Record what the call has cost, and other facts about it.

        Args:
            cost: The cost so far. Costs add up, also over attempts.
            **meta: Other facts; the last value of a name counts.

        Raises:
            ValueError: The cost is negative or no finite number.

        Example:
            `context.report(cost=0.002, model="small")`
        """
        if isinstance(cost, bool) or not 0 <= cost < inf:
            raise ValueError(f"a cost is a number from 0 up, not {cost!r}")
        self._run.report(float(cost), meta)

    def mark_untrusted(self) -> None:
        """Say that what this call gives comes from outside, so that nobody trusts it.

        The outcome has `untrusted` in its metadata and is scanned, and rules with
        `untrusted=True` hold for the session from now on.

        Example:
            `context.mark_untrusted()` before the text of a stranger's file is returned
        """
        self._run.mark_untrusted()

    async def call(
        self,
        call: str | Call,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        deps: Any = None,
    ) -> Outcome:
        """Call another tool of the same toolbox, nested in this call.

        It is nested in this call wherever it is made: in a thread of the tool's own, or in a task
        that goes on after the call.

        Args:
            call: The name of the tool, or a `Call`.
            arguments: The arguments of the tool.
            deps: What the other tool gets as `Context.deps`.

        Returns:
            The outcome of the other call. A failure is an outcome too.
        """
        made = self._run.call_nested(call, arguments, deps)
        return await (made if self._run.is_around() else run_in_copy(made, self._variables))

    def call_sync(
        self,
        call: str | Call,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        deps: Any = None,
    ) -> Outcome:
        """Call another tool of the same toolbox from a blocking function, in any thread.

        Args:
            call: The name of the tool, or a `Call`.
            arguments: The arguments of the tool.
            deps: What the other tool gets as `Context.deps`.

        Returns:
            The outcome of the other call. A failure is an outcome too.
        """
        nested = self._run.call_nested_blocking
        if self._run.is_around():
            return nested(call, arguments, deps)
        return self._variables.copy().run(nested, call, arguments, deps)

    def _show_item(self, item: Any) -> Awaitable[None]:
        if not self._run.on_loop():
            self._run.emit_blocking(item)
            return _SHOWN
        waiting = self._run.show(item)
        return _SHOWN if waiting is None else _Shown(waiting)


def carry(function: F) -> F:
    """Let a function work in the present call, in whichever thread it is called.

    A thread that a tool starts does not know for which call it works. Calls that are made there
    with `box.call` are nested in no call, unless the thread's function is carried.

    Args:
        function: A function, or a coroutine function.

    Returns:
        The same function. Any number of threads may call it at the same time.

    Raises:
        TypeError: It is a generator function, whose steps belong to whoever takes them.

    Example:
        `pool.map(wieldy.carry(look_up), cities)`
    """
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TypeError("a generator function can't be carried; carry the function that reads it")
    variables = copy_context()

    async def finish(made: Coroutine[Any, Any, Any]) -> Any:
        return await run_in_copy(made, variables)

    @wraps(function)
    def work(*arguments: Any, **options: Any) -> Any:
        # Only one thread at a time can be in a context.
        made = variables.copy().run(function, *arguments, **options)
        return finish(made) if iscoroutine(made) else made

    @wraps(function)
    async def work_async(*arguments: Any, **options: Any) -> Any:
        return await work(*arguments, **options)

    return cast(F, work_async if iscoroutinefunction(function) else work)
