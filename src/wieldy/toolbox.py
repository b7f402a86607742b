"""The class users meet first: tools, who may call them, and the calls themselves."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from typing_extensions import Unpack

from wieldy.core.approvals import Approvals, MemoryApprovals, Parked
from wieldy.core.block import Block, Progress
from wieldy.core.call import NO_SCOPE, Call, Outcome, Scope, Status
from wieldy.core.desk import Desk
from wieldy.core.engine import Engine
from wieldy.core.errors import DefinitionError, StoreError
from wieldy.core.options import ToolOptions, public_methods, with_limits
from wieldy.core.permission import Approver, Permits
from wieldy.core.plan import Planner
from wieldy.core.registry import Groups, Registry
from wieldy.core.rules import Rules
from wieldy.core.run import Executor, Extras, Middleware, Observer
from wieldy.core.search import Index
from wieldy.core.selection import Selection
from wieldy.core.size import Spill
from wieldy.core.sync import border
from wieldy.core.tool import VALIDATIONS, Tool, marked_options
from wieldy.execution.threads import Threads

if TYPE_CHECKING:
    from wieldy.store.ledger import Ledger
    from wieldy.store.store import Store
    from wieldy.wire.cost import Cost, Counter

F = TypeVar("F", bound=Callable[..., Any])
Arguments = Mapping[str, Any] | str | None


_LONGEST_KEY = 500


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
    ) -> Coroutine[Any, Any, Outcome]:
        """Run one call to its outcome; a failing tool is an outcome, not an exception.

        `deps` is for this call alone and reaches the tool through its `Context`.
        A repeated `idempotency_key` gives the first call's outcome. `wait=True` waits
        until a parked call is decided, `timeout` seconds at most, and gives its end.
        """
        if (
            type(call) is str
            and deps is None
            and session is None
            and idempotency_key is None
            and not wait
            and timeout is None
        ):
            return self._run(Call(call, arguments, self._scope), self._selection)
        made = self._made(call, arguments, session, idempotency_key)
        if wait:
            return self._waited(made, deps, timeout)
        if timeout is not None:
            raise ValueError("timeout is how long wait=True waits; a tool has Limits(timeout=…)")
        return self._run(made, self._selection, Extras(deps))

    def stream(
        self,
        call: str | Call,
        arguments: Arguments = None,
        *,
        deps: Any = None,
        session: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncIterator[Block | Progress | Outcome]:
        """Run one call and give what it shows as it comes, the outcome last."""
        made = self._made(call, arguments, session, idempotency_key)
        return self._engine.stream(made, deps, self._selection)

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
        return await asyncio.gather(
            *(self._run(call, self._selection, Extras(deps)) for call in made)
        )

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
        return border().wait(lambda home: self._run(made, self._selection, Extras(deps, home=home)))

    def view(
        self,
        names: Iterable[str] | str | None = None,
        tags: Iterable[str] | str | None = None,
        groups: Iterable[str] | str | None = None,
        agent: str | None = None,
    ) -> "View":
        """Fewer tools: any match within one criterion, and each criterion narrows."""
        selection = Selection(names, tags, groups, above=self._selection)
        scope = Scope(agent or self._scope.agent, self._scope.session)
        return View(self._registry, self._engine, self._desk, self._index, selection, scope)

    def schemas(self, provider: str = "openai", strict: bool = False) -> list[dict[str, Any]]:
        """The visible tools as a provider wants them described.

        With `strict` the provider is asked to hold the model to each schema, where
        it can. `wieldy check` says what is lost or changed on the way.
        """
        # Loaded when tools are first described, to keep `import wieldy` light.
        from wieldy.wire.definitions import definitions  # noqa: PLC0415

        return definitions(self, provider, strict)

    def cost(
        self, provider: str = "openai", strict: bool = False, count: "Counter | None" = None
    ) -> "Cost":
        """About how many tokens the visible tools take in each request, per tool and group."""
        # Loaded when first asked for, to keep `import wieldy` light.
        from wieldy.wire.cost import cost  # noqa: PLC0415

        return cost(self, provider, strict, count)

    def search(self, query: str, limit: int = 8) -> list[Tool]:
        """The visible tools that fit the words best."""
        found = (self.get(name) for name in self._index.search(query))
        return list(islice((tool for tool in found if tool is not None), limit))

    def get(self, name: str) -> Tool | None:
        """The visible tool of this name, or None."""
        tool = self._registry.find(name)
        return tool if tool is not None and self._shows(tool) else None

    @property
    def names(self) -> list[str]:
        """The names of the visible tools, in order."""
        return [tool.name for tool in self]

    def __iter__(self) -> Iterator[Tool]:
        return (tool for tool in self._registry.tools() if self._shows(tool))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tools)"

    def _shows(self, tool: Tool) -> bool:
        selected = self._selection is None or self._selection.shows(tool)
        return selected and self._registry.active(tool)

    async def _waited(self, call: Call, deps: Any, seconds: float | None) -> Outcome:
        outcome = await self._run(call, self._selection, Extras(deps))
        if outcome.status is Status.PENDING:
            return await self._desk.wait(outcome, seconds)
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
        # A view speaks for its agent, whatever a call says of itself.
        scope = Scope(
            own.agent or given.agent, session or own.session or given.session, given.parent
        )
        if isinstance(call, Call):
            idempotency_key = idempotency_key or call.idempotency_key
            # A decision counts only where it was made: a call that comes back is asked about anew.
            made = call.replace(scope=scope, decision=None, idempotency_key=idempotency_key)
        else:
            name = call if isinstance(call, str) else str(call)
            made = Call(name, arguments, scope, idempotency_key=idempotency_key)
        if idempotency_key is not None:
            _check_key(idempotency_key, self._engine.records)
        return made


class Toolbox(View):
    """A set of tools and the one way to call them.

    Everything about a call goes through here: what the tools are, who may call
    them, how they are limited, who is asked, and who is told.
    """

    def __init__(
        self,
        *,
        store: str | None = None,
        durability: str = "full",
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        approver: Approver | None = None,
        permission_mode: str = "ask",
        approval_ttl: float | None = None,
        validation: str = "repair",
        spill: Spill | None = None,
        capture_content: bool = False,
        threads: int = 40,
    ) -> None:
        if validation not in VALIDATIONS:
            raise ValueError(f"validation must be one of {', '.join(VALIDATIONS)}")
        if approval_ttl is not None and not approval_ttl > 0:
            raise ValueError(f"approval_ttl must be seconds above 0, not {approval_ttl!r}")
        if threads < 1:
            raise ValueError(f"threads must be 1 or more, not {threads!r}")
        registry = Registry()
        self._store = None if store is None else _store(store, durability)
        kept = self._store
        approvals: Approvals = MemoryApprovals() if kept is None else kept.approvals
        recorder = None if kept is None else kept.recorder
        self.rules = Rules(changed=lambda: planner.forget())
        self.groups = Groups(registry)
        permits = Permits(
            self.rules, approvals, mode=permission_mode, approver=approver, ttl=approval_ttl
        )
        self._executors: dict[str, Executor] = {"thread": Threads(threads)}
        planner = Planner(
            registry,
            permits,
            self._executors,
            middleware=middleware,
            validation=validation,
            spill=spill,
            keeper=recorder,
        )
        engine = Engine(registry, planner, observers, capture_content, recorder)
        desk = Desk(engine, registry, approvals)
        permits.overdue = desk.overdue
        super().__init__(registry, engine, desk, Index(registry))

    def add(
        self,
        function: Callable[..., Any] | Tool,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """Register anything callable, or a `Tool`; gives the tool that now has the name."""
        given: dict[str, Any] = {**options}
        if name is not None:
            given["name"] = name
        if description is not None:
            given["description"] = description
        if isinstance(function, Tool):
            on_conflict = given.pop("on_conflict", "raise")
            tool = function.replace(**with_limits(given, function.limits)) if given else function
        else:
            given = {**marked_options(function), **given}
            on_conflict = given.pop("on_conflict", "raise")
            tool = Tool(function, **with_limits(given, None))
        isolation = tool.limits.isolation
        if isolation not in (None, "inline", *self._executors):
            raise DefinitionError(tool.name, f"isolation={isolation!r} is not available here")
        return self._registry.add(tool, on_conflict)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: F | None = None,
        /,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> F | Callable[[F], F]:
        """Register the function below; it stays what it was."""

        def register(function: F) -> F:
            self.add(function, name, description, **options)
            return function

        return register if function is None else register(function)

    def add_object(
        self, instance: object, prefix: str | None = None, **options: Unpack[ToolOptions]
    ) -> list[Tool]:
        """Register an instance's public methods, named `prefix_method` where a prefix is given."""
        if type(instance).__module__ == "builtins":
            raise DefinitionError(repr(instance), "an object of a class of yours is needed")
        added = []
        for name in public_methods(instance):
            method = getattr(instance, name)
            own = marked_options(method)
            shown = own.get("name") or name
            added.append(self.add(method, f"{prefix}_{shown}" if prefix else shown, **options))
        return added

    def remove(self, name: str) -> Tool:
        """Take a tool out; `ToolNotFound` if it is not here."""
        return self._registry.remove(name)

    async def pending(self) -> list[Parked]:
        """The calls that wait for a decision, the oldest first."""
        return await self._desk.pending()

    async def approve(
        self, call_id: str, by: str | None = None, arguments: Arguments = None, *, deps: Any = None
    ) -> Outcome:
        """Let a parked call run and give its outcome; edited arguments are checked again."""
        return await self._desk.approve(call_id, by, arguments, deps)

    async def deny(self, call_id: str, by: str | None = None, reason: str | None = None) -> Outcome:
        """Refuse a parked call; it never runs."""
        return await self._desk.deny(call_id, by, reason)

    @property
    def ledger(self) -> "Ledger":
        """The record of calls; there is one where there is a store."""
        return self._kept().ledger

    async def recover(self, calls: Iterable[str] | None = None) -> list[Outcome]:
        """Run what a crash left open, and give the outcomes.

        Those are approved calls that nobody started, and calls of unknown end whose
        tool is read-only or idempotent. Naming calls by id says that they may run
        again whatever their tool is.
        """
        return await self._kept().recover(self._engine, self._registry, calls)

    async def interrupt(self, call_id: str) -> bool:
        """Stop a running call: its caller gets an interrupted outcome. False if none runs."""
        return self._engine.interrupt(call_id)

    async def close(self) -> None:
        """Let go of workers and of the store."""
        for executor in self._executors.values():
            executor.close()
        if self._store is not None:
            await self._store.close()

    def _kept(self) -> "Store":
        if self._store is None:
            raise StoreError(
                "this toolbox has none", 'Make it with Toolbox(store="sqlite:///wieldy.db").'
            )
        return self._store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _store(url: str, durability: str) -> "Store":
    # SQLAlchemy is loaded by whoever asks for a store, and by nobody else.
    from wieldy.store.store import Store  # noqa: PLC0415

    return Store(url, durability)


def _check_key(idempotency_key: str, recorded: bool) -> None:
    if not recorded:
        raise ValueError("an idempotency_key needs a store to be remembered in")
    if not 0 < len(idempotency_key) <= _LONGEST_KEY:
        raise ValueError(f"an idempotency_key has 1 to {_LONGEST_KEY} characters")
