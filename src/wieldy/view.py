"""What one agent may see and call."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from itertools import islice
from typing import TYPE_CHECKING, Any

from wieldy.core.block import Block, Progress
from wieldy.core.call import NO_SCOPE, Call, Outcome, Scope, Status, check_id
from wieldy.core.choices import ProviderFormat
from wieldy.core.engine import Engine
from wieldy.core.permission.decisions import Desk
from wieldy.core.registry import Registry, Selection
from wieldy.core.run import Extras
from wieldy.core.schema.signature import is_same_function
from wieldy.core.search import Index
from wieldy.core.streaming import TellingSink
from wieldy.core.sync import blocking_border
from wieldy.core.tool import Tool

if TYPE_CHECKING:
    from wieldy.wire.cost import Cost, Counter

Arguments = Mapping[str, Any] | str | None
_NOTHING = (None, None, None, None)


class View:
    """What one agent may see and call. A view is live, and can be narrowed further."""

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        desk: Desk,
        index: Index,
        selection: Selection | None = None,
        scope: Scope = NO_SCOPE,
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._run = engine.run
        self._desk = desk
        self._index = index
        self._selection = selection
        self._scope = scope

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
        """Run one call to its outcome; a failing tool is an outcome, not an exception.

        `deps` is for this call alone and reaches the tool through its `Context`.
        A repeated `idempotency_key` gives the first call's outcome. `wait=True` waits
        until a parked call is decided, `timeout` seconds at most, and gives its end.
        With `check_output` a result that does not fit the tool's output schema is an error.
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
        made = self._made(call, arguments, session, idempotency_key)
        if wait:
            return self._waited(made, Extras(deps, check_output=check_output), timeout)
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
        """Run one call and give what it shows as it comes, the outcome last.

        With `live`, what the tool returns comes with the outcome only.
        """
        made = self._made(call, arguments, session, idempotency_key)
        return self._engine.stream(made, deps, self._selection, live, check_output)

    async def call_telling(
        self,
        call: Call,
        tell: Callable[[Block | Progress], Awaitable[None]],
        *,
        check_output: bool = False,
    ) -> tuple[Outcome, Tool | None]:
        """Run one call, tell a listener what it shows on the way, and give the tool that ran.

        It costs less than `stream` where a tool shows nothing, which most do.
        """
        sink = TellingSink(tell)
        extras = Extras(None, sink, check_output=check_output)
        outcome = await self._run(self._made(call, None, None), self._selection, extras)
        await sink
        return outcome, extras.tool

    async def call_observed(self, call: Call, *, session: str | None = None) -> Outcome:
        """Run one call; observers with a method `shown(call, item)` hear what it shows."""
        made = self._made(call, None, session)
        if not self._engine.watchers:
            return await self._run(made, self._selection)
        sink = TellingSink(lambda item: self._engine.tell_shown(made, item))
        outcome = await self._run(made, self._selection, Extras(None, sink))
        await sink
        return outcome

    async def call_many(
        self,
        calls: Iterable[Call | tuple[str, Arguments]],
        *,
        deps: Any = None,
        session: str | None = None,
    ) -> list[Outcome]:
        """Run calls at the same time; the outcomes come in the order of the calls."""
        listed = list(calls)
        if any(isinstance(each, str) for each in listed):
            raise TypeError("call_many takes Calls and (name, arguments) pairs, not bare names")
        pairs = [(each, None) if isinstance(each, Call) else each for each in listed]
        made = [self._made(call, arguments, session) for call, arguments in pairs]
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
        """Run one call from blocking code, also inside a tool or beside a running loop."""
        made = self._made(call, arguments, session, idempotency_key)
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
    ) -> "View":
        """Fewer tools: any match within one criterion, and each criterion narrows.

        `agent` and `caller` are on whose behalf its calls are made.
        """
        narrows = not (names is None and tags is None and groups is None)
        above = self._selection
        selection = Selection(names, tags, groups, above=above) if narrows else above
        scope = Scope(agent, caller=caller).within(self._scope)
        return View(self._registry, self._engine, self._desk, self._index, selection, scope)

    def schemas(
        self, provider: ProviderFormat = "openai", strict: bool = False
    ) -> list[dict[str, Any]]:
        """The visible tools as a provider wants them described.

        With `strict` the provider is asked to hold the model to each schema, where
        it can. `wieldy check` says what is lost or changed on the way.
        """
        # Loaded when tools are first described, to keep `import wieldy` light.
        from wieldy.wire.definitions import tool_definitions  # noqa: PLC0415

        return tool_definitions(self, provider, strict)

    def cost(
        self,
        provider: ProviderFormat = "openai",
        strict: bool = False,
        count: "Counter | None" = None,
    ) -> "Cost":
        """About how many tokens the visible tools take in each request, per tool and group."""
        # Loaded when first asked for, to keep `import wieldy` light.
        from wieldy.wire.cost import tool_cost  # noqa: PLC0415

        return tool_cost(self, provider, strict, count)

    def search(self, query: str, limit: int = 8) -> list[Tool]:
        """The visible tools that fit the words best."""
        found = (self.get(name) for name in self._index.search(query))
        return list(islice((tool for tool in found if tool is not None), limit))

    def all_tools(self) -> list[Tool]:
        """Every tool of this view, also those of inactive groups and those held back."""
        return [each for each in self._registry.tools() if self._selects(each)]

    def tools_of(self, function: Callable[..., Any]) -> list[Tool]:
        """The tools of this view that run this function, active or not, in order."""
        return [tool for tool in self.all_tools() if is_same_function(tool.function, function)]

    def get(self, name: str) -> Tool | None:
        """The visible tool of this name, or None."""
        tool = self._registry.find(name)
        return tool if tool is not None and self._shows(tool) else None

    def find_tool(self, name: str) -> Tool | None:
        """The tool of this name, in an active group or not, or None."""
        tool = self._registry.find(name)
        return tool if tool is not None and self._selects(tool) else None

    async def callable_tools(self, scope: Scope = NO_SCOPE) -> list[Tool]:
        """The visible tools less those whose calls on this behalf are denied in any case.

        That is what a client is offered. A tool is left out if it is switched off, if the
        permission mode denies it, or if a rule does, whatever the arguments.
        """
        return await self._engine.permits.callable_tools(self, self._scope.within(scope))

    async def rules_in_force(self) -> Hashable:
        """What differs as soon as other rules are in force; those in the store are read again."""
        return await self._engine.permits.rules_in_force()

    def watch(self, told: Callable[[str | None], None]) -> Callable[[], None]:
        """Tell somebody of each change of the tools, by name, or of groups and rules, by None.

        It is told on the thread that makes the change. Gives what ends it.
        """
        return self._registry.watch(told)

    @property
    def recorded(self) -> bool:
        """Whether calls are recorded in a store."""
        return self._engine.records

    @property
    def names(self) -> list[str]:
        """The names of the visible tools, in order."""
        return [tool.name for tool in self]

    def __iter__(self) -> Iterator[Tool]:
        return (tool for tool in self._registry.tools() if self._shows(tool))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        # Whoever writes `box or default` means one that was given, also while it is empty.
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tools)"

    def _shows(self, tool: Tool) -> bool:
        return self._selects(tool) and self._registry.active(tool)

    def _selects(self, tool: Tool) -> bool:
        return self._selection is None or self._selection.shows(tool)

    async def _waited(self, call: Call, extras: Extras, seconds: float | None) -> Outcome:
        outcome = await self._run(call, self._selection, extras)
        if outcome.status is Status.PENDING:
            return await self._desk.wait(outcome.call.id, seconds)
        return outcome

    def _made(
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
            # A view speaks for its agent, whatever a call says of itself.
            own = Scope(own.agent, session or own.session, None, own.caller, own.run)
            scope = own.within(given, given.parent)
        if isinstance(call, Call):
            idempotency_key = idempotency_key or call.idempotency_key
            # A decision counts only where it was made: a call that comes back is asked about anew.
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
