"""One call under way: what the engine and its middleware know about it."""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic_core import from_json

from .block import Block, Progress, to_blocks
from .call import Around, Call, Outcome, Scope
from .secrets.credential import held_secrets
from .secrets.held_text import HeldText
from .secrets.secret import redact_data, redact_text
from .streaming import OverhearingSink
from .task import Cancellation, current_task, running_tasks
from .tool import Tool

if TYPE_CHECKING:
    from .registry import Selection
    from .work import Work


class Sink(Protocol):
    """Receives the items that a running call emits."""

    @property
    def live(self) -> bool:
        """Whether it wants only items that are emitted while the call runs."""

    def push(self, item: Block | Progress) -> None:
        """Take an item, on the loop's thread."""

    def room(self) -> Awaitable[None] | None:
        """Something to wait for before the next item, or None if there is room."""


class CallChannel(Protocol):
    """The call of a running function, wherever the function runs.

    In the engine's process it is the `ActiveCall`. A worker in another process has a channel of its
    own, which sends everything to the engine.
    """

    @property
    def call(self) -> Call:
        """The call."""

    @property
    def tool_name(self) -> str:
        """The name under which the tool was called."""

    @property
    def deps(self) -> Any:
        """The object that the caller passed for this call alone."""

    @property
    def attempts(self) -> int:
        """1 on the first attempt, 2 on the first retry, and so on."""

    @property
    def stopped(self) -> bool:
        """Whether the call has ended."""

    def cancel_requested(self) -> bool:
        """Whether somebody asked the call to stop."""

    def on_loop(self) -> bool:
        """Whether this code runs on the event loop and must not block."""

    def begin_stream(self) -> None:
        """From now on the emitted items are the content."""

    def show(self, item: Any) -> Awaitable[None] | None:
        """Emit without waiting; returns an awaitable if the reader is behind."""

    async def emit(self, item: Any) -> None:
        """Emit, and wait until the reader has room for more."""

    def emit_blocking(self, item: Any) -> None:
        """Emit from blocking code, and wait while the reader is behind."""

    def report(self, cost: float, meta: Mapping[str, Any]) -> None:
        """Keep the cost and the facts that the tool reports."""

    def mark_untrusted(self) -> None:
        """Note that what the call gives comes from outside."""

    def is_around(self) -> bool:
        """Whether this code runs in this call, or in one that is nested in it."""

    async def call_nested(
        self, call: "str | Call", arguments: Mapping[str, Any] | str | None, deps: Any
    ) -> Outcome:
        """Run another call inside this one."""

    def call_nested_blocking(
        self, call: "str | Call", arguments: Mapping[str, Any] | str | None, deps: Any
    ) -> Outcome:
        """The same from blocking code."""

    def keep_secret(self, secrets: tuple[str, ...]) -> None:
        """Cover these strings too in all that the call shows."""


class Executor(Protocol):
    """A place where tools' functions run.

    It gets a function, its values and the call's channel, and nothing else of the engine,
    so that the place can be another process.
    """

    async def execute(self, work: "Work", values: dict[str, Any], channel: "ActiveCall") -> Any:
        """Perform the work there; returns its value, or raises its exception."""

    def close(self) -> Awaitable[None] | None:
        """Close the workers."""


@runtime_checkable
class RemoteExecutor(Executor, Protocol):
    """A place outside this process; coroutine functions run there too."""

    def hold_worker(self, work: "Work") -> "Middleware":
        """A middleware that waits for a worker before the call's timeout begins."""


class WorkerPlace(Protocol):
    """A worker that a call holds, and may lend while a call nested in it waits in a queue."""

    @property
    def held(self) -> bool:
        """Whether the call still uses the worker."""

    def lend(self) -> None:
        """Let another call use the worker until it is taken back."""

    def take_back(self) -> None:
        """Use the worker again, without waiting."""


class CallStopped(BaseException):
    """Raised in a blocking function that emits something after its call has ended without it."""


