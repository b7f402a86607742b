"""What a tool may ask for: who calls, with what, and a way to show progress."""

from collections.abc import Awaitable, Generator, Mapping
from math import inf
from typing import Any

from .block import Notice, Progress
from .call import Scope
from .run import CallChannel
from .schema.signature import Injected


class _Shown:
    """The answer of `emit` and `progress`: awaiting it waits for the reader, if it is behind."""

    __slots__ = ("_waiting",)

    def __init__(self, waiting: Awaitable[None] | None) -> None:
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, None]:
        if self._waiting is not None:
            yield from self._waiting.__await__()


_SHOWN = _Shown(None)


class Context(Injected):
    """The running call, as its tool sees it.

    Annotate a parameter with `Context` and it is passed in; the model never sees
    it. The same methods serve both kinds of function: a coroutine may await
    `emit` and `progress`, a blocking function just calls them.
    """

    __slots__ = ("_run",)

    def __init__(self, run: CallChannel) -> None:
        self._run = run

    @property
    def call_id(self) -> str:
        """Our id of this call."""
        return self._run.call.id

    @property
    def tool(self) -> str:
        """The name under which the tool was called."""
        return self._run.tool_name

    @property
    def scope(self) -> Scope:
        """The agent, the session, the parent call, the caller and the run."""
        return self._run.call.scope

    @property
    def deps(self) -> Any:
        """What the caller passed as `deps=` for this call alone."""
        return self._run.deps

    @property
    def attempt(self) -> int:
        """1 on the first attempt, 2 on the first retry, and so on."""
        return self._run.attempts

    @property
    def answers(self) -> Mapping[str, Any] | None:
        """What was answered to the requests of `InputNeeded`, or None on the way to them."""
        decision = self._run.call.decision
        return None if decision is None else decision.answers

    @property
    def state(self) -> Any:
        """What the tool gave `InputNeeded` to find again."""
        decision = self._run.call.decision
        return None if decision is None else decision.state

    @property
    def cancelled(self) -> bool:
        """Whether the call has ended without this function, so that going on is useless."""
        return self._run.stopped or self._run.cancel_requested()

    def emit(self, item: Any) -> Awaitable[None]:
        """Show a block, or a value that becomes one, while the tool runs."""
        return self._show(item)

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Say how far the work has come."""
        return self._show(Progress(done, total, message))

    def notice(
        self, message: str, level: str = "info", logger: str | None = None
    ) -> Awaitable[None]:
        """Say something about the work that is not part of the result."""
        return self._show(Notice(message, level, logger))

    def report(self, cost: float = 0.0, **meta: Any) -> None:
        """Say what the call has cost, and whatever else is worth keeping with it.

        Costs add up, also over attempts; of equal names in `meta` the last one counts.
        """
        if isinstance(cost, bool) or not 0 <= cost < inf:
            raise ValueError(f"a cost is a number from 0 up, not {cost!r}")
        self._run.report(float(cost), meta)

    def _show(self, item: Any) -> Awaitable[None]:
        if not self._run.on_loop():
            self._run.emit_blocking(item)
            return _SHOWN
        waiting = self._run.show(item)
        return _SHOWN if waiting is None else _Shown(waiting)
