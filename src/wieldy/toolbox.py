"""The class users meet first: tools, who may call them, and the calls themselves."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from typing_extensions import Unpack

from wieldy.call_control import CallControl
from wieldy.core.active_call import Executor, Middleware, Observer
from wieldy.core.choices import (
    ChangePolicy,
    Durability,
    PermissionMode,
    PermissionName,
    ServerConflictPolicy,
    ValidationMode,
)
from wieldy.core.discovery.tool_index import Index
from wieldy.core.engine import Engine
from wieldy.core.errors import DefinitionError, WieldyError
from wieldy.core.holdings import Holding, Holdings, calling_place
from wieldy.core.limits.bounded_result import MAX_RESULT
from wieldy.core.limits.limits import Limits
from wieldy.core.limits.result_size import Spill
from wieldy.core.names import check_options
from wieldy.core.options import (
    TOOL_OPTIONS,
    ToolOptions,
    marked_options,
    public_methods,
    with_limits,
    with_names,
)
from wieldy.core.permission.decisions import Desk
from wieldy.core.permission.parked import Approvals, MemoryApprovals
from wieldy.core.permission.permits import Approver, Permits
from wieldy.core.permission.rules import Rules
from wieldy.core.plan import Planner
from wieldy.core.registry import Groups, Registry
from wieldy.core.tool import Permission, Tool
from wieldy.execution.threads import Threads
from wieldy.store.retention import Retention
from wieldy.toolbox_settings import check_settings, find_review, open_results, open_store

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


class Toolbox(CallControl):
    """A set of tools, and the one way to call them.

    Args:
        store: Where calls, approvals, artifacts, sessions and standing rules are kept, such as
            "sqlite:///wieldy.db" or a PostgreSQL URL. Without it nothing outlives the toolbox.
        durability: "full" loses nothing that was acknowledged. "normal" is faster and may lose
            the last moments if the whole machine goes down.
        retention: How much of the past the store keeps.
        lock: A lock file; tools that differ from it are held back as `on_change` says.
        on_change: "block" denies a tool that differs from the lock, "quarantine" asks about each
            of its calls, "warn" only logs it.
        middleware: Functions around every call, the outermost first.
        observers: Functions that are told of every outcome.
        approver: A function that decides on calls that need approval: True approves, False
            denies, and None leaves the call parked for a person.
        permission_mode: "ask", "read-only" (deny every tool that is not read-only), or "bypass"
            (run without asking; what is denied stays denied).
        approval_ttl: Seconds after which a parked call that nobody decided is denied.
        validation: How arguments are checked unless a tool says otherwise: "repair", "strict" or
            "describe".
        check_output: Whether a result that does not fit its tool's output schema is an error.
        spill: A function that keeps the whole of a result that was cut, and returns a handle to
            it. With a store it becomes an artifact by default.
        max_result: How many characters of one result a model or a client of MCP reads, if the
            tool has no `max_result` of its own; 0 for all. What a program gets stays whole.
        capture_content: Whether traces contain arguments and results.
        threads: How many blocking functions may run at the same time.
        processes: How many tools with `isolation="process"` may run at the same time. The
            default is one per processor.

    Raises:
        ValueError: A setting has a value that it can't have, or `store` is not a URL of a store.

    Example:
        `box = Toolbox(store="sqlite:///wieldy.db", permission_mode="read-only")`
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
        permission_mode: PermissionMode | None = "ask",
        approval_ttl: float | None = None,
        validation: ValidationMode = "repair",
        check_output: bool = False,
        spill: Spill | None = None,
        max_result: int = MAX_RESULT,
        capture_content: bool = False,
        threads: int = 40,
        processes: int | None = None,
    ) -> None:
        check_settings(validation, approval_ttl, retention, threads, processes)
        registry = Registry(find_review(lock, on_change))
        self._holdings = held = Holdings(calling_place())
        kept = None if store is None else open_store(store, registry, durability, retention, held)
        approvals: Approvals = MemoryApprovals() if kept is None else kept.approvals
        recorder = None if kept is None else kept.recorder
        results, spill = open_results(registry, max_result, spill, kept)
        self.rules, self.groups = Rules(registry.announce, registry.tools), Groups(registry)
        workers, self._processes = Threads(threads), processes
        permits = Permits(
            self.rules,
            approvals,
            mode=permission_mode,
            approver=approver,
            ttl=approval_ttl,
            stored=None if kept is None else kept.standing,
            place=workers,
            sessions=None if kept is None else kept.untrusted,
        )
        self._holdings.add(workers)
        self._executors: dict[str, Executor] = {"thread": workers}
        planner = Planner(
            registry,
            permits,
            self._executors,
            middleware=middleware,
            validation=validation,
            spill=spill,
            record=recorder,
            check_output=check_output,
        )
        looks = results, observers, capture_content
        engine = Engine(registry, planner, *looks, recorder, permits.pause)
        desk = Desk(engine, registry, approvals)
        permits.tell_of_parked(desk)
        self._servers: Servers | None = None
        # The engine may outlive this object: running calls and views refer to it alone.
        self._holdings.give_back_after(engine)
        super().__init__(registry, engine, desk, Index(registry), kept)

    def add(
        self,
        function: Callable[..., Any] | Tool,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """Register a function, any other callable, or a `Tool`.

        Args:
            function: The callable. Its signature and docstring describe it to the model.
            name: The tool's name; by default the function's.
            description: The text for the model; by default from the docstring.
            **options: Facts about the tool, as in `Tool`, and single limits, as in `Limits`.
                `on_conflict` is "raise", "override", "skip" or "rename".

        Returns:
            The tool that now has the name.

        Raises:
            NameTaken: Another tool has the name, and `on_conflict` is "raise".
            DefinitionError: The function can't be described, or an option does not fit it.

        Example:
            `box.add(get_weather, tags=["read"], read_only=True, timeout=5)`
        """
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
        if isolation == "process":
            self._check_process(tool)
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
        """Register the decorated function, which stays as it is.

        Args:
            function: The function, where the decorator is used without parentheses.
            name: The tool's name; by default the function's.
            description: The text for the model; by default from the docstring.
            **options: The options of `add`.

        Returns:
            The function itself, or the decorator.

        Raises:
            DefinitionError: The function can't be registered; see `add`.

        Example:
            `@box.tool(permission="confirm")` above `def send_mail(to: str) -> str:`
        """
        check_options(Toolbox.tool, options, TOOL_OPTIONS)

        def register(function: F) -> F:
            self.add(function, name, description, **options)
            return function

        return register if function is None else register(function)

    def add_object(
        self, instance: object, prefix: str | None = None, **options: Unpack[ToolOptions]
    ) -> list[Tool]:
        """Register the public methods of an object.

        Args:
            instance: An instance of a class of yours.
            prefix: What is put before each method's name, with an underscore.
            **options: The options of `add`, for every method.

        Returns:
            The tools, in the order in which the class defines the methods.

        Raises:
            DefinitionError: The object is of a built-in type, or a method can't be registered.

        Example:
            `box.add_object(Calendar(), prefix="calendar")`
        """
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
        """Register the operations of an OpenAPI document.

        Args:
            source: A file, a URL, or the document as a dict.
            base_url: Where the service is, if not where the document says.
            tags: Tags for every tool.
            allow: Names, operation ids or "GET /path/*" patterns of the operations to take.
            deny: Names, operation ids or patterns of the operations to leave out.
            **options: `auth`, `headers`, `presets`, `limits`, `permission`, `trusted`, `group`,
                `prefix`, `refs` and `on_conflict`; see
                `wieldy.openapi.operation_tools.OpenAPIOptions`.

        Returns:
            The tools, in the order of the document.

        Raises:
            DocumentError: The document can't be read or used.
            NameTaken: Another tool has one of the names. Then no operation is registered.

        Example:
            `await box.add_openapi("petstore.yaml", allow="GET *", auth=Secret(token))`
        """
        # The extra is imported only when there is a document to read.
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
        prefix: str = "",
    ) -> list[Tool]:
        """Connect to MCP servers and register their tools.

        Args:
            source: A command as a list of words, a script, a URL, an `mcpServers` configuration as
                a dict or a file, or a server object.
            name: The server's name here; by default the one that it reports.
            tags: Tags for every tool, or a function that returns a tool's tags from its definition.
            allow: Names or patterns of the tools to take.
            deny: Names or patterns of the tools to leave out.
            limits: The limits of each tool; without them a call may take 300 s.
            trusted: Whether to believe the server's hints that a tool is read-only or idempotent,
                and to let tools run by themselves that it says are destructive.
            permission: The permission of each tool; without it a tool asks that the server says
                is destructive, and the others run by themselves.
            headers: HTTP headers, or a function that returns them for a call.
            auth: A bearer token, an `OAuth`, or an httpx2 auth object.
            env: Environment variables for a server that is a process.
            cwd: The working directory of a server that is a process.
            on_elicit: A function that answers the server's questions to a person.
            on_sample: A function that answers the server's requests to a model.
            patience: How long the server may take for what is not a call.
            on_conflict: What to do about a name that is taken: "override", "skip" or "rename"; by
                default the server's name is put before it.
            check_output: Whether a result that does not fit the tool's output schema is an error.
            prefix: What the names of the server's tools and prompts begin with here.

        Returns:
            The tools that were added.

        Raises:
            InvalidSource: `source` names no server, or an argument does not fit its kind.
            ServerUnavailable: The server can't be reached; of several servers, none can.

        Example:
            `await box.add_mcp(["uvx", "mcp-server-time"], name="time")`
        """
        # The SDK is heavy, and most toolboxes have no MCP servers.
        from wieldy.mcp.client.patience import Patience  # noqa: PLC0415
        from wieldy.mcp.client.servers import ServerSettings, make_terms  # noqa: PLC0415

        settings = ServerSettings(
            terms=make_terms(
                tags, allow, deny, limits, trusted, permission, on_conflict, check_output, prefix
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
        """Close an MCP server and take its tools out.

        Args:
            name: The server's name, as in `mcp`.

        Raises:
            KeyError: There is no server of this name.
        """
        await self.mcp.remove(name)

    @property
    def mcp(self) -> "Servers":
        """The MCP servers by name, with their tools, resources, prompts and errors."""
        if self._servers is None:
            # The SDK is heavy, and most toolboxes have no MCP servers.
            from wieldy.mcp.client.servers import Servers  # noqa: PLC0415

            self._servers = Servers(self._registry)
            self._holdings.add(self._servers)
        return self._servers

    @property
    def server_errors(self) -> "dict[str, WieldyError]":
        """The MCP servers that can't be used, by name, each with the reason."""
        servers = () if self._servers is None else self._servers.values()
        return {server.name: server.error for server in servers if server.error is not None}

    @property
    def refused_tools(self) -> dict[str, dict[str, str]]:
        """The tools that MCP servers list and that are not offered: server, tool, reason."""
        servers = () if self._servers is None else self._servers.values()
        return {server.name: server.tool_errors for server in servers if server.tool_errors}

    def remove(self, name: str) -> Tool:
        """Take a tool out.

        Args:
            name: The tool's name.

        Returns:
            The tool that was removed.

        Raises:
            ToolNotFound: There is no tool of this name.
        """
        return self._registry.remove(name)

    @property
    def ledger(self) -> "Ledger":
        """The record of calls; raises `StoreError` without a store."""
        return self._needed_store().ledger

    @property
    def artifacts(self) -> "Artifacts":
        """The documents and large results of sessions; raises `StoreError` without a store."""
        return self._needed_store().artifacts

    @property
    def sessions(self) -> "Sessions":
        """The chat histories; raises `StoreError` without a store."""
        return self._needed_store().sessions

    @property
    def standing(self) -> "Standing":
        """The rules of every process on the store; raises `StoreError` without a store."""
        return self._needed_store().standing

    @property
    def store(self) -> "Store":
        """The store itself, to prune it or to delete a session; raises `StoreError` without one."""
        return self._needed_store()

    def state(self) -> dict[str, Any]:
        """Export the active groups and the rules.

        Returns:
            Plain JSON that `restore` takes.

        Raises:
            ValueError: A rule compares with something that JSON can't hold, such as a function.
        """
        from wieldy.core.permission.toolbox_state import export_state  # noqa: PLC0415

        return export_state(self._registry, self.rules)

    def restore(self, state: dict[str, Any], strict: bool = True) -> None:
        """Replace the active groups and the rules with those of a state, or change nothing.

        Args:
            state: What `state` returned.
            strict: Whether unknown keys and groups are an error; otherwise they are ignored.

        Raises:
            ValueError: The state can't be used; the message names the place.
        """
        from wieldy.core.permission.toolbox_state import restore_state  # noqa: PLC0415

        restore_state(self._registry, self.rules, state, strict)

    async def save_state(self, name: str = "default") -> None:
        """Keep the state in the store, in place of an earlier one of the same name.

        Args:
            name: The name to load it by.

        Raises:
            StoreError: The toolbox has no store, or the store can't be written.
        """
        await self._needed_store().save_state(name, self.state())

    async def load_state(self, name: str = "default", strict: bool = True) -> None:
        """Restore a state from the store.

        Args:
            name: The name that it was saved by.
            strict: Whether unknown keys and groups are an error; otherwise they are ignored.

        Raises:
            NotKept: The store has no state of this name.
            ValueError: The state can't be used here.
        """
        self.restore(await self._needed_store().load_state(name), strict)

    def close_with(self, holding: Holding) -> None:
        """Close something together with the toolbox.

        Args:
            holding: Connections or files that tools use. They must not lead back to the
                toolbox, so that a toolbox that is dropped can be collected.
        """
        self._holdings.add(holding)

    async def close(self) -> None:
        """Close connections, worker threads and the store.

        A toolbox that is dropped without being closed closes itself, with a `ResourceWarning` if it
        held a store, servers or connections. `async with Toolbox() as box:` closes it too.
        """
        await self.desk.settle()
        await self._holdings.close()

    def _check_process(self, tool: Tool) -> None:
        """Be ready to run tools in processes, and refuse one that can't."""
        if not hasattr(os, "fork"):
            raise DefinitionError(tool.name, 'isolation="process" needs Linux or macOS')
        # The extra is loaded by whoever asks for processes, and by nobody else.
        from wieldy.execution.processes import Processes  # noqa: PLC0415
        from wieldy.execution.shipment import check_shippable  # noqa: PLC0415

        check_shippable(tool)
        if "process" not in self._executors:
            workers = Processes(self._processes)
            self._holdings.add(workers)
            self._executors["process"] = workers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def own_box(*, store: str | None = None, validation: ValidationMode = "repair") -> Toolbox:
    """A toolbox that belongs to another object: dropped with it, it closes without a warning."""
    box = Toolbox(store=store, validation=validation)
    box._holdings.made_at = None
    return box