class ActiveCall:
    """The state of one running call. The engine makes it, and drops it when the call ends.

    Middleware may read everything here: `call` and `tool` are what was asked for,
    `arguments` the plain arguments as accepted, `values` what the function gets.
    """

    # Fields that every call sets have a slot; the others have a default on the class.
    __slots__ = ("__dict__", "call", "cancels_before", "eventful", "parent", "stopped", "task")
    tool: Tool
    late: "EngineLink"
    accepted: Mapping[str, Any] | None = None
    values: dict[str, Any]
    # The rule, trait or mode that decided on the call, if one did.
    because: str | None = None
    # The edition of the rules when the approver agreed.
    agreed: int | None = None
    # The edition of the rules when the values were judged.
    judged: int | None = None
    # The tools of the view through which the call was made, if it is not the whole box.
    selection: "Selection | None" = None
    deps: Any = None
    sink: Sink | None = None
    # The text that is held back from the sink's reader.
    held: HeldText | None = None
    home: Executor | None = None
    # The blocks that the call has shown, before secrets are covered.
    blocks: Sequence[Block] | None = None
    metadata: dict[str, Any] | None = None
    interruption: Cancellation | None = None
    unwinding: asyncio.CancelledError | None = None
    secrets: tuple[str, ...] = ()
    attempts: int = 1
    streamed: bool = False
    # Whether the arguments are so many that work on them is done off the loop.
    is_large: bool = False
    exclusive: bool = False
    # The texts that the call emitted, if its result comes from outside; otherwise None.
    outside: list[str] | None = None
    # Whether a result from outside is in each session on the way, where a rule has asked.
    tainted: tuple[bool, ...] | None = None
    # Whether the caller wants the result held to the tool's output schema.
    checks_result: bool = False
    slots: object = None
    # Whether the call waits for a slot.
    queued: bool = False
    # The worker that a call holds outside this process.
    lease: Any = None
    # The recorder's own data about this call, between its start and its end.
    record: Any = None
    # Told once, directly before the function is entered.
    entered: "Entrance | None" = None
    # Told the outcome of a recorded call directly before its end is recorded.
    foretold: "Callable[[Outcome], None] | None" = None

    def __init__(self, call: Call, parent: "ActiveCall | None") -> None:
        self.call = call
        self.parent = parent
        self.stopped = False
        task: asyncio.Task[Any]
        try:
            # If there is just one running task, it is this one.
            (task,) = running_tasks
        except ValueError:
            task = current_task()
        self.task = task
        self.cancels_before = task.cancelling()
        # Whether the outcome must contain anything beyond its value.
        self.eventful = False

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The plain arguments as accepted: parsed and, if needed, repaired."""
        if self.accepted is None:
            # JSON text that fits is converted while it is parsed; its plain form is made here.
            sent = self.call.arguments
            parsed = from_json(sent) if isinstance(sent, str) else sent
            self.accepted = accepted = parsed if isinstance(parsed, _MAPPINGS) else {}
            return accepted
        return self.accepted

    @property
    def was_answered(self) -> bool:
        """Whether a person was asked about the call: who decided, or the approver."""
        return self.agreed is not None or self.call.decision is not None

    @property
    def tool_name(self) -> str:
        """The name under which the tool was called."""
        return self.tool.name

    @property
    def depth(self) -> int:
        """How many calls this one is nested in."""
        return sum(1 for _ in self.ancestors())

    def ancestors(self) -> "Iterator[ActiveCall]":
        """The calls that this one is nested in, the nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def was_left(self) -> bool:
        """Whether it goes on outside its task, inside a call that was abandoned."""
        return any(each.stopped and each.task is self.task for each in self.ancestors())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the engine runs this call on."""
        return self.task.get_loop()

    def interrupt(self) -> None:
        """Stop this call, but not the task around it. Call it on the call's own loop."""
        if self.interruption is None and not self.was_left:
            self.eventful = True
            self.interruption = Cancellation(self.task, self.cancels_before)
            self.interruption.fire()

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def cancel_requested(self) -> bool:
        """Whether somebody asked the task to stop since this call began."""
        return self.task.cancelling() > self.cancels_before

    def send_to(self, sink: Sink) -> None:
        """Send what the call emits to this sink."""
        self.sink = sink
        self.blocks = ()
        self.eventful = True

    def let_overhear(self, tell: Callable[[Any], None]) -> None:
        """Tell somebody else too what the call emits."""
        blocks, reader = self.blocks, self.sink
        if reader is None:
            self.send_to(OverhearingSink(None, tell))
            # A listener must not change the result of the call.
            self.blocks = blocks
        else:
            self.sink = OverhearingSink(reader, tell)

    def keep_secret(self, secrets: tuple[str, ...]) -> None:
        """Cover these strings too in all that the call shows."""
        self.secrets = tuple(dict.fromkeys((*self.secrets, *secrets)))
        self.blocks = self.blocks or ()
        self.eventful = True

    def note(self, key: str, value: Any) -> None:
        """Add a fact to the metadata of the outcome."""
        self.eventful = True
        if self.metadata is None:
            self.metadata = {}
        self.metadata[key] = value

    def noted(self, key: str, default: Any = None) -> Any:
        """A fact noted before."""
        return default if self.metadata is None else self.metadata.get(key, default)

    async def tell_entered(self) -> None:
        """Tell whoever wants to know it that the function is entered now."""
        tell, self.entered = self.entered, None
        if tell is not None:
            await tell()

    def tell_entered_blocking(self) -> None:
        """The same from a worker's thread."""
        asyncio.run_coroutine_threadsafe(self.tell_entered(), self.loop).result()

    def come_from_outside(self) -> list[str]:
        """Note that what the call gives comes from outside; returns where to note what it says."""
        if self.outside is None:
            self.outside = []
            self.eventful = True
        return self.outside

    def mark_untrusted(self) -> None:
        """The same, said by the function; it holds at once where a reader sees what comes."""
        self.come_from_outside()
        if self.sink is not None:
            self.late.taint_session(self.call)

    def report(self, cost: float, meta: Mapping[str, Any]) -> None:
        """Keep what the tool reports, unless the call has ended without it."""
        if self.stopped:
            return
        if cost:
            self.note("cost", self.noted("cost", 0.0) + cost)
        if meta:
            self.note("meta", {**self.noted("meta", {}), **redact_data(dict(meta), self.secrets)})

    def is_around(self) -> bool:
        """Whether this code runs in this call, or in one that is nested in it."""
        here = current_call.get()
        return here is not None and (here is self or self in here.ancestors())

    async def call_nested(
        self, call: str | Call, arguments: Mapping[str, Any] | str | None = None, deps: Any = None
    ) -> Outcome:
        """Run another call inside this one."""
        made = _undecided_call(call, arguments)
        return await self.late.run_call(made, Extras(deps))

    def call_nested_blocking(
        self, call: str | Call, arguments: Mapping[str, Any] | str | None = None, deps: Any = None
    ) -> Outcome:
        """The same from blocking code."""
        made = _undecided_call(call, arguments)
        return self.late.run_blocking(made, deps)

    def begin_stream(self) -> None:
        """From now on the blocks shown are the content, and the value does not add to it."""
        self.streamed = self.eventful = True
        self.blocks = self.blocks or ()

    def show(self, item: Any) -> Awaitable[None] | None:
        """Emit without waiting; returns an awaitable if the reader is behind.

        Text that may be the beginning of a secret is held back until more text comes.
        """
        if self.stopped:
            return None
        if isinstance(item, Progress):
            if self.secrets:
                item = item.map_text(lambda text: redact_text(text, self.secrets))
            return self._push_item(item)
        waiting = None
        for block in to_blocks(item, self.blocks or ()):
            if not isinstance(self.blocks, list):
                self.blocks = []
                self.eventful = True
            self.blocks.append(block)
            if self.sink is not None:
                for item in (
                    self._hold_back().take(block, self.secrets) if self.secrets else (block,)
                ):
                    waiting = self._push_item(item)
        return waiting

    def show_result(self, block: Block) -> None:
        """Show a block of the result, which a live reader gets with the outcome."""
        if self.sink is None or not self.sink.live:
            self.show(block)
            return
        sink, self.sink = self.sink, None
        self.show(block)
        self.sink = sink

    def end_stream(self, returned: Iterable[Block] = ()) -> None:
        """Send the reader what was held back, and then the result."""
        if self.sink is None:
            return
        rest = () if self.sink.live else returned
        for item in self._hold_back().give_all(rest, self.secrets) if self.secrets else rest:
            self.sink.push(item)

    def _hold_back(self) -> HeldText:
        """The text held back, which only a call with secrets has."""
        self.held = self.held or HeldText()
        return self.held

    async def emit(self, item: Any) -> None:
        """Emit, and wait until the reader has room for more."""
        waiting = self.show(item)
        if waiting is not None:
            await waiting

    def emit_blocking(self, item: Any) -> None:
        """Emit from blocking code; on a worker's thread it waits while the reader is behind."""
        if self.stopped:
            raise CallStopped
        if self.sink is None or self.on_loop():
            self.show(item)
        else:
            asyncio.run_coroutine_threadsafe(self.emit(item), self.loop).result()

    def _push_item(self, item: Block | Progress) -> Awaitable[None] | None:
        if self.sink is None:
            return None
        self.sink.push(item)
        return self.sink.room()


