"""The class users meet first: tools, who may call them, and the calls themselves."""

from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from typing_extensions import Unpack

from wieldy.core.block import Block, Progress
from wieldy.core.call import Outcome
from wieldy.core.choices import (
    ChangePolicy,
    Durability,
    PermissionMode,
    PermissionName,
    ServerConflictPolicy,
    ValidationMode,
)
from wieldy.core.engine import Engine
from wieldy.core.errors import DefinitionError, StoreError, WieldyError
from wieldy.core.holdings import Holdings, calling_place
from wieldy.core.keyword_check import check_options
from wieldy.core.limits.limits import Limits
from wieldy.core.limits.result_size import Spill
from wieldy.core.options import (
    TOOL_OPTIONS,
    ToolOptions,
    marked_options,
    public_methods,
    with_limits,
    with_names,
)
from wieldy.core.permission.decisions import Desk
from wieldy.core.permission.parked import Approvals, MemoryApprovals, Parked
from wieldy.core.permission.permits import Approver, Permits
from wieldy.core.permission.rules import Rules
from wieldy.core.plan import Planner
from wieldy.core.registry import Groups, Registry
from wieldy.core.run import Executor, Extras, Middleware, Observer
from wieldy.core.search import Index
from wieldy.core.streaming import iterate_pushed
from wieldy.core.tool import VALIDATIONS, Permission, Review, Tool
from wieldy.core.toolbox_state import export_state, restore_state
from wieldy.execution.threads import Threads
from wieldy.store.retention import Retention
from wieldy.view import Arguments, View

if TYPE_CHECKING:
    from wieldy.mcp.client.patience import Patience
    from wieldy.mcp.client.server_requests import OnRequest
    from wieldy.mcp.client.server_source import Headers
    from wieldy.mcp.client.servers import Servers
    from wieldy.mcp.client.tool_sync import Tags
    from wieldy.openapi.loading import Source
    from wieldy.openapi.operation_tools import OpenAPIOptions
    from wieldy.store.artifacts.artifacts import Artifacts
    from wieldy.store.ledger import Ledger
    from wieldy.store.sessions import Sessions
    from wieldy.store.store import Store
    from wieldy.store.stored_rules import Standing

F = TypeVar("F", bound=Callable[..., Any])


