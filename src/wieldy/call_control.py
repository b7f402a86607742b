"""The calls of a toolbox: decide on those that wait, and read, stop and recover them."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wieldy.core.active_call import Extras, Listener, Sink
from wieldy.core.block import Block, Progress
from wieldy.core.call import Outcome
from wieldy.core.choices import PermissionMode
from wieldy.core.discovery.tool_index import Index
from wieldy.core.engine import Engine
from wieldy.core.errors import StoreError
from wieldy.core.outside.trust_desk import TrustDesk
from wieldy.core.permission.decisions import Desk
from wieldy.core.permission.parked import Parked, ParkedFilter
from wieldy.core.registry import Registry
from wieldy.core.streaming import iterate_pushed
from wieldy.view import Arguments, View

if TYPE_CHECKING:
    from wieldy.core.limits.call_limits import CallLimits
    from wieldy.store.store import Store


class CallControl(View):
    """A view of all tools that also decides on, reads, stops and recovers calls."""

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        desk: Desk,
        index: Index,
        store: "Store | None",
    ) -> None:
        super().__init__(registry, engine, desk, index)
        self._store = store

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a function what recorded calls of the toolbox show while they run.

        Args:
            listener: A function that gets the call, and each block or progress that it shows, with
                every secret covered. It is called on the loop of the call, and not waited for.

        Returns:
            A function that ends this.

        Example:
            `stop = box.listen(lambda call, item: print(call.tool, item))`
        """
        return self._engine.listen(listener)

    @property
    def call_limits(self) -> "CallLimits":
        """The limits on how often, and how many at once, callers may call tools."""
        return self._engine.call_limits

    async def pending(
        self, *, agent: str | None = None, session: str | None = None, below: str | None = None
    ) -> list[Parked]:
        """List the calls that wait for a decision, the oldest first.

        Args:
            agent: List only calls made for this agent.
            session: List only calls made in this session.
            below: The id of a call. List only what it waits for: the call itself, or calls that
                its tool made, however deep they are nested.

        Returns:
            The parked calls. `shown` has the arguments that a person may see.

        Example:
            `for parked in await box.pending(): print(parked.id, parked.tool, parked.shown)`
        """
        if below is None:
            return await self._desk.pending(ParkedFilter(agent, session))
        waiting = await self._desk.find_open(below)
        return [parked for parked in waiting if parked.concerns(agent, session)]

    async def approve(
        self,
        call_id: str,
        by: str | None = None,
        arguments: Arguments = None,
        *,
        reason: str | None = None,
        deps: Any = None,
        check_output: bool = False,
    ) -> Outcome:
        """Let a parked call run, and wait for its outcome.

        Approving a call again does not run it again; it returns the same outcome.

        Args:
            call_id: The parked call's id.
            by: Who approves it, for the record.
            arguments: Arguments to run with instead of those of the call. They replace all of
                them, and are checked like any others.
            reason: Why, for the record.
            deps: What the tool gets as `Context.deps`; by default what the caller passed.
            check_output: Whether a result that does not fit the tool's output schema is an error.

        Returns:
            The outcome. It is pending if the tool is not here, or has changed since.

        Raises:
            CallNotFound: No parked call has this id.
            AlreadyDecided: The call was denied, or approved with other arguments.
            AnswerNeeded: The call waits for answers; use `answer`.
            InvalidArguments: The new arguments don't fit; the call stays parked.

        Example:
            `outcome = await box.approve(receipt.call.id, by="reviewer")`
        """
        extras = Extras(deps, check_output=check_output)
        return await self._desk.approve(call_id, by, arguments, extras, reason)

    async def answer(
        self,
        call_id: str,
        answers: Mapping[str, Any],
        by: str | None = None,
        *,
        deps: Any = None,
        check_output: bool = False,
    ) -> Outcome:
        """Run a call again whose tool raised `InputNeeded`, with the answers that it asked for.

        Args:
            call_id: The parked call's id.
            answers: An answer for each name in the parked call's `requests`.
            by: Who answers, for the record.
            deps: What the tool gets as `Context.deps`; by default what the caller passed.
            check_output: Whether a result that does not fit the tool's output schema is an error.

        Returns:
            The outcome, which is pending if the tool asks for something more.

        Raises:
            CallNotFound: No parked call has this id.
            AnswerNeeded: An answer is missing; `missing` names it.
            AlreadyDecided: The call was denied.
            ValueError: The call waits for a decision, not for answers.

        Example:
            `await box.answer(receipt.call.id, {"answer": {"size": "large"}})`
        """
        extras = Extras(deps, check_output=check_output)
        return await self._desk.answer(call_id, answers, by, extras)

    def approve_stream(
        self, call_id: str, by: str | None = None, arguments: Arguments = None, *, deps: Any = None
    ) -> AsyncIterator[Block | Progress | Outcome]:
        """Let a parked call run, and iterate over what it shows.

        Args:
            call_id: The parked call's id.
            by: Who approves it, for the record.
            arguments: Arguments to run with instead of those of the call.
            deps: What the tool gets as `Context.deps`; by default what the caller passed.

        Returns:
            Blocks and progress as they come, and the outcome last.

        Raises:
            WieldyError: Whatever `approve` raises, when the iteration starts.

        Example:
            `async for item in box.approve_stream(receipt.call.id): print(item)`
        """
        return iterate_pushed(
            lambda sink: self._desk.approve(call_id, by, arguments, Extras(deps, sink))
        )

    async def deny(self, call_id: str, by: str | None = None, reason: str | None = None) -> Outcome:
        """Refuse a parked call, which then never runs.

        Args:
            call_id: The parked call's id.
            by: Who refuses it, for the record.
            reason: Why; the model is told.

        Returns:
            The outcome, which is denied.

        Raises:
            CallNotFound: No parked call has this id.
            AlreadyDecided: The call was approved.

        Example:
            `await box.deny(receipt.call.id, by="reviewer", reason="not today")`
        """
        return await self._desk.deny(call_id, by, reason)

    async def go_on(self, call_id: str, *, deps: Any = None, sink: Sink | None = None) -> Outcome:
        """Let a call go on that waits for other calls, if these have ended.

        A call does that by itself where the last of them was decided, if its tool is there.

        Args:
            call_id: The id of the call whose tool raised `CallsNeeded`.
            deps: What the tool gets as `Context.deps`; by default what the caller passed.
            sink: What gets the items that the tool shows.

        Returns:
            The call's outcome, or its receipt if it still waits.

        Raises:
            CallNotFound: No parked call has this id.

        Example:
            `outcome = await box.go_on(receipt.call.id)`
        """
        ended = await self._desk.go_on(call_id, Extras(deps, sink))
        return ended or await self.outcome(call_id)

    async def outcome(self, call_id: str) -> Outcome:
        """Read how a call stands, without deciding on it or running it.

        Args:
            call_id: The id of a recorded call; without a store, of a call that was parked.

        Returns:
            The call's outcome, or its receipt if it waits. If the call is running, this waits for
            its end.

        Raises:
            CallNotFound: No such call is known, or it is no longer kept.

        Example:
            `outcome = await box.outcome(receipt.call.id)`
        """
        if self._store is not None:
            return await self._store.outcome(call_id)
        return await self._desk.outcome(call_id)

    def wait(self, call_id: str, timeout: float | None = None) -> Coroutine[Any, Any, Outcome]:
        """Wait for the end of a parked call, whichever process decides on it.

        If the call is approved and no other process runs it, it runs here, if its tool is here.

        Args:
            call_id: The call's id.
            timeout: Seconds to wait; None waits for as long as it takes.

        Returns:
            The call's outcome, or its receipt after the timeout.

        Raises:
            CallNotFound: No parked call has this id.

        Example:
            `outcome = await box.wait(receipt.call.id, timeout=600)`
        """
        return self._desk.wait(call_id, timeout)

    @property
    def untrusted(self) -> TrustDesk:
        """The sessions with a result from outside in them, and how a person clears one."""
        return TrustDesk(self._engine.permits.sessions)

    @property
    def modes_in_force(self) -> dict[tuple[str | None, str | None], PermissionMode]:
        """The permission modes that are set, by the agent and the session that they are for."""
        return dict(self._engine.permits.modes.table)

    @property
    def desk(self) -> Desk:
        """The place where calls that wait are found and decided on."""
        return self._desk

    async def rerun_call(self, call_id: str, extras: Extras) -> Outcome:
        """Run a call of unknown end again if its tool is read-only or idempotent.

        Args:
            call_id: The call's id.
            extras: What the call is given beside its arguments.

        Returns:
            Its outcome, or what is known of it where it must not run again.
        """
        return await self._needed_store().rerun(self._engine, self._desk, call_id, extras)

    async def recover(
        self, calls: Iterable[str] | None = None, by: str | None = None, *, unknown: bool = True
    ) -> list[Outcome]:
        """Run the calls that a crash left open.

        Those are approved calls that never started and, with `unknown`, calls that were running
        and whose tool is read-only or idempotent.

        Args:
            calls: Ids of the calls to run. A call that is named runs even if its tool may not be
                repeated safely. None runs every call that is safe to run.
            by: Who asks for it, for the record.
            unknown: Whether to run calls again that may have run before.

        Returns:
            An outcome for each call. `metadata["not_recovered"]` says why a named call did not run.

        Raises:
            StoreError: The toolbox has no store, or the store can't be used.
            CallNotFound: No recorded call has one of the ids.

        Example:
            `outcomes = await box.recover()`
        """
        return await self._needed_store().recover(self._engine, self._desk, calls, by, unknown)

    async def interrupt(self, call_id: str) -> bool:
        """Stop a running call, whose caller gets an interrupted outcome.

        Args:
            call_id: The call's id.

        Returns:
            Whether a call of this id was running here.
        """
        return self._engine.interrupt(call_id)

    def _needed_store(self) -> "Store":
        if self._store is None:
            raise StoreError(
                "this toolbox has none", 'Make it with Toolbox(store="sqlite:///wieldy.db").'
            )
        return self._store
