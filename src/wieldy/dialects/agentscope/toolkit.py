"""Functions in groups, called by name, answered in a stream."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from wieldy.core.call import Call
from wieldy.core.errors import CallError, NameTaken, ToolFailed, ToolNotFound
from wieldy.core.registry import BASIC
from wieldy.core.signature import bound_keywords
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .blocks import ToolUseBlock
from .choice import chosen
from .clients import MCPClientBase
from .entrance import is_stream
from .equip import EQUIP, Equipment
from .functions import extended_tool, function_tool, innermost
from .mcp_function import MCPToolFunction
from .registered import Postprocess, RegisteredToolFunction, ToolGroup
from .response import ToolResponse
from .schema import checked_schema, described
from .stream import Alter, Once, ResponseStream, responses

SUBAGENTS = "subagents"


class Toolkit:
    """Registers functions, describes them to a model, and calls them."""

    def __init__(self, toolbox: Toolbox | None = None) -> None:
        self.toolbox = Toolbox() if toolbox is None else toolbox
        # As registered here: the tool, to know whether its name has changed hands since.
        self._known: dict[str, tuple[Tool, RegisteredToolFunction]] = {}
        self._equipment = Equipment(self.toolbox)

    @property
    def tools(self) -> dict[str, RegisteredToolFunction]:
        """Name to what is known of the function, in active groups or not."""
        found = self.toolbox.all_tools()
        return {tool.name: self._registered(tool) for tool in found}

    @property
    def groups(self) -> dict[str, ToolGroup]:
        """The groups beside `basic`, by name."""
        return {
            group.name: ToolGroup(group.name, group.active, group.description, group.notes)
            for group in self.toolbox.groups
            if group.name != BASIC
        }

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
    ) -> None:
        """Register a function; its schema comes from its signature and docstring, or is given."""
        if json_schema is not None:
            json_schema = checked_schema(json_schema)
        self._need_group(group_name)
        presets = {**bound_keywords(tool_func), **(preset_kwargs or {})}
        tool, schema = function_tool(
            tool_func,
            presets,
            func_description,
            json_schema,
            include_long_description,
            (include_var_positional, include_var_keyword),
        )
        if self._equipment.is_it(tool_func):
            tool = self._equipment.tool(tool)
        inner = innermost(tool_func)
        mcp_name = inner.mcp_name if isinstance(inner, MCPToolFunction) else None
        self._add(
            tool.replace(group=group_name),
            RegisteredToolFunction(
                name=tool.name,
                group=group_name,
                source="function" if mcp_name is None else "mcp_server",
                original_func=inner,
                mcp_name=mcp_name,
                json_schema=schema,
                preset_kwargs=presets,
                postprocess_func=postprocess_func,
            ),
        )

    def remove_tool_function(self, tool_name: str) -> None:
        """Take a function out; one that is not here is no error."""
        if self._find(tool_name) is not None:
            self.toolbox.remove(tool_name)

    def call_tool_function(self, tool_call: ToolUseBlock) -> ResponseStream | Once:
        """Call a function; iterate over the result, or over what awaiting it gives."""
        name, arguments = tool_call["name"], tool_call.get("input")
        call = Call(name, arguments, provider_id=tool_call.get("id"))
        tool = self.toolbox.get(name)
        known = None if tool is None else self._known.get(name)
        alter: Alter | None = None
        if known is not None and known[0] is not tool:
            known = None
        elif known is not None and known[1].postprocess_func is not None:
            alter = functools.partial(known[1].postprocess_func, tool_call)
        if tool is not None and tool.source.startswith("mcp"):
            return Once(self.toolbox.call, call, self._explain, alter, whole=True)
        if known is None or is_stream(known[0].function):
            return ResponseStream(responses(self.toolbox.stream(call), self._explain, alter, True))
        return Once(self.toolbox.call, call, self._explain, alter)

    async def register_mcp_client(
        self,
        client: MCPClientBase,
        /,
        *,
        group_name: str = "basic",
        enable_funcs: list[str] | None = None,
        disable_funcs: list[str] | None = None,
        preset_kwargs_mapping: Mapping[str, Mapping[str, Any]] | None = None,
        postprocess_func: Postprocess | None = None,
        wrap_tool_result: bool = True,
    ) -> None:
        """Register the functions of an MCP server, all or those chosen, or none if one can't be."""
        presets = preset_kwargs_mapping or {}
        if not isinstance(presets, Mapping):
            raise TypeError("preset_kwargs_mapping must be a dict of dicts")
        self._need_group(group_name)
        wanted = await chosen(client, enable_funcs, disable_funcs, presets, wrap_tool_result)
        for function in wanted:
            if self._find(function.name) is not None:
                raise ValueError(f"there is a function {function.name!r} already")
        for function in wanted:
            self.register_tool_function(
                function, group_name, presets.get(function.name), postprocess_func=postprocess_func
            )

    async def remove_mcp_clients(self, client_names: str | Iterable[str]) -> None:
        """Take out the functions of these MCP servers; their clients stay connected."""
        names = _names(client_names, "MCP servers")
        for name, registered in self.tools.items():
            if registered.mcp_name in names:
                self.toolbox.remove(name)

    remove_mcp_servers = remove_mcp_clients

    def get_json_schemas(self, group_names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """The schemas of the tools in active groups, or in exactly the groups named."""
        if group_names is None:
            shown = [group.name for group in self.toolbox.groups if group.active]
        else:
            shown = _names(group_names)
        return [
            self._registered(tool).extended_json_schema
            for tool in self.toolbox.all_tools()
            if tool.group in shown
        ]

    def set_extended_model(
        self, finish_function_name: str, structured_model: type[BaseModel] | None
    ) -> None:
        """Join a model's fields to a function's schema; None takes them away again."""
        tool = self._find(finish_function_name)
        if tool is None or not self._is_known(tool):
            raise ValueError(f"there is no function {finish_function_name!r} to extend")
        registered = self._known[tool.name][1]
        if structured_model is not None and not _is_model(structured_model):
            raise TypeError("structured_model must be a pydantic model class or None")
        before, registered.extended_model = registered.extended_model, structured_model
        try:
            changed = extended_tool(tool, registered)
        except ValueError:
            registered.extended_model = before
            raise
        self._known[tool.name] = (self.toolbox.add(changed, on_conflict="override"), registered)

    def create_tool_group(
        self, group_name: str, description: str, active: bool = False, notes: str | None = None
    ) -> None:
        """Make a group of tools."""
        if not isinstance(group_name, str):
            raise TypeError("the name of a group must be a string")
        if group_name == BASIC or group_name in self.toolbox.groups:
            raise ValueError(f"there is a group {group_name!r} already")
        self.toolbox.groups.create(group_name, description, active=active, notes=notes)
        self._equipment.renew()

    def update_tool_groups(self, group_names: str | Iterable[str], active: bool) -> None:
        """Switch groups on or off; `basic` is always on."""
        for name in _names(group_names):
            if name == BASIC:
                continue
            self._need_group(name)
            switch = self.toolbox.groups.activate if active else self.toolbox.groups.deactivate
            switch(name)

    def remove_tool_groups(self, group_names: str | Iterable[str]) -> None:
        """Take groups out, and their tools with them."""
        names = _names(group_names)
        if BASIC in names:
            raise ValueError("the group 'basic' can't be removed")
        for name in names:
            if name in self.toolbox.groups:
                self.toolbox.groups.remove(name)
        self._equipment.renew()

    def get_tool_group_notes(self) -> str:
        """The notes of active groups, each under its name."""
        return self._equipment.notes()

    get_activated_notes = get_tool_group_notes

    def reset_equipped_tools(self, **kwargs: Any) -> ToolResponse:
        """Choose which groups of tools are switched on.

        Name each group that is needed now with the value true. All others are
        switched off. The answer tells which groups are on, and how to use them.
        """
        return self._equipment.reset(kwargs)

    def state_dict(self) -> dict[str, Any]:
        """What is kept of a toolkit: its active groups. Tools are code."""
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
        for name in self.groups:
            self.update_tool_groups([name], name in wanted)

    def _add(self, tool: Tool, registered: RegisteredToolFunction) -> None:
        registered.toolkit = self
        try:
            added = self.toolbox.add(tool)
        except NameTaken as error:
            raise ValueError(f"there is a function {tool.name!r} already") from error
        self._known[tool.name] = (added, registered)

    def _need_group(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError("the name of a group must be a string")
        if name not in self.toolbox.groups:
            if name != SUBAGENTS:
                raise ValueError(f"there is no group {name!r}: create it first")
            self.toolbox.groups.create(SUBAGENTS, "Agents that do a part of the work.", active=True)

    def _find(self, name: str) -> Tool | None:
        """The tool of this name, in an active group or not."""
        found = (tool for tool in self.toolbox.all_tools() if tool.name == name)
        return self.toolbox.get(name) or next(found, None)

    def _is_known(self, tool: Tool) -> bool:
        known = self._known.get(tool.name)
        return known is not None and known[0] is tool

    def _registered(self, tool: Tool) -> RegisteredToolFunction:
        """What was registered here, or for a tool that came another way what it says itself."""
        if self._is_known(tool):
            registered = self._known[tool.name][1]
            if tool.name == EQUIP:
                registered.json_schema = described(tool)
            return registered
        return RegisteredToolFunction(
            tool.name,
            tool.group,
            "mcp_server" if tool.source.startswith("mcp") else "function",
            tool.function,
            described(tool),
            dict(tool.presets),
            mcp_name=tool.source.partition(":")[2] or None,
            toolkit=self,
        )

    def _explain(self, name: str, error: CallError) -> str:
        """What went wrong with a call, in the words that this toolkit's users look for."""
        if isinstance(error, ToolFailed) and not error.redacted:
            return f"Error: {error.original}"
        if not isinstance(error, ToolNotFound):
            return f"Error: {error}"
        if self._find(name) is None:
            return f"FunctionNotFoundError: {error}"
        return f"FunctionInactiveError: {error}"


def _names(names: str | Iterable[str], what: str = "groups") -> list[str]:
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple | set) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"{what} are named by a string or a list of strings")
    return list(names)


def _is_model(model: Any) -> bool:
    return inspect.isclass(model) and issubclass(model, BaseModel)
