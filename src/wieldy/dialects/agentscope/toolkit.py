"""Functions in groups, called by name, answered in a stream."""

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from copy import deepcopy
from secrets import token_hex
from typing import Any

from pydantic import BaseModel

from wieldy.core.arguments.read_only import ReadOnlyDict
from wieldy.core.call import Call
from wieldy.core.choices import ConflictPolicy
from wieldy.core.errors import CallError, ToolFailed, ToolNotFound
from wieldy.core.permission.group_tool import choose_groups, group_notes, switchable_groups
from wieldy.core.registry import BASIC, Group
from wieldy.core.schema.signature import is_same_function, unwrap_partial
from wieldy.core.tool import Tool, own_name
from wieldy.toolbox import Toolbox, own_box

from .background_tasks import BackgroundTasks
from .function_schema import check_given_schema
from .function_tools import make_tool, name_bound
from .mcp_clients import OwnMCPClient, client_functions, is_client
from .mcp_function import MCPToolFunction, OwnFunction
from .message_blocks import ToolUseBlock
from .registrations import Postprocess, RegisteredToolFunction, Registrations, name_taken
from .response_chunks import Alter, OneResponse, ResponseStream, stream_responses
from .subagent_function import attached_tool
from .tool_response import ToolResponse, text_response

Handler = Callable[..., Awaitable[AsyncIterator[ToolResponse]]]
Middleware = Callable[[dict[str, Any], Handler], Any]


