"""A view: the tools that one agent may see and call."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Mapping,
)
from typing import TYPE_CHECKING, Any

from wieldy.core.active_call import Extras, Observer, current_call, nest_here
from wieldy.core.block import Block, Progress
from wieldy.core.call import NO_SCOPE, Call, Outcome, Scope, Status, check_id
from wieldy.core.choices import PermissionMode
from wieldy.core.discovery.tool_index import Index
from wieldy.core.engine import Engine
from wieldy.core.limits.model_results import ModelResults
from wieldy.core.permission.decisions import Desk
from wieldy.core.registry import Predicate, Registry, Selection
from wieldy.core.streaming import TellingSink
from wieldy.core.sync import blocking_border
from wieldy.core.tool import Tool
from wieldy.execution.remote_box import Shareable
from wieldy.visible_tools import VisibleTools

if TYPE_CHECKING:
    from wieldy.core.permission.explanation import Explanation

Arguments = Mapping[str, Any] | str | None
_NOTHING = (None, None, None, None)


class View(VisibleTools, Shareable):
    """The tools that one agent may see and call.

    A view is live: it follows every change of the toolbox. It can be narrowed further with `view`.

    Example:
        `reader = box.view(tags="read", agent="researcher")`
    """

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        desk: Desk,
        index: Index,
        selection: Selection | None = None,
        scope: Scope = NO_SCOPE,
        box: "View | None" = None,
    ) -> None:
        super().__init__(registry, index, selection, scope)
        self._box = box
        # Whether nothing is left out but what is not there for whoever looks.
        self.whole = selection is None
        # Whether clients are shown every tool, although others find theirs by search.
        self.lists_all = False
        self._engine = engine
        self._run = engine.run
        self._desk = desk

    def call(
        self,
        call: str | Call,
        arguments: Arguments = None,
        *,
        deps: Any = None,
        session: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
        check_output: bool = False,
    ) -> Coroutine[Any, Any, Outcome]:
        """Run one call to its outcome. A failing tool is an outcome, not an exception.

        Args:
            call: The tool's name, or a `Call`.
            arguments: The arguments as a mapping or as JSON text.
            deps: Any object for this call alone; the tool gets it as `Context.deps`.
            session: The session in which the call is made.
            idempotency_key: A key that makes repeated calls one: the first runs, and all get its
                outcome. It needs a store.
            wait: Whether to wait for the decision if the call is parked.
            timeout: Seconds that `wait=True` waits at most.
            check_output: Whether a result that does not fit the tool's output schema is an error.

        Returns:
            The outcome. Its `status` is pending if the call waits for approval.

        Raises:
            ValueError: An option can't be used as given.

        Example:
            `outcome = await box.call("weather", {"city": "Oslo"})`
        """
        if (
            type(call) is str
            and deps is None
            and session is None
            and idempotency_key is None
            and not wait
            and timeout is None
            and not check_output
        ):
            return self._run(Call(call, arguments, self._scope), self._selection)
        made = self._make_call(call, arguments, session, idempotency_key)
        if wait:
            return self._wait_decision(made, Extras(deps, check_output=check_output), timeout)
        if timeout is not None:
            raise ValueError("timeout is how long wait=True waits; a tool has Limits(timeout=…)")
        plain = deps is None and not check_output
        extras = None if plain else Extras(deps, check_output=check_output)
        return self._run(made, self._selection, extras)

    def stream(
        self,
        call: str | Call,
        arguments: Arguments = None,
        *,
        deps: Any = None,
        session: str | None = None,
        idempotency_key: str | None = None,
        live: bool = False,
        check_output: bool = False,
    ) -> AsyncIterator[Block | Progress | Outcome]:
        """Run one call, and iterate over what it shows.

        Args:
            call: The tool's name, or a `Call`.
            arguments: The arguments as a mapping or as JSON text.
            deps: Any object for this call alone; the tool gets it as `Context.deps`.
            session: The session in which the call is made.
            idempotency_key: A key that makes repeated calls one; see `call`.
            live: Whether to leave out the returned value, which is then in the outcome only.
            check_output: Whether a result that does not fit the tool's output schema is an error.

        Returns:
            Blocks and progress as they come, and the outcome last.

        Raises:
            ValueError: An option can't be used as given.

        Example:
            `async for item in box.stream("report", {"year": 2026}): print(item)`
        """
        made = self._make_call(call, arguments, session, idempotency_key)
        return self._engine.stream(made, deps, self._selection, live, check_output)

    async def call_telling(
        self,
        call: Call,
        tell: Callable[[Block | Progress], Awaitable[None]],
        *,
        check_output: bool = False,
    ) -> tuple[Outcome, Tool | None]:
        """Run one call, and tell a listener what it shows on the way.

        It costs less than `stream` if the tool shows nothing, as most tools do.

        Args:
            call: The call to run.
            tell: An async function that gets each block and each progress.
            check_output: Whether a result that does not fit the tool's output schema is an error.

        Returns:
            The outcome, and the tool that ran, if one did.

        Example:
            `outcome, tool = await box.call_telling(Call("report"), show)`
        """
        sink = TellingSink(tell)
        extras = Extras(None, sink, check_output=check_output)
        outcome = await self.call_equipped(call, extras)
        await sink
        return outcome, extras.tool

    def call_equipped(self, call: Call, extras: Extras) -> Awaitable[Outcome]:
        """Run one call with settings of the engine.

        Args:
            call: The call to run.
            extras: The settings.

        Returns:
            The outcome, when it is awaited.

        Example:
            `outcome = await box.call_equipped(Call("report"), Extras(deps))`
        """
        return self._run(self._make_call(call, None, None), self._selection, extras)

    def call_observed(
        self, call: Call, extras: Extras | None = None, *, session: str | None = None
    ) -> Coroutine[Any, Any, Outcome]:
        """Run one call, and tell the observers with a method `shown(call, item)` what it shows.

        Args:
            call: The call to run.
            extras: What the call gets beside its arguments. What it shows goes to the sink in
                them, if there is one, and not to the observers.
            session: The session in which the call is made.

        Returns:
            The outcome.
        """
        made = self._make_call(call, None, session)
        if not self._engine.watchers or (extras is not None and extras.sink is not None):
            return self._run(made, self._selection, extras)
        return self._tell_watchers(made, extras or Extras())

    async def _tell_watchers(self, call: Call, extras: Extras) -> Outcome:
        sink = TellingSink(lambda item: self._engine.tell_shown(call, item))
        extras.sink = sink
        outcome = await self._run(call, self._selection, extras)
        await sink
        return outcome

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Tell one more observer of the outcomes of all calls of the toolbox.

        Args:
            observer: A function that gets each outcome, as those in `Toolbox(observers=…)` do.

        Returns:
            A function that ends this.

        Example:
            `stop = box.observe(lambda outcome: print(outcome.call.tool, outcome.status))`
        """
        return self._engine.observe(observer)

    def count_calls(self) -> tuple[int, int]:
        """Count the calls of the toolbox that have begun and not ended, in this process.

        Returns:
            How many there are, and how many of them wait for a slot.
        """
        return self._engine.count_calls()

    async def call_many(
        self,
        calls: Iterable[Call | tuple[str, Arguments]],
        *,
        deps: Any = None,
        session: str | None = None,
    ) -> list[Outcome]:
        """Run several calls at the same time.

        Args:
            calls: `Call` objects, or pairs of a name and arguments.
            deps: Any object for these calls; their tools get it as `Context.deps`.
            session: The session in which the calls are made.

        Returns:
            The outcomes, in the order of the calls.

        Raises:
            TypeError: One of `calls` is a bare name.

        Example:
            `await box.call_many([("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})])`
        """
        listed = list(calls)
        if any(isinstance(each, str) for each in listed):
            raise TypeError("call_many takes Calls and (name, arguments) pairs, not bare names")
        pairs = [(each, None) if isinstance(each, Call) else each for each in listed]
        made = [self._make_call(call, arguments, session) for call, arguments in pairs]
        extras = None if deps is None else Extras(deps)
        return await asyncio.gather(*(self._run(call, self._selection, extras) for call in made))

    def call_sync(
        self,
        call: str | Call,
        arguments: Arguments = None,
        *,
        deps: Any = None,
        session: str | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Run one call from blocking code, also inside a tool or beside a running event loop.

        Args:
            call: The tool's name, or a `Call`.
            arguments: The arguments as a mapping or as JSON text.
            deps: Any object for this call alone; the tool gets it as `Context.deps`.
            session: The session in which the call is made.
            idempotency_key: A key that makes repeated calls one; see `call`.

        Returns:
            The outcome.

        Raises:
            ValueError: An option can't be used as given.

        Example:
            `outcome = box.call_sync("weather", {"city": "Oslo"})`
        """
        made = self._make_call(call, arguments, session, idempotency_key)
        return blocking_border().wait(
            lambda home: self._run(made, self._selection, Extras(deps, home=home))
        )

    def view(
        self,
        names: Iterable[str] | str | None = None,
        tags: Iterable[str] | str | None = None,
        groups: Iterable[str] | str | None = None,
        agent: str | None = None,
        caller: str | None = None,
        *,
        session: str | None = None,
        where: Predicate | None = None,
    ) -> "View":
        """Make a view of fewer tools.

        A tool is in the view if it matches each criterion that is given. Within one criterion one
        match is enough.

        Args:
            names: Names of tools.
            tags: Tags of tools.
            groups: Names of groups.
            agent: The agent for whom the view makes its calls.
            caller: The name of the person or token for whom the view makes its calls.
            session: The session in which the view makes its calls. Where search tools were added,
                the view lists the tools that this session is shown.
            where: A function of a tool and of the scope of whoever looks or calls. It says whether
                the tool is there for them. A tool on which it fails is hidden.

        Returns:
            The narrower view.

        Example:
            `reader = box.view(tags=["read", "search"], agent="researcher")`
        """
        narrows = any(each is not None for each in (names, tags, groups, where))
        above = self._selection
        selection = Selection(names, tags, groups, where, above) if narrows else above
        if session is not None:
            check_id("a session", session)
        scope = Scope(agent, session, caller=caller).within(self._scope)
        known = (self._registry, self._engine, self._desk, self._index)
        made = View(*known, selection, scope, self.box)
        made.lists_all = self.lists_all
        return made

    @property
    def box(self) -> "View":
        """The toolbox that this is a view of."""
        return self if self._box is None else self._box

    @property
    def results(self) -> ModelResults:
        """What models and clients read of outcomes: at most `max_result`, the rest by handle."""
        return self._engine.results

    async def callable_tools(
        self, scope: Scope = NO_SCOPE, *, listing: str | None = None, loaded_only: bool = True
    ) -> list[Tool]:
        """List the visible tools that a client may call with some arguments, to offer them to it.

        A tool is left out if it is switched off, or if the permission mode or a rule denies it
        whatever the arguments are.

        Args:
            scope: The agent and the session that would call, unless the view has its own.
            listing: Whose loaded tools to list, if that is not the session.
            loaded_only: Whether tools that are to be searched for first are left out.

        Returns:
            The tools, in order.
        """
        whose = nest_here(self._scope.within(scope))
        lister = (listing or whose.session) if loaded_only and not self.lists_all else None
        listed = await self._registry.refresh_list(lister)
        shown = [tool for tool in listed if self._shows(tool, whose)]
        return await self._engine.permits.callable_tools(shown, whose)

    async def permitted_tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Leave out the tools that no call of this view may run, whatever its arguments are.

        Args:
            tools: Tools of this view.

        Returns:
            The others, in order.
        """
        return await self._engine.permits.callable_tools(tools, nest_here(self._scope))

    def acting_for(self, scope: Scope) -> "View":
        """Make the view that somebody with this scope has of the same tools.

        Args:
            scope: Who looks or calls, as far as this view leaves that open.

        Returns:
            The view.
        """
        parts = (self._registry, self._engine, self._desk, self._index)
        return View(*parts, self._selection, self._scope.within(scope), self.box)

    def calling_view(self) -> "View":
        """Find what the running tool was called through: what its caller may see and call.

        Returns:
            A view with the caller's selection and scope; this view if no tool runs.
        """
        active = current_call.get()
        if active is None:
            return self
        parts = (self._registry, self._engine, self._desk, self._index)
        return View(*parts, active.selection, active.call.scope, self.box)

    async def explain_permission(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        scope: Scope = NO_SCOPE,
        within: str | None = None,
    ) -> "Explanation":
        """Say whether a call would run, and which rule, trait or mode makes it so.

        Nothing is run, parked or recorded. Inside a tool it is about a call nested in the tool's
        own.

        Args:
            name: The tool.
            arguments: What would be sent; they are repaired and checked like those of a call.
            scope: On whose behalf the call would be made, as far as this view leaves that open.
            within: The id of a call that runs, waits or is recorded, in which the call would be
                nested.

        Returns:
            The decision (`run`, `ask`, `deny` or `dry-run`), the sentence that the ledger and an
            approver would get, every rule that matches, and what a person would be asked.

        Raises:
            ToolNotFound: There is no such tool here.
            InvalidArguments: The arguments don't fit.
            CallNotFound: No call has the id `within`.

        Example:
            `(await box.explain_permission("wipe", {"path": "/"})).because`
        """
        whose = self._scope.within(scope, scope.parent)
        if within is None:
            whose = nest_here(whose)
        else:
            outer = self._engine.find_running(within) or await self._desk.find_call(within)
            whose = whose.nested_in(outer.scope, within)
        return await self._engine.explain(Call(name, arguments, whose), self._selection)

    def set_mode(
        self,
        mode: PermissionMode | None,
        agent: str | None = None,
        session: str | None = None,
        *,
        by: str | None = None,
    ) -> None:
        """Change the permission mode, for all calls or for those of one agent or session.

        It counts at once, also for calls that wait for their turn or for a person. Of the modes
        that apply to a call the strictest wins. With a store, each change is in the ledger when
        this returns.

        Args:
            mode: The mode; None takes back the one that was set for the same calls.
            agent: Only calls of this agent; a view with an agent of its own means that one.
            session: Only calls of this session.
            by: Who changes it.

        Raises:
            ValueError: There is no such mode, or a view without an agent was to change the mode
                of calls that it can't see.
            StoreError: The change could not be recorded. A stricter mode counts nevertheless.

        Example:
            `box.set_mode("read-only", session="s-1", by="ann")`
        """
        own = self._scope
        if own.agent is not None and agent not in (None, own.agent):
            raise ValueError(f"This view is for {own.agent!r}, and sets no mode for {agent!r}.")
        agent = own.agent if agent is None else agent
        session = own.session if session is None else session
        partial = self._selection is not None or own.caller is not None
        if partial and agent is None and session is None:
            raise ValueError(
                "This view has no agent: name an agent or a session, or set the mode of the box."
            )
        modes = self._engine.permits.modes
        self._engine.set_mode(modes.plan_change(mode, agent, session, by))

    @property
    def permission_mode(self) -> PermissionMode:
        """The strictest mode that applies to the calls of this view, whatever their session."""
        return self._engine.permits.modes.applying(nest_here(self._scope))[0]

    async def rules_in_force(self) -> Hashable:
        """Read which rules are in force, including those in the store.

        Returns:
            A value to compare with an earlier one; it differs as soon as other rules are in force.
        """
        return await self._engine.permits.rules_in_force()

    @property
    def recorded(self) -> bool:
        """Whether calls are recorded in a store."""
        return self._engine.records

    async def _wait_decision(self, call: Call, extras: Extras, seconds: float | None) -> Outcome:
        outcome = await self._run(call, self._selection, extras)
        if outcome.status is Status.PENDING:
            return await self._desk.wait(outcome.call.id, seconds)
        return outcome

    def _make_call(
        self,
        call: str | Call,
        arguments: Arguments,
        session: str | None,
        idempotency_key: str | None = None,
    ) -> Call:
        """The call to run, with the scope of this view."""
        given = call.scope if isinstance(call, Call) else NO_SCOPE
        own = self._scope
        if isinstance(call, Call) and own is given is NO_SCOPE:
            said = (session, idempotency_key, call.decision, call.idempotency_key)
            if said == _NOTHING:
                return call
        scope = own
        if session is not None or given is not NO_SCOPE:
            # The view's own agent wins over the agent that the call names.
            own = Scope(own.agent, session or own.session, None, own.caller, own.run, own.around)
            scope = own.within(given, given.parent)
        if isinstance(call, Call):
            idempotency_key = idempotency_key or call.idempotency_key
            made, same = call, call.decision is None and idempotency_key == call.idempotency_key
            if not same or scope != given:
                # A decision is valid only where it was made, so a call that comes back has none.
                made = call.replace(scope=scope, decision=None, idempotency_key=idempotency_key)
        else:
            name = call if isinstance(call, str) else str(call)
            made = Call(name, arguments, scope, idempotency_key=idempotency_key)
        if scope.session is not None:
            check_id("a session", scope.session)
        if idempotency_key is not None:
            _check_key(idempotency_key, self._engine.records)
        return made


def _check_key(idempotency_key: str, recorded: bool) -> None:
    if not recorded:
        raise ValueError("an idempotency_key needs a store to be remembered in")
    check_id("an idempotency_key", idempotency_key)