def _undecided_call(call: str | Call, arguments: Mapping[str, Any] | str | None) -> Call:
    """The call that a tool makes; a decision is valid only where it was made."""
    return call.replace(decision=None) if isinstance(call, Call) else Call(call, arguments)


async def stand_in_queue(turn: Awaitable[None]) -> None:
    """Wait for a turn, and meanwhile lend the workers that the calls around this one hold.

    A call ahead in the queue may need one of these workers.
    """
    places, active = held_places.get(), current_call.get()
    for place in places:
        place.lend()
    if active is not None:
        active.queued = True
    try:
        await turn
    finally:
        if active is not None:
            active.queued = False
        for place in places:
            place.take_back()


def wake_in_queue(turn: "asyncio.Future[None]") -> bool:
    """Wake a caller that waits in a queue; False if its loop was closed meanwhile."""
    try:
        turn.get_loop().call_soon_threadsafe(_give_turn, turn)
    except RuntimeError:
        return False
    return True


def _give_turn(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


class EngineLink(Protocol):
    """The engine of a call, as long as there is one: a call may outlive it on its thread."""

    def __call__(self, active: ActiveCall, value: Any, error: BaseException | None) -> None:
        """Tell it that a function left behind has ended."""

    async def run_call(self, call: Call, extras: "Extras") -> Outcome:
        """Run another call."""

    def run_blocking(self, call: Call, deps: Any) -> Outcome:
        """Run another call from blocking code."""

    def taint_session(self, call: Call) -> None:
        """Count the call's session as untrusted from now on."""


class Extras:
    """Settings that few calls need: `deps`, a sink, a waiting thread, a check of the result.

    `entered` is told, once, when the function is about to be entered: after the permission, and
    before anything is shown. `foretold` is told the outcome directly before its record is
    durable, and must let nobody outside of the process know of it before the call returns.
    """

    __slots__ = ("active", "check_output", "deps", "entered", "foretold", "home", "sink")

    def __init__(
        self,
        deps: Any = None,
        sink: Sink | None = None,
        home: Executor | None = None,
        check_output: bool = False,
        entered: "Entrance | None" = None,
        foretold: Callable[[Outcome], None] | None = None,
    ) -> None:
        self.deps = deps
        self.sink = sink
        self.home = home
        self.check_output = check_output
        self.entered = entered
        self.foretold = foretold
        self.active: ActiveCall | None = None

    @property
    def tool(self) -> Tool | None:
        """The tool that the engine found for the call, once it has run."""
        return getattr(self.active, "tool", None)

    def equip(self, active: ActiveCall) -> bool:
        """Give a call these extras; returns whether it must go through its tool's handler."""
        self.active = active
        if self.deps is not None:
            active.deps = self.deps
            secrets = held_secrets(self.deps)
            if secrets:
                active.keep_secret(tuple(secrets))
        active.home = self.home
        if self.sink is not None:
            active.send_to(self.sink)
        if self.check_output:
            active.checks_result = active.eventful = True
        if self.entered is not None:
            active.entered = self.entered
        if self.foretold is not None:
            active.foretold = self.foretold
        return self.check_output or self.entered is not None


# `dict` comes first: most mappings are dicts, and that check is the quicker one.
_MAPPINGS = (dict, Mapping)

Handler = Callable[[ActiveCall], Awaitable[Outcome]]
Middleware = Callable[[ActiveCall, Handler], Awaitable[Outcome]]
# A middleware that is bound: it makes a handler from the handler inside it.
Layer = Callable[[Handler], Handler]
Observer = Callable[[Outcome], Any]
Entrance = Callable[[], Awaitable[None]]
# Told what a call shows while it runs, on the call's own loop.
Listener = Callable[[Call, Block | Progress], None]
# The method `shown` of an observer that has one.
Watcher = Callable[[Call, Block | Progress], Any]


class LateRefusal:
    """Why a call that has waited may not go on, and what makes the outcome that it gets."""

    __slots__ = ("outcome", "reason")

    def __init__(self, reason: str, outcome: Callable[[], Awaitable[Outcome]]) -> None:
        self.reason = reason
        self.outcome = outcome


# Whether a call that has waited is refused. An `Objection` says so at once where it can, and
# otherwise returns what has to be awaited on the call's loop.
Veto = Callable[[ActiveCall], Awaitable[LateRefusal | None]]
Objection = Callable[[ActiveCall], LateRefusal | Coroutine[Any, Any, LateRefusal | None] | None]


# The call that this code runs in. A task that a tool started may outlive its call: its own calls
# are nested in that call, but a reader who wants one that still runs must skip what has stopped.
current_call: ContextVar[ActiveCall | None] = ContextVar("wieldy_call", default=None)
held_places: ContextVar[tuple[WorkerPlace, ...]] = ContextVar("wieldy_places", default=())


def nest_here(scope: Scope) -> Scope:
    """A scope as a call made by this code would have it: nested in the call that runs here."""
    active = current_call.get()
    return scope if active is None else scope.nested_in(active.call.scope, active.call.id)


def around_here() -> tuple[Around, ...]:
    """Whose the calls are that this code runs in, the nearest first."""
    active = current_call.get()
    return () if active is None else active.call.scope.on_the_way()