class Toolbox(View):
    """A set of tools and the one way to call them.

    Everything about a call goes through here: what the tools are, who may call
    them, how they are limited, who is asked, and who is told.
    """

    def __init__(
        self,
        *,
        store: str | None = None,
        durability: Durability = "full",
        retention: Retention | None = None,
        lock: str | PathLike[str] | None = None,
        on_change: ChangePolicy = "block",
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        approver: Approver | None = None,
        permission_mode: PermissionMode = "ask",
        approval_ttl: float | None = None,
        validation: ValidationMode = "repair",
        check_output: bool = False,
        spill: Spill | None = None,
        capture_content: bool = False,
        threads: int = 40,
    ) -> None:
        _check_settings(validation, approval_ttl, retention, threads)
        registry = Registry(_review(lock, on_change))
        self._holdings = Holdings(calling_place())
        kept = None if store is None else _store(store, registry, durability, retention)
        if kept is not None:
            kept.held_by(self._holdings)
        self._store = kept
        approvals: Approvals = MemoryApprovals() if kept is None else kept.approvals
        recorder = None if kept is None else kept.recorder
        spill = kept.artifacts.spill if spill is None and kept is not None else spill
        self.rules = Rules(changed=registry.announce)
        self.groups = Groups(registry)
        permits = Permits(
            self.rules,
            approvals,
            mode=permission_mode,
            approver=approver,
            ttl=approval_ttl,
            stored=None if kept is None else kept.standing,
        )
        workers = Threads(threads)
        self._holdings.add(workers)
        self._executors: dict[str, Executor] = {"thread": workers}
        planner = Planner(
            registry,
            permits,
            self._executors,
            middleware=middleware,
            validation=validation,
            spill=spill,
            keeper=recorder,
            check_output=check_output,
        )
        engine = Engine(registry, planner, observers, capture_content, recorder, permits.pause)
        desk = Desk(engine, registry, approvals)
        permits.tell_overdue(desk.overdue)
        self._servers: Servers | None = None
        # Not with this object: a call that runs, and a view, have the engine without it.
        self._holdings.give_back_after(engine)
        super().__init__(registry, engine, desk, Index(registry))

    def add(
        self,
        function: Callable[..., Any] | Tool,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """Register anything callable, or a `Tool`; gives the tool that now has the name."""
        check_options(Toolbox.add, options, TOOL_OPTIONS)
        given = with_names(options, name, description)
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
        check_options(Toolbox.tool, options, TOOL_OPTIONS)

        def register(function: F) -> F:
            self.add(function, name, description, **options)
            return function

        return register if function is None else register(function)

    def add_object(
        self, instance: object, prefix: str | None = None, **options: Unpack[ToolOptions]
    ) -> list[Tool]:
        """Register an instance's public methods, named `prefix_method` where a prefix is given."""
        check_options(Toolbox.add_object, options, TOOL_OPTIONS)
        if type(instance).__module__ == "builtins":
            raise DefinitionError(repr(instance), "an object of a class of yours is needed")
        added = []
        for name in public_methods(instance):
            method = getattr(instance, name)
            own = marked_options(method)
            shown = own.get("name") or name
            added.append(self.add(method, f"{prefix}_{shown}" if prefix else shown, **options))
        return added

    async def add_openapi(
        self,
        source: "Source",
        base_url: str | None = None,
        tags: Iterable[str] = (),
        allow: Iterable[str] | str | None = None,
        deny: Iterable[str] | str | None = None,
        **options: Unpack["OpenAPIOptions"],
    ) -> list[Tool]:
        """Register the operations of an OpenAPI document: a file, a URL or a dict.

        `allow` and `deny` are patterns for names, operation ids, or "GET /path/*".
        `wieldy.openapi.operation_tools.OpenAPIOptions` says what the other keywords are.
        """
        # The extra is loaded by whoever has a document, and by nobody else.
        from wieldy.openapi.operation_tools import OpenAPIOptions, read_tools  # noqa: PLC0415

        check_options(Toolbox.add_openapi, options, OpenAPIOptions.__annotations__)
        tools, client = await read_tools(source, base_url, tags, allow, deny, options)
        self._holdings.add(client)
        return self._registry.add_all(tools, options.get("on_conflict", "raise"))

    async def add_mcp(
        self,
        source: Any,
        name: str | None = None,
        tags: "Iterable[str] | str | Tags" = (),
        allow: Iterable[str] | str | None = None,
        deny: Iterable[str] | str | None = None,
        limits: Limits | None = None,
        *,
        trusted: bool = False,
        permission: Permission | PermissionName | None = None,
        headers: "Headers | None" = None,
        auth: Any = None,
        env: Mapping[str, Any] | None = None,
        cwd: str | None = None,
        on_elicit: "OnRequest | None" = None,
        on_sample: "OnRequest | None" = None,
        patience: "Patience | None" = None,
        on_conflict: ServerConflictPolicy | None = None,
        check_output: bool = True,
    ) -> list[Tool]:
        """Offer the tools of MCP servers; gives those that were added.

        `source` is a command as a list of words, a script, a URL, an `mcpServers`
        configuration as a dict or a file, or a server object. `allow` and `deny` are
        names or patterns of the server's tools. Without `limits` a call may take 300 s.
        `tags` may be a function that gives a tool's tags from its definition. A tool
        whose name is taken is named after its server too, unless `on_conflict` says else.
        A result that does not fit its tool's output schema is an error, unless `check_output`
        is False.
        """
        # The SDK is heavy, and most toolboxes need none.
        from wieldy.mcp.client.patience import Patience  # noqa: PLC0415
        from wieldy.mcp.client.servers import ServerSettings, make_terms  # noqa: PLC0415

        settings = ServerSettings(
            terms=make_terms(
                tags, allow, deny, limits, trusted, permission, on_conflict, check_output
            ),
            headers=headers,
            auth=auth,
            env=env,
            cwd=cwd,
            on_elicit=on_elicit,
            on_sample=on_sample,
            patience=patience or Patience(),
        )
        return await self.mcp.add(source, name, settings)

    async def remove_mcp(self, name: str) -> None:
        """Close an MCP server and take its tools out; `KeyError` if it is not here."""
        await self.mcp.remove(name)

    @property
    def mcp(self) -> "Servers":
        """The MCP servers by name: their tools, resources, prompts and errors."""
        if self._servers is None:
            # The SDK is heavy, and most toolboxes need none.
            from wieldy.mcp.client.servers import Servers  # noqa: PLC0415

            self._servers = Servers(self._registry)
            self._holdings.add(self._servers)
        return self._servers

    @property
    def server_errors(self) -> "dict[str, WieldyError]":
        """Why MCP servers can't be read, by name; empty where all can."""
        servers = () if self._servers is None else self._servers.values()
        return {server.name: server.error for server in servers if server.error is not None}

    @property
    def refused_tools(self) -> dict[str, dict[str, str]]:
        """Why tools that MCP servers list are not offered, by server and name."""
        servers = () if self._servers is None else self._servers.values()
        return {server.name: server.tool_errors for server in servers if server.tool_errors}

    def remove(self, name: str) -> Tool:
        """Take a tool out; `ToolNotFound` if it is not here."""
        return self._registry.remove(name)

    async def pending(
        self, *, agent: str | None = None, session: str | None = None
    ) -> list[Parked]:
        """The calls that wait for a decision, the oldest first.

        Args:
            agent: Only those that are made for this agent.
            session: Only those that are made in this session.
        """
        return await self._desk.pending(agent, session)

    async def approve(
        self,
        call_id: str,
        by: str | None = None,
        arguments: Arguments = None,
        *,
        deps: Any = None,
        check_output: bool = False,
    ) -> Outcome:
        """Let a parked call run and give its outcome; edited arguments are checked again."""
        extras = Extras(deps, check_output=check_output)
        return await self._desk.approve(call_id, by, arguments, extras)

    async def answer(
        self,
        call_id: str,
        answers: Mapping[str, Any],
        by: str | None = None,
        *,
        deps: Any = None,
        check_output: bool = False,
    ) -> Outcome:
        """Run a call again whose tool raised `InputNeeded`, with an answer to each request."""
        extras = Extras(deps, check_output=check_output)
        return await self._desk.answer(call_id, answers, by, extras)

    def approve_stream(
        self, call_id: str, by: str | None = None, arguments: Arguments = None, *, deps: Any = None
    ) -> AsyncIterator[Block | Progress | Outcome]:
        """Let a parked call run and give what it shows as it comes, the outcome last."""
        return iterate_pushed(
            lambda sink: self._desk.approve(call_id, by, arguments, Extras(deps, sink))
        )

    async def deny(self, call_id: str, by: str | None = None, reason: str | None = None) -> Outcome:
        """Refuse a parked call; it never runs."""
        return await self._desk.deny(call_id, by, reason)

    async def outcome(self, call_id: str) -> Outcome:
        """Read how a call stands, without deciding anything or running it.

        Args:
            call_id: the id of a recorded call; without a store, of a call that was parked.

        Returns:
            The call's outcome, or its receipt if it waits. A call that is running now
            is waited for.

        Raises:
            CallNotFound: there is no such call, or it is forgotten.
        """
        if self._store is not None:
            return await self._store.outcome(call_id)
        return await self._desk.outcome(call_id)

    def wait(self, call_id: str, timeout: float | None = None) -> Coroutine[Any, Any, Outcome]:
        """Wait for the end of a parked call, wherever it is decided.

        A call that is approved and that nobody runs is run here, if its tool is here.

        Args:
            call_id: the call's id.
            timeout: seconds to wait; None waits for as long as it takes.

        Returns:
            The call's outcome, or its receipt after the timeout.

        Raises:
            CallNotFound: there is no such parked call.
        """
        return self._desk.wait(call_id, timeout)

    @property
    def ledger(self) -> "Ledger":
        """The record of calls; there is one where there is a store."""
        return self._kept().ledger

    @property
    def artifacts(self) -> "Artifacts":
        """The documents and large results of sessions; there are some where there is a store."""
        return self._kept().artifacts

    @property
    def sessions(self) -> "Sessions":
        """The chat histories; there are some where there is a store."""
        return self._kept().sessions

    @property
    def standing(self) -> "Standing":
        """Rules that hold in every process on the store."""
        return self._kept().standing

    @property
    def store(self) -> "Store":
        """What keeps all that, to be pruned, vacuumed, and rid of one session's data."""
        return self._kept()

    def state(self) -> dict[str, Any]:
        """The active groups and the rules, as plain JSON that `restore` takes."""
        return export_state(self._registry, self.rules)

    def restore(self, state: dict[str, Any], strict: bool = True) -> None:
        """Make the active groups and the rules what a state says, or change nothing and raise.

        Not `strict`, keys and groups that are not known here are passed over.
        """
        restore_state(self._registry, self.rules, state, strict)

    async def save_state(self, name: str = "default") -> None:
        """Keep the state in the store, in the place of the one that had this name."""
        await self._kept().save_state(name, self.state())

    async def load_state(self, name: str = "default", strict: bool = True) -> None:
        """Restore a state from the store; `NotKept` if there is none of this name."""
        self.restore(await self._kept().load_state(name), strict)

    async def recover(
        self, calls: Iterable[str] | None = None, by: str | None = None, *, unknown: bool = True
    ) -> list[Outcome]:
        """Run what a crash left open, and give the outcomes.

        Those are approved calls that nobody started, and, if `unknown`, calls of unknown
        end whose tool is read-only or idempotent. Naming calls by id says that they may run
        again whatever their tool is; `by` is who says so.
        """
        return await self._kept().recover(self._engine, self._desk, calls, by, unknown)

    async def interrupt(self, call_id: str) -> bool:
        """Stop a running call: its caller gets an interrupted outcome. False if none runs."""
        return self._engine.interrupt(call_id)

    async def close(self) -> None:
        """Let go of connections, of workers and of the store.

        A toolbox that is dropped without it lets go too, with a `ResourceWarning` where it
        held a store, servers or connections.
        """
        await self._holdings.close()

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


def _check_settings(
    validation: str, approval_ttl: float | None, retention: Retention | None, threads: int
) -> None:
    if validation not in VALIDATIONS:
        raise ValueError(f"validation must be one of {', '.join(VALIDATIONS)}")
    if approval_ttl is not None and not approval_ttl > 0:
        raise ValueError(f"approval_ttl must be seconds above 0, not {approval_ttl!r}")
    if retention is not None and not isinstance(retention, Retention):
        raise TypeError(f"retention takes a Retention(days=…), not {retention!r}")
    if threads < 1:
        raise ValueError(f"threads must be 1 or more, not {threads!r}")


def own_box(*, store: str | None = None, validation: ValidationMode = "repair") -> Toolbox:
    """A toolbox that an object makes for itself: dropped with it, it is closed without a word."""
    box = Toolbox(store=store, validation=validation)
    box._holdings.made_at = None
    return box


def _review(lock: str | PathLike[str] | None, on_change: str) -> Review | None:
    if lock is None:
        if on_change != "block":
            raise ValueError('on_change says what a lock does: pass lock="tools.lock" as well')
        return None
    # Loaded where there is a lock, to keep `import wieldy` light.
    from wieldy.lock.lock_review import LockReview  # noqa: PLC0415

    return LockReview(lock, on_change)


def _store(url: str, registry: Registry, durability: str, retention: Retention | None) -> "Store":
    # SQLAlchemy is loaded by whoever asks for a store, and by nobody else.
    from wieldy.store.store import Store  # noqa: PLC0415

    return Store(url, registry, durability, retention or Retention())