class Toolkit:
    """Registers functions, describes them to a model, and calls them."""

    def __init__(self, toolbox: Toolbox | None = None) -> None:
        self.toolbox = own_box() if toolbox is None else toolbox
        self._known = Registrations(self.toolbox, self.call_tool_function)
        self._middlewares: list[Middleware] = []
        self._tasks = BackgroundTasks()

    @property
    def tools(self) -> dict[str, RegisteredToolFunction]:
        """The registered functions by name, in active groups or not."""
        found = self.toolbox.all_tools()
        return ReadOnlyDict({tool.name: self._known.registered(tool) for tool in found})

    @property
    def groups(self) -> dict[str, Group]:
        """The groups beside `basic`, by name; what is set on one of them takes effect."""
        found = switchable_groups(self.toolbox.groups)
        return ReadOnlyDict({group.name: group for group in found})

    def register_tool_function(
        self,
        tool_func: Callable[..., Any],
        group_name: str = "basic",
        preset_kwargs: Mapping[str, Any] | None = None,
        func_description: str | None = None,
        json_schema: dict[str, Any] | None = None,
        include_long_description: bool = True,
        include_var_positional: bool = False,
        include_var_keyword: bool = False,
        postprocess_func: Postprocess | None = None,
        *,
        func_name: str | None = None,
        namesake_strategy: ConflictPolicy = "raise",
        async_execution: bool = False,
    ) -> None:
        """Register a function; its schema comes from its signature and docstring, or is given."""
        given = None if json_schema is None else check_given_schema(json_schema)
        self._known.need_group(group_name)
        function, bound = name_bound(tool_func)
        plain = make_tool(
            function,
            func_name,
            {**bound, **(preset_kwargs or {})},
            func_description,
            given,
            include_long_description,
            (include_var_positional, include_var_keyword),
        )
        original = unwrap_partial(tool_func)[0]
        is_remote = isinstance(original, MCPToolFunction | OwnFunction)
        own = original.name if is_remote else own_name(original)
        registered = RegisteredToolFunction(
            name=plain.name,
            group=group_name,
            source="function",
            original_func=original,
            json_schema={},
            original_name=own if func_name else None,
            postprocess_func=postprocess_func,
            async_execution=async_execution,
        )
        if is_remote:
            registered.source, registered.mcp_name = "mcp_server", original.mcp_name
        if self._is_own(original, *self._task_tools) and self.toolbox.tools_of(original):
            # This function was added automatically with a background function.
            namesake_strategy = "override"
        chooses = self._is_own(original, self.reset_equipped_tools)
        refresh = self._with_choice if chooses else None
        plain = attached_tool(plain.replace(group=group_name), original, self.toolbox)
        self._known.put(registered, plain, given, refresh, strategy=namesake_strategy)
        if async_execution:
            self._offer_tasks()

    def remove_tool_function(self, tool_name: str, allow_not_exist: bool = True) -> None:
        """Remove a function; a missing one raises only if `allow_not_exist` is false."""
        if self.toolbox.find_tool(tool_name) is not None:
            self.toolbox.remove(tool_name)
        elif not allow_not_exist:
            raise ValueError(f"Tool function '{tool_name}' does not exist in the toolkit.")

    def clear(self) -> None:
        """Take all functions and groups out."""
        for tool in self.toolbox.all_tools():
            self.toolbox.remove(tool.name)
        self.remove_tool_groups(list(self.groups))

    def call_tool_function(self, tool_call: ToolUseBlock) -> ResponseStream:
        """Call a function; iterate over the result, or over what awaiting it gives."""
        if self._middlewares:
            return ResponseStream(self._through_middleware(tool_call))
        return self._respond_to(tool_call)

    def register_middleware(self, middleware: Middleware) -> None:
        """Put an async generator of responses around each call; the first one is outermost."""
        self._middlewares.append(middleware)

    async def view_task(self, task_id: str) -> ToolResponse:
        """Look at a task that runs in the background; its result is given once.

        Args:
            task_id: the id of the task
        """
        return self._tasks.view(task_id)

    async def wait_task(self, task_id: str, timeout: float = 10) -> ToolResponse:  # noqa: ASYNC109 - AgentScope's own name
        """Wait for a task that runs in the background; its result is given once.

        Args:
            task_id: the id of the task
            timeout: how many seconds to wait at most
        """
        return await self._tasks.wait(task_id, timeout)

    async def cancel_task(self, task_id: str) -> ToolResponse:
        """Stop a task that runs in the background.

        Args:
            task_id: the id of the task
        """
        return await self._tasks.cancel(task_id)

    async def register_mcp_client(
        self,
        client: OwnMCPClient,
        /,
        *,
        group_name: str = "basic",
        enable_funcs: list[str] | None = None,
        disable_funcs: list[str] | None = None,
        preset_kwargs_mapping: Mapping[str, Mapping[str, Any]] | None = None,
        postprocess_func: Postprocess | None = None,
        wrap_tool_result: bool = True,
        namesake_strategy: ConflictPolicy = "raise",
        execution_timeout: float | None = None,
    ) -> None:
        """Register the functions of an MCP server, all or those chosen, or none if one can't be."""
        if not is_client(client):
            raise TypeError(f"an MCP client is needed, not {type(client).__name__}")
        presets = preset_kwargs_mapping or {}
        if not isinstance(presets, Mapping):
            raise TypeError("preset_kwargs_mapping must be a dict of dicts")
        self._known.need_group(group_name)
        enabled = None if enable_funcs is None else _list_names(enable_funcs, "enable_funcs", False)
        disabled = _list_names(disable_funcs or [], "disable_funcs", False)
        both = sorted(set(enabled or ()) & set(disabled))
        if both:
            raise ValueError(f"{', '.join(both)}: named both in enable_funcs and in disable_funcs")
        how = (wrap_tool_result, execution_timeout)
        wanted = await client_functions(client, enabled, disabled, *how, presets)
        for function in wanted:
            if namesake_strategy == "raise" and self.toolbox.find_tool(function.name) is not None:
                raise name_taken(function.name)
        for function in wanted:
            self.register_tool_function(
                function,
                group_name,
                presets.get(function.name),
                json_schema=function.json_schema if isinstance(function, OwnFunction) else None,
                postprocess_func=postprocess_func,
                namesake_strategy=namesake_strategy,
            )

    async def remove_mcp_clients(self, client_names: str | Iterable[str]) -> None:
        """Take out the functions of these MCP servers; their clients stay connected."""
        names = _list_names(client_names, "MCP servers")
        for name, registered in self.tools.items():
            if registered.mcp_name in names:
                self.toolbox.remove(name)

    remove_mcp_servers = remove_mcp_clients

    def get_json_schemas(self, group_names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """The schemas of the tools in active groups, or in exactly the groups named."""
        if group_names is None:
            shown = [group.name for group in self.toolbox.groups if group.active]
        else:
            shown = _list_names(group_names)
        found = (tool for tool in self.toolbox.all_tools() if tool.group in shown)
        return [deepcopy(self._known.registered(tool).extended_json_schema) for tool in found]

    def set_extended_model(
        self, finish_function_name: str, structured_model: type[BaseModel] | None
    ) -> None:
        """Join a model's fields to a function's schema; None takes them away again."""
        tool = self.toolbox.find_tool(finish_function_name)
        if tool is None:
            raise ValueError(f"Tool function '{finish_function_name}' not found in the toolkit.")
        self._known.registered(tool).extended_model = structured_model

    def create_tool_group(
        self, group_name: str, description: str, active: bool = False, notes: str | None = None
    ) -> None:
        """Make a group of tools."""
        if not isinstance(group_name, str):
            raise TypeError("the name of a group must be a string")
        if group_name in self.toolbox.groups:
            raise ValueError(f"Tool group '{group_name}' is already registered in the toolkit.")
        self.toolbox.groups.create(group_name, description, active=active, notes=notes)

    def update_tool_groups(self, group_names: str | Iterable[str], active: bool) -> None:
        """Switch groups on or off; `basic` is always on."""
        names = [name for name in _list_names(group_names) if name != BASIC]
        for name in names:
            self._known.need_group(name)
        groups = self.toolbox.groups
        (groups.activate if active else groups.deactivate)(*names)

    def remove_tool_groups(self, group_names: str | Iterable[str]) -> None:
        """Take groups out, and their tools with them."""
        names = _list_names(group_names)
        if BASIC in names:
            raise ValueError("Cannot remove the default 'basic' tool group.")
        self.toolbox.groups.remove(*(name for name in names if name in self.toolbox.groups))

    def get_tool_group_notes(self) -> str:
        """The notes of active groups, each under its name."""
        return self._group_notes_text("## About Tool Group '{}'")

    get_activated_notes = get_tool_group_notes

    def reset_equipped_tools(self, **kwargs: Any) -> ToolResponse:
        """Choose which groups of tools are switched on.

        Name each group that is needed now with the value true. All others are
        switched off. The answer tells which groups are on, and how to use them.
        """
        wrong = [name for name, value in kwargs.items() if not isinstance(value, bool)]
        unknown = [name for name in kwargs if name not in self.groups]
        if wrong:
            named = ", ".join(wrong)
            return text_response(f"Nothing was changed: {named} must be true or false.")
        if unknown:
            known = ", ".join(self.groups) or "none"
            return text_response(
                f"Nothing was changed: there is no group {unknown[0]!r}, only: {known}."
            )
        wanted = [name for name in self.groups if kwargs.get(name)]
        active = choose_groups(self.toolbox.groups, wanted)
        if not active:
            return text_response("All groups of tools are switched off now.")
        said = f"These groups of tools are switched on now: {', '.join(active)}."
        # AgentScope uses two different headings in these texts, and programs rely on both.
        notes = self._group_notes_text("## About {} Tools")
        if notes:
            said = f"{said}\nFollow these notes when you use them:\n<notes>{notes}</notes>"
        return text_response(said)

    def state_dict(self) -> dict[str, Any]:
        """The state of a toolkit that is saved: its active groups. Tools are code."""
        return {"active_groups": [name for name, group in self.groups.items() if group.active]}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Restore the active groups, exactly."""
        if strict and set(state_dict) != {"active_groups"}:
            raise ValueError(f"a state has the key 'active_groups', not {sorted(state_dict)}")
        wanted = state_dict.get("active_groups")
        if wanted is None:
            return
        unknown = [name for name in wanted if name not in self.groups]
        if strict and unknown:
            raise ValueError(f"there are no groups {unknown}")
        self.toolbox.groups.activate_only(*(name for name in self.groups if name in wanted))

    def _respond_to(self, tool_call: ToolUseBlock) -> ResponseStream:
        name = tool_call["name"]
        call = Call(name, tool_call.get("input"), provider_id=tool_call.get("id"))
        tool = self.toolbox.get(name)
        known = None if tool is None else self._known.of_tool(tool)
        if known is None:
            remote = tool is not None and tool.source.startswith("mcp")
            return self._run_call(call, remote, remote)
        alter: Alter | None = None
        if known.postprocess_func is not None:
            alter = functools.partial(known.postprocess_func, tool_call)
        remote = known.mcp_name is not None
        if known.async_execution:
            self._offer_tasks()
            call = call.replace(id=token_hex(11))
            run = functools.partial(self._run_call, call, remote, remote)
            return ResponseStream(self._tasks.start(call.id, name, run, alter))
        return self._run_call(call, remote, remote or known.gives_one, alter)

    def _run_call(
        self, call: Call, remote: bool, one: bool, alter: Alter | None = None
    ) -> ResponseStream:
        if one:
            return OneResponse(self.toolbox.call, call, self._explain_error, alter, remote)
        shown = self.toolbox.stream(call, live=True)
        return ResponseStream(stream_responses(shown, self._explain_error, alter))

    async def _through_middleware(
        self, tool_call: ToolUseBlock
    ) -> AsyncGenerator[ToolResponse, None]:
        async def handler(**kwargs: Any) -> AsyncIterator[ToolResponse]:
            return self._respond_to(**kwargs)

        outermost: Handler = handler
        for middleware in reversed(self._middlewares):
            outermost = functools.partial(_run_middleware, middleware, outermost)
        responses: Any = await outermost(tool_call=tool_call)
        async with aclosing(responses):
            async for response in responses:
                yield response

    def _group_notes_text(self, heading: str) -> str:
        return group_notes(self.toolbox.groups, heading)

    def _with_choice(self, tool: Tool) -> Tool:
        """The tool that chooses groups, with a switch for each group that there is."""
        switches = {
            name: {"type": "boolean", "description": group.description, "default": False}
            for name, group in self.groups.items()
        }
        schema = {"type": "object", "properties": switches}
        return tool.replace(input_schema=schema, validation="describe")

    @property
    def _task_tools(self) -> tuple[Callable[..., Any], ...]:
        return (self.view_task, self.wait_task, self.cancel_task)

    def _offer_tasks(self) -> None:
        """Register what a model needs to find the end of what runs in the background."""
        for method in self._task_tools:
            if not self.toolbox.tools_of(method):
                self.register_tool_function(method, namesake_strategy="skip")

    def _is_own(self, func: Any, *methods: Callable[..., Any]) -> bool:
        return any(is_same_function(func, method) for method in methods)

    def _explain_error(self, name: str, error: CallError) -> str:
        """The error of a call, in the wording of AgentScope."""
        if isinstance(error, ToolFailed) and not error.redacted:
            return f"Error: {error.original}"
        if not isinstance(error, ToolNotFound):
            return f"Error: {error}"
        tool = self.toolbox.find_tool(name)
        if tool is None:
            return f"FunctionNotFoundError: Cannot find the function named {name}"
        return (
            f"FunctionInactiveError: The function '{name}' is in the inactive group "
            f"'{tool.group}'. Switch the group on first."
        )


async def _run_middleware(
    middleware: Middleware, handler: Handler, **kwargs: Any
) -> AsyncIterator[ToolResponse]:
    """What a middleware makes of a call; it may be a coroutine that gives a generator."""
    made = middleware(kwargs, handler)
    responses: AsyncIterator[ToolResponse] = await made if inspect.isawaitable(made) else made
    return responses


def _list_names(names: str | Iterable[str], what: str = "groups", one: bool = True) -> list[str]:
    """The names as a list; `one` says that a single string will do."""
    if one and isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple | set) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"{what} are named by a list of strings, not {names!r}")
    return list(dict.fromkeys(names))
